//! The workspace's history against a real git, real remotes, and an agent that plants traps.

use ax_runner::git::{Pushed, Save, Settings, Workspace};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

mod held_up;
mod outcomes;

/// A bare remote, a workspace, and a place for the runner's half.
struct Scene {
    directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { directory: tempfile::tempdir().unwrap() };
        for name in ["workspace", "private", "other"] {
            fs::create_dir(scene.path(name)).unwrap();
        }
        git(&scene.path(""), &["init", "-q", "--bare", "-b", "main", "remote.git"]);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A commit at the remote by somebody else.
    fn elsewhere(&self, file: &str, text: &str) {
        let other = self.path("other");
        if !other.join(".git").exists() {
            git(&other, &["clone", "-q", self.url().as_str(), "."]);
            git(&other, &["checkout", "-q", "-B", "main"]);
        }
        let quiet = ["-c", "submodule.recurse=false", "-c", "fetch.recurseSubmodules=false"];
        git(&other, &[&quiet[..], &["fetch", "-q", "origin"]].concat());
        let _ = try_git(&other, &[&quiet[..], &["reset", "-q", "--hard", "origin/main"]].concat());
        fs::write(other.join(file), text).unwrap();
        git(&other, &["add", "-A"]);
        git(&other, &["commit", "-q", "-m", "elsewhere"]);
        git(&other, &["push", "-q", "origin", "main"]);
    }

    fn url(&self) -> String {
        format!("file://{}", self.path("remote.git").display())
    }

    fn settings(&self) -> Settings {
        Settings {
            workspace: self.path("workspace"),
            url: self.url(),
            private: vec!["/proc".into(), self.path("private")],
            environment: Vec::new(),
        }
    }

    async fn open(&self) -> Workspace {
        Workspace::open(&self.settings()).await.unwrap()
    }

    /// A file as the remote's `main` has it.
    fn remote(&self, file: &str) -> Option<String> {
        self.remote_at("main", file)
    }

    fn remote_at(&self, branch: &str, file: &str) -> Option<String> {
        try_git(&self.path("remote.git"), &["show", &format!("{branch}:{file}")])
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path("workspace").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path("workspace").join(file)).ok()
    }

    /// What the agent's own git says about the workspace.
    fn status(&self) -> String {
        git(&self.path("workspace"), &["status", "--porcelain"])
    }
}

fn try_git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    try_git(directory, arguments).unwrap_or_else(|| panic!("git {arguments:?} failed in {}", directory.display()))
}

fn done(save: &Save) -> bool {
    save.pushed == Pushed::Done
}

#[tokio::test]
async fn turns_in_a_row_with_an_empty_remote() {
    let scene = Scene::new();
    let workspace = scene.open().await;
    let save = workspace.save().await.unwrap();
    assert_eq!(save, Save { commit: None, files: 0, pushed: Pushed::Unneeded }, "nothing there, nothing sent");
    scene.write("a.txt", "one");
    let save = workspace.save().await.unwrap();
    assert!(done(&save) && save.files == 1, "{save:?}");
    assert_eq!(scene.remote("a.txt").as_deref(), Some("one"));
    assert_eq!(scene.status(), "", "the agent's git agrees");
    let save = workspace.save().await.unwrap();
    assert_eq!((save.files, save.pushed), (0, Pushed::Unneeded));
    drop(workspace);
    assert_eq!(fs::read_dir(scene.path("private")).unwrap().count(), 0, "our half is gone");

    scene.elsewhere("b.txt", "theirs");
    let workspace = scene.open().await;
    assert_eq!(scene.read("b.txt").as_deref(), Some("theirs"));
    scene.write("a.txt", "two");
    fs::remove_file(scene.path("workspace/b.txt")).unwrap();
    let save = workspace.save().await.unwrap();
    assert!(done(&save) && save.files == 2, "{save:?}");
    assert_eq!((scene.remote("a.txt").as_deref(), scene.remote("b.txt")), (Some("two"), None));
    let log = git(&scene.path("remote.git"), &["log", "--format=%an <%ae> %s", "-1"]);
    assert!(log.starts_with("agent <agent@ax.local> agent-turn: 20") && log.trim_end().ends_with('Z'), "{log}");
}

