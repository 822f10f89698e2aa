use super::*;
use std::fs;

struct Place {
    _dir: tempfile::TempDir,
    seed: PathBuf,
    home: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let (seed, home) = (dir.path().join("seed"), dir.path().join("home"));
    fs::create_dir_all(seed.join("deep/er")).unwrap();
    fs::create_dir(&home).unwrap();
    fs::write(seed.join("a"), "1").unwrap();
    fs::write(seed.join("deep/er/b"), "1").unwrap();
    Place { _dir: dir, seed, home }
}

/// Whether there is nothing to test here, said aloud.
fn root_reads_everything(test: &str) -> bool {
    let root = nix::unistd::getuid().is_root();
    if root {
        // Past the harness's capture, so that it is seen and counted.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("\nSKIP {test}: root reads everything\n").as_bytes(),
        );
    }
    root
}

fn run(place: &Place) -> Seeded {
    super::seed(&place.seed, &place.home).unwrap()
}

#[test]
fn untouched_files_follow_edited_ones_stay_deleted_ones_return() {
    let place = place();
    assert_eq!(run(&place).written, 2);
    assert_eq!(run(&place), Seeded::default());
    fs::write(place.home.join("a"), "mine").unwrap();
    fs::write(place.seed.join("a"), "2").unwrap();
    fs::write(place.seed.join("deep/er/b"), "2").unwrap();
    let second = run(&place);
    assert_eq!((second.written, second.kept), (1, vec![PathBuf::from("a")]));
    assert_eq!(fs::read_to_string(place.home.join("a")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(place.home.join("deep/er/b")).unwrap(), "2");
    fs::remove_file(place.home.join("a")).unwrap();
    assert_eq!(run(&place).written, 1);
    assert_eq!(fs::read_to_string(place.home.join("a")).unwrap(), "2");
}

#[test]
fn a_file_that_was_there_before_is_an_edit() {
    let place = place();
    fs::write(place.home.join("a"), "older").unwrap();
    assert_eq!(run(&place).kept, [PathBuf::from("a")]);
}

#[test]
fn planted_links_pipes_and_directories_are_kept_and_not_followed() {
    let place = place();
    let outside = place.home.with_file_name("outside");
    fs::write(&outside, "canary").unwrap();
    std::os::unix::fs::symlink(&outside, place.home.join("a")).unwrap();
    fs::create_dir_all(place.home.join("deep/er")).unwrap();
    nix::unistd::mkfifo(&place.home.join("deep/er/b"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(run(&place).kept.len(), 2);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "canary");
}

#[test]
fn modes_are_the_owners_only_and_a_config_map_is_read() {
    let place = place();
    fs::create_dir(place.seed.join("..2024")).unwrap();
    fs::write(place.seed.join("..2024/c"), "map").unwrap();
    std::os::unix::fs::symlink("..2024", place.seed.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/c", place.seed.join("c")).unwrap();
    fs::set_permissions(place.seed.join("a"), fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(run(&place).written, 3);
    let mode = |name: &str| fs::metadata(place.home.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("a"), mode("c")), (0o700, 0o600));
    assert!(!place.home.join("..data").exists());
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let place = place();
    fs::write(place.home.join("deep"), "a file where a directory is needed").unwrap();
    let report = run(&place);
    assert_eq!((report.written, report.failed.len()), (1, 1));
}

#[test]
fn an_edit_is_kept_whatever_it_made_of_the_file() {
    let place = place();
    run(&place);
    let big = fs::File::create(place.home.join("a")).unwrap();
    big.set_len(limits::SEED_FILE_MAX_BYTES + 1).unwrap();
    fs::set_permissions(place.home.join("deep/er/b"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(place.seed.join("deep/er/b"), "2").unwrap();
    let report = run(&place);
    assert_eq!(report.kept, [PathBuf::from("a"), PathBuf::from("deep/er/b")]);
    assert_eq!(report.failed, []);
}

#[test]
fn a_file_the_agent_closed_to_itself_is_its_edit() {
    if root_reads_everything("a_file_the_agent_closed_to_itself_is_its_edit") {
        return;
    }
    let place = place();
    run(&place);
    fs::set_permissions(place.home.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::write(place.seed.join("a"), "2").unwrap();
    assert_eq!(run(&place).kept, [PathBuf::from("a")]);
}

#[test]
fn a_change_of_the_mode_alone_follows_the_seed() {
    let place = place();
    run(&place);
    fs::set_permissions(place.seed.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&place).written, 1);
    assert_eq!(fs::metadata(place.home.join("a")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(run(&place), Seeded::default());
}

#[test]
fn links_to_directories_are_followed_and_loops_end() {
    let place = place();
    // What a ConfigMap with `items: path: tools/rc` looks like.
    fs::create_dir_all(place.seed.join("..2024/tools")).unwrap();
    fs::write(place.seed.join("..2024/tools/rc"), "nested").unwrap();
    std::os::unix::fs::symlink("..2024", place.seed.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/tools", place.seed.join("tools")).unwrap();
    std::os::unix::fs::symlink(".", place.seed.join("loop")).unwrap();
    std::os::unix::fs::symlink("..", place.seed.join("deep/up")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.seed.join("broken")).unwrap();
    nix::unistd::mkfifo(&place.seed.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let report = run(&place);
    assert_eq!(fs::read_to_string(place.home.join("tools/rc")).unwrap(), "nested");
    let failed: Vec<_> = report.failed.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!((report.written, failed.len()), (3, 4), "{failed:?}");
    for name in ["loop", "deep/up", "broken", "pipe"] {
        assert!(failed.contains(&name), "{name} is not in {failed:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_read_costs_its_own_files_only() {
    if root_reads_everything("a_directory_that_cannot_be_read_costs_its_own_files_only") {
        return;
    }
    let place = place();
    fs::set_permissions(place.seed.join("deep"), fs::Permissions::from_mode(0o000)).unwrap();
    let report = run(&place);
    fs::set_permissions(place.seed.join("deep"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!((report.written, report.failed.len()), (1, 1));
}

#[test]
fn a_seed_without_end_is_refused() {
    let place = place();
    for number in 0..=limits::SEED_FILES_MAX {
        fs::write(place.seed.join(format!("deep/{number}")), "").unwrap();
    }
    assert!(super::seed(&place.seed, &place.home).is_err());
}

#[test]
fn containers_that_share_a_home_do_not_tear_each_others_files() {
    let place = place();
    let texts = ["1".repeat(200_000), "2".repeat(200_000)];
    let seeds = texts.each_ref().map(|text| {
        let seed = tempfile::tempdir().unwrap();
        fs::write(seed.path().join("a"), text).unwrap();
        seed
    });
    std::thread::scope(|scope| {
        for seed in &seeds {
            scope.spawn(|| {
                for _ in 0..30 {
                    let _ = fs::remove_file(place.home.join("a"));
                    let report = super::seed(seed.path(), &place.home).unwrap();
                    // The other one removes files under our feet; whatever stands there is whole.
                    assert_eq!(report.failed, []);
                    if let Ok(found) = fs::read_to_string(place.home.join("a")) {
                        assert!(texts.contains(&found), "torn: {} bytes", found.len());
                    }
                }
            });
        }
    });
    let left = fs::read_dir(&place.home)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".ax-seed-"));
    assert_eq!(left.count(), 0);
}
