use super::*;

const AGENT: Identity = Identity { uid: 1000, gid: 1000 };

fn nothing_held() -> Holdings {
    Holdings {
        uids: [1000; 3],
        gids: [1000; 3],
        groups: vec![],
        sets: [("effective", 0), ("permitted", 0), ("inheritable", 0), ("bounding", 0), ("ambient", 0)],
        no_new_privs: true,
    }
}

#[test]
fn each_single_leftover_is_named() {
    assert_eq!(nothing_held().excess(Some(AGENT)), "");
    type Spoil = fn(&mut Holdings);
    let spoilers: [(&str, Spoil); 9] = [
        ("uids", |h| h.uids[2] = 0),
        ("gids", |h| h.gids[1] = 0),
        ("supplementary groups", |h| h.groups = vec![1000, 27]),
        ("effective", |h| h.sets[0].1 = 1 << 12),
        ("permitted", |h| h.sets[1].1 = 1),
        ("inheritable", |h| h.sets[2].1 = 1),
        ("bounding", |h| h.sets[3].1 = 1 << 41),
        ("ambient", |h| h.sets[4].1 = 1),
        ("no_new_privs", |h| h.no_new_privs = false),
    ];
    for (word, spoil) in spoilers {
        let mut holdings = nothing_held();
        spoil(&mut holdings);
        assert!(holdings.excess(Some(AGENT)).contains(word), "{word}: {holdings:?}");
    }
}

#[test]
fn a_group_that_is_the_own_one_is_no_excess() {
    let mut holdings = nothing_held();
    holdings.groups = vec![1000];
    assert_eq!(holdings.excess(Some(AGENT)), "");
}

#[test]
fn the_kernel_and_the_status_file_agree() {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let holdings = Holdings::read().unwrap();
    for (field, set) in [
        ("CapInh:", "inheritable"),
        ("CapPrm:", "permitted"),
        ("CapEff:", "effective"),
        ("CapBnd:", "bounding"),
        ("CapAmb:", "ambient"),
    ] {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        let mask = u64::from_str_radix(line[field.len()..].trim(), 16).unwrap();
        assert_eq!(holdings.set(set), mask, "{field}");
    }
}

#[test]
fn a_process_with_threads_is_refused() {
    let result = std::thread::spawn(|| drop_all(None, Bounding::Empty)).join().unwrap();
    assert!(matches!(result, Err(DropError::Threads(_))), "{result:?}");
}

#[test]
fn the_socket_filter_compiles_for_both_architectures() {
    for architecture in ["x86_64", "aarch64"] {
        assert!(!socket_filter(architecture).unwrap().is_empty());
    }
    assert!(socket_filter("sparc").is_err());
}
