//! A turn's part of the children's environment: proxy, certificates, credentials (PROTOCOL §11).
//!
//! Pure: the files are written before, the names the keeper refuses (`PATH`, `LD_*`, …) are refused by the keeper. A turn
//! that brings a credential no more has no trace of it, since each turn's environment is made from nothing.

use super::ca::CaPaths;
use super::proxy::NO_PROXY;
use crate::secret::Secret;
use std::collections::BTreeMap;

/// One value for a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// May be shown.
    Plain(String),
    /// May not.
    Secret(Secret),
}

impl Value {
    /// The text itself, for the child's environment.
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

/// What a turn gives its children.
#[derive(Debug, Clone, Default)]
pub struct TurnNet {
    /// The proxy's URL, when there is one.
    pub proxy: Option<String>,
    /// The certificate files, when there are any.
    pub ca: Option<CaPaths>,
    /// The payload's `credentialEnv`.
    pub credentials: BTreeMap<String, Secret>,
}

impl TurnNet {
    /// Name and value of each variable, and the credential names that were left out. A later name replaces an earlier
    /// one: a skill cannot name its credential so that the proxy or the certificates are replaced by it.
    pub fn environment(&self) -> (Vec<(String, Value)>, Vec<String>) {
        let mut pairs = Vec::new();
        let mut refused = Vec::new();
        for (name, value) in &self.credentials {
            if is_name(name) && !value.expose().contains('\0') {
                pairs.push((name.clone(), Value::Secret(value.clone())));
            } else {
                refused.push(name.chars().filter(|c| !c.is_control()).take(64).collect());
            }
        }
        pairs.extend(self.own_names());
        (pairs, refused)
    }

    /// The proxy and the certificates alone, for git, which needs no credential of the agent's.
    pub fn own_names(&self) -> Vec<(String, Value)> {
        let mut pairs = Vec::new();
        let mut put = |name: &str, value: &str| pairs.push((name.to_owned(), Value::Plain(value.to_owned())));
        if let Some(url) = &self.proxy {
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                put(name, url);
            }
            for name in ["NO_PROXY", "no_proxy"] {
                put(name, NO_PROXY);
            }
            // Without it Node's own fetch (from version 24 on) does not look at the others.
            put("NODE_USE_ENV_PROXY", "1");
        }
        if let Some(ca) = &self.ca {
            put("NODE_EXTRA_CA_CERTS", &ca.own.to_string_lossy());
            // curl's library, and so git, reads neither of the first three; cargo and the others are measured in
            // `tests/it/net.rs`.
            for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO"]
            {
                put(name, &ca.bundle.to_string_lossy());
            }
            put("WGETRC", &ca.wgetrc.to_string_lossy());
            // A `cafile` in an npmrc of the image makes npm ignore what Node trusts; the environment goes before the file.
            put("npm_config_cafile", &ca.bundle.to_string_lossy());
        }
        pairs
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(net: &TurnNet) -> Vec<String> {
        net.environment().0.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn nothing_given_nothing_set() {
        assert_eq!(names(&TurnNet::default()), Vec::<String>::new());
    }

    #[test]
    fn both_cases_agree_and_loopback_stays_direct() {
        let net = TurnNet { proxy: Some("http://127.0.0.1:9".to_owned()), ..TurnNet::default() };
        let (pairs, _) = net.environment();
        for (name, value) in &pairs {
            let lower = pairs.iter().find(|(other, _)| *other == name.to_lowercase());
            if name.ends_with("_PROXY") && name != "NODE_USE_ENV_PROXY" {
                assert_eq!(Some(value), lower.map(|(_, value)| value), "{name}");
            }
        }
        assert!(pairs.iter().any(|(name, value)| name == "NO_PROXY" && value.expose() == NO_PROXY));
    }

    #[test]
    fn npm_is_told_too() {
        let path = |name: &str| std::path::PathBuf::from(name);
        let ca =
            CaPaths { own: path("/c/ca"), bundle: path("/c/bundle"), wgetrc: path("/c/wgetrc"), partly_bad: false };
        let (pairs, _) = TurnNet { ca: Some(ca), ..TurnNet::default() }.environment();
        let value = pairs.iter().find(|(name, _)| name == "npm_config_cafile").map(|(_, value)| value.expose());
        assert_eq!(value, Some("/c/bundle"));
    }

    #[test]
    fn a_credential_cannot_take_the_place_of_the_proxy_or_break_the_environment() {
        let credentials =
            [("HTTPS_PROXY", "http://evil"), ("A=B", "x"), ("", "x"), ("1A", "x"), ("NUL", "a\0b"), ("TOKEN", "t")]
                .map(|(name, value)| (name.to_owned(), Secret::new(value)));
        let net =
            TurnNet { proxy: Some("http://p:1".to_owned()), credentials: credentials.into(), ..TurnNet::default() };
        let (pairs, refused) = net.environment();
        let last = |name: &str| pairs.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.expose());
        assert_eq!(last("HTTPS_PROXY"), Some("http://p:1"));
        assert_eq!(last("TOKEN"), Some("t"));
        assert_eq!(refused, ["", "1A", "A=B", "NUL"]);
        assert!(!format!("{pairs:?}").contains("http://evil"));
    }
}
