//! What a command needs to reach the world through the host.
