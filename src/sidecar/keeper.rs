//! The two operations on the repository.

use super::Config;
use super::verdict::{Judge, Verdict};
use crate::git::{Git, GitError, MAIN, Pushed, Saver, TRACKED};
use std::path::PathBuf;
use std::sync::Arc;

/// The folder whose changes the host judges.
const GUARDED: &str = ".ax";
/// The tree of nothing; git knows it without having it.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// How a turn's end went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) hash: Option<String>,
    pub(super) files: usize,
    pub(super) rejected: Option<String>,
    pub(super) push_error: Option<String>,
}

/// Git on the pod's repository, one operation at a time.
#[derive(Clone)]
pub(super) struct Keeper {
    git: Git,
    judge: Option<Judge>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Keeper {
    pub(super) fn new(program: PathBuf, config: &Config, judge: Option<Judge>) -> Self {
        let git = Git::new(program, &config.git_dir, &config.workspace, config.url.as_deref(), &[]);
        Self { git, judge, turn: Arc::default() }
    }

    /// Waits until the operation under way is done.
    pub(super) async fn idle(&self) {
        drop(self.turn.lock().await);
    }

    /// Before the turn: the work tree becomes what the remote has. A commit of an earlier turn that never got there is
    /// sent first, so that a crash between commit and push loses nothing.
    pub(super) async fn pull(&self) -> Result<(), GitError> {
        let _turn = self.turn.lock().await;
        let git = &self.git;
        self.prepare().await?;
        let local = git.commit_of(MAIN).await?;
        let mut remote = git.fetch().await?;
        if let Some(local) = &local {
            let has_it = match &remote {
                Some(remote) => git.contains(remote, local).await?,
                None => false,
            };
            if !has_it {
                let pushed = git.publish(Saver::Merge, local, remote.as_deref()).await?;
                tracing::warn!(component = "git-sidecar", outcome = ?pushed, "sidecar_unsent_commit");
                if let Pushed::Failed(words) = pushed {
                    return Err(git.failure(&["push"], 1, &words));
                }
                remote = git.commit_of(TRACKED).await?;
            }
        }
        // An empty remote has nothing to offer; that is no reason to make the runner wait and ask again.
        let Some(remote) = remote else { return Ok(()) };
        git.ok(&["reset", "--hard", "--quiet", &remote]).await?;
        git.ok(&["clean", "-f", "-d", "--quiet"]).await.map(drop)
    }

    /// After the turn: everything is committed and pushed; what the host rejects under `.ax/` is taken back first.
    pub(super) async fn turn_complete(&self) -> Result<Kept, GitError> {
        let _turn = self.turn.lock().await;
        let git = &self.git;
        self.prepare().await?;
        let base = git.commit_of(MAIN).await?;
        git.stage(base.as_deref()).await?;
        let rejected = self.judge(base.as_deref()).await?;
        let made = git.commit(base.as_deref()).await?;
        let files = made.as_ref().map_or(0, |(_, files)| *files);
        let hash = made.map(|(commit, _)| commit);
        let mut kept = Kept { hash, files, rejected, push_error: None };
        // Also when there was nothing to commit: the last push may have failed.
        let Some(main) = kept.hash.clone().or(base) else { return Ok(kept) };
        let tracked = git.commit_of(TRACKED).await?;
        match git.publish(Saver::Replace, &main, tracked.as_deref()).await? {
            Pushed::Failed(words) => kept.push_error = Some(words),
            Pushed::Replaced(commit) => {
                tracing::warn!(component = "git-sidecar", replaced = commit, "sidecar_push_forced");
            }
            _ => {}
        }
        Ok(kept)
    }

    /// The repository as the operations expect it, whatever a killed git or the init container left.
    async fn prepare(&self) -> Result<(), GitError> {
        self.git.clear_the_way().await;
        self.git.ok(&["symbolic-ref", "HEAD", MAIN]).await.map(drop)
    }

    /// Shows the host what is staged under `.ax/`; a rejection reverts all of it. Returns the reason.
    async fn judge(&self, base: Option<&str>) -> Result<Option<String>, GitError> {
        let Some(judge) = &self.judge else { return Ok(None) };
        let git = &self.git;
        let base_tree = base.unwrap_or(EMPTY_TREE);
        let tree = git.ok(&["write-tree"]).await?.line();
        let plain = ["diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color"];
        let diff = git.ok(&[&plain[..], &["-p", base_tree, &tree, "--", GUARDED]].concat()).await?;
        if diff.stdout.is_empty() {
            return Ok(None);
        }
        let changed = ["-z", "--name-only", "--diff-filter=AMT", base_tree, &tree, "--", GUARDED];
        let names = git.paths(&[&plain[..], &changed].concat()).await?;
        let mut files = Vec::new();
        for path in names.into_iter().filter(|path| is_skill(path)) {
            let text = git.ok(&["cat-file", "blob", &format!("{tree}:{path}")]).await?;
            files.push((path, String::from_utf8_lossy(&text.stdout).into_owned()));
        }
        match judge.ask(&String::from_utf8_lossy(&diff.stdout), &files).await {
            Verdict::Accepted => Ok(None),
            Verdict::Rejected(reason) => {
                tracing::warn!(component = "git-sidecar", reason, "sidecar_commit_rejected");
                self.revert(base).await?;
                Ok(Some(reason))
            }
        }
    }

    /// Takes back everything under `.ax/`, in the index and in the work tree, tracked or not.
    async fn revert(&self, base: Option<&str>) -> Result<(), GitError> {
        let git = &self.git;
        git.ok(&["rm", "-r", "-f", "--cached", "--quiet", "--ignore-unmatch", "--", GUARDED]).await?;
        git.ok(&["clean", "-f", "-f", "-d", "-x", "--quiet", "--", GUARDED]).await?;
        let Some(base) = base else { return Ok(()) };
        if !git.ok(&["ls-tree", base, "--", GUARDED]).await?.stdout.is_empty() {
            git.ok(&["checkout", "--force", "--quiet", base, "--", GUARDED]).await?;
        }
        Ok(())
    }
}

/// `.ax/skills/<one segment>/SKILL.md`.
fn is_skill(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], [".ax", "skills", name, "SKILL.md"] if !name.is_empty())
}
