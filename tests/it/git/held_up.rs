//! What the agent can put where git reads: a pipe there would make git wait for ever, a device let it read without end. The
//! work is saved all the same, and soon.

use super::*;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Less than the deadline of one git command, so that a single wait is noticed, beside what it takes where nothing waits.
const SOON: Duration = Duration::from_secs(45);

const PIPE_AS_OBJECT: &str = "o=$(git hash-object b.txt); d=.git/objects/$(printf %.2s $o); mkdir -p $d; \
    rm -f $d/${o#??}; mkfifo $d/${o#??}";

#[tokio::test]
async fn pipes_where_git_reads_do_not_keep_the_work_from_being_saved() {
    let begun = Instant::now();
    saved("true", 4 * SOON).await;
    // On a busy machine the others are slower still.
    let soon = SOON + begun.elapsed() * 20;
    let turns = std::sync::Arc::new(Semaphore::new(3));
    let mut tasks = tokio::task::JoinSet::new();
    for plant in [
        "mkfifo .gitignore",
        "mkfifo .gitattributes",
        "mkfifo .gitmodules",
        "mkdir -p a/b/c; mkfifo a/b/c/.gitignore a/b/.gitattributes",
        "git init -q n; echo x >n/f; git -C n add -A; git -C n -c user.name=a -c user.email=b commit -qm m; rm n/.git/HEAD; mkfifo n/.git/HEAD",
        "git init -q n; echo x >n/f; rm n/.git/config; mkfifo n/.git/config n/.git/packed-refs n/.git/commondir n/.git/refs/heads/main",
        "rm -f .git/objects/info/alternates; mkfifo .git/objects/info/alternates",
        "ln -sf /dev/zero .git/objects/info/alternates",
        "mkdir -p alt/info; ln -s /dev/zero alt/info/alternates; echo \"$PWD/alt\" >.git/objects/info/alternates",
        "mkfifo .git/objects/pack/multi-pack-index",
        "n=.git/objects/pack/pack-1111111111111111111111111111111111111111; : >$n.pack; mkfifo $n.idx",
        PIPE_AS_OBJECT,
        "rm -f .git/HEAD .git/index; mkfifo .git/HEAD .git/index .git/packed-refs .git/shallow .git/info/grafts",
    ] {
        let turns = turns.clone();
        tasks.spawn(async move {
            let _turn = turns.acquire_owned().await.unwrap();
            saved(plant, soon).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// Plants something in a workspace with new work in it, and sees the work saved and the next turn begun in time.
async fn saved(plant: &str, soon: Duration) {
    let scene = Scene::new();
    scene.elsewhere("a.txt", "1");
    let workspace = scene.open().await;
    scene.write("b.txt", "kept");
    let planted = Command::new("sh").args(["-c", plant]).current_dir(scene.path("workspace")).output().unwrap();
    assert!(planted.status.success(), "{plant}: {}", String::from_utf8_lossy(&planted.stderr));
    let save = tokio::time::timeout(soon, workspace.save()).await;
    let save = save.unwrap_or_else(|_| panic!("{plant}: git waits")).unwrap_or_else(|e| panic!("{plant}: {e}"));
    assert!(done(&save), "{plant}: {save:?}");
    let there = |file: &str| scene.remote(file);
    assert_eq!((there("a.txt").as_deref(), there("b.txt").as_deref()), (Some("1"), Some("kept")), "{plant}");
    drop(workspace);
    // And the next turn begins with it.
    let opened = tokio::time::timeout(soon, Workspace::open(&scene.settings())).await;
    assert!(opened.unwrap_or_else(|_| panic!("{plant}: git waits at the start")).is_ok(), "{plant}");
}
