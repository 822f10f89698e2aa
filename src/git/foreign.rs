//! The workspace's own `.git`: the agent's, and whatever it has made of it.
//!
//! The agent works with git too, so there is a repository for it to find, and its commits are taken over. But only
//! objects are shared with it; git is never started on it by us, since its configuration and hooks may name programs. The
//! few text files in it that matter are read and written here, bounded and without following links.

use super::commit::{MAIN, TRACKED};
use super::{GitError, obstacles};
use crate::limits;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const HEAD: &[u8] = b"ref: refs/heads/main\n";

/// The repository in the workspace, as files.
#[derive(Debug)]
pub(super) struct Foreign {
    directory: PathBuf,
    /// The remote, without user name and password.
    url: String,
}

impl Foreign {
    /// The repository of `workspace`; made when there is none. What stands in its place without being one is moved aside:
    /// a broken repository must not keep the agent's work from being saved. With it what was [last seen](Self::last_seen).
    pub(super) fn prepare(workspace: &Path, url: &str) -> Result<(Self, Vec<String>), GitError> {
        let foreign = Self { directory: workspace.join(".git"), url: without_user_info(url) };
        let seen = foreign.last_seen();
        if !foreign.is_usable() {
            foreign.renew()?;
        }
        Ok((foreign, seen))
    }

    /// A new, empty repository; what stands in its place is moved aside.
    pub(super) fn renew(&self) -> Result<(), GitError> {
        self.make_writable();
        if self.directory.symlink_metadata().is_ok() {
            self.set_aside()?;
        }
        self.make().map_err(|error| GitError::File(".git".into(), error))
    }

    /// Where both sides keep objects.
    pub(super) fn objects(&self) -> PathBuf {
        self.directory.join("objects")
    }

    /// Is it a repository whose objects git can be given?
    pub(super) fn is_usable(&self) -> bool {
        let real = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let whole = ["", "objects", "refs", "refs/heads"].iter().all(|part| real(&self.directory.join(part)));
        whole && obstacles::only_objects(&self.objects())
    }

    /// A command may have closed the workspace to its own user, and no later one could put that right if the start failed.
    fn make_writable(&self) {
        let Some(workspace) = self.directory.parent() else { return };
        let mode = workspace.metadata().map_or(0o700, |metadata| metadata.mode());
        if mode & 0o700 != 0o700 {
            // Where this is not allowed the next step says so.
            let _ = fs::set_permissions(workspace, Permissions::from_mode(mode & 0o7777 | 0o700));
        }
    }

    fn set_aside(&self) -> Result<(), GitError> {
        for number in 1..1000 {
            let aside = self.directory.with_file_name(format!(".git.broken-{number}"));
            if aside.symlink_metadata().is_err() {
                fs::rename(&self.directory, &aside).map_err(|error| GitError::File(".git".into(), error))?;
                tracing::warn!(component = "git", number, "git_directory_set_aside");
                return Ok(());
            }
        }
        Err(GitError::File(".git".into(), io::ErrorKind::AlreadyExists.into()))
    }

