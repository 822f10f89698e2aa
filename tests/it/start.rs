//! Launch, payload and exit: what the host hands over, and what it makes of the end (CASES B07, I11, I16; PROTOCOL §1, §2).

mod called_node;
mod environment;
mod exits;
mod log_file;
mod output;
mod payloads;
