//! What becomes of a turn's work, as a table that is committed: each situation over a directory, `git http-backend` with a
//! password, and `git daemon`.
//!
//! `AX_WRITE_FIXTURES=1 AX_SOAK=1 cargo test --test it git::outcomes` writes it anew.

use super::*;
use crate::rows::{bash, one_by_one};
use ax_runner::devhost::{FakeHost, Signal};
use std::collections::BTreeMap;
use std::time::Duration;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/git-outcomes.md");

const HEAD: &str = "\
# What becomes of a turn's work at its repository

Each situation is played three times, with the remote as a directory, behind `git http-backend` with a password, and behind
`git daemon`, and must end the same. *Turns*: what each turn's save said; **sent** is on the remote's `main`, **merged** too,
after what others had pushed was merged in, **aside** is on a branch of its own since both sides changed the same place, **kept**
is committed in the workspace only and goes with the next turn. The files are shown with their contents; whenever something
was planted to run, it was looked for afterwards, and a row fails if it ran. Written by the test
`git::outcomes::what_becomes_of_a_turns_work`; `AX_WRITE_FIXTURES=1 AX_SOAK=1` writes it anew. Without `AX_SOAK` each
situation is played over one of the three, in turn.

| situation | turns | the remote's `main` | branches aside | the workspace |
|---|---|---|---|---|
";

#[derive(Clone, Copy, Debug)]
enum Over {
    Directory,
    Http,
    Daemon,
}

/// A scene with its remote behind something.
struct Stage {
    scene: Scene,
    url: String,
    _daemon: Option<tokio::process::Child>,
}

impl Stage {
    async fn new(over: Over) -> Self {
        let scene = Scene::new();
        let (url, daemon) = match over {
            Over::Directory => (scene.url(), None),
            Over::Http => {
                let (port, _) = http_backend(scene.path("")).await;
                (format!("http://agent:hunter2@127.0.0.1:{port}/remote.git"), None)
            }
            Over::Daemon => {
                let (port, daemon) = git_daemon(&scene.path("")).await;
                (format!("git://127.0.0.1:{port}/remote.git"), Some(daemon))
            }
        };
        Self { scene, url, _daemon: daemon }
    }

    fn settings(&self) -> Settings {
        Settings { url: self.url.clone(), ..self.scene.settings() }
    }

    /// One turn; `work` is what happens in it, on either side.
    async fn turn(&self, work: impl FnOnce(&Scene)) -> String {
        let workspace = match Workspace::open(&self.settings()).await {
            Ok(workspace) => workspace,
            Err(_) => return "does not begin".to_owned(),
        };
        work(&self.scene);
        match workspace.save().await.map(|save| save.pushed) {
            Ok(Pushed::Unneeded) => "nothing to send",
            Ok(Pushed::Done) => "sent",
            Ok(Pushed::Merged) => "merged",
            Ok(Pushed::Replaced(_)) => "replaced",
            Ok(Pushed::Aside(_)) => "aside",
            Ok(Pushed::Failed(_)) => "kept",
            Err(_) => "not saved",
        }
        .to_owned()
    }

    /// A turn of the built runner that is killed while its commit is on the way.
    async fn killed_turn(&self) -> String {
        let (hook, mark) = (self.scene.path("remote.git/hooks/pre-receive"), self.scene.path("pid"));
        hook_at_remote(&self.scene, &format!("echo $$ >{}; exec sleep 600", mark.display()));
        let (url, workspace) = (self.url.clone(), self.scene.path("workspace"));
        let noticed = mark.clone();
        let end = tokio::task::spawn_blocking(move || {
            let host = FakeHost::socket(one_by_one(&[bash("printf kept >b.txt")])).start();
            let runner = crate::support::runner(&host).workspace(workspace).env("WORKSPACE_REPO_URL", url);
            let running = runner.spawn().unwrap();
            until(|| std::fs::read_to_string(&noticed).is_ok_and(|pid| pid.ends_with('\n')));
            running.signal(Signal::SIGKILL);
            if running.wait().signal == Some(9) { "killed" } else { "not killed" }
        });
        let end = end.await.unwrap().to_owned();
        let pid = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
        fs::remove_file(hook).unwrap();
        end
    }
}

