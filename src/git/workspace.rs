//! The runner's own clone (PROTOCOL §12.2): taken before the turn, saved after it.
//!
//! Two directories make the repository. A private one of ours has configuration, references and index; the workspace's
//! `.git` lends only its objects, which are data (`foreign`). So nothing in the workspace decides what git runs, and a
//! read-only root with a small `/tmp` is enough, whatever the size of the history.

use super::commit::{MAIN, TRACKED};
use super::foreign::Foreign;
use super::{Git, GitError, Pushed, Save, Saver, find_git};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const CONFIG: &str =
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogAllRefUpdates = false\n";

/// Repositories that were moved aside are no work of the agent's.
const EXCLUDED: &str = "/.git.broken-*\n";

/// What is needed to keep a workspace.
#[derive(Clone)]
pub struct Settings {
    /// The workspace's root.
    pub workspace: PathBuf,
    /// `WORKSPACE_REPO_URL`; may hold a user name and a password.
    pub url: String,
    /// Places for the private directory, best first. A few kilobytes and the index go there.
    pub private: Vec<PathBuf>,
    /// Proxy and certificates: the repository is reached through the host's proxy.
    pub environment: Vec<(String, String)>,
}

/// A workspace whose history is kept.
pub struct Workspace {
    git: Git,
    private: Private,
    foreign: Foreign,
}

impl Workspace {
    /// Connects the workspace with its remote and brings in what is new there. Works on an empty, a filled and an already
    /// connected workspace, and with an empty remote. Files that are in the workspace already are never overwritten on
    /// the first connection: what is there was put there on purpose, and what the remote has is in its history.
    ///
    /// Without the remote this fails only when there is no earlier state to go on with.
    pub async fn open(settings: &Settings) -> Result<Self, GitError> {
        let program = find_git()?;
        let private = Private::make(&settings.private)?;
        let (foreign, seen) = Foreign::prepare(&settings.workspace, &settings.url)?;
        let git = Git::new(program, &private.0, &settings.workspace, Some(&settings.url), &settings.environment)
            .with("GIT_OBJECT_DIRECTORY", foreign.objects())
            .with("GIT_INDEX_FILE", private.index());
        let workspace = Self { git, private, foreign };
        match workspace.pull(&seen).await {
            Ok(()) => {}
            Err(Fault::Other(error)) => return Err(error),
            Err(Fault::Broken(error)) => workspace.start_over(&error).await?,
        }
        Ok(workspace)
    }

    /// `seen`: commits that the files may come from, should the repository not know.
    async fn pull(&self, seen: &[String]) -> Result<(), Fault> {
        self.git.clear_the_way().await;
        let local = self.take_over().await?;
        match self.git.fetch().await {
            Ok(remote) => {
                let local = match (local, &remote) {
                    (None, Some(remote)) => self.base_among(seen, remote).await?,
                    (local, _) => local,
                };
                self.bring_in(local, remote).await?;
            }
            Err(error) if local.is_none() => return Err(self.fault_of_fetch(error).await),
            Err(error) => tracing::warn!(component = "git", error = %error, "git_pull_failed"),
        }
        Ok(self.tell_agent().await?)
    }

    /// The first of `seen` that the remote has. Without it every file that differs would count as the workspace's work,
    /// and an old one would undo what somebody else has pushed since.
    async fn base_among(&self, seen: &[String], remote: &str) -> Result<Option<String>, GitError> {
        for commit in seen {
            if self.git.contains(remote, commit).await? {
                self.git.set_main(commit).await?;
                return Ok(Some(commit.clone()));
            }
        }
        Ok(None)
    }

    /// Whose fault is a fetch that failed? Told before anything is moved: a remote that is away would otherwise cost a
    /// repository at each start. The remote is asked once more in a way that needs nothing of what is here.
    async fn fault_of_fetch(&self, error: GitError) -> Fault {
        match error {
            GitError::Failed { .. } if self.git.remote_answers().await => Fault::Broken(error),
            error => Fault::Other(error),
        }
    }

