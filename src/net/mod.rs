//! What a command needs to reach the world through the host (PROTOCOL §11): the bridge to the web proxy, the
//! certificate files, and the environment that points to both.

mod bridge;
mod ca;
mod proxy;
mod tunnel;
mod turn;

pub use bridge::{Bounds, Bridge, Counters};
pub use ca::{CaError, CaFiles, CaPaths};
pub use proxy::{NO_PROXY, choose};
pub use turn::{TurnNet, Value};
