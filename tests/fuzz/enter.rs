//! What an operator or an engine mounts: policies, variables, name files.

use super::line;
use crate::enter::destination::Destination;
use crate::enter::environment::Environment;
use crate::enter::policy::{Mode, Policy};
use crate::enter::resolve::Addresses;
use crate::enter::{env_file as variables, hosts as names};
use crate::http::dns::in_hosts_file;
use crate::limits;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A file of our own with these bytes, the same for all calls of a thread.
fn file(bytes: &[u8]) -> PathBuf {
    thread_local! {
        static PLACE: tempfile::TempDir = tempfile::tempdir().expect("a directory");
    }
    let path = PLACE.with(|place| place.path().join("file"));
    fs::write(&path, bytes).expect("a file");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("its mode");
    path
}

/// A policy is complete and consistent, or refused.
pub(super) fn policy(bytes: &[u8]) {
    let path = file(bytes);
    let host = [("AX_HOST_URL", "http://host.test:8080")].into_iter().collect::<Environment>();
    for environment in [Environment::default(), host] {
        match Policy::find(Some(&path), &environment) {
            Ok(policy) => {
                assert!(policy.allow.len() <= limits::POLICY_DESTINATIONS_MAX);
                let listed = matches!(policy.mode, Mode::Allow | Mode::Gate);
                assert_eq!(policy.allow.is_empty(), !listed, "{policy:?}");
                assert!(policy.mode != Mode::Gate || policy.allow.iter().all(|to| to.port != 53));
                assert!(policy.enforced_by.is_none() || policy.mode == Mode::External);
                assert!(policy.env_files.iter().chain(&policy.home_seed).all(|path| path.is_absolute()));
            }
            Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
        }
    }
    let text = String::from_utf8_lossy(bytes);
    for text in text.lines().take(8) {
        if let Ok(to) = Destination::parse(text) {
            assert_eq!(Destination::parse(&to.to_string()).map(|again| again.to_string()), Ok(to.to_string()));
            assert!(to.port != 0);
        }
        let _ = Destination::from_url(text, "AX_HOST_URL");
    }
}

/// A file of variables sets what it names, or nothing is started; the policy is not among it.
pub(super) fn env_file(bytes: &[u8]) {
    let mut environment = Environment::default();
    match variables::load(&file(bytes), &mut environment) {
        Ok(()) => {
            for name in ["AX_NET_POLICY", "AX_NET_ALLOW", "LD_PRELOAD", "LD_LIBRARY_PATH"] {
                assert!(matches!(environment.get(name), Ok(None)), "{name} is set");
            }
        }
        Err(error) => {
            let words = error.to_string();
            assert!(words.lines().count() <= 1 && !words.contains("hunter2"), "{words}");
        }
    }
}

/// First line: a name; the rest is a hosts file and a resolv.conf. What is added is found, once.
pub(super) fn hosts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (name, rest) = line(&text);
    let found = in_hosts_file(rest, name);
    assert!(found.len() <= rest.lines().count());
    // Somebody else's parser; ours to survive.
    let _ = hickory_resolver::system_conf::parse_resolv_conf(rest.as_bytes());
    let mut environment: Environment = [("AX_HOST_URL", name)].into_iter().collect();
    let addresses = Addresses::from([("host.test".to_owned(), BTreeSet::from(["10.1.2.3".parse().unwrap()]))]);
    let _ = names::rewrite_urls(&mut environment, &addresses);
    if let (Ok(before), Ok(Some(after))) = (Destination::from_url(name, "AX_HOST_URL"), environment.get("AX_HOST_URL"))
        && after != name
    {
        let after = Destination::from_url(after, "AX_HOST_URL").unwrap();
        assert_eq!((after.to_string(), before.port), (format!("10.1.2.3:{}", before.port), after.port));
    }
    let path = file(rest.as_bytes());
    names::add(&path, &addresses).unwrap();
    let once = fs::read_to_string(&path).unwrap();
    assert!(once.starts_with(rest));
    assert!(in_hosts_file(&once, "host.test").contains(&"10.1.2.3".parse().unwrap()));
    names::add(&path, &addresses).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), once, "added twice");
}