    fn make(&self) -> io::Result<()> {
        for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "refs/remotes/origin", "info"] {
            fs::create_dir_all(self.directory.join(part))?;
        }
        let url = &self.url;
        let config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
             [user]\n\tname = agent\n\temail = agent@ax.local\n\
             [remote \"origin\"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
        );
        self.replace("info/exclude", b"/.git.broken-*\n")?;
        self.replace("config", config.as_bytes())?;
        self.replace("HEAD", HEAD)
    }

    /// The commit the agent's `main` names, if it names one in a way we understand.
    pub(super) fn main(&self) -> Option<String> {
        self.named(MAIN)
    }

    /// Where `main` and the remote's were when they were last written here. Also tells it of a repository that is broken.
    pub(super) fn last_seen(&self) -> Vec<String> {
        [MAIN, TRACKED].iter().filter_map(|name| self.named(name)).collect()
    }

    fn named(&self, name: &str) -> Option<String> {
        let loose = self.read(name).map(|text| text.trim().to_owned());
        loose
            .or_else(|| {
                let packed = self.read("packed-refs")?;
                let of_name = |line: &str| line.strip_suffix(name)?.strip_suffix(' ').map(str::to_owned);
                packed.lines().find_map(of_name)
            })
            .filter(|commit| is_commit(commit))
    }

    /// Tells the agent's repository where `main` and the remote are now, and gives it the index that belongs to it when
    /// it has `main` checked out. Best effort: our own state does not depend on it.
    pub(super) fn update(&self, main: Option<&str>, remote: Option<&str>, index: &Path) {
        let set = |name: &str, commit: Option<&str>| match commit {
            Some(commit) => self.replace(name, format!("{commit}\n").as_bytes()),
            None => Ok(()),
        };
        let told = set(MAIN, main).and_then(|()| set(TRACKED, remote)).and_then(|()| {
            let head = self.read("HEAD").unwrap_or_default();
            match head.trim() {
                "ref: refs/heads/main" if index.exists() => self.replace("index", &fs::read(index)?),
                head if head.starts_with("ref: refs/") || is_commit(head) => Ok(()),
                // Without this file git finds no repository.
                _ => self.replace("HEAD", HEAD),
            }
        });
        if let Err(error) = told {
            tracing::warn!(component = "git", error = %error, "git_directory_not_updated");
        }
    }

    /// A small text file; `None` for anything else.
    fn read(&self, name: &str) -> Option<String> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        file.take(limits::GIT_REF_FILE_MAX_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Writes beside and renames: never through a link, never half.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(parent)?;
        if !parent.symlink_metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let temporary = path.with_extension("ax-new");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all(bytes)?;
        fs::rename(&temporary, &path)
    }
}

fn is_commit(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The URL as the agent may see it.
fn without_user_info(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}/{path}").replace(['\n', '"', '\\'], "")
        }
        None => url.replace(['\n', '"', '\\'], ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_configuration_holds_no_password() {
        assert_eq!(without_user_info("https://u:hunter2@h:1/a/b.git"), "https://h:1/a/b.git");
        assert_eq!(without_user_info("https://h/a@b.git"), "https://h/a@b.git");
        assert_eq!(without_user_info("/srv/a.git"), "/srv/a.git");
    }

    #[test]
    fn what_is_no_repository_is_moved_aside() {
        let workspace = tempfile::tempdir().unwrap();
        let git = workspace.path().join(".git");
        fs::write(&git, "gitdir: /etc").unwrap();
        Foreign::prepare(workspace.path(), "http://h/r").unwrap();
        assert!(git.join("objects").is_dir() && workspace.path().join(".git.broken-1").is_file());
        fs::remove_dir_all(git.join("objects")).unwrap();
        std::os::unix::fs::symlink("/etc", git.join("objects")).unwrap();
        Foreign::prepare(workspace.path(), "http://h/r").unwrap();
        assert!(git.join("objects").symlink_metadata().unwrap().is_dir());
        assert!(workspace.path().join(".git.broken-2").is_dir());
    }

    #[test]
    fn only_a_plain_commit_name_is_taken() {
        let workspace = tempfile::tempdir().unwrap();
        let (foreign, _) = Foreign::prepare(workspace.path(), "http://h/r").unwrap();
        assert_eq!(foreign.main(), None);
        let name = "0123456789012345678901234567890123456789";
        let loose = workspace.path().join(".git/refs/heads/main");
        fs::write(workspace.path().join(".git/packed-refs"), format!("# pack-refs\n{name} refs/heads/main\n")).unwrap();
        assert_eq!(foreign.main().as_deref(), Some(name));
        for bad in ["", "--upload-pack=x", "ref: refs/heads/x", "HEAD"] {
            fs::write(&loose, bad).unwrap();
            assert_eq!(foreign.main(), None, "{bad}");
        }
        fs::remove_file(&loose).unwrap();
        nix::unistd::mkfifo(&loose, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(foreign.main().as_deref(), Some(name), "a FIFO does not hang the turn");
        foreign.update(Some(name), None, Path::new("/nonexistent"));
        assert_eq!(fs::read_to_string(&loose).unwrap().trim(), name);
    }
}
