use super::*;

#[test]
fn the_parts_of_a_url_that_are_hidden() {
    let hidden = |url| user_info(url).iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>();
    assert_eq!(hidden("https://u:hunter2@h/r.git"), ["u:hunter2", "hunter2"]);
    assert_eq!(hidden("https://token@h/r.git"), ["token"]);
    assert!(hidden("https://h/a@b").is_empty() && hidden("/srv/r.git").is_empty());
}

#[test]
fn words_are_cut_and_hold_no_password() {
    let git = Git::new("/usr/bin/git".into(), Path::new("/g"), Path::new("/w"), Some("http://u:hunter2@h/r"), &[]);
    let words = git.presentable(b"fatal: unable to access 'http://u:hunter2@h/r/'\n\n  hunter2 \xff\n");
    assert_eq!(words, "fatal: unable to access 'http://[redacted]@h/r/'; [redacted] \u{fffd}");
    assert!(git.presentable(&vec![b'x'; 100_000]).len() <= limits::GIT_ERROR_UNITS);
}
