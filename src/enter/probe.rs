//! Tries what must not work. Rules that are listed are a promise; a packet that is refused is the proof.
//!
//! First the engine resolver's address, which never leaves this machine: when the rules are not in force nothing is
//! sent anywhere. Only after it is refused are addresses tried that would be sent out if the rules had a hole. These
//! are reserved for documentation, so they are nobody's.

use crate::limits;
use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};

/// The discard port; the rules look at no port here.
const PORT: u16 = 9;

/// How one attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The kernel refused to send.
    Refused,
    /// There is no way there, rules or not.
    NoRoute,
    /// Sent, or connected.
    Open,
    /// Nothing came back; a filter elsewhere may have dropped it.
    Silent,
}

/// Why it is not shown that the network is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProbeError {
    /// A destination that must be refused is open.
    #[error("a packet to {0}, which no rule allows, was not refused")]
    NotClosed(SocketAddr),
    /// There is no way even to this machine, so nothing was tried.
    #[error("the rules cannot be tried, as there is no loopback network: bring the interface lo up before the start")]
    NoLoopback,
}

/// Tries all; returns how many attempts the rules refused.
pub(crate) fn forbidden_is_refused() -> Result<u64, ProbeError> {
    let resolver = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 11), PORT));
    match datagram(resolver) {
        Attempt::Refused => {}
        Attempt::NoRoute => return Err(ProbeError::NoLoopback),
        Attempt::Open | Attempt::Silent => return Err(ProbeError::NotClosed(resolver)),
    }
    let mut refused = 1;
    for to in outside() {
        for attempt in [datagram(to), stream(to)] {
            match attempt {
                Attempt::Open => return Err(ProbeError::NotClosed(to)),
                Attempt::Refused => refused += 1,
                Attempt::NoRoute | Attempt::Silent => {}
            }
        }
    }
    Ok(refused)
}

/// Addresses reserved for documentation (RFC 5737, RFC 3849).
pub(crate) fn outside() -> [SocketAddr; 2] {
    [
        SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), PORT)),
        SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), PORT)),
    ]
}

/// One datagram. The answer is immediate: a refused packet fails the call that sends it.
pub(crate) fn datagram(to: SocketAddr) -> Attempt {
    let any: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let result = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(to)?;
        socket.send(b"probe")
    });
    result.map_or_else(|error| failed(&error), |_| Attempt::Open)
}

/// One connection.
pub(crate) fn stream(to: SocketAddr) -> Attempt {
    TcpStream::connect_timeout(&to, limits::PROBE_DEADLINE).map_or_else(|error| failed(&error), |_| Attempt::Open)
}

fn failed(error: &Error) -> Attempt {
    if error.kind() == ErrorKind::TimedOut {
        return Attempt::Silent;
    }
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::EHOSTUNREACH | libc::ECONNREFUSED) => Attempt::Refused,
        Some(_) => Attempt::NoRoute,
        None => Attempt::Silent,
    }
}