    /// Connects again from nothing, with the files as they are: the agent may have removed or broken its repository.
    async fn start_over(&self, error: &GitError) -> Result<(), GitError> {
        tracing::warn!(component = "git", error = %error, "git_directory_unusable");
        let mut seen = self.foreign.last_seen();
        // Not by git, which finds no repository when the objects are gone.
        seen.extend([MAIN, TRACKED].iter().filter_map(|name| self.private.named(name)));
        self.foreign.renew()?;
        for name in ["refs/heads/main", "refs/remotes", "packed-refs", "index"] {
            let path = self.private.0.join(name);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        self.pull(&seen).await.map_err(|fault| match fault {
            Fault::Broken(error) | Fault::Other(error) => error,
        })
    }

    /// Commits what the turn has left in the workspace, and pushes. A push that fails is an outcome, not an error: the
    /// commit stays and goes with the next turn.
    pub async fn save(&self) -> Result<Save, GitError> {
        match self.try_save().await.map_err(Fault::from) {
            Ok(save) => Ok(save),
            Err(Fault::Other(error)) => Err(error),
            // A missing object or directory shows itself in many ways; a second failure is the true one.
            Err(Fault::Broken(error)) => {
                self.start_over(&error).await?;
                self.try_save().await
            }
        }
    }

    async fn try_save(&self) -> Result<Save, GitError> {
        self.git.clear_the_way().await;
        if !self.foreign.is_usable() {
            return Err(GitError::File(
                ".git".into(),
                io::Error::other("it is no repository, or holds more than objects"),
            ));
        }
        let base = self.take_over().await?;
        self.git.stage(base.as_deref()).await?;
        let made = self.git.commit(base.as_deref()).await?;
        // Before the push: a runner that dies now finds the commit again.
        self.tell_agent().await?;
        let files = made.as_ref().map_or(0, |(_, files)| *files);
        let Some(main) = made.map(|(commit, _)| commit).or(base) else {
            return Ok(Save { commit: None, files: 0, pushed: Pushed::Unneeded });
        };
        let tracked = self.git.commit_of(TRACKED).await?;
        let pushed = self.git.publish(Saver::Merge, &main, tracked.as_deref()).await?;
        if matches!(pushed, Pushed::Failed(_)) {
            // Was it the remote, or is a part of the commit missing here? That is found out by packing it once more.
            self.git.pack(&main, tracked.as_deref()).await?;
        }
        if pushed == Pushed::Merged
            && let Some(merged) = self.git.commit_of(TRACKED).await?
        {
            self.advance(&main, &merged).await?;
        }
        self.tell_agent().await?;
        Ok(Save { commit: Some(main), files, pushed })
    }

    /// Takes the agent's `main` for ours: it may have committed by itself.
    async fn take_over(&self) -> Result<Option<String>, GitError> {
        let named = self.foreign.main();
        if let Some(named) = &named
            && let Some(commit) = self.git.commit_of(named).await?
        {
            self.git.set_main(&commit).await?;
        }
        let main = self.git.commit_of(MAIN).await?;
        if main.is_none() && (named.is_some() || self.private.0.join(MAIN).exists()) {
            return Err(GitError::File(MAIN.into(), io::Error::other("the commit it names is gone")));
        }
        Ok(main)
    }

    /// Moves `main` and the files to where the remote is, as far as that harms nothing.
    async fn bring_in(&self, local: Option<String>, remote: Option<String>) -> Result<(), GitError> {
        let git = &self.git;
        match (local, remote) {
            (None, None) => Ok(()),
            (Some(local), None) => git.ok(&["read-tree", &local]).await.map(drop),
            (None, Some(remote)) => {
                git.set_main(&remote).await?;
                git.ok(&["read-tree", &remote]).await?;
                // Without force: it says which files it left alone, and that is no failure.
                git.run(&["checkout-index", "--all", "--quiet"], None).await.map(drop)
            }
            (Some(local), Some(remote)) => {
                git.ok(&["read-tree", &local]).await?;
                git.run(&["update-index", "-q", "--refresh"], None).await?;
                if local == remote || git.contains(&local, &remote).await? {
                    return Ok(());
                }
                let target = if git.contains(&remote, &local).await? {
                    Some(remote)
                } else {
                    git.merge(&local, &remote).await?
                };
                match target {
                    Some(target) => self.advance(&local, &target).await,
                    None => {
                        tracing::warn!(component = "git", "git_pull_conflicts");
                        Ok(())
                    }
                }
            }
        }
    }

    /// Takes the files from one commit to a later one. Changes that are not committed stay; where they are in the way
    /// nothing moves, and the two are merged when the turn is saved.
    async fn advance(&self, from: &str, to: &str) -> Result<(), GitError> {
        let moved = self.git.run(&["read-tree", "-m", "-u", from, to], None).await?;
        match moved.code {
            0 => self.git.set_main(to).await,
            _ => {
                tracing::warn!(component = "git", error = %moved.stderr, "git_pull_held_back");
                Ok(())
            }
        }
    }

    async fn tell_agent(&self) -> Result<(), GitError> {
        let main = self.git.commit_of(MAIN).await?;
        let remote = self.git.commit_of(TRACKED).await?;
        self.foreign.update(main.as_deref(), remote.as_deref(), &self.private.index());
        Ok(())
    }
}

/// Why the workspace could not be connected.
#[derive(Debug)]
enum Fault {
    /// What is here is broken, and can be made anew.
    Broken(GitError),
    /// The remote is away or refuses, or git itself cannot work.
    Other(GitError),
}

impl From<GitError> for Fault {
    fn from(error: GitError) -> Self {
        match error {
            GitError::Failed { .. } | GitError::File(..) => Self::Broken(error),
            GitError::Missing | GitError::Start { .. } | GitError::TooSlow(_) => Self::Other(error),
        }
    }
}

/// Our half of the repository. Gone when dropped: it holds nothing that cannot be made again.
struct Private(PathBuf);

impl Private {
    fn make(candidates: &[PathBuf]) -> Result<Self, GitError> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for parent in candidates {
            for attempt in 0..100_u32 {
                let path = parent.join(format!("ax-git-{}-{attempt}", std::process::id()));
                match DirBuilder::new().mode(0o700).create(&path).and_then(|()| Self::fill(&path)) {
                    Ok(()) => return Ok(Self(path)),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => {
                        last = error;
                        break;
                    }
                }
            }
        }
        Err(GitError::File("private directory".into(), last))
    }

    fn fill(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path.join("refs/heads"))?;
        fs::create_dir(path.join("objects"))?;
        fs::create_dir(path.join("info"))?;
        fs::write(path.join("info/exclude"), EXCLUDED)?;
        fs::write(path.join("config"), CONFIG)?;
        fs::write(path.join("HEAD"), "ref: refs/heads/main\n")
    }

    fn index(&self) -> PathBuf {
        self.0.join("index")
    }

    fn named(&self, reference: &str) -> Option<String> {
        Some(fs::read_to_string(self.0.join(reference)).ok()?.trim().to_owned())
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
