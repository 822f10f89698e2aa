//! Atomic replacement: permissions, links, full devices, limits, death in the middle.

use super::child;
use super::*;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[test]
fn content_is_taken_verbatim() {
    let place = Place::new();
    for content in ["", "x", "a\r\nb\n", "no end", "\u{feff}bom", "\u{1}\u{1b}", "$& $1"] {
        place.put("f", b"\xef\xbb\xbfold\r\n");
        let outcome = place.write("f", content);
        let wanted = json!({"written": true, "path": "f", "bytes": content.len(), "created": false});
        assert_eq!(outcome.result, wanted);
        assert_eq!(place.bytes("f"), content.as_bytes());
    }
    assert_eq!(place.write("./new/dir/f", "x").result["created"], true);
    assert_eq!(place.write("./new/dir/f", "x").result["path"], "./new/dir/f");
    place.write("new/dir/", "x").fails_with("ends with a slash");
    place.write("new/dir/f/x", "x").fails_with("not a directory");
    place.assert_no_temp_left("new/dir");
}

#[test]
fn a_hard_link_is_split() {
    let place = Place::new();
    std::fs::hard_link(place.out().join("f"), place.at("h")).unwrap();
    place.write("h", "mine").succeeds();
    place.assert_outside_untouched();
    assert_eq!(place.bytes("h"), b"mine");
    std::fs::hard_link(place.out().join("secret"), place.at("e")).unwrap();
    place.edit(json!({"path": "e", "old_string": CANARY, "new_string": "mine"})).succeeds();
    place.assert_outside_untouched();
    assert_eq!(place.bytes("e"), b"mine");
}

#[test]
fn what_changed_since_the_approval_is_not_overwritten() {
    let place = Place::new();
    let prepared = |path: &str| {
        let args = serde_json::from_value(json!({"path": path, "content": "new"})).unwrap();
        approved(write_file::Call::prepare(args, &place.ws).unwrap())
    };
    // Created meanwhile, changed meanwhile, replaced by an equal one meanwhile, gone meanwhile.
    let call = prepared("created");
    place.put("created", "theirs");
    Outcome::of(Ok(write_file::run(call, &place.ws))).fails_with("changed");
    assert_eq!(place.bytes("created"), b"theirs");
    place.put("changed", "old");
    let call = prepared("changed");
    place.put("changed", "older");
    Outcome::of(Ok(write_file::run(call, &place.ws))).fails_with("changed");
    assert_eq!(place.bytes("changed"), b"older");
    place.put("replaced", "old");
    let call = prepared("replaced");
    std::fs::rename(place.at("replaced"), place.at("aside")).unwrap();
    place.put("replaced", "old");
    Outcome::of(Ok(write_file::run(call, &place.ws))).fails_with("changed");
    let call = prepared("changed");
    std::fs::remove_file(place.at("changed")).unwrap();
    Outcome::of(Ok(write_file::run(call, &place.ws))).fails_with("changed");
    assert!(!place.at("changed").exists());
    place.assert_no_temp_left(".");
}

#[test]
fn permissions_stay() {
    child::run("files::writes::permissions_under_each_umask");
}

#[test]
#[ignore = "runs in its own process: the umask is the process's"]
fn permissions_under_each_umask() {
    for mask in [0o022, 0o077, 0o000] {
        umask(Mode::from_bits_truncate(mask));
        let place = Place::new();
        place.write("new", "x").succeeds();
        assert_eq!(mode(&place.at("new")), 0o666 & !mask);
        for old in [0o755, 0o640, 0o600, 0o666, 0o777, 0o400, 0o444, 0o4755, 0o2755, 0o1644] {
            if old & 0o200 == 0 && !nix::unistd::geteuid().is_root() {
                continue;
            }
            place.put("f", "old");
            chmod(&place.at("f"), old);
            place.write("f", "new").succeeds();
            // The kernel takes set-user-id and set-group-id from a changed file, too.
            assert_eq!(mode(&place.at("f")), old & 0o1777, "{old:o}");
            place.edit(json!({"path": "f", "old_string": "new", "new_string": "newer"})).succeeds();
            assert_eq!(mode(&place.at("f")), old & 0o1777);
            std::fs::remove_file(place.at("f")).unwrap();
        }
        std::fs::create_dir(place.at("sgid")).unwrap();
        chmod(&place.at("sgid"), 0o2775);
        place.write("sgid/new", "x").succeeds();
        assert_eq!(mode(&place.at("sgid/new")), 0o666 & !mask);
    }
}

#[test]
fn owner_and_group_stay_where_allowed() {
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip("owner_and_group_stay_where_allowed", "needs root");
    }
    let place = Place::new();
    place.put("f", "old");
    std::os::unix::fs::chown(place.at("f"), Some(1234), Some(4321)).unwrap();
    chmod(&place.at("f"), 0o640);
    place.write("f", "new").succeeds();
    let file = place.at("f").metadata().unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (1234, 4321, 0o640));
}

#[test]
fn a_lost_owner_or_group_is_told() {
    child::run("files::writes::a_lost_owner_or_group_as_nobody");
}

