//! The frontmatter's rules (PROTOCOL §9.3), strict at every level. What passes is returned in normal form.

use crate::text::{self, javascript};
use crate::tools::arguments::preview;
use serde_json::{Map, Value, json};

/// A rule for one value: `Ok` holds its normal form.
enum Rule {
    /// A string of so many units.
    Text(usize, usize),
    EnvName,
    Url,
    HttpsUrl,
    Choice(&'static [&'static str]),
    Domain,
    List(&'static Rule),
    Record(&'static [Key]),
}

/// One key of an object.
struct Key {
    name: &'static str,
    rule: Rule,
    absent: Absent,
}

/// What an absent key means.
enum Absent {
    Required,
    Nothing,
    EmptyList,
    Word(&'static str),
}

const fn key(name: &'static str, rule: Rule, absent: Absent) -> Key {
    Key { name, rule, absent }
}

const SOME_TEXT: Rule = Rule::Text(1, usize::MAX);
const SOME_TEXTS: Rule = Rule::List(&SOME_TEXT);

const SOURCE: &[Key] = &[key("url", Rule::Url, Absent::Required), key("version", Rule::Text(1, 200), Absent::Nothing)];

const OAUTH: &[Key] = &[
    key("provider", Rule::Text(1, 100), Absent::Required),
    key("clientId", Rule::Text(1, 500), Absent::Required),
    key("authorizationUrl", Rule::HttpsUrl, Absent::Required),
    key("tokenUrl", Rule::HttpsUrl, Absent::Required),
    key("scopes", SOME_TEXTS, Absent::EmptyList),
];

const CREDENTIAL: &[Key] = &[
    key("envName", Rule::EnvName, Absent::Required),
    key("authType", Rule::Choice(&["api_key", "oauth"]), Absent::Word("api_key")),
    key("scope", Rule::Choice(&["user", "agent"]), Absent::Word("user")),
    key("oauth", Rule::Record(OAUTH), Absent::Nothing),
];

const MCP_SERVER: &[Key] = &[
    key("name", Rule::Text(1, 100), Absent::Required),
    key("url", Rule::HttpsUrl, Absent::Required),
    key("credential", Rule::EnvName, Absent::Nothing),
    key("transport", Rule::Choice(&["http", "sse"]), Absent::Nothing),
    key("include", SOME_TEXTS, Absent::Nothing),
    key("exclude", SOME_TEXTS, Absent::Nothing),
];

const OPENAPI_AUTH: &[Key] = &[
    key("scheme", Rule::Choice(&["bearer", "basic", "api_key_header", "api_key_query"]), Absent::Required),
    key("credential", Rule::EnvName, Absent::Required),
];

const OPENAPI: &[Key] = &[
    key("spec", SOME_TEXT, Absent::Required),
    key("baseUrl", Rule::HttpsUrl, Absent::Required),
    key("auth", Rule::Record(OPENAPI_AUTH), Absent::Nothing),
    key("include", SOME_TEXTS, Absent::Nothing),
    key("exclude", SOME_TEXTS, Absent::Nothing),
];

const FRONTMATTER: &[Key] = &[
    key("name", Rule::Text(1, 100), Absent::Required),
    key("description", Rule::Text(1, 2000), Absent::Required),
    key("source", Rule::Record(SOURCE), Absent::Nothing),
    key("credentials", Rule::List(&Rule::Record(CREDENTIAL)), Absent::EmptyList),
    key("mcpServers", Rule::List(&Rule::Record(MCP_SERVER)), Absent::EmptyList),
    key("openapi", Rule::List(&Rule::Record(OPENAPI)), Absent::EmptyList),
    key("domains", Rule::List(&Rule::Domain), Absent::EmptyList),
];

/// Checks a whole frontmatter.
pub(super) fn check(value: Value) -> Result<Map<String, Value>, Vec<String>> {
    Check { by_form: false, faults: Vec::new() }.whole(value)
}

/// The same for a frontmatter that the host may have accepted: of a URL and a host name only the form is looked at that
/// every reader asks for, since the host's judgement of them is not known to the letter here.
pub(super) fn check_form(value: Value) -> Result<Map<String, Value>, Vec<String>> {
    Check { by_form: true, faults: Vec::new() }.whole(value)
}

/// What depends on a second key.
fn cross_check(frontmatter: &mut Map<String, Value>, faults: &mut Vec<String>) {
    for (at, credential) in items(frontmatter, "credentials").iter().enumerate() {
        if credential["authType"] == "oauth" && credential.get("oauth").is_none() {
            faults.push(format!("credentials.{at}.oauth: is required when authType is \"oauth\""));
        }
    }
    for server in items(frontmatter, "mcpServers") {
        if server.get("transport").is_none() {
            server["transport"] = json!(transport(server["url"].as_str().unwrap_or_default()));
        }
    }
}

fn items<'a>(frontmatter: &'a mut Map<String, Value>, key: &str) -> &'a mut [Value] {
    frontmatter.get_mut(key).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// `sse` if a path segment says so.
fn transport(url: &str) -> &'static str {
    let sse =
        javascript::url(url).is_some_and(|url| url.path_segments().is_some_and(|mut parts| parts.any(|p| p == "sse")));
    if sse { "sse" } else { "http" }
}

