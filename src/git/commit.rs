//! Snapshot, commit, push. Plumbing commands throughout: they run no hook and ask no editor.

use super::GitError;
use super::command::Git;
use super::date::iso_utc;
use crate::limits;
use std::time::SystemTime;

/// The branch that is kept, here and at the remote.
pub(crate) const MAIN: &str = "refs/heads/main";
/// The remote's branch as it was last seen.
pub(crate) const TRACKED: &str = "refs/remotes/origin/main";

/// What is done when the remote has commits that we have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saver {
    /// They are merged. Where that conflicts ours go to a branch of their own: no work is lost on either side.
    Merge,
    /// Ours replace them, as the sidecar's contract says (PROTOCOL §12.3); the commit that is replaced is logged.
    Replace,
}

/// What a turn's end brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Save {
    /// The commit that holds the work now.
    pub commit: Option<String>,
    /// Files changed by it; 0 when there was nothing to commit.
    pub files: usize,
    /// What became of it at the remote.
    pub pushed: Pushed,
}

/// See [`Save`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// The remote had it all.
    Unneeded,
    /// The remote's `main` is our commit.
    Done,
    /// The same, after the remote's new commits were merged.
    Merged,
    /// The remote's `main` was replaced; this was its commit.
    Replaced(String),
    /// Both sides changed the same places: our commit is on this branch.
    Aside(String),
    /// The remote has not got it. It is kept here and sent with the next turn.
    Failed(String),
}

/// The outcome of one push.
enum Push {
    Done,
    /// The remote has moved on.
    Behind,
    Failed(String),
}

