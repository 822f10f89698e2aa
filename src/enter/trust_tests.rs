use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tempfile::TempDir;

/// An agent that is not whoever runs the tests, so that both can be on either side.
fn stranger() -> Agent {
    Agent { uid: nix::unistd::getuid().as_raw() + 77_777, gids: vec![], workspace: None }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.toml");
    fs::write(&file, "mode = \"none\"\n").unwrap();
    chmod(dir.path(), 0o755);
    chmod(&file, 0o644);
    (dir, file)
}

#[test]
fn what_the_agent_cannot_write_passes() {
    let (dir, file) = place();
    assert_eq!(check("policy file", &file, &stranger()), Ok(()));
    // Others may write beside it, but not replace it.
    chmod(dir.path(), 0o1777);
    assert_eq!(check("policy file", &file, &stranger()), Ok(()));
    // A group the agent is not in: with a umask of 002 images are full of such files.
    chmod(dir.path(), 0o775);
    chmod(&file, 0o664);
    assert_eq!(check("policy file", &file, &stranger()), Ok(()));
}

#[test]
fn what_cannot_be_looked_at_is_not_trusted() {
    let (dir, _file) = place();
    symlink("loop", dir.path().join("loop")).unwrap();
    for name in ["missing", "loop"] {
        assert!(
            matches!(check("policy file", &dir.path().join(name), &stranger()), Err(TrustError::Lost(..))),
            "{name}"
        );
    }
}

#[test]
fn a_file_that_others_write_is_refused() {
    let (_dir, file) = place();
    let member = Agent { gids: vec![file.metadata().unwrap().gid()], ..stranger() };
    for (mode, agent) in [(0o666, &stranger()), (0o646, &stranger()), (0o664, &member), (0o602, &stranger())] {
        chmod(&file, mode);
        let error = check("policy file", &file, agent).unwrap_err();
        assert!(matches!(error, TrustError::File(..)), "{mode:o}: {error}");
        let text = error.to_string();
        assert!(text.contains(file.to_str().unwrap()) && text.contains(&format!("{mode:04o}")), "{text}");
    }
}

#[test]
fn a_directory_that_the_agent_writes_is_refused() {
    let (dir, file) = place();
    chmod(dir.path(), 0o757);
    assert!(matches!(check("policy file", &file, &stranger()), Err(TrustError::Directory(..))));
    chmod(dir.path(), 0o775);
    let member = Agent { gids: vec![dir.path().metadata().unwrap().gid()], ..stranger() };
    assert!(matches!(check("policy file", &file, &member), Err(TrustError::Directory(..))));
}

#[test]
fn each_link_on_the_way_counts() {
    let (dir, file) = place();
    let (open, safe) = (dir.path().join("open"), dir.path().join("safe"));
    for path in [&open, &safe] {
        fs::create_dir(path).unwrap();
        chmod(path, 0o755);
    }
    symlink(&file, open.join("hop")).unwrap();
    symlink("../open/hop", safe.join("policy.toml")).unwrap();
    assert_eq!(check("policy file", &safe.join("policy.toml"), &stranger()), Ok(()));
    chmod(&open, 0o777);
    assert!(matches!(check("policy file", &safe.join("policy.toml"), &stranger()), Err(TrustError::Directory(..))));
}

#[test]
fn the_workspace_is_the_agents_by_whatever_name() {
    let (dir, file) = place();
    let link = dir.path().parent().unwrap().join(format!("{}-link", dir.path().file_name().unwrap().display()));
    symlink(dir.path(), &link).unwrap();
    for workspace in [dir.path(), &link] {
        let agent = Agent { workspace: Some(workspace.to_owned()), ..stranger() };
        for path in [file.clone(), link.join("policy.toml")] {
            assert!(matches!(check("policy file", &path, &agent), Err(TrustError::Workspace(_))), "{path:?}");
        }
    }
    fs::remove_file(link).unwrap();
}

#[test]
fn the_owner_is_the_agent() {
    let (_dir, file) = place();
    let uid = nix::unistd::getuid().as_raw();
    let result = check("policy file", &file, &Agent { uid, ..stranger() });
    // Root's file is everybody's to trust, also when the agent is kept root.
    assert_eq!(result.is_ok(), uid == 0, "{result:?}");
}