#[tokio::test]
async fn a_filled_workspace_is_joined_and_nothing_in_it_overwritten() {
    let scene = Scene::new();
    scene.elsewhere("both.txt", "remote");
    scene.elsewhere("only-remote.txt", "r");
    scene.write("both.txt", "local");
    scene.write(".ax/policy/p", "seeded");
    let workspace = scene.open().await;
    assert_eq!(scene.read("both.txt").as_deref(), Some("local"));
    assert_eq!(scene.read("only-remote.txt").as_deref(), Some("r"));
    let save = workspace.save().await.unwrap();
    assert!(done(&save) && save.files == 2, "{save:?}");
    assert_eq!(scene.remote("both.txt").as_deref(), Some("local"));
    assert_eq!(scene.remote(".ax/policy/p").as_deref(), Some("seeded"));
}

#[tokio::test]
async fn both_sides_have_moved() {
    let scene = Scene::new();
    scene.elsewhere("shared.txt", "start\n");
    let workspace = scene.open().await;
    // In different places: merged, and the workspace has both.
    scene.elsewhere("theirs.txt", "t");
    scene.write("ours.txt", "o");
    let save = workspace.save().await.unwrap();
    assert_eq!(save.pushed, Pushed::Merged);
    assert_eq!((scene.remote("theirs.txt").as_deref(), scene.remote("ours.txt").as_deref()), (Some("t"), Some("o")));
    assert_eq!(scene.read("theirs.txt").as_deref(), Some("t"));
    assert_eq!(scene.status(), "");
    // In the same place: theirs stays, ours is safe on a branch of its own.
    scene.elsewhere("shared.txt", "theirs\n");
    scene.write("shared.txt", "ours\n");
    let save = workspace.save().await.unwrap();
    let Pushed::Aside(branch) = &save.pushed else { panic!("{save:?}") };
    assert_eq!(scene.remote("shared.txt").as_deref(), Some("theirs\n"));
    assert_eq!(scene.remote_at(branch, "shared.txt").as_deref(), Some("ours\n"));
    // And the next turn goes on with what the agent wrote.
    let workspace = scene.open().await;
    assert_eq!(scene.read("shared.txt").as_deref(), Some("ours\n"));
    scene.write("more.txt", "m");
    assert!(matches!(workspace.save().await.unwrap().pushed, Pushed::Aside(_)));
}

#[tokio::test]
async fn uncommitted_work_survives_a_pull() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    scene.elsewhere("b.txt", "1");
    drop(scene.open().await);
    scene.write("a.txt", "unsaved");
    fs::remove_file(scene.path("workspace/b.txt")).unwrap();
    scene.elsewhere("c.txt", "new");
    let workspace = scene.open().await;
    assert_eq!(
        (scene.read("a.txt").as_deref(), scene.read("b.txt"), scene.read("c.txt").as_deref()),
        (Some("unsaved"), None, Some("new"))
    );
    assert!(done(&workspace.save().await.unwrap()));
    assert_eq!((scene.remote("a.txt").as_deref(), scene.remote("b.txt")), (Some("unsaved"), None));
}

#[tokio::test]
async fn the_agents_own_commits_are_kept() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    let workspace = scene.open().await;
    let directory = scene.path("workspace");
    scene.write("mine.txt", "m");
    scene.write(".gitignore", "*.log\n");
    scene.write("kept.log", "k");
    git(&directory, &["add", "-f", "-A"]);
    git(&directory, &["commit", "-q", "-m", "by the agent"]);
    git(&directory, &["pack-refs", "--all"]);
    scene.write("late.txt", "l");
    scene.write("noise.log", "n");
    let save = workspace.save().await.unwrap();
    assert!(done(&save) && save.files == 1, "{save:?}");
    assert!(git(&scene.path("remote.git"), &["log", "--format=%s"]).contains("by the agent"));
    assert_eq!((scene.remote("kept.log").as_deref(), scene.remote("noise.log")), (Some("k"), None));
    // A commit that needs no other is pushed too, from whatever branch.
    git(&directory, &["checkout", "-q", "-b", "topic"]);
    scene.write("topic.txt", "t");
    git(&directory, &["add", "-A"]);
    git(&directory, &["commit", "-q", "-m", "on a topic"]);
    assert!(done(&workspace.save().await.unwrap()));
    assert_eq!(scene.remote("topic.txt").as_deref(), Some("t"));
    assert_eq!(git(&directory, &["branch", "--show-current"]).trim(), "topic");
}

