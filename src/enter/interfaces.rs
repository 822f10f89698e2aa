//! What networks there are.

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::collections::BTreeSet;

/// Names of interfaces other than loopback that are up or have an address. The idle tunnel devices some kernels put into
/// every namespace carry nothing and cannot be raised without a capability; they do not count.
pub(crate) fn beyond_loopback() -> Result<BTreeSet<String>, Errno> {
    Ok(getifaddrs()?
        .filter(|interface| !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK))
        .filter(|interface| {
            let addressed = interface
                .address
                .as_ref()
                .is_some_and(|address| address.as_sockaddr_in().is_some() || address.as_sockaddr_in6().is_some());
            interface.flags.contains(InterfaceFlags::IFF_UP) || addressed
        })
        .map(|interface| interface.interface_name)
        .collect())
}