fn until(condition: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !condition() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(condition(), "what was waited for has not come");
}

async fn git_daemon(root: &Path) -> (u16, tokio::process::Child) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // The program itself: `git daemon` starts it as a child, which would stay behind.
    let program = Path::new(git(root, &["--exec-path"]).trim()).join("git-daemon");
    let mut command = tokio::process::Command::new(program);
    command.args(["--export-all", "--enable=receive-pack", "--reuseaddr", "--listen=127.0.0.1"]);
    command.arg(format!("--port={port}")).arg(format!("--base-path={}", root.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().unwrap();
    for _ in 0..1000 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return (port, child);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("git daemon does not listen");
}

fn hook_at_remote(scene: &Scene, script: &str) {
    let hook = scene.path("remote.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The remote's `main` is moved by somebody with a clone of their own.
fn others(scene: &Scene, commands: &str) {
    scene.elsewhere("touched.txt", "by others");
    let script = format!("{commands}; git push -q -f origin HEAD:main");
    let mut command = Command::new("sh");
    command.args(["-ec", &script]).current_dir(scene.path("other")).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for (name, value) in [("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@t"), ("GIT_COMMITTER_NAME", "t")] {
        command.env(name, value);
    }
    assert!(command.env("GIT_COMMITTER_EMAIL", "t@t").status().unwrap().success(), "{commands}");
}

const SITUATIONS: [&str; 22] = [
    "an empty remote, nothing done",
    "an empty remote, a file made",
    "two turns in a row",
    "a second turn without a change",
    "the workspace is filled already, the remote too",
    "others pushed another file meanwhile",
    "others pushed the same file meanwhile",
    "the turn after that",
    "others deleted what the turn changed",
    "others rewrote the history",
    "others deleted the branch",
    "the agent committed on a branch of its own",
    "the agent rewrote a commit that was sent",
    "the agent made a merge conflict and left it",
    "the remote refuses the push, then takes it",
    "the remote is away at the end, then back",
    "the remote is away at the start of a later turn",
    "the remote is away at the start of the first turn",
    "the runner is killed between commit and push",
    "the agent removed its repository",
    "the agent planted hooks, filters and programs in every setting",
    "the agent planted a nested repository and a submodule",
];

/// Plays a situation; the ends of its turns.
async fn play(situation: &str, stage: &Stage) -> Vec<String> {
    let scene = &stage.scene;
    let workspace = scene.path("workspace");
    let first = || scene.elsewhere("a.txt", "1");
    let away = |gone: bool| {
        let (here, there) = (scene.path("remote.git"), scene.path("away.git"));
        if gone { fs::rename(here, there).unwrap() } else { fs::rename(there, here).unwrap() }
    };
    let agent = |script: &str| {
        let script = format!("{script}\n");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(&workspace).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap();
    };
    match situation {
        "an empty remote, nothing done" => vec![stage.turn(|_| {}).await],
        "an empty remote, a file made" => vec![stage.turn(|s| s.write("a.txt", "new")).await],
        "two turns in a row" => {
            vec![stage.turn(|s| s.write("a.txt", "new")).await, stage.turn(|s| s.write("a.txt", "newer")).await]
        }
        "a second turn without a change" => {
            vec![stage.turn(|s| s.write("a.txt", "new")).await, stage.turn(|_| {}).await]
        }
        "the workspace is filled already, the remote too" => {
            first();
            scene.write("a.txt", "mine");
            scene.write("b.txt", "mine");
            vec![stage.turn(|_| {}).await]
        }
        "others pushed another file meanwhile" => {
            first();
            vec![stage.turn(|s| (s.write("b.txt", "ours"), s.elsewhere("c.txt", "theirs")).1).await]
        }
        "others pushed the same file meanwhile" | "the turn after that" => {
            first();
            let mut ends = vec![stage.turn(|s| (s.write("a.txt", "ours"), s.elsewhere("a.txt", "theirs")).1).await];
            if situation == "the turn after that" {
                ends.push(stage.turn(|s| s.write("b.txt", "more")).await);
            }
            ends
        }
        "others deleted what the turn changed" => {
            first();
            vec![stage.turn(|s| (s.write("a.txt", "ours"), others(s, "git rm -q a.txt; git commit -qm gone")).1).await]
        }
        "others rewrote the history" => {
            first();
            let rewrite = "git checkout -q --orphan x; echo anew >r.txt; git add -A; git commit -qm anew";
            vec![
                stage.turn(|s| s.write("b.txt", "ours")).await,
                stage.turn(|s| (s.write("c.txt", "ours"), others(s, rewrite)).1).await,
            ]
        }
        "others deleted the branch" => {
            first();
            let delete = |s: &Scene| {
                s.write("b.txt", "ours");
                git(&s.path("remote.git"), &["update-ref", "-d", "refs/heads/main"]);
            };
            vec![stage.turn(delete).await]
        }
        "the agent committed on a branch of its own" => {
            first();
            let commit =
                "git checkout -q -b topic; echo t >t.txt; git add -A; git -c user.name=a -c user.email=b commit -qm t";
            vec![stage.turn(|_| agent(commit)).await]
        }
        "the agent rewrote a commit that was sent" => {
            first();
            let amend = "echo again >b.txt; git add -A; git -c user.name=a -c user.email=b commit -q --amend -m again";
            vec![stage.turn(|s| s.write("b.txt", "ours")).await, stage.turn(|_| agent(amend)).await]
        }
        "the agent made a merge conflict and left it" => {
            first();
            let conflict = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=b; \
                git checkout -q -b x; echo x >a.txt; git commit -qam x; git checkout -q main; echo y >a.txt; git commit -qam y; git merge x";
            vec![stage.turn(|_| agent(conflict)).await]
        }
        "the remote refuses the push, then takes it" => {
            first();
            hook_at_remote(scene, "exit 1");
            let mut ends = vec![stage.turn(|s| s.write("b.txt", "ours")).await];
            fs::remove_file(scene.path("remote.git/hooks/pre-receive")).unwrap();
            ends.push(stage.turn(|_| {}).await);
            ends
        }
        "the remote is away at the end, then back" => {
            first();
            let mut ends = vec![stage.turn(|s| (s.write("b.txt", "ours"), away(true)).1).await];
            away(false);
            ends.push(stage.turn(|_| {}).await);
            ends
        }
        "the remote is away at the start of a later turn" => {
            first();
            let mut ends = vec![stage.turn(|s| s.write("b.txt", "ours")).await];
            away(true);
            ends.push(stage.turn(|s| s.write("c.txt", "ours")).await);
            away(false);
            ends.push(stage.turn(|_| {}).await);
            ends
        }
        "the remote is away at the start of the first turn" => {
            away(true);
            let mut ends = vec![stage.turn(|s| s.write("b.txt", "ours")).await];
            away(false);
            ends.push(stage.turn(|s| s.write("b.txt", "ours")).await);
            ends
        }
        "the runner is killed between commit and push" => {
            first();
            vec![stage.killed_turn().await, stage.turn(|_| {}).await]
        }
        "the agent removed its repository" => {
            first();
            vec![
                stage
                    .turn(|s| (s.write("b.txt", "ours"), fs::remove_dir_all(s.path("workspace/.git")).unwrap()).1)
                    .await,
            ]
        }
        "the agent planted hooks, filters and programs in every setting" => {
            first();
            let planted = |s: &Scene| plant(&s.path("workspace"), &s.path("mark"));
            let clean = "rm -rf trap hooks bin nested more.config .gitmodules .gitattributes";
            vec![stage.turn(planted).await, stage.turn(|_| agent(clean)).await]
        }
        "the agent planted a nested repository and a submodule" => {
            first();
            let nested = "git init -q n; echo x >n/f; git -C n add -A; git -C n -c user.name=a -c user.email=b commit -qm n; \
                printf '[submodule \"n\"]\\n path = n\\n url = ext::touch% '$PWD'/../mark\\n update = !touch '$PWD'/../mark\\n' >.gitmodules";
            vec![stage.turn(|_| agent(nested)).await, stage.turn(|s| s.elsewhere("c.txt", "theirs")).await]
        }
        other => panic!("no such situation: {other}"),
    }
}

/// Files with their contents, of a commit.
fn files_of(repository: &Path, branch: &str) -> String {
    let Some(names) = try_git(repository, &["ls-tree", "-r", branch]) else { return "–".to_owned() };
    let shown = names.lines().map(|line| {
        let (kind, name) = line.split_once('\t').unwrap();
        let text = try_git(repository, &["show", &format!("{branch}:{name}")]).unwrap_or_default();
        shown(name, if kind.starts_with("160000") { "(a commit)" } else { text.trim() })
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn shown(name: &str, text: &str) -> String {
    let text = if text.lines().count() > 1 || text.len() > 20 { "…" } else { text };
    format!("{name}={text}")
}

fn row(situation: &str, ends: &[String], scene: &Scene) -> String {
    let remote = scene.path("remote.git");
    let branches = git(&remote, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    // Their names are those of commits, which differ each time.
    let mut aside: Vec<String> = branches.lines().filter(|b| *b != "main").map(|b| files_of(&remote, b)).collect();
    aside.sort();
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(scene.path("workspace")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != ".git" && entry.file_type().unwrap().is_file() {
            files.insert(name.clone(), fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
    let here: Vec<String> = files.iter().map(|(name, text)| shown(name, text.trim())).collect();
    let cell = |texts: &[String]| if texts.is_empty() { "–".to_owned() } else { texts.join(", ") };
    format!(
        "| {situation} | {} | {} | {} | {} |\n",
        ends.join(", "),
        files_of(&remote, "main"),
        cell(&aside),
        cell(&here)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_a_turns_work() {
    let mut rows = Vec::new();
    let all = std::env::var_os("AX_SOAK").is_some();
    let mut queue = Vec::new();
    for at in 0..SITUATIONS.len() {
        let kinds = [Over::Directory, Over::Http, Over::Daemon].into_iter().enumerate();
        queue.extend(kinds.filter(|(kind, _)| all || *kind == at % 3).map(|(_, over)| (at, over)));
    }
    for batch in queue.chunks(6) {
        let mut tasks = tokio::task::JoinSet::new();
        for (at, over) in batch.iter().copied() {
            tasks.spawn(async move {
                let stage = Stage::new(over).await;
                let ends = play(SITUATIONS[at], &stage).await;
                assert!(!stage.scene.path("mark").exists(), "{}: something planted ran", SITUATIONS[at]);
                git(&stage.scene.path("remote.git"), &["fsck", "--connectivity-only"]);
                (at, over, row(SITUATIONS[at], &ends, &stage.scene))
            });
        }
        while let Some(played) = tasks.join_next().await {
            rows.push(played.unwrap());
        }
    }
    rows.sort_by_key(|(at, over, _)| (*at, *over as u8));
    let each = if all { 3 } else { 1 };
    for same in rows.chunks(each) {
        for (_, over, row) in same {
            assert_eq!(*row, same[0].2, "over {over:?}");
        }
    }
    let table: String = [HEAD].into_iter().chain(rows.iter().step_by(each).map(|(.., row)| row.as_str())).collect();
    println!("{table}");
    if all && std::env::var_os("AX_WRITE_FIXTURES").is_some() {
        fs::write(FIXTURE, &table).unwrap();
    }
    let committed = fs::read_to_string(FIXTURE).unwrap_or_default();
    for (now, then) in table.lines().zip(committed.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(table.len(), committed.len());
}