#[tokio::test]
async fn a_commit_that_was_not_pushed_goes_with_the_next_turn() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    let hook = scene.path("remote.git/hooks/pre-receive");
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    scene.write("b.txt", "kept");
    let save = scene.open().await.save().await.unwrap();
    assert!(matches!(&save.pushed, Pushed::Failed(words) if !words.is_empty()), "{save:?}");
    fs::remove_file(&hook).unwrap();
    let workspace = scene.open().await;
    let again = workspace.save().await.unwrap();
    assert!(done(&again) && again.files == 0 && again.commit == save.commit, "{again:?}");
    assert_eq!(scene.remote("b.txt").as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_turn_cancelled_during_the_push_leaves_no_process_and_no_damage() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    let (hook, mark) = (scene.path("remote.git/hooks/pre-receive"), scene.path("pid"));
    fs::write(&hook, format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", mark.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = scene.open().await;
    scene.write("b.txt", "kept");
    {
        let save = workspace.save();
        tokio::pin!(save);
        let started = async {
            while fs::read_to_string(&mark).unwrap_or_default().trim().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            outcome = &mut save => panic!("{outcome:?}"),
            () = started => {}
        }
    }
    let pid = fs::read_to_string(&mark).unwrap();
    let process = PathBuf::from(format!("/proc/{}", pid.trim()));
    let gone = || fs::read_to_string(process.join("stat")).map_or(true, |stat| stat.contains(") Z "));
    for _ in 0..6000 {
        if gone() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(gone(), "everything git started has ended");
    fs::remove_file(&hook).unwrap();
    let workspace = scene.open().await;
    assert!(done(&workspace.save().await.unwrap()));
    assert_eq!(scene.remote("b.txt").as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_repository_the_agent_has_broken_is_replaced() {
    for damage in [
        "rm -rf .git",
        "rm -rf .git/objects",
        "rm -rf .git; echo x > .git",
        "rm -rf .git; ln -s /etc .git",
        "find .git/objects -type f -exec sh -c 'chmod u+w \"$1\"; echo junk > \"$1\"' _ {} \\;",
        "rm -rf .git/objects/*; mkfifo .git/objects/info",
        "chmod -R u+w .git; find .git -type f -delete",
        "printf '\\377\\377\\377\\377' > .git/index; echo '[' > .git/config; rm .git/HEAD",
    ] {
        let scene = Scene::new();
        scene.elsewhere("a.txt", "1");
        let workspace = scene.open().await;
        scene.write("b.txt", "kept");
        assert!(
            Command::new("sh").args(["-c", damage]).current_dir(scene.path("workspace")).status().unwrap().success()
        );
        let save = workspace.save().await.unwrap_or_else(|error| panic!("{damage}: {error}"));
        assert!(done(&save), "{damage}: {save:?}");
        assert_eq!(
            (scene.remote("a.txt").as_deref(), scene.remote("b.txt").as_deref()),
            (Some("1"), Some("kept")),
            "{damage}"
        );
        assert_eq!(
            git(&scene.path("remote.git"), &["ls-tree", "-r", "--name-only", "main"]),
            "a.txt\nb.txt\n",
            "{damage}"
        );
    }
}

#[tokio::test]
async fn files_of_an_earlier_turn_do_not_undo_newer_ones_of_the_remote() {
    for damage in [
        "rm -rf .git/objects",
        "git pack-refs --all && rm -rf .git/objects",
        "find .git/objects -type f -exec sh -c 'chmod u+w \"$1\"; echo junk > \"$1\"' _ {} \\;",
        "file=.git/objects/$(git rev-parse main | sed 's,..,&/,') && chmod u+w $file && : > $file",
        "rm .git/objects/$(git rev-parse main | sed 's,..,&/,')",
        // Only what was pushed is known to both sides.
        "echo 2 > c.txt && git add c.txt && git commit -q -m agent && rm -rf .git/objects",
    ] {
        let scene = Scene::new();
        scene.write("a.txt", "1");
        scene.write("b.txt", "1");
        scene.write("c.txt", "1");
        assert!(done(&scene.open().await.save().await.unwrap()));
        scene.elsewhere("a.txt", "2");
        scene.write("b.txt", "2");
        let shell = ["-c", damage];
        assert!(Command::new("sh").args(shell).current_dir(scene.path("workspace")).status().unwrap().success());
        let workspace = scene.open().await;
        let save = workspace.save().await.unwrap_or_else(|error| panic!("{damage}: {error}"));
        assert!(done(&save), "{damage}: {save:?}");
        let both = |file| (scene.read(file).unwrap(), scene.remote(file).unwrap());
        assert_eq!(both("a.txt"), ("2".into(), "2".into()), "{damage}: the remote's newer file");
        assert_eq!(both("b.txt"), ("2".into(), "2".into()), "{damage}: what this workspace changed");
        assert_eq!(both("c.txt").0, both("c.txt").1, "{damage}");
    }
}

#[tokio::test]
async fn a_repository_that_is_lost_during_a_turn_loses_nothing_of_anybodys() {
    for damage in ["rm -rf .git", "rm -rf .git/*", "rm -rf .git; chmod 555 ."] {
        let scene = Scene::new();
        for file in ["a.txt", "b.txt", "c.txt", "d.txt"] {
            scene.write(file, "1");
        }
        assert!(done(&scene.open().await.save().await.unwrap()));
        let workspace = scene.open().await;
        // Ours: a change, a deletion, a new file. Meanwhile somebody else changes one and adds one.
        scene.write("b.txt", "2");
        scene.write("new.txt", "2");
        fs::remove_file(scene.path("workspace/c.txt")).unwrap();
        scene.elsewhere("a.txt", "2");
        scene.elsewhere("theirs.txt", "2");
        let shell = ["-c", damage];
        assert!(Command::new("sh").args(shell).current_dir(scene.path("workspace")).status().unwrap().success());
        let save = workspace.save().await.unwrap_or_else(|error| panic!("{damage}: {error}"));
        assert!(matches!(save.pushed, Pushed::Done | Pushed::Merged), "{damage}: {save:?}");
        let remote = ["a.txt", "b.txt", "c.txt", "d.txt", "new.txt", "theirs.txt"].map(|file| scene.remote(file));
        let remote = remote.each_ref().map(|text| text.as_deref().unwrap_or("-"));
        assert_eq!(remote, ["2", "2", "-", "1", "2", "2"], "{damage}");
        assert_eq!(scene.read("c.txt"), None, "{damage}");
        assert!(done(&scene.open().await.save().await.unwrap()) || scene.status().is_empty(), "{damage}");
    }
}

#[tokio::test]
async fn a_head_that_names_nothing_is_written_anew() {
    let scene = Scene::new();
    scene.write("a.txt", "1");
    assert!(done(&scene.open().await.save().await.unwrap()));
    for head in ["garbage\n", "", "ref: nowhere"] {
        scene.write(".git/HEAD", head);
        scene.open().await;
        assert_eq!(scene.status(), "", "{head:?}");
    }
}

#[tokio::test]
async fn a_remote_that_is_away_costs_no_repository() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    scene.write("b.txt", "kept");
    let (there, away) = (scene.path("remote.git"), scene.path("away.git"));
    let broken = || {
        let names = fs::read_dir(scene.path("workspace")).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(".git.broken")).count()
    };
    fs::rename(&there, &away).unwrap();
    for _ in 0..3 {
        assert!(Workspace::open(&scene.settings()).await.is_err());
        assert_eq!(broken(), 0, "nothing here is broken");
    }
    fs::rename(&away, &there).unwrap();
    assert!(done(&scene.open().await.save().await.unwrap()));
    assert_eq!((scene.read("a.txt").as_deref(), scene.remote("b.txt").as_deref()), (Some("1"), Some("kept")));
    // What is broken may hold work that is nowhere else, so all of it is kept.
    for count in 1..=3 {
        fs::remove_dir_all(scene.path("workspace/.git/objects")).unwrap();
        scene.open().await;
        assert_eq!(broken(), count);
    }
}

#[tokio::test]
async fn odd_files_do_not_stop_the_rest() {
    let scene = Scene::new();
    let workspace = scene.open().await;
    let directory = scene.path("workspace");
    scene.write("good.txt", "g");
    scene.write("-rf", "dash");
    scene.write("new\nline", "n");
    scene.write(":(exclude)*", "magic");
    nix::unistd::mkfifo(&directory.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("/etc/passwd", directory.join("link")).unwrap();
    symlink("loop", directory.join("loop")).unwrap();
    git(&directory, &["init", "-q", "unborn"]);
    git(&directory, &["init", "-q", "nested"]);
    fs::write(directory.join("nested/f"), "f").unwrap();
    git(&directory.join("nested"), &["add", "-A"]);
    git(&directory.join("nested"), &["commit", "-q", "-m", "n"]);
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("sock")).unwrap();
    let save = workspace.save().await.unwrap();
    assert!(done(&save), "{save:?}");
    for (file, text) in
        [("good.txt", "g"), ("-rf", "dash"), ("new\nline", "n"), (":(exclude)*", "magic"), ("link", "/etc/passwd")]
    {
        assert_eq!(scene.remote(file).as_deref(), Some(text), "{file:?}");
    }
}

/// Every way known to us in which a repository can name a program. Each leaves a mark when it runs.
fn plant(workspace: &Path, mark: &Path) {
    let run = format!("touch {}; cat", mark.display());
    let trap = workspace.join("trap");
    fs::write(&trap, format!("#!/bin/sh\ntouch {}\nexit 1\n", mark.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.display();
    let config = format!(
        "[core]\n fsmonitor = {trap}\n hooksPath = {h}\n sshCommand = {trap}\n editor = {trap}\n pager = {trap}\n askPass = {trap}\n \
         gitProxy = {trap}\n alternateRefsCommand = {trap}\n worktree = /\n attributesFile = {a}\n\
         [credential]\n helper = !{trap}\n[diff]\n external = {trap}\n[diff \"x\"]\n command = {trap}\n textconv = {trap}\n\
         [filter \"x\"]\n clean = {run}\n smudge = {run}\n process = {trap}\n required = true\n[merge \"x\"]\n driver = {trap}\n\
         [gpg]\n program = {trap}\n[gpg \"ssh\"]\n program = {trap}\n defaultKeyCommand = {trap}\n[commit]\n gpgSign = true\n\
         [push]\n gpgSign = true\n recurseSubmodules = on-demand\n[fetch]\n recurseSubmodules = true\n\
         [alias]\n add = !{trap}\n commit-tree = !{trap}\n push = !{trap}\n fetch = !{trap}\n\
         [remote \"origin\"]\n url = ext::sh -c {trap}\n uploadpack = {trap}\n receivepack = {trap}\n vcs = evil\n\
         [url \"ext::sh -c {trap} \"]\n insteadOf = file://\n[protocol \"ext\"]\n allow = always\n\
         [submodule]\n recurse = true\n[submodule \"s\"]\n update = !{trap}\n url = ext::{trap}\n active = true\n\
         [uploadpack]\n packObjectsHook = {trap}\n[sequence]\n editor = {trap}\n[interactive]\n diffFilter = {trap}\n\
         [trailer \"t\"]\n command = {trap}\n cmd = {trap}\n[http]\n proxy = http://127.0.0.1:1\n sslVerify = false\n\
         [include]\n path = {i}\n[includeIf \"gitdir:/\"]\n path = {i}\n[init]\n templateDir = {h}\n[maintenance]\n auto = true\n\
         [gc]\n auto = 1\n recentObjectsHook = {trap}\n[pager]\n status = {trap}\n[receive]\n procReceiveRefs = refs\n",
        h = workspace.join("hooks").display(),
        a = workspace.join(".gitattributes").display(),
        i = workspace.join("more.config").display(),
    );
    fs::write(
        workspace.join("more.config"),
        config.replace("[include]", "[ignored]").replace("[includeIf", "[ignored"),
    )
    .unwrap();
    fs::write(workspace.join(".gitattributes"), "* filter=x diff=x merge=x\n").unwrap();
    fs::write(
        workspace.join(".gitmodules"),
        format!("[submodule \"s\"]\n path = nested\n url = ext::{trap}\n update = !{trap}\n"),
    )
    .unwrap();
    let hooks = [
        "applypatch-msg",
        "pre-applypatch",
        "post-applypatch",
        "pre-commit",
        "pre-merge-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "pre-rebase",
        "post-checkout",
        "post-merge",
        "pre-push",
        "pre-receive",
        "update",
        "proc-receive",
        "post-receive",
        "post-update",
        "reference-transaction",
        "push-to-checkout",
        "pre-auto-gc",
        "post-rewrite",
        "fsmonitor-watchman",
        "post-index-change",
        "query-watchman",
    ];
    let mut places = vec![workspace.join("hooks"), workspace.join(".git/hooks"), workspace.join("bin")];
    git(workspace, &["init", "-q", "nested"]);
    fs::write(workspace.join("nested/f"), "f").unwrap();
    git(&workspace.join("nested"), &["add", "-A"]);
    git(&workspace.join("nested"), &["commit", "-q", "-m", "n"]);
    fs::write(workspace.join("nested/f"), "changed").unwrap();
    places.push(workspace.join("nested/.git/hooks"));
    for place in &places {
        fs::create_dir_all(place).unwrap();
        for name in hooks.iter().chain(&["git", "sh", "ssh", "git-remote-evil", "git-upload-pack"]) {
            fs::copy(workspace.join("trap"), place.join(name)).unwrap();
        }
    }
    for repository in [workspace.join(".git"), workspace.join("nested/.git")] {
        fs::write(repository.join("config"), &config).unwrap();
        fs::create_dir_all(repository.join("info")).unwrap();
        fs::write(repository.join("info/attributes"), "* filter=x diff=x merge=x\n").unwrap();
        fs::write(repository.join("config.worktree"), &config).unwrap();
    }
}

#[tokio::test]
async fn nothing_the_agent_plants_is_run() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1\n");
    let workspace = scene.open().await;
    let (directory, mark) = (scene.path("workspace"), scene.path("mark"));
    plant(&directory, &mark);
    scene.write("a.txt", "ours\n");
    let save = workspace.save().await.unwrap();
    assert!(done(&save), "{save:?}");
    assert!(!mark.exists(), "a trap ran while the turn was saved");
    // A nested repository that is tracked as such, a merge and a conflict are paths of their own.
    scene.elsewhere("theirs.txt", "t");
    scene.write("b.txt", "2\n");
    assert_eq!(workspace.save().await.unwrap().pushed, Pushed::Merged);
    scene.elsewhere("a.txt", "theirs\n");
    scene.write("a.txt", "again\n");
    assert!(matches!(workspace.save().await.unwrap().pushed, Pushed::Aside(_)));
    drop(scene.open().await);
    assert!(!mark.exists(), "a trap ran while the workspace was opened or merged");
    // The traps do work: the agent's own git falls into them.
    let _ = Command::new("git").args(["status"]).current_dir(&directory).output().unwrap();
    assert!(mark.exists(), "this test plants duds");
}

#[tokio::test]
async fn a_remote_that_names_a_program_is_refused() {
    let scene = Scene::new();
    let mark = scene.path("mark");
    for url in [format!("ext::sh -c touch% {}", mark.display()), "ssh://h/r".to_owned(), "-u/bin/true".to_owned()] {
        let settings = Settings { url: url.clone(), ..scene.settings() };
        assert!(Workspace::open(&settings).await.is_err(), "{url}");
        assert!(!mark.exists(), "{url}");
    }
}

/// `git http-backend` on loopback, behind a name and a password; counts the requests.
async fn http_backend(root: PathBuf) -> (u16, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    http_backend_for(root, "agent:hunter2").await
}

pub(crate) async fn http_backend_for(
    root: PathBuf,
    login: &str,
) -> (u16, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use base64::Engine;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;
    use hyper::{Request, Response};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = served.clone();
    let wanted = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
    let answer = move |request: Request<Incoming>| {
        let (root, counter, wanted) = (root.clone(), counter.clone(), wanted.clone());
        async move {
            let header =
                |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or("").to_owned();
            if header("authorization") != wanted {
                let builder = Response::builder().status(401).header("WWW-Authenticate", "Basic realm=\"r\"");
                return Ok::<_, std::convert::Infallible>(builder.body(Full::new(Bytes::new())).unwrap());
            }
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let mut command = tokio::process::Command::new("git");
            command.args(["-c", "http.receivepack=true", "http-backend"]);
            command.env("GIT_PROJECT_ROOT", &root).env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", "agent");
            command.env("REQUEST_METHOD", request.method().as_str()).env("PATH_INFO", request.uri().path());
            command
                .env("QUERY_STRING", request.uri().query().unwrap_or(""))
                .env("CONTENT_TYPE", header("content-type"));
            command
                .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
                .env("GIT_PROTOCOL", header("git-protocol"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            command.env("CONTENT_LENGTH", body.len().to_string());
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let feed = async move {
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, &body).await;
            };
            let (output, ()) = tokio::join!(child.wait_with_output(), feed);
            let output = output.unwrap().stdout;
            let cut = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            let mut builder = Response::builder();
            for line in String::from_utf8_lossy(&output[..cut]).lines() {
                let (name, value) = line.split_once(": ").unwrap();
                builder = match name {
                    "Status" => builder.status(value[..3].parse::<u16>().unwrap()),
                    _ => builder.header(name, value),
                };
            }
            Ok(builder.body(Full::new(Bytes::copy_from_slice(&output[cut + 4..]))).unwrap())
        }
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(answer.clone());
            let io = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
        }
    });
    (port, served)
}

#[tokio::test]
async fn over_http_with_a_password_that_is_never_shown() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    let (port, served) = http_backend(scene.path("")).await;
    let url = |login: &str| format!("http://{login}@127.0.0.1:{port}/remote.git");
    let settings = Settings { url: url("agent:hunter2"), ..scene.settings() };
    let workspace = Workspace::open(&settings).await.unwrap();
    assert_eq!(scene.read("a.txt").as_deref(), Some("1"));
    // More than git sends in one piece.
    let noise: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    fs::write(scene.path("workspace/noise"), &noise).unwrap();
    assert!(done(&workspace.save().await.unwrap()));
    assert_eq!(git(&scene.path("remote.git"), &["cat-file", "-s", "main:noise"]).trim(), "3000000");
    assert!(served.load(std::sync::atomic::Ordering::SeqCst) > 3);
    let leaked =
        Command::new("grep").args(["-rl", "hunter2", "."]).current_dir(scene.path("workspace")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&leaked.stdout), "", "not in the agent's files");

    let other = Scene::new();
    let settings = Settings { url: url("agent:wrong-hunter"), ..other.settings() };
    let error = Workspace::open(&settings).await.err().unwrap().to_string();
    assert!(!error.contains("wrong-hunter") && error.contains("git fetch failed"), "{error}");
    // Through a proxy that is not there: the environment is used, and the failure is told.
    let environment = vec![("http_proxy".to_owned(), "http://127.0.0.1:1".to_owned())];
    let settings =
        Settings { url: url("agent:hunter2").replace("127.0.0.1", "git.invalid"), environment, ..other.settings() };
    assert!(Workspace::open(&settings).await.err().unwrap().to_string().contains("127.0.0.1 port 1"));
}

/// While the push is under way the remote looks at every process: the command lines are everybody's to read.
#[tokio::test]
async fn a_password_is_in_no_command_line() {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    let (port, _) = http_backend_for(scene.path(""), "agent:p%41ss-w0rd").await;
    let url = format!("http://agent:p%2541ss-w0rd@127.0.0.1:{port}/remote.git");
    let workspace = Workspace::open(&Settings { url, ..scene.settings() }).await.unwrap();
    let found = scene.path("found");
    let hook = scene.path("remote.git/hooks/pre-receive");
    // In two halves, so that the word itself is in no command of ours.
    let look = format!(
        "#!/bin/sh\nw=ss-w; w=${{w}}0rd\nfor f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done 2>/dev/null | \
         while read -r line; do case $line in *$w*) echo \"$line\" >>{0} ;; esac; done; : >>{0}\n",
        found.display()
    );
    fs::write(&hook, look).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    scene.write("b.txt", "kept");
    assert!(done(&workspace.save().await.unwrap()));
    assert_eq!(fs::read_to_string(found).unwrap(), "");
}
