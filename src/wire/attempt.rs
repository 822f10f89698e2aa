//! Texts that are no payload but were meant as one: they must not become the user's message, tokens and all.

use super::{Payload, payload};
use crate::secret::Secret;
use serde_json::Value;

/// Names of the payload's fields that hold secrets, as [`plainly`] writes them. In quotes and before a colon nothing else is
/// called so.
const SECRET: [&str; 2] = ["ipctoken", "credentialenv"];
/// Names of its other fields that only a host uses, policy among them (CASES I16).
const HOSTS: [&str; 6] = ["webproxyurl", "cacert", "taintratio", "taintthreshold", "sandboxtype", "tooldispatch"];

/// Names of the rest of them.
const OTHERS: [&str; 13] = [
    "message",
    "history",
    "profile",
    "userid",
    "replyoptional",
    "sessionid",
    "requestid",
    "sessionscope",
    "agentid",
    "identity",
    "singleturn",
    "skills",
    "catalog",
];

/// The text from its first character that is neither blank nor a byte order mark.
pub(crate) fn document(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// Was it meant as a payload? A secret's name in quotes, or first in its line, and a colon, anywhere in it; or what begins
/// like an object and has one of the host's names in it, however written. A text in words may well speak of either.
pub(super) fn is_meant(text: &str) -> bool {
    let plain = plainly(text);
    let key =
        |name: &&str, apart: bool| plain.match_indices(*name).any(|(at, _)| is_key(&plain, at, name.len(), apart));
    SECRET.iter().any(|name| key(name, true))
        || begins_like_an_object(text) && SECRET.iter().chain(&HOSTS).any(|name| key(name, false))
}

/// Is it what is left of a payload that lost its head, and maybe the half of a token with it? No JSON then; one word at most
/// before the first quote, and one of a payload's fields after another.
pub(super) fn is_rest(text: &str) -> bool {
    let plain = plainly(text);
    let Some((head, _)) = plain.split_once('"') else { return false };
    let words = head.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    let follows = |at: usize| plain[..at].strip_suffix('"').is_some_and(|before| before.trim_end().ends_with(','));
    let field =
        |name: &&str| plain.match_indices(*name).any(|(at, _)| follows(at) && is_key(&plain, at, name.len(), true));
    words <= 1 && SECRET.iter().chain(&HOSTS).chain(&OTHERS).any(field)
}

/// In small letters, with quotes and colons for their other spellings, and without the joints of a name: `ipc_token` and
/// `IPCToken` are one.
fn plainly(text: &str) -> String {
    const SPELLED: [(&str, &str); 6] =
        [("&quot;", "\""), ("&#34;", "\""), ("\\u0022", "\""), ("\\x22", "\""), ("%22", "\""), ("%3a", ":")];
    let mut text = text.to_ascii_lowercase();
    for (spelling, sign) in SPELLED {
        if text.contains(spelling) {
            text = text.replace(spelling, sign);
        }
    }
    text.retain(|c| !"_-\\".contains(c));
    text
}

/// Does a name stand at this place, set apart if need be, and a colon after it?
fn is_key(text: &str, at: usize, length: usize, apart: bool) -> bool {
    let quote = |c: char| "\"'\u{2018}\u{2019}\u{201c}\u{201d}".contains(c);
    let (before, after) = (&text[..at], &text[at + length..]);
    let alone = !before.ends_with(char::is_alphanumeric);
    let line = before.trim_end_matches([' ', '\t']);
    let first = line.is_empty() || line.ends_with('\n');
    let quoted = before.ends_with(quote) && after.starts_with(quote);
    alone
        && (first || quoted || !apart)
        && after.trim_start_matches(|c: char| quote(c) || c.is_whitespace()).starts_with(':')
}

/// Is the first thing in it a brace? Comments, brackets, quotes, control characters and the like may stand before it.
fn begins_like_an_object(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && !"{/#<".contains(c));
        let end = match rest.get(..2) {
            Some("//") => "\n",
            Some("/*") => "*/",
            Some("<!") => "-->",
            _ if rest.starts_with('#') => "\n",
            _ => return rest.starts_with('{'),
        };
        rest = rest.split_once(end).map_or("", |(_, rest)| rest);
    }
}

impl Payload {
    /// What looks most like the turn's token in an unusable work item: no other opens the way for saying that the item was
    /// unusable (PROTOCOL T21).
    pub fn guess_token(item: &[u8]) -> Option<Secret> {
        let text = String::from_utf8_lossy(item);
        let token = match payload::json(&text) {
            // A payload in quotes.
            Ok(Value::String(inner)) => return Self::guess_token(inner.as_bytes()),
            Ok(value) => inside(&value).map(str::to_owned),
            Err(_) => after_key(&text, '"').or_else(|| after_key(&text, '\'')).map(str::to_owned),
        };
        token.map(Secret::new).filter(Secret::is_token)
    }
}

fn inside(value: &Value) -> Option<&str> {
    match value {
        Value::Object(fields) => match fields.get("ipcToken") {
            Some(token) => token.as_str(),
            None => fields.values().find_map(inside),
        },
        Value::Array(items) => items.iter().find_map(inside),
        _ => None,
    }
}

/// Whole, or it opens nothing.
fn after_key(text: &str, quote: char) -> Option<&str> {
    let key = format!("{quote}ipcToken{quote}");
    let rest = text.split_once(&key)?.1.trim_start().strip_prefix(':')?.trim_start().strip_prefix(quote)?;
    let (token, _) = rest.split_once(quote)?;
    (!token.contains('\\')).then_some(token)
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
