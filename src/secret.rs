//! A value that must not be shown: tokens, credentials, PEM keys.

use std::fmt;
use zeroize::Zeroize;

/// Text that prints as `[redacted]`, is wiped when dropped and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes ownership of the text; copies made before this call are the caller's to wipe.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Each use is a place where it may leave the process: keep them few.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Can it be sent as a bearer token? Any other sign makes a header that is refused, or another token.
    pub fn is_token(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn never_shows_its_text() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(secret.expose(), "hunter2");
    }
}
