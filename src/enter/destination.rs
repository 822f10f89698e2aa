//! A destination an operator names: an address or a name, and a port. Read strictly, since a sloppy reading opens a door.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A host that may be reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostPart {
    /// A literal address.
    Address(IpAddr),
    /// A name that is resolved once, before the rules close.
    Name(String),
}

/// `host:port`, TCP.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Destination {
    /// The host.
    pub host: HostPart,
    /// The port, never 0.
    pub port: u16,
}

/// Why a destination was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DestinationError {
    /// Nothing there.
    #[error("a destination is empty: write host:port")]
    Empty,
    /// No port, or not a number from 1 to 65535.
    #[error("{0:?} has no usable port: write host:port with a port from 1 to 65535")]
    Port(String),
    /// Neither an address nor a name.
    #[error(
        "{0:?} is neither an IP address nor a host name (ranges and wildcards are not taken; IPv6 goes in brackets)"
    )]
    Host(String),
    /// An address that is no single remote host.
    #[error("{0} is not the address of one host: name the proxy or the host itself")]
    NotOneHost(IpAddr),
    /// A URL that is not plain `http` or `https` with a host.
    #[error("{0} is not an http or https URL with a host")]
    Url(&'static str),
}

impl Destination {
    /// Reads `host:port`.
    pub(crate) fn parse(text: &str) -> Result<Self, DestinationError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(DestinationError::Empty);
        }
        let (host, port) = split(text).ok_or_else(|| DestinationError::Port(text.to_owned()))?;
        Self::new(host, port.ok_or_else(|| DestinationError::Port(text.to_owned()))?, text)
    }

    /// Reads the host and port of a URL; `variable` is named in the error, the URL is not, as it may hold a password.
    pub(crate) fn from_url(url: &str, variable: &'static str) -> Result<Self, DestinationError> {
        let bad = || DestinationError::Url(variable);
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(bad)?;
        let default = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => 443,
            _ => return Err(bad()),
        };
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = split(authority).ok_or_else(bad)?;
        Self::new(host, port.unwrap_or(default), authority)
    }

    fn new(host: &str, port: u16, whole: &str) -> Result<Self, DestinationError> {
        if port == 0 {
            return Err(DestinationError::Port(whole.to_owned()));
        }
        Ok(Self { host: host_part(host)?, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPart::Address(address) => write!(f, "{}", SocketAddr::new(*address, self.port)),
            HostPart::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// Splits off the port. The outer `None` is a port that is there and cannot be read.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            // The brackets stay, so that `[name]` is not taken for a name.
            (&text[..host.len() + 2], if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    match port {
        None => Some((host, None)),
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some((host, Some(digits.parse().ok()?)))
        }
        Some(_) => None,
    }
}

fn host_part(host: &str) -> Result<HostPart, DestinationError> {
    let refuse = || DestinationError::Host(host.to_owned());
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner.strip_suffix(']').and_then(|inner| inner.parse().ok()).ok_or_else(refuse)?;
        return one_host(IpAddr::V6(address)).map(HostPart::Address);
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return one_host(IpAddr::V4(address)).map(HostPart::Address);
    }
    if is_name(host) { Ok(HostPart::Name(host.to_ascii_lowercase())) } else { Err(refuse()) }
}

/// Lets through addresses of a single host; a v4 address written as v6 becomes what it is.
pub(crate) fn one_host(address: IpAddr) -> Result<IpAddr, DestinationError> {
    let address = address.to_canonical();
    let broad = address.is_unspecified()
        || address.is_multicast()
        || matches!(address, IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] == 0 || v4.octets()[0] >= 240);
    if broad { Err(DestinationError::NotOneHost(address)) } else { Ok(address) }
}

fn is_name(host: &str) -> bool {
    let bare = host.strip_suffix('.').unwrap_or(host);
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    // A last label of digits is a mistyped address, which some resolvers would read as one.
    let numeric = bare.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    bare.len() <= 253 && bare.split('.').all(label) && !numeric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken() {
        for (text, shown) in [
            ("10.0.0.2:3128", "10.0.0.2:3128"),
            (" 10.0.0.2:3128 ", "10.0.0.2:3128"),
            ("[fd00::2]:80", "[fd00::2]:80"),
            ("[::ffff:10.0.0.2]:80", "10.0.0.2:80"),
            ("AX-host.ns.svc:80", "ax-host.ns.svc:80"),
            ("host.:65535", "host.:65535"),
        ] {
            assert_eq!(Destination::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            " ",
            ":80",
            "10.0.0.2",
            "10.0.0.2:",
            "10.0.0.2:0",
            "10.0.0.2:65536",
            "10.0.0.2:+80",
            "10.0.0.2:80:90",
            "10.0.0:80",
            "256.1.1.1:80",
            "010.0.0.1:80",
            "0x7f.1:80",
            "10.0.0.0/8:80",
            "*.test:80",
            "fd00::2:80",
            "[fd00::2]80",
            "[fe80::1%eth0]:80",
            "[host]:80",
            "0.0.0.0:80",
            "[::]:80",
            "224.0.0.1:80",
            "[ff02::1]:80",
            "255.255.255.255:80",
            "240.0.0.1:80",
            "a b:80",
            "a;b:80",
            "-a:80",
            "a..b:80",
            "10.0.0.2:80,10.0.0.3:80",
            "h\u{e9}:80",
            "x\n:80",
        ] {
            assert!(Destination::parse(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn the_host_of_a_url() {
        for (url, shown) in [
            ("http://ax-host.ax.svc", "ax-host.ax.svc:80"),
            ("https://10.0.0.2/base?x#y", "10.0.0.2:443"),
            ("HTTP://user:p@ss@10.0.0.2:8080/", "10.0.0.2:8080"),
            ("http://[fd00::2]:81", "[fd00::2]:81"),
            ("http://10.0.0.2\\@evil:80/", "10.0.0.2:80"),
        ] {
            assert_eq!(Destination::from_url(url, "X").unwrap().to_string(), shown);
        }
        for url in ["", "10.0.0.2:80", "ftp://a", "http://", "http:///x", "http://a:b", "http://a:99999", "http://a b/"]
        {
            assert!(Destination::from_url(url, "X").is_err(), "{url:?} was taken");
        }
    }
}
