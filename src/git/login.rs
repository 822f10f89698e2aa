//! A user name and a password in a remote's URL.
//!
//! Git hands the whole URL to its helpers as an argument, and everybody may read arguments. So the URL goes without them,
//! and git asks a credential helper of ours, which finds them in its environment.

use crate::secret::Secret;

/// Prints what it finds in its environment. Git appends the operation.
pub(super) const HELPER: &str =
    r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$AX_GIT_USER" "$AX_GIT_PASSWORD"; }; f"#;

/// What stands before the `@` of an HTTP URL.
pub(super) struct Login {
    /// Where git may use it: scheme, host and port.
    pub(super) place: String,
    pub(super) user: Secret,
    pub(super) password: Secret,
}

impl Login {
    /// Takes it out of a URL. Other schemes know none, and their URLs stay as they are.
    pub(super) fn take(url: &str) -> (String, Option<Self>) {
        let whole = || (url.to_owned(), None);
        let Some((scheme, rest)) = url.split_once("://") else { return whole() };
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return whole();
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let Some((info, host)) = authority.rsplit_once('@') else { return whole() };
        let (user, password) = info.split_once(':').unwrap_or((info, ""));
        let place = format!("{scheme}://{host}");
        (format!("{place}{path}"), Some(Self { place, user: decoded(user), password: decoded(password) }))
    }
}

/// Undoes percent-encoding; what is none stays.
fn decoded(text: &str) -> Secret {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    Secret::new(String::from_utf8(plain).unwrap_or_else(|_| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_goes_without() {
        for (url, bare, place, user, password) in [
            ("http://u:p@h/r.git", "http://h/r.git", "http://h", "u", "p"),
            ("https://u:p%40%3a%25@h:1/a@b", "https://h:1/a@b", "https://h:1", "u", "p@:%"),
            ("https://u:p@q@h", "https://h", "https://h", "u", "p@q"),
            ("HTTP://token@[::1]:8/r", "HTTP://[::1]:8/r", "HTTP://[::1]:8", "token", ""),
            ("http://u:100%@h/r", "http://h/r", "http://h", "u", "100%"),
        ] {
            let (without, login) = Login::take(url);
            let login = login.unwrap();
            assert_eq!((without.as_str(), login.place.as_str()), (bare, place));
            assert_eq!((login.user.expose(), login.password.expose()), (user, password));
        }
        for url in ["http://h/a@b", "file:///a@b", "git://u@h/r", "/a@b", "u@h:r"] {
            let (same, login) = Login::take(url);
            assert!(same == url && login.is_none(), "{url}");
        }
    }
}