/// One look at a frontmatter.
struct Check {
    by_form: bool,
    faults: Vec<String>,
}

impl Check {
    fn whole(mut self, value: Value) -> Result<Map<String, Value>, Vec<String>> {
        let checked = self.record("", FRONTMATTER, value);
        match checked {
            Some(Value::Object(mut frontmatter)) if self.faults.is_empty() => {
                cross_check(&mut frontmatter, &mut self.faults);
                if self.faults.is_empty() { Ok(frontmatter) } else { Err(self.faults) }
            }
            _ => Err(self.faults),
        }
    }

    fn fault(&mut self, path: &str, message: &str, received: &Value) -> Option<Value> {
        let path = if path.is_empty() { "frontmatter" } else { path };
        self.faults.push(format!("{path}: {message} (received: {})", preview(received)));
        None
    }

    fn record(&mut self, path: &str, keys: &[Key], value: Value) -> Option<Value> {
        let Value::Object(mut given) = value else {
            return self.fault(path, "must be an object", &value);
        };
        let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let mut checked = Map::new();
        for key in keys {
            let value = match (given.remove(key.name), &key.absent) {
                (Some(value), _) => self.value(&key.rule, &inside(key.name), value),
                (None, Absent::Required) => {
                    self.faults.push(format!("{}: is required", inside(key.name)));
                    None
                }
                (None, Absent::Nothing) => None,
                (None, Absent::EmptyList) => Some(json!([])),
                (None, Absent::Word(word)) => Some(json!(word)),
            };
            checked.extend(value.map(|value| (key.name.to_owned(), value)));
        }
        for (name, value) in given {
            let allowed = keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
            self.fault(&inside(&name), &format!("unknown key; allowed here: {allowed}"), &value);
        }
        Some(Value::Object(checked))
    }

    fn value(&mut self, rule: &Rule, path: &str, value: Value) -> Option<Value> {
        match (rule, value) {
            (Rule::Record(keys), value) => self.record(path, keys, value),
            (Rule::List(rule), Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                Some(items.filter_map(|(at, item)| self.value(rule, &format!("{path}.{at}"), item)).collect())
            }
            (Rule::Domain, Value::String(given)) => {
                let name = javascript::trim(&given).to_lowercase();
                if self.by_form || domain(&name) {
                    return Some(Value::String(name));
                }
                self.fault(path, &rule.wanted(), &Value::String(given))
            }
            (simple, Value::String(given)) if simple.fits(&given, self.by_form) => Some(Value::String(given)),
            (_, value) => self.fault(path, &rule.wanted(), &value),
        }
    }
}

impl Rule {
    fn fits(&self, text: &str, by_form: bool) -> bool {
        match self {
            Self::Text(min, max) => (*min..=*max).contains(&text::units(text)),
            Self::EnvName => env_name(text),
            Self::Url | Self::HttpsUrl if by_form => {
                scheme(text).is_some_and(|scheme| matches!(self, Self::Url) || scheme.eq_ignore_ascii_case("https"))
            }
            Self::Url => javascript::url(text).is_some(),
            Self::HttpsUrl => javascript::url(text).is_some_and(|url| url.scheme() == "https"),
            Self::Choice(words) => words.contains(&text),
            Self::Domain | Self::List(_) | Self::Record(_) => false,
        }
    }

    fn wanted(&self) -> String {
        match self {
            Self::Text(_, usize::MAX) => {
                "must be a non-empty string; quote it if it looks like a number or a date".to_owned()
            }
            Self::Text(min, max) => {
                format!("must be a string of {min} to {max} characters; quote it if it looks like a number")
            }
            Self::EnvName => "must be an UPPER_SNAKE_CASE name of 2 to 64 characters, as a bare string".to_owned(),
            Self::Url => "must be a URL with its scheme".to_owned(),
            Self::HttpsUrl => "must be an https URL".to_owned(),
            Self::Choice(words) => format!("must be one of {}", words.join(", ")),
            Self::Domain => {
                "must be a host name of at least two labels, or `*.` and one: no scheme, port or path".to_owned()
            }
            Self::List(_) => "must be a list".to_owned(),
            Self::Record(_) => String::new(),
        }
    }
}

/// What stands before the first colon, as far as a URL's reader ignores the rest.
fn scheme(text: &str) -> Option<String> {
    let text: String = text.trim_matches(|c| c <= ' ').chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let (scheme, _) = text.split_once(':')?;
    let letters = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (letters && scheme.starts_with(|c: char| c.is_ascii_alphabetic())).then(|| scheme.to_owned())
}

/// `^[A-Z][A-Z0-9_]{1,63}$`
fn env_name(text: &str) -> bool {
    (2..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn domain(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let labels: Vec<&str> = name.split('.').collect();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253
        && labels.len() >= 2
        && labels.iter().all(|part| label(part))
        && labels.last().is_some_and(|tld| tld.len() >= 2 && tld.starts_with(|c: char| c.is_ascii_lowercase()))
}
