//! What can go wrong with one reply, as data: scripts and tests name a fault, the transports carry it out.

use serde::Deserialize;

/// Where in an exchange a connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// The request counts as never read: nothing is carried out.
    Unread,
    /// The request was read and carried out; no byte of the reply is sent.
    Read,
    /// After so many bytes of the reply. On a socket the four bytes of the length count, over HTTP only the body does.
    Reply(usize),
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The connection ends in good order.
    Close(Point),
    /// The connection is reset.
    Reset(Point),
    /// Nothing more comes, no heartbeat either; the connection stays open.
    Silence(Point),
    /// The reply comes later, with heartbeats meanwhile.
    DelayMs(u64),
    /// The reply comes later, in silence.
    LateMs(u64),
    /// The reply is written in pieces of so many bytes.
    Pieces(usize),
    /// The reply is written up to this byte, then after a pause the rest.
    SplitAt(usize),
    /// The length prefix announces 4 GiB.
    Oversized,
    /// The reply has no `_msgId`.
    NoId,
    /// The reply has an `_msgId` nobody waits for; the true one never comes.
    WrongId,
    /// The reply comes twice.
    Duplicate,
    /// The reply comes after the next one.
    Reorder,
    /// These bytes instead of the reply's body. `{{msgId}}` stands for the request's id.
    Body(String),
    /// HTTP: this status with this body, and nothing is carried out.
    Status(u16, String),
    /// HTTP: a byte of the body so often.
    DripMs(u64),
    /// HTTP: the reply is written, then the connection closes without having said so.
    StaleAfter,
    /// HTTP: the reply is written, then the connection is reset.
    ResetAfter,
    /// HTTP work: the same item is handed out once more.
    DuplicateWork,
}

impl Fault {
    /// Does the connection break before the request counts as read?
    pub(crate) fn unread(&self) -> bool {
        matches!(self, Self::Close(Point::Unread) | Self::Reset(Point::Unread) | Self::Silence(Point::Unread))
    }

    /// Does the connection break between the request and its reply?
    pub(crate) fn unanswered(&self) -> bool {
        matches!(self, Self::Close(Point::Read) | Self::Reset(Point::Read) | Self::Silence(Point::Read))
    }

    /// Is the request not carried out?
    pub(crate) fn drops(&self) -> bool {
        self.unread() || matches!(self, Self::Status(..))
    }

    /// How long the reply waits, and whether heartbeats are sent meanwhile.
    pub(crate) fn delay(&self) -> Option<(u64, bool)> {
        match self {
            Self::DelayMs(ms) => Some((*ms, true)),
            Self::LateMs(ms) => Some((*ms, false)),
            _ => None,
        }
    }
}

/// Faults addressed by request: the `nth` of an action, counted from 1 over the host's whole life.
#[derive(Debug, Default)]
pub(crate) struct Plan(Vec<(String, usize, Fault)>);

impl Plan {
    /// Adds a fault. `*` stands for any action; its requests have a count of their own.
    pub(crate) fn add(&mut self, action: &str, nth: usize, fault: Fault) {
        self.0.push((action.to_owned(), nth, fault));
    }

    /// Takes the faults of one request out.
    pub(crate) fn take(&mut self, action: &str, nth: usize) -> Vec<Fault> {
        let (due, rest) =
            std::mem::take(&mut self.0).into_iter().partition(|(name, count, _)| name == action && *count == nth);
        self.0 = rest;
        let due: Vec<(String, usize, Fault)> = due;
        due.into_iter().map(|(_, _, fault)| fault).collect()
    }

    /// Is a reset planned? A socket can reset its peer only while it holds unread bytes, so the reader must know first.
    pub(crate) fn resets(&self) -> bool {
        self.0.iter().any(|(_, _, fault)| matches!(fault, Fault::Reset(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_have_a_short_form_in_json() {
        for (json, fault) in [
            (json!("no_id"), Fault::NoId),
            (json!({"close": "read"}), Fault::Close(Point::Read)),
            (json!({"reset": {"reply": 3}}), Fault::Reset(Point::Reply(3))),
            (json!({"delay_ms": 5}), Fault::DelayMs(5)),
            (json!({"status": [502, "<html>"]}), Fault::Status(502, "<html>".into())),
        ] {
            assert_eq!(serde_json::from_value::<Fault>(json).unwrap(), fault);
        }
    }

    #[test]
    fn a_planned_fault_is_used_once() {
        let mut plan = Plan::default();
        plan.add("llm_call", 2, Fault::NoId);
        assert!(plan.take("llm_call", 1).is_empty());
        assert_eq!(plan.take("llm_call", 2), [Fault::NoId]);
        assert!(plan.take("llm_call", 2).is_empty());
    }
}
