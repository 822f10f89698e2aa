//! ax-runner: the process inside an AX agent's sandbox container.

pub mod agent;
pub mod cli;
pub mod devhost;
pub mod doctor;
pub mod enter;
pub mod gate;
pub mod git;
pub mod http;
pub mod limits;
pub mod link;
pub mod log;
pub mod net;
pub mod os;
pub mod prompt;
pub mod runner;
pub mod secret;
pub mod sidecar;
pub mod text;
pub mod tools;
pub mod wire;
pub mod workspace;