impl Git {
    /// The commit a name stands for, if any.
    pub(crate) async fn commit_of(&self, name: &str) -> Result<Option<String>, GitError> {
        let wanted = format!("{name}^{{commit}}");
        let output = self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted], None).await?;
        let line = output.line();
        Ok((output.code == 0 && !line.is_empty()).then_some(line))
    }

    /// Learns where the remote's `main` is. A remote without one is no error.
    pub(crate) async fn fetch(&self) -> Result<Option<String>, GitError> {
        // A pattern matches nothing without complaint, a plain name does not.
        let refspec = format!("+{MAIN}*:{TRACKED}*");
        let arguments = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--prune",
            "--no-recurse-submodules",
            self.remote(),
            &refspec,
        ];
        self.ok(&arguments).await?;
        self.commit_of(TRACKED).await
    }

    /// Does the remote say where its `main` is? Reads nothing of the repository here.
    pub(crate) async fn remote_answers(&self) -> bool {
        self.ok(&["ls-remote", "--quiet", self.remote(), MAIN]).await.is_ok()
    }

    /// Is `ancestor` in the history of `commit`?
    pub(crate) async fn contains(&self, commit: &str, ancestor: &str) -> Result<bool, GitError> {
        Ok(self.run(&["merge-base", "--is-ancestor", ancestor, commit], None).await?.code == 0)
    }

    /// Moves `main`.
    pub(crate) async fn set_main(&self, commit: &str) -> Result<(), GitError> {
        self.ok(&["update-ref", MAIN, commit]).await.map(drop)
    }

    /// Everything in the work tree as a tree. What cannot be read is left out, and said.
    pub(crate) async fn stage(&self, base: Option<&str>) -> Result<(), GitError> {
        match base {
            // Keeps what is tracked although ignored, and what the index knows about unchanged files.
            Some(base) => self.ok(&["read-tree", "-m", base]).await.map(drop)?,
            None => self.ok(&["read-tree", "--empty"]).await.map(drop)?,
        }
        let added = self.run(&["add", "--all", "--ignore-errors", "--", "."], None).await?;
        if added.code != 0 {
            tracing::warn!(component = "git", error = %added.stderr, "git_files_left_out");
        }
        Ok(())
    }

    /// Commits what is staged, unless `base` has just that. Returns the commit and the number of files in it.
    pub(crate) async fn commit(&self, base: Option<&str>) -> Result<Option<(String, usize)>, GitError> {
        let tree = self.ok(&["write-tree"]).await?.line();
        let files = match base {
            Some(base) => self.changed(base, &tree).await?,
            None => self.paths(&["ls-tree", "-r", "-z", "--name-only", &tree]).await?.len(),
        };
        if files == 0 {
            return Ok(None);
        }
        let message = format!("agent-turn: {}", iso_utc(SystemTime::now()));
        let commit = self.commit_tree(&tree, base.as_slice(), &message).await?;
        self.set_main(&commit).await?;
        Ok(Some((commit, files)))
    }

    async fn changed(&self, base: &str, tree: &str) -> Result<usize, GitError> {
        let arguments = [
            "diff-tree",
            "-r",
            "-z",
            "--name-only",
            "--no-renames",
            "--no-ext-diff",
            "--ignore-submodules=none",
            base,
            tree,
        ];
        Ok(self.paths(&arguments).await?.len())
    }

    /// The NUL-separated output of a command.
    pub(crate) async fn paths(&self, arguments: &[&str]) -> Result<Vec<String>, GitError> {
        let output = self.ok(arguments).await?;
        let parts = output.stdout.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        Ok(parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect())
    }

    async fn commit_tree(&self, tree: &str, parents: &[&str], message: &str) -> Result<String, GitError> {
        let mut arguments = vec!["commit-tree", "--no-gpg-sign", "-m", message];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        arguments.push(tree);
        Ok(self.ok(&arguments).await?.line())
    }

    /// The merge of two commits, made without touching the work tree; `None` when they conflict.
    pub(crate) async fn merge(&self, ours: &str, theirs: &str) -> Result<Option<String>, GitError> {
        let arguments = ["merge-tree", "--write-tree", "--allow-unrelated-histories", "--no-messages", ours, theirs];
        let output = self.run(&arguments, None).await?;
        match output.code {
            0 => {
                let message = "Merge the remote's main into the agent's";
                self.commit_tree(&output.line(), &[ours, theirs], message).await.map(Some)
            }
            1 => Ok(None),
            code => Err(self.failure(&arguments, code, &output.stderr)),
        }
    }

    /// Brings the remote what it lacks of `main`. `tracked` is the remote's commit as last seen.
    pub(crate) async fn publish(&self, saver: Saver, main: &str, tracked: Option<&str>) -> Result<Pushed, GitError> {
        if tracked == Some(main) {
            return Ok(Pushed::Unneeded);
        }
        let mut ours = main.to_owned();
        for _ in 0..limits::GIT_PUSHES_MAX {
            match self.push(&format!("{ours}:{MAIN}"), &[]).await? {
                Push::Done if ours == main => return Ok(Pushed::Done),
                Push::Done => return Ok(Pushed::Merged),
                Push::Failed(words) => return Ok(Pushed::Failed(words)),
                Push::Behind => {}
            }
            let theirs = match self.fetch().await {
                Ok(Some(theirs)) => theirs,
                Ok(None) => continue,
                Err(error) => return Ok(Pushed::Failed(error.to_string())),
            };
            match saver {
                Saver::Replace => {
                    let lease = format!("--force-with-lease={MAIN}:{theirs}");
                    match self.push(&format!("+{ours}:{MAIN}"), &[&lease]).await? {
                        Push::Done => return Ok(Pushed::Replaced(theirs)),
                        Push::Failed(words) => return Ok(Pushed::Failed(words)),
                        Push::Behind => {}
                    }
                }
                Saver::Merge => match self.merge(main, &theirs).await? {
                    Some(merged) => ours = merged,
                    None => return self.publish_aside(main).await,
                },
            }
        }
        Ok(Pushed::Failed("the remote's main changed with each try".to_owned()))
    }

    /// Packs what a push would send, and throws it away. Fails when an object is damaged.
    pub(crate) async fn pack(&self, main: &str, tracked: Option<&str>) -> Result<(), GitError> {
        let arguments = ["pack-objects", "--revs", "--stdout", "--quiet", "--no-reuse-object"];
        let wanted = format!("{main}\n{}", tracked.map(|commit| format!("^{commit}\n")).unwrap_or_default());
        let output = self.run(&arguments, Some(wanted.as_bytes())).await?;
        if output.code == 0 { Ok(()) } else { Err(self.failure(&arguments, output.code, &output.stderr)) }
    }

    async fn publish_aside(&self, main: &str) -> Result<Pushed, GitError> {
        let branch = format!("agent-turn-{}", main.get(..12).unwrap_or(main));
        Ok(match self.push(&format!("{main}:refs/heads/{branch}"), &[]).await? {
            Push::Done => Pushed::Aside(branch),
            Push::Behind => Pushed::Failed("the remote refuses the branch".to_owned()),
            Push::Failed(words) => Pushed::Failed(words),
        })
    }

    async fn push(&self, refspec: &str, options: &[&str]) -> Result<Push, GitError> {
        let mut arguments = vec!["push", "--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no"];
        arguments.extend(options);
        arguments.extend([self.remote(), refspec]);
        let output = match self.run(&arguments, None).await {
            Ok(output) => output,
            // The commit is safe here; the remote gets it with the next turn.
            Err(error @ GitError::TooSlow(_)) => return Ok(Push::Failed(error.to_string())),
            Err(error) => return Err(error),
        };
        if output.code == 0 {
            let pushed = refspec.trim_start_matches('+').split_once(':');
            if let Some((commit, MAIN)) = pushed {
                self.ok(&["update-ref", TRACKED, commit]).await?;
            }
            return Ok(Push::Done);
        }
        let report = String::from_utf8_lossy(&output.stdout);
        let refused = report.lines().find(|line| line.starts_with("!\t"));
        Ok(match refused {
            Some(line) if line.contains("[rejected]") => Push::Behind,
            // Lost a race inside the server.
            Some(line) if line.contains("cannot lock ref") || line.contains("failed to update ref") => Push::Behind,
            _ => Push::Failed(output.stderr),
        })
    }
}
