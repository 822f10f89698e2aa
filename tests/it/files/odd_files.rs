//! Pipes, sockets, devices, /proc, and files an ordinary user may not touch.

use super::child;
use super::*;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::os::unix::fs::FileTypeExt;
use std::sync::mpsc;
use std::time::Duration;

/// Fails, rather than waits for ever, when `work` hangs.
fn within_a_minute(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => worker.join().unwrap(),
    }
}

fn refused_by_type(place: &Place, path: &str, kind: &str) {
    place.read(json!({ "path": path })).fails_with(kind);
    place.write(path, "x").fails_with(kind);
    place.edit(json!({"path": path, "old_string": "a", "new_string": "b"})).fails_with(kind);
}

#[test]
fn what_is_not_a_file_is_named_and_left_alone() {
    within_a_minute(|| {
        let place = Place::new();
        nix::unistd::mkfifo(&place.at("fifo"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
        std::fs::create_dir(place.at("dir")).unwrap();
        place.link("to_fifo", "fifo");
        refused_by_type(&place, "fifo", "named pipe");
        refused_by_type(&place, "to_fifo", "named pipe");
        refused_by_type(&place, "socket", "a socket");
        refused_by_type(&place, "dir", "a directory");
        assert!(place.at("fifo").symlink_metadata().unwrap().file_type().is_fifo());
        assert!(place.at("socket").symlink_metadata().unwrap().file_type().is_socket());
        place.assert_no_temp_left(".");
        match mknod(&place.at("zero"), SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)) {
            Ok(()) => refused_by_type(&place, "zero", "a device"),
            Err(errno) => crate::support::skip("devices in what_is_not_a_file_is_named_and_left_alone", errno),
        }
    });
}

#[test]
fn a_pipe_with_a_waiting_writer_is_not_disturbed() {
    within_a_minute(|| {
        let place = Place::new();
        let fifo = place.at("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let writer = std::thread::spawn(move || std::fs::write(&fifo, "for another reader"));
        refused_by_type(&place, "fifo", "named pipe");
        assert_eq!(std::fs::read(place.at("fifo")).unwrap(), b"for another reader");
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn a_file_that_turns_into_a_pipe_does_not_hang() {
    within_a_minute(|| {
        let place = Place::new();
        place.put("f", "text");
        nix::unistd::mkfifo(&place.at("g"), Mode::S_IRWXU).unwrap();
        let (f, g) = (place.at("f"), place.at("g"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = renameat2(AT_FDCWD, &f, AT_FDCWD, &g, RenameFlags::RENAME_EXCHANGE);
                }
            });
            for _ in 0..3_000 {
                place.read(json!({"path": "f"}));
            }
            // An edit may replace the pipe in the moment before its rename, so it comes last.
            for _ in 0..300 {
                place.edit(json!({"path": "f", "old_string": "t", "new_string": "T", "replace_all": true}));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}

#[test]
fn files_that_claim_to_be_empty_are_read_within_bounds() {
    // A root that holds /proc: links there that are magic to the kernel are plain text to us.
    let proc = Workspace::open(Path::new("/proc/self")).unwrap();
    let (status, _) = proc.read(&proc.path("status").unwrap(), 1 << 20).unwrap();
    assert!(status.starts_with(b"Name:"));
    for path in ["cwd/x", "root/etc/passwd", "exe"] {
        let error = proc.open_file(&proc.path(path).unwrap()).unwrap_err().to_string();
        assert!(error.contains("absolute target"), "{error}");
    }
    // A descriptor's link reads `pipe:[1]` or the like, or a path.
    assert!(proc.open_file(&proc.path("fd/0").unwrap()).is_err());
}

#[test]
fn permissions_decide_for_an_ordinary_user() {
    child::run("files::odd_files::as_an_ordinary_user");
}

#[test]
#[ignore = "runs in its own process"]
fn as_an_ordinary_user() {
    use std::os::unix::fs::PermissionsExt;
    if !child::drop_root("permissions_decide_for_an_ordinary_user") {
        return;
    }
    let place = Place::new();
    let chmod = |path: &str, mode| std::fs::set_permissions(place.at(path), PermissionsExt::from_mode(mode)).unwrap();
    // A rename could replace it; a write could not.
    place.put("locked", "old");
    chmod("locked", 0o444);
    place.write("locked", "new").fails_with("permission denied");
    place.edit(json!({"path": "locked", "old_string": "old", "new_string": "new"})).fails_with("permission denied");
    assert_eq!(place.bytes("locked"), b"old");
    // Here a write could and a rename cannot: the old bytes count more.
    place.put("shut/f", "old");
    chmod("shut", 0o555);
    place.write("shut/f", "new").fails_with("cannot create a file in its directory: permission denied");
    place.write("shut/new/f", "new").fails_with("cannot create its directory: permission denied");
    assert_eq!(place.bytes("shut/f"), b"old");
    place.assert_no_temp_left("shut");
    chmod("shut", 0o755);
    // Listing is not needed to walk through.
    place.put("dark/f", "text");
    chmod("dark", 0o311);
    assert_eq!(place.read(json!({"path": "dark/f"})).result["content"], "text");
    place.write("dark/f", "new").succeeds();
    chmod("dark", 0o000);
    place.read(json!({"path": "dark/f"})).fails_with("permission denied");
    chmod("dark", 0o755);
    place.put("unreadable", "secret");
    chmod("unreadable", 0o200);
    place.read(json!({"path": "unreadable"})).fails_with("permission denied");
}

#[test]
fn a_name_that_is_only_shown_so_is_not_taken_for_one() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = |name: &[u8]| place.root().join(std::ffi::OsStr::from_bytes(name));
    std::fs::write(odd(b"l\xe9.txt"), "theirs").unwrap();
    std::fs::create_dir(odd(b"d\xff")).unwrap();
    std::fs::write(odd(b"d\xff/f"), "theirs").unwrap();
    for path in ["l\u{fffd}.txt", "d\u{fffd}/f", "d\u{fffd}/new/f"] {
        place.read(json!({ "path": path })).fails_with("ls -b");
        place.write(path, "mine").fails_with("ls -b");
        place.edit(json!({"path": path, "old_string": "theirs", "new_string": "mine"})).fails_with("ls -b");
    }
    assert_eq!(std::fs::read_dir(place.root()).unwrap().count(), 2);
    // A file that is called so is a file like any other.
    place.write("r\u{fffd}.txt", "mine").succeeds();
    place.read(json!({"path": "r\u{fffd}.txt"})).succeeds();
}