#[test]
#[ignore = "runs in its own process: it gives up root"]
fn a_lost_owner_or_group_as_nobody() {
    const NAME: &str = "a_lost_owner_or_group_is_told";
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip(NAME, "needs root");
    }
    let place = Place::new();
    let files = [("ours", 65534, 65534, 0o664), ("group", 65534, 4321, 0o664), ("both", 1234, 4321, 0o666)];
    std::os::unix::fs::chown(place.root(), Some(65534), Some(65534)).unwrap();
    for (name, owner, group, mode) in files {
        place.put(name, "old");
        std::os::unix::fs::chown(place.at(name), Some(owner), Some(group)).unwrap();
        chmod(&place.at(name), mode);
    }
    // Nobody may go through the directory above, which only root may.
    chmod(place.root().parent().unwrap(), 0o755);
    if !child::drop_root(NAME) {
        return;
    }
    let edit =
        |name| place.edit(json!({"path": name, "old_string": "old", "new_string": "new"})).result["note"].clone();
    assert_eq!(edit("ours"), json!(null));
    assert_eq!(edit("group"), "The file's group could not be kept: it is yours now; its mode is 0644 and was 0664.",);
    assert_eq!(mode(&place.at("group")), 0o644);
    assert_eq!(
        place.write("both", "x").result["note"],
        "The file's owner and group could not be kept: they are yours now."
    );
}

#[test]
fn nobody_sees_the_new_content_with_wider_permissions() {
    let place = Place::new();
    place.put("f", "old");
    chmod(&place.at("f"), 0o600);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut widest = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for entry in std::fs::read_dir(place.root()).unwrap().flatten() {
                    widest |= entry.metadata().map_or(0, |file| file.mode() & 0o7777);
                }
            }
            widest
        });
        for _ in 0..300 {
            place.write("f", "new").succeeds();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(watcher.join().unwrap() & !0o600, 0);
    });
}

#[test]
fn a_full_device_keeps_the_old_file() {
    child::run("files::writes::on_a_small_device");
}

#[test]
#[ignore = "runs in its own process: it mounts"]
fn on_a_small_device() {
    const NAME: &str = "a_full_device_keeps_the_old_file";
    let mounted = |place: &Place| -> nix::Result<()> {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        mount(Some("tmpfs"), place.root(), Some("tmpfs"), MsFlags::empty(), Some("size=1m"))
    };
    let mut place = Place::new();
    if let Err(errno) = mounted(&place) {
        return crate::support::skip(NAME, format!("cannot mount a tmpfs: {errno}"));
    }
    place.ws = Workspace::open(place.root()).unwrap();
    let old = "o".repeat(600_000);
    place.put("f", &old);
    // Larger than any room, and larger than the room beside the old file.
    for size in [2_000_000, 450_000] {
        let path = place.ws.path("f").unwrap();
        let print = place.ws.fingerprint(&path).unwrap();
        let error = place.ws.write_atomic(&path, &vec![b'n'; size], &print).unwrap_err().to_string();
        assert!(error.contains("no space left on device"), "{error}");
        assert_eq!(place.bytes("f"), old.as_bytes());
        place.assert_no_temp_left(".");
    }
    place.write("f", "fits").succeeds();
    mount(None::<&str>, place.root(), None::<&str>, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, None::<&str>).unwrap();
    place.write("f", "x").fails_with("read-only file system");
    place.write("new", "x").fails_with("read-only file system");
    place.write("d/new", "x").fails_with("read-only file system");
    assert_eq!(place.bytes("f"), b"fits");
    umount2(place.root(), MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn a_size_limit_is_an_error_and_not_a_death() {
    child::run("files::writes::under_a_size_limit");
}

#[test]
#[ignore = "runs in its own process: the limit is the process's"]
fn under_a_size_limit() {
    let place = Place::new();
    place.put("f", "old");
    setrlimit(Resource::RLIMIT_FSIZE, 10_000, 10_000).unwrap();
    place.write("f", &"n".repeat(10_001)).fails_with("file too large");
    place.write("new", &"n".repeat(20_000)).fails_with("file too large");
    assert_eq!(place.bytes("f"), b"old");
    assert!(!place.at("new").exists());
    place.assert_no_temp_left(".");
    place.write("f", &"n".repeat(10_000)).succeeds();
}

const BIG: usize = 8 << 20;

#[test]
fn killed_at_any_moment_leaves_the_old_file_or_the_new() {
    let place = Place::new();
    place.put("f", "a".repeat(BIG));
    for round in 0..12_u32 {
        let root = place.root().to_str().unwrap();
        let mut writer = child::start("files::writes::writes_until_killed", &[("TEST_WORKSPACE", root)]);
        let started = Instant::now();
        while !place.at("started").exists() && started.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(u64::from(round * 7 % 31)));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let _ = std::fs::remove_file(place.at("started"));
        let content = place.bytes("f");
        assert_eq!(content.len(), BIG);
        assert!(content.iter().all(|&byte| byte == content[0]), "a mix of old and new");
    }
}

#[test]
#[ignore = "runs in its own process: it is killed"]
fn writes_until_killed() {
    let Some(root) = std::env::var_os("TEST_WORKSPACE") else { return };
    let ws = Workspace::open(Path::new(&root)).unwrap();
    let path = ws.path("f").unwrap();
    let started = Instant::now();
    std::fs::write(ws.root().join("started"), "").unwrap();
    for letter in (b'a'..=b'z').cycle() {
        let print = ws.fingerprint(&path).unwrap();
        ws.write_atomic(&path, &vec![letter; BIG], &print).unwrap();
        assert!(started.elapsed() < Duration::from_secs(120), "nobody killed it");
    }
}
