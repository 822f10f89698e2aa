//! The model loop (PROTOCOL §6): ask the model, run what it asks for, until it stops asking.

mod compact;
mod conversation;
mod history;
mod opening;
mod reply;
mod round;
mod run;
mod shortened;

pub use conversation::{Conversation, Room};
pub use history::history;
pub use run::{Brief, Ended, Failure, run};
