//! Attacks on the loop: what models and hosts send that no schema foresees (CASES I14, L01, L03, L04, L06, L07).

mod approval;
mod arguments;
mod forwarded;
mod replies;
mod room;
mod texts;
mod tools;
