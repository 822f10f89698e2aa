//! The turns already run: after a timeout the host queues the same work again (PROTOCOL T17).

use crate::limits;
use std::collections::VecDeque;

/// The last request ids, oldest first.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<String>);

impl Recent {
    /// False when this id has been seen; an absent id is always new.
    pub(super) fn is_new(&mut self, request_id: Option<&str>) -> bool {
        let Some(id) = request_id.filter(|id| !id.is_empty()) else { return true };
        if self.0.iter().any(|seen| seen == id) {
            return false;
        }
        if self.0.len() == limits::REQUEST_IDS_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(id.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_a_bounded_number() {
        let mut recent = Recent::default();
        assert!(recent.is_new(None) && recent.is_new(None) && recent.is_new(Some("")) && recent.is_new(Some("")));
        assert!(recent.is_new(Some("a")));
        assert!(!recent.is_new(Some("a")));
        for number in 0..limits::REQUEST_IDS_REMEMBERED {
            assert!(recent.is_new(Some(&number.to_string())));
        }
        assert!(recent.is_new(Some("a")));
        assert_eq!(recent.0.len(), limits::REQUEST_IDS_REMEMBERED);
    }
}
