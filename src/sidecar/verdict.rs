//! The host's verdict on a commit (`validate_commit`).

use crate::http::small;
use crate::limits;
use crate::text::units;
use serde::Deserialize;
use serde_json::json;

/// What the host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Rejected(String),
}

/// Asks the host. A host that cannot be asked rejects nothing (PROTOCOL §12.3); a question it would not take for its size
/// is rejected here, or a large enough change would pass unseen.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    /// Host and port without a password, and the path of the question.
    address: Option<(String, String)>,
}

impl Judge {
    pub(super) fn new(url: &str) -> Self {
        let url = url::Url::parse(url).ok().filter(|url| url.scheme() == "http");
        let address = url.and_then(|url| {
            let authority = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
            Some((authority, format!("{}/ipc", url.path().trim_end_matches('/'))))
        });
        if address.is_none() {
            tracing::warn!(component = "git-sidecar", "sidecar_host_url_is_not_http");
        }
        Self { address }
    }

    pub(super) async fn ask(&self, diff: &str, files: &[(String, String)]) -> Verdict {
        if let Some(reason) = too_large(diff, files) {
            return Verdict::Rejected(reason);
        }
        let Some((authority, path)) = &self.address else { return Verdict::Accepted };
        // The host refuses NUL; git shows it in files that look like text.
        let clean = |text: &str| text.replace('\0', "\u{2400}");
        let files: Vec<_> =
            files.iter().map(|(path, content)| json!({"path": path, "content": clean(content)})).collect();
        let body = json!({"action": "validate_commit", "diff": clean(diff), "files": files}).to_string().into_bytes();
        let max = limits::SIDECAR_REPLY_MAX_BYTES;
        match small::post(authority, path, body, max, limits::VALIDATE_DEADLINE).await {
            Ok((200, body)) => read(&body),
            Ok((status, _)) => {
                tracing::warn!(component = "git-sidecar", status = u64::from(status), "sidecar_validation_unavailable");
                Verdict::Accepted
            }
            Err(error) => {
                tracing::warn!(component = "git-sidecar", error = %error, "sidecar_validation_unavailable");
                Verdict::Accepted
            }
        }
    }
}

fn too_large(diff: &str, files: &[(String, String)]) -> Option<String> {
    if units(diff) > limits::VALIDATE_DIFF_MAX_UNITS {
        return Some(format!("the change under .ax/ is longer than {} characters", limits::VALIDATE_DIFF_MAX_UNITS));
    }
    if files.len() > limits::VALIDATE_FILES_MAX {
        return Some(format!("more than {} skills were changed in one turn", limits::VALIDATE_FILES_MAX));
    }
    let long = |(path, content): &&(String, String)| {
        units(path) > limits::VALIDATE_PATH_MAX_UNITS || units(content) > limits::VALIDATE_CONTENT_MAX_UNITS
    };
    files.iter().find(long).map(|(path, _)| {
        let path = crate::text::cut_units(path, limits::VALIDATE_PATH_MAX_UNITS);
        format!("{path} is longer than {} characters", limits::VALIDATE_CONTENT_MAX_UNITS)
    })
}

/// Only an answer of the shape of a rejection is one.
fn read(body: &[u8]) -> Verdict {
    #[derive(Deserialize)]
    struct Answer {
        ok: Option<bool>,
        reason: Option<String>,
    }
    match crate::wire::object::<Answer>(body) {
        Ok(Answer { ok: Some(false), reason: Some(reason) }) => Verdict::Rejected(reason),
        Ok(Answer { ok: Some(true), .. }) => Verdict::Accepted,
        _ => {
            tracing::warn!(component = "git-sidecar", "sidecar_validation_unreadable");
            Verdict::Accepted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rejection_rejects() {
        for (body, wanted) in [
            (r#"{"ok":true}"#, Verdict::Accepted),
            (r#"{"ok":false,"reason":"no"}"#, Verdict::Rejected("no".to_owned())),
            (r#"{"ok":false,"error":"Validation failed"}"#, Verdict::Accepted),
            ("<html>", Verdict::Accepted),
            (r#"{"ok":false,"ok":true,"reason":"no"}"#, Verdict::Accepted),
        ] {
            assert_eq!(read(body.as_bytes()), wanted, "{body}");
        }
    }

    #[test]
    fn the_hosts_address_without_what_else_its_url_holds() {
        for (url, wanted) in [
            ("http://h:8080", Some(("h:8080", "/ipc"))),
            ("http://h", Some(("h:80", "/ipc"))),
            ("http://u:secret@h:8080/base/", Some(("h:8080", "/base/ipc"))),
            ("HTTP://[::1]:81/", Some(("[::1]:81", "/ipc"))),
            ("https://h", None),
            ("h:8080", None),
        ] {
            let address = Judge::new(url).address;
            assert_eq!(address.as_ref().map(|(authority, path)| (authority.as_str(), path.as_str())), wanted, "{url}");
        }
    }

    #[tokio::test]
    async fn what_the_host_could_not_read_is_rejected_unasked() {
        let judge = Judge::new("http://127.0.0.1:1");
        let file = |len: usize| vec![(".ax/skills/a/SKILL.md".to_owned(), "x".repeat(len))];
        assert!(matches!(judge.ask(&"x".repeat(262_145), &[]).await, Verdict::Rejected(_)));
        assert!(matches!(judge.ask("x", &file(131_073)).await, Verdict::Rejected(_)));
        assert!(matches!(judge.ask("x", &vec![file(1).remove(0); 51]).await, Verdict::Rejected(_)));
        assert_eq!(judge.ask("x", &file(131_072)).await, Verdict::Accepted, "nobody listens there");
    }
}
