//! One turn's order, and the life around it (PROTOCOL §1, §5).

mod answer;
mod config;
mod desk;
mod exit;
mod intake;
mod life;
mod listen;
mod outside;
mod recent;
mod session;
mod signals;
mod work;

pub use config::{Agent, Config, Request, Transport, log_config, read};
pub use exit::{Fatal, Signal};
pub use life::main;
pub use signals::hold_signals;
