//! Attacks on the link: cuts at every byte, replies in any order, hosts that stop reading (CASES I01, I05, I07, I08).

mod http;
mod matrix;
mod offsets;
mod repeats;
mod routing;
mod schedule;
mod segments;
mod wire;
