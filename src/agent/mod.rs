//! The model loop (PROTOCOL §6): ask the model, run what it asks for, until it stops asking.

mod messages;
mod reply;
mod run;

pub use messages::{opening, prompt_text};
pub use run::{Brief, Ended, Failure, run};
