//! The git sidecar over its HTTP, and the runner's client against it and against broken ones.

use ax_runner::git::{Sidecar, SidecarError};
use ax_runner::sidecar::{Config, Server};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

fn try_git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    try_git(directory, arguments).unwrap_or_else(|| panic!("git {arguments:?} failed"))
}

/// A pod: a bare remote, a workspace, a repository beside it as the init container leaves it.
struct Pod {
    directory: TempDir,
    port: u16,
    stop: CancellationToken,
}

impl Pod {
    fn start(host: Option<String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        git(directory.path(), &["init", "-q", "--bare", "-b", "main", "remote.git"]);
        fs::create_dir(path("workspace")).unwrap();
        fs::create_dir(path("gitdir")).unwrap();
        let separate = format!("--separate-git-dir={}", path("gitdir/repo").display());
        git(directory.path(), &["clone", "-q", &separate, "remote.git", "workspace"]);
        fs::remove_file(path("workspace/.git")).unwrap();
        let mut pod = Self { directory, port: 0, stop: CancellationToken::new() };
        pod.serve(host);
        pod
    }

    /// Starts the sidecar, again after a stop.
    fn serve(&mut self, host: Option<String>) {
        let config =
            Config { workspace: self.path("workspace"), git_dir: self.path("gitdir/repo"), port: 0, url: None, host };
        let server = Server::start(&config).unwrap();
        self.port = server.address().unwrap().port();
        self.stop = CancellationToken::new();
        tokio::spawn(server.serve(self.stop.clone()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn client(&self) -> Sidecar {
        Sidecar::new(Some(&self.port.to_string()))
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path("workspace").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path("workspace").join(file)).ok()
    }

    fn remote(&self, file: &str) -> Option<String> {
        try_git(&self.path("remote.git"), &["show", &format!("main:{file}")])
    }

    fn elsewhere(&self, file: &str, text: &str) {
        let other = self.path("other");
        let _ = fs::remove_dir_all(&other);
        git(self.directory.path(), &["clone", "-q", "remote.git", "other"]);
        git(&other, &["checkout", "-q", "-B", "main"]);
        fs::write(other.join(file), text).unwrap();
        git(&other, &["add", "-A"]);
        git(&other, &["commit", "-q", "-m", "elsewhere"]);
        git(&other, &["push", "-q", "origin", "main"]);
    }

    async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(Duration::from_secs(120), stream.read_to_string(&mut answer)).await.expect("hangs").unwrap();
        answer
    }

    fn refuse_pushes(&self) -> PathBuf {
        let hook = self.path("remote.git/hooks/pre-receive");
        fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        hook
    }
}

#[tokio::test]
async fn the_paths_and_their_answers() {
    let pod = Pod::start(None);
    for (request, wanted) in [
        ("GET /health HTTP/1.1\r\nHost: x\r\n\r\n", r#"{"ok":true}"#),
        ("GET /pull HTTP/1.1\r\nHost: x\r\n\r\n", r#"{"error":"not found"}"#),
        ("POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", r#"{"error":"not found"}"#),
        ("POST /turn-complete HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", r#"{"files":0,"ok":true}"#),
        ("POST /pull HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", r#"{"ok":true}"#),
    ] {
        let answer = pod.raw(request).await;
        assert!(answer.ends_with(wanted), "{request}{answer}");
        assert_eq!(answer.starts_with("HTTP/1.1 404"), wanted.contains("not found"), "{answer}");
    }
    let _ = pod.raw("rubbish\r\n\r\n").await;
    assert!(pod.raw("GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await.contains("true"), "still there");
}

#[tokio::test]
async fn turns_in_a_row() {
    let pod = Pod::start(None);
    let (client, cancel) = (pod.client(), CancellationToken::new());
    client.pull(&cancel).await.unwrap();
    pod.write("a.txt", "one");
    let saved = client.turn_complete().await.unwrap();
    assert_eq!((saved.files, saved.hash.is_some()), (1, true));
    assert_eq!(pod.remote("a.txt").as_deref(), Some("one"));
    pod.elsewhere("b.txt", "theirs");
    pod.write("leftover", "x");
    client.pull(&cancel).await.unwrap();
    assert_eq!((pod.read("b.txt").as_deref(), pod.read("leftover")), (Some("theirs"), None));
    let saved = client.turn_complete().await.unwrap();
    assert_eq!((saved.files, saved.hash), (0, None));
    assert!(pod.path("workspace/.git").symlink_metadata().is_err(), "no repository for the agent");
}

#[tokio::test]
async fn a_push_that_lost_the_race_replaces_and_one_that_fails_is_sent_later() {
    let mut pod = Pod::start(None);
    let (client, cancel) = (pod.client(), CancellationToken::new());
    pod.write("a.txt", "one");
    client.turn_complete().await.unwrap();
    pod.elsewhere("b.txt", "theirs");
    pod.write("a.txt", "two");
    client.turn_complete().await.unwrap();
    assert_eq!(
        (pod.remote("a.txt").as_deref(), pod.remote("b.txt")),
        (Some("two"), None),
        "forced, as the contract says"
    );

    let hook = pod.refuse_pushes();
    pod.write("c.txt", "kept");
    let answer = pod.raw("POST /turn-complete HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await;
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!((body["ok"].as_bool(), body["files"].as_u64()), (Some(false), Some(1)));
    assert!(body["hash"].is_string() && body["error"].as_str().unwrap().starts_with("push failed: "), "{body}");
    // The sidecar dies here, and a lock file stays.
    pod.stop.cancel();
    fs::write(pod.path("gitdir/repo/index.lock"), "").unwrap();
    fs::remove_file(hook).unwrap();
    pod.serve(None);
    pod.client().pull(&cancel).await.unwrap();
    assert_eq!((pod.remote("c.txt").as_deref(), pod.read("c.txt").as_deref()), (Some("kept"), Some("kept")));
}

#[tokio::test]
async fn a_pull_never_drops_a_commit_that_cannot_be_sent() {
    let pod = Pod::start(None);
    pod.write("a.txt", "one");
    let hook = pod.refuse_pushes();
    assert!(pod.client().turn_complete().await.is_err());
    let answer = pod.raw("POST /pull HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await;
    assert!(answer.contains(r#""ok":false"#), "{answer}");
    assert_eq!(pod.read("a.txt").as_deref(), Some("one"));
    fs::remove_file(hook).unwrap();
    pod.client().pull(&CancellationToken::new()).await.unwrap();
    assert_eq!(pod.remote("a.txt").as_deref(), Some("one"));
}

/// A host that gives every commit the same verdict and keeps what it was asked.
async fn judge(answer: &'static str) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut buffer = [0; 65536];
            let body = loop {
                let read = stream.read(&mut buffer).await.unwrap();
                request.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&request).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    assert!(head.starts_with("POST /ipc HTTP/1.1"), "{head}");
                    if let Ok(body) = serde_json::from_str::<Value>(body) {
                        break body;
                    }
                }
            };
            kept.lock().unwrap().push(body);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
            let _ = stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await;
        }
    });
    (url, asked)
}

#[tokio::test]
async fn what_the_host_rejects_is_taken_back_and_the_rest_is_kept() {
    let mut pod = Pod::start(None);
    pod.write(".ax/SOUL.md", "good");
    pod.write(".ax/skills/a/SKILL.md", "old");
    pod.client().turn_complete().await.unwrap();
    pod.stop.cancel();
    let (url, asked) = judge(r#"{"ok":false,"reason":"not allowed"}"#).await;
    pod.serve(Some(url));
    pod.write(".ax/SOUL.md", "evil");
    pod.write(".ax/skills/a/SKILL.md", "new text");
    pod.write(".ax/skills/b/SKILL.md", "another");
    pod.write(".ax/skills/b/deep/SKILL.md", "not one");
    pod.write(".ax/.gitignore", "*\n");
    pod.write("work.txt", "w");
    let saved = pod.client().turn_complete().await.unwrap();
    assert_eq!(saved.skill_validation_error.as_deref(), Some("not allowed"));
    assert_eq!(saved.files, 1);
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["action"], "validate_commit");
    assert!(asked[0]["diff"].as_str().unwrap().contains("+evil"));
    let files: Vec<_> = asked[0]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["content"].as_str().unwrap()))
        .collect();
    assert!(files.contains(&(".ax/skills/a/SKILL.md", "new text")), "{files:?}");
    assert_eq!(
        (pod.read(".ax/SOUL.md").as_deref(), pod.read(".ax/skills/a/SKILL.md").as_deref()),
        (Some("good"), Some("old"))
    );
    assert!(!pod.path("workspace/.ax/skills/b").exists());
    assert_eq!((pod.remote("work.txt").as_deref(), pod.remote(".ax/SOUL.md").as_deref()), (Some("w"), Some("good")));
}

#[tokio::test]
async fn a_first_commit_can_be_rejected_and_an_absent_host_accepts() {
    let (url, _asked) = judge(r#"{"ok":false,"reason":"no"}"#).await;
    let pod = Pod::start(Some(url));
    pod.write(".ax/SOUL.md", "evil");
    pod.write("work.txt", "w");
    assert_eq!(pod.client().turn_complete().await.unwrap().skill_validation_error.as_deref(), Some("no"));
    assert_eq!((pod.remote(".ax/SOUL.md"), pod.remote("work.txt").as_deref()), (None, Some("w")));

    let pod = Pod::start(Some("http://127.0.0.1:1".to_owned()));
    pod.write(".ax/SOUL.md", "fine");
    assert_eq!(pod.client().turn_complete().await.unwrap().skill_validation_error, None);
    assert_eq!(pod.remote(".ax/SOUL.md").as_deref(), Some("fine"));
}

#[tokio::test]
async fn a_planted_repository_decides_nothing() {
    let pod = Pod::start(None);
    let mark = pod.path("mark");
    let trap = format!("touch {}", mark.display());
    pod.write("trap", &format!("#!/bin/sh\n{trap}\n"));
    fs::set_permissions(pod.path("workspace/trap"), fs::Permissions::from_mode(0o755)).unwrap();
    git(&pod.path("workspace"), &["init", "-q"]);
    let config = format!(
        "[core]\n fsmonitor = {t}\n sshCommand = {t}\n[filter \"x\"]\n clean = {t}\n required = true\n",
        t = pod.path("workspace/trap").display()
    );
    pod.write(".git/config", &config);
    pod.write(".gitattributes", "* filter=x\n");
    for hook in ["pre-commit", "post-commit", "reference-transaction", "pre-push", "post-checkout", "post-index-change"]
    {
        let path = pod.path("workspace/.git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(pod.path("workspace/trap"), path).unwrap();
    }
    assert_eq!(pod.client().turn_complete().await.unwrap().files, 2);
    pod.client().pull(&CancellationToken::new()).await.unwrap();
    assert!(!mark.exists());
}

#[tokio::test]
async fn the_client_outlives_broken_sidecars() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    tokio::spawn(async move {
        let answers = [
            "",
            "rubbish",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"ok\":",
            "HTTP/1.1 500 X\r\nContent-Length: 11\r\n\r\n{\"ok\":true}",
            "HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n{\"ok\":false,\"error\":\"not ready\"}",
            "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"ok\":true}",
        ];
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let client = Sidecar::new(Some(&port));
    client.pull(&CancellationToken::new()).await.unwrap();
    assert!(matches!(client.turn_complete().await, Err(SidecarError::Unreached(_))), "asked once");
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(client.pull(&cancel).await, Err(SidecarError::Cancelled));
}

#[tokio::test]
async fn pipes_in_the_workspace_do_not_hold_it_up() {
    let pod = Pod::start(None);
    pod.write("a/b.txt", "kept");
    for name in [".gitignore", ".gitattributes", "a/.gitignore"] {
        nix::unistd::mkfifo(&pod.path("workspace").join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let both = async {
        pod.client().turn_complete().await.unwrap();
        pod.client().pull(&CancellationToken::new()).await.unwrap();
    };
    timeout(Duration::from_secs(240), both).await.expect("git waits");
    assert_eq!(pod.remote("a/b.txt").as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_push_that_fails_is_in_the_log() {
    let mut pod = Pod::start(None);
    pod.refuse_pushes();
    pod.write("a.txt", "one");
    let mut sidecar = tokio::process::Command::new(env!("CARGO_BIN_EXE_ax-runner"))
        .arg("git-sidecar")
        .env("AX_WORKSPACE", pod.path("workspace"))
        .env("AX_GITDIR", pod.path("gitdir/repo"))
        .env("AX_GIT_SIDECAR_PORT", "0")
        .env("AX_HOME", pod.path("home"))
        .env_remove("LOG_LEVEL")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(sidecar.stderr.take().unwrap()).lines();
    let mut event = async |name: &str| loop {
        let line = timeout(Duration::from_secs(120), lines.next_line()).await.expect("hangs").unwrap().expect(name);
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["msg"] == name {
            return line;
        }
    };
    pod.port = event("sidecar_ready").await["port"].as_f64().unwrap() as u16;
    assert!(pod.client().turn_complete().await.is_err());
    let failed = event("sidecar_push_failed").await;
    assert_eq!(failed["level"], 40);
    assert!(failed["error"].as_str().unwrap().contains("refs"), "{failed}");
}

#[test]
fn a_start_without_descriptors_says_so() {
    let directory = tempfile::tempdir().unwrap();
    for limit in [4, 6, 7, 8, 12, 16] {
        let script = format!("ulimit -n {limit}; exec \"$0\" git-sidecar");
        let output = Command::new("/bin/bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_ax-runner")])
            .env("AX_WORKSPACE", directory.path())
            .env("AX_GITDIR", directory.path().join("repo"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{limit}: {told}");
        assert!(told.contains("Too many open files") && !told.contains("\"panic\""), "{limit}: {told}");
    }
}
