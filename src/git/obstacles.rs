//! What stands where git reads and is no file: a pipe there makes git wait for ever, a device lets it read without end.
//!
//! Git opens a few names of the work tree whatever they are, and believes what it finds beside its objects. The agent's
//! commands write both, by mistake or not, so both are looked through before git is started. Nothing here can be stored
//! in a commit, so nothing is lost with it.

use crate::limits;
use crate::workspace::{Dir, Kind, Workspace};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::path::Path;

/// Names git opens wherever they stand in a work tree.
const OPENED: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Removes the pipes and devices that git would open below `root`. Its own `.git` is not looked at: no git of ours works
/// on it. Returns how many there were.
pub(super) fn remove(root: &Path) -> usize {
    let Ok(workspace) = Workspace::open(root) else { return 0 };
    let mut removed = 0;
    clear(workspace.root_dir(), Place::Root, 0, &mut removed);
    removed
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The root of the work tree.
    Root,
    /// A directory below it.
    Below,
    /// In the `.git` of a nested repository, which git asks for its commit.
    Repository,
}

fn clear(dir: &Dir, place: Place, depth: usize, removed: &mut usize) {
    let Ok(entries) = dir.entries() else { return };
    for entry in entries.flatten() {
        match entry.kind {
            Kind::Directory if depth < limits::GIT_WALK_DEPTH_MAX => {
                let inside = match place {
                    Place::Repository => Place::Repository,
                    Place::Root if entry.name == ".git" => continue,
                    _ if entry.name == ".git" => Place::Repository,
                    _ => Place::Below,
                };
                if let Ok(below) = dir.open_dir(&entry.name) {
                    clear(&below, inside, depth + 1, removed);
                }
            }
            Kind::Fifo | Kind::Device
                if (place == Place::Repository || OPENED.iter().any(|name| entry.name == *name))
                    && unlinkat(dir, entry.name.as_os_str(), UnlinkatFlags::NoRemoveDir).is_ok() =>
            {
                *removed += 1;
            }
            _ => {}
        }
    }
}

/// Does an object directory hold nothing but files and directories, and lead to no other? Objects are taken from nowhere
/// else: what stands there could be anything again.
pub(super) fn only_objects(objects: &Path) -> bool {
    let Ok(opened) = Workspace::open(objects) else { return false };
    let info = opened.root_dir().open_dir("info".as_ref());
    let leads_away = info.is_ok_and(|info| info.kind("alternates".as_ref()).is_ok());
    !leads_away && only_files(opened.root_dir(), 0)
}

fn only_files(dir: &Dir, depth: usize) -> bool {
    let Ok(mut entries) = dir.entries() else { return false };
    entries.all(|entry| match entry {
        // `info/commit-graphs` is the deepest git makes itself.
        Ok(entry) if entry.kind == Kind::Directory => {
            depth < 4 && dir.open_dir(&entry.name).is_ok_and(|below| only_files(&below, depth + 1))
        }
        Ok(entry) => entry.kind == Kind::File,
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn pipe(path: &Path) {
        nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
    }

    #[test]
    fn only_what_git_would_open_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in [".git/objects", "a/b", "n/.git/refs/heads", "elsewhere"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let gone = [".gitignore", "a/b/.gitattributes", "n/.git/HEAD", "n/.git/refs/heads/main"];
        let stays = ["pipe", "a/pipe", ".git/HEAD", "elsewhere/.gitkeep"];
        gone.iter().chain(&stays).for_each(|name| pipe(&at(name)));
        fs::write(at("a/.gitignore"), "x").unwrap();
        let outside = tempfile::tempdir().unwrap();
        pipe(&outside.path().join(".gitignore"));
        symlink(outside.path(), at("link")).unwrap();
        assert_eq!(remove(root.path()), gone.len());
        assert!(gone.iter().all(|name| !at(name).exists()));
        assert!(stays.iter().chain(&["a/.gitignore", "link/.gitignore"]).all(|name| at(name).exists()));
    }

    #[test]
    fn an_object_directory_is_what_it_looks_like() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["info/commit-graphs", "pack", "ab"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("ab/cd"), "x").unwrap();
        fs::write(at("info/commit-graphs/commit-graph-chain"), "x").unwrap();
        assert!(only_objects(root.path()));
        for (name, plant) in [
            ("ab/ef", pipe as fn(&Path)),
            ("pack/multi-pack-index", |path| symlink("/dev/zero", path).unwrap()),
            ("info/alternates", |path| fs::write(path, "/elsewhere\n").unwrap()),
        ] {
            plant(&at(name));
            assert!(!only_objects(root.path()), "{name}");
            fs::remove_file(at(name)).unwrap();
        }
    }
}
