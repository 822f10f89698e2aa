//! The host's limits on single fields (PROTOCOL §14), asked before anything is sent: a request the host refuses for its
//! shape would read as a denial (PROTOCOL T12).

use crate::text;

/// A field the host would refuse. The message is shown to the model: it says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// Longer than the host takes.
    #[error("{field} has {length} characters; the limit is {max}{remedy}")]
    TooLong {
        /// The field's name.
        field: &'static str,
        /// Its length in UTF-16 units.
        length: usize,
        /// The host's limit.
        max: usize,
        /// What to do instead, beginning with `: `; may be empty.
        remedy: &'static str,
    },
    /// Holds a NUL character.
    #[error("{field} holds a NUL character; remove it and try again")]
    Nul {
        /// The field's name.
        field: &'static str,
    },
}

/// Checks one string against `S(max)` of PROTOCOL §14.
pub fn field(field: &'static str, value: &str, max: usize, remedy: &'static str) -> Result<(), FieldError> {
    if value.contains('\0') {
        return Err(FieldError::Nul { field });
    }
    // Units never outnumber bytes, so most values need no count.
    if value.len() > max {
        let length = text::units(value);
        if length > max {
            return Err(FieldError::TooLong { field, length, max, remedy });
        }
    }
    Ok(())
}

/// The value as the host takes it in a report: NUL shown as `␀`, cut to `max` units.
pub fn fitted(value: &str, max: usize) -> String {
    text::cut_units(&value.replace('\0', "\u{2400}"), max).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_units_and_refuses_nul() {
        assert_eq!(field("path", "😀😀", 4, ""), Ok(()));
        assert_eq!(field("path", "😀😀", 3, "").unwrap_err().to_string(), "path has 4 characters; the limit is 3");
        assert_eq!(field("path", "a\0", 9, ""), Err(FieldError::Nul { field: "path" }));
        assert_eq!(fitted("a\0b😀", 4), "a\u{2400}b");
    }
}
