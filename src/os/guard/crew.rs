//! How many threads serve, and which of them may wait. Numbers only.
//!
//! What must never be: all threads wait for something, and none is left to take the next call. So a thread may turn to a call
//! that has no end of its own only while another stays behind, and a thread without work may leave only then.

use crate::limits;

/// Threads that take calls, and threads that each see one call to its end.
#[derive(Debug, Default)]
pub(super) struct Crew {
    at_post: usize,
    away: usize,
}

/// What stands between a thread and a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Nothing: go.
    Granted,
    /// Another thread must be there first.
    Relief,
    /// Too many are away.
    Refused,
}

impl Crew {
    pub(super) fn joined(&mut self) {
        self.at_post += 1;
    }

    pub(super) fn left(&mut self) {
        self.at_post = self.at_post.saturating_sub(1);
    }

    /// May a thread that has found nothing to do end?
    pub(super) fn can_spare_one(&self) -> bool {
        self.at_post > limits::GUARD_THREADS_STANDING
    }

    /// A thread asks to turn to a call for as long as it takes.
    pub(super) fn go(&mut self) -> Leave {
        if self.away >= limits::GUARD_WAITS_MAX {
            return Leave::Refused;
        }
        if self.at_post < 2 {
            return Leave::Relief;
        }
        self.at_post -= 1;
        self.away += 1;
        Leave::Granted
    }

    /// It is back.
    pub(super) fn back(&mut self) {
        self.away = self.away.saturating_sub(1);
        self.at_post += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_always_stays_behind_and_only_the_spare_leave() {
        let mut crew = Crew::default();
        crew.joined();
        assert_eq!(crew.go(), Leave::Relief, "the last one");
        for away in 0..limits::GUARD_WAITS_MAX {
            if crew.go() == Leave::Relief {
                crew.joined();
                assert_eq!(crew.go(), Leave::Granted);
            }
            assert_eq!((crew.at_post, crew.away), (1, away + 1));
            assert!(!crew.can_spare_one(), "those away take no calls, however many they are");
        }
        crew.joined();
        assert_eq!(crew.go(), Leave::Refused);
        crew.back();
        assert_eq!(crew.go(), Leave::Granted);
        for _ in 0..limits::GUARD_WAITS_MAX {
            crew.back();
        }
        while crew.can_spare_one() {
            crew.left();
        }
        assert_eq!((crew.at_post, crew.away), (limits::GUARD_THREADS_STANDING, 0));
    }
}
