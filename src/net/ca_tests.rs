use super::*;

/// A self-signed authority, made for this test; its key was thrown away.
const AUTHORITY: &str = include_str!("../../fixtures/ca/authority.pem");

fn count(text: &str) -> usize {
    text.matches("-----BEGIN CERTIFICATE-----").count()
}

#[test]
fn the_bundle_has_the_systems_roots_and_the_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = CaFiles::new(vec![directory.path().to_owned()]);
    let paths = files.write(&AUTHORITY.replace('\n', "\r\n")).unwrap();
    let own = fs::read_to_string(&paths.own).unwrap();
    let bundle = fs::read_to_string(&paths.bundle).unwrap();
    assert_eq!(count(&own), 1);
    assert!(count(&bundle) > 20, "the system's or the built-in roots are in it");
    assert!(bundle.ends_with(&own) && !own.contains('\r'));
    assert!(!paths.partly_bad);
    drop(files);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn what_does_not_parse_is_left_out_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = CaFiles::new(vec![directory.path().to_owned()]);
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let paths = files.write(&format!("hello\n{key}{AUTHORITY}{junk}")).unwrap();
    assert!(paths.partly_bad);
    let own = fs::read_to_string(&paths.own).unwrap();
    assert_eq!((count(&own), own.contains("PRIVATE")), (1, false));
    for bad in [
        "",
        "x",
        junk,
        "-----BEGIN CERTIFICATE-----\n",
        key,
        "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
    ] {
        assert!(matches!(files.write(bad), Err(CaError::NoCertificate)), "{bad}");
    }
}

#[test]
fn a_read_only_place_is_passed_over_and_a_planted_link_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let precious = directory.path().join("precious");
    fs::write(&precious, "keep").unwrap();
    let mut files = CaFiles::new(vec!["/proc".into(), "/nonexistent".into(), directory.path().to_owned()]);
    let first = files.write(AUTHORITY).unwrap();
    for path in [&first.own, &first.bundle] {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(&precious, path).unwrap();
        let mut planted = path.as_os_str().to_owned();
        planted.push(".new");
        std::os::unix::fs::symlink(&precious, planted).unwrap();
    }
    let second = files.write(AUTHORITY).unwrap();
    assert_eq!(first, second, "the names stay the same for the session");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "keep");
    assert_eq!(count(&fs::read_to_string(&second.own).unwrap()), 1);
    fs::remove_dir_all(second.own.parent().unwrap()).unwrap();
    files.write(AUTHORITY).unwrap();
    assert!(matches!(CaFiles::new(vec!["/proc".into()]).write(AUTHORITY), Err(CaError::NoDirectory(_))));
}
