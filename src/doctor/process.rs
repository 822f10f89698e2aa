//! What this process may do.

use super::Layer;
use crate::enter::engine;
use crate::os::privileges::{self, Holdings};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

pub(super) fn look() -> Vec<Layer> {
    let mut layers = match Holdings::read() {
        Ok(holdings) => holdings_layers(&holdings),
        Err(errno) => ["user", "capabilities", "bounding-set", "no-new-privs"]
            .map(|name| Layer::failed(name, format!("the kernel does not tell: {errno}")))
            .into(),
    };
    layers.extend([seccomp(), socket_families(), landlock(), gvisor()]);
    layers
}

fn holdings_layers(holdings: &Holdings) -> Vec<Layer> {
    let [uid, ..] = holdings.uids;
    let user = if holdings.uids.contains(&0) {
        Layer::absent("user", "this is root")
    } else {
        Layer::enforced("user", format!("uid {uid}, gid {}, groups {:?}", holdings.gids[0], holdings.groups))
    };
    let held: Vec<_> = holdings
        .sets
        .iter()
        .filter(|(name, mask)| *name != "bounding" && *mask != 0)
        .map(|(name, mask)| format!("{name} {mask:#x}"))
        .collect();
    let capabilities = if held.is_empty() {
        Layer::enforced("capabilities", "effective, permitted, inheritable and ambient sets are empty")
    } else {
        Layer::absent("capabilities", held.join(", "))
    };
    let bounding = match holdings.set("bounding") {
        0 => Layer::enforced("bounding-set", "empty"),
        mask => Layer::absent("bounding-set", format!("{mask:#x}; start with --cap-drop=ALL")),
    };
    let privileges = if holdings.no_new_privs {
        Layer::enforced("no-new-privs", "set")
    } else {
        Layer::absent("no-new-privs", "a setuid program could add privilege")
    };
    vec![user, capabilities, bounding, privileges]
}

fn seccomp() -> Layer {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match field("Seccomp:") {
        Some("0") => Layer::absent("seccomp", "no system call filter"),
        Some("2") => Layer::enforced(
            "seccomp",
            format!("{} filter(s)", field("Seccomp_filters:").unwrap_or("an unknown number of")),
        ),
        Some(other) => Layer::enforced("seccomp", format!("mode {other}")),
        None => Layer::failed("seccomp", "the kernel does not tell"),
    }
}

/// Families that go past any packet filter.
fn socket_families() -> Layer {
    let tried =
        [("AF_VSOCK", AddressFamily::Vsock, SockType::Stream), ("AF_PACKET", AddressFamily::Packet, SockType::Raw)];
    let open: Vec<_> = tried
        .into_iter()
        .filter(|(_, family, kind)| socket(*family, *kind, SockFlag::SOCK_CLOEXEC, None).is_ok())
        .map(|(name, ..)| name)
        .collect();
    if open.is_empty() {
        Layer::enforced("socket-families", "AF_VSOCK and AF_PACKET cannot be opened")
    } else {
        Layer::absent("socket-families", format!("{} can be opened", open.join(" and ")))
    }
}

fn landlock() -> Layer {
    match privileges::landlock_abi() {
        Some(abi) => Layer::absent(
            "landlock",
            format!("the kernel offers ABI {abi}; whether rules are in force cannot be asked"),
        ),
        None => Layer::absent("landlock", "the kernel offers none"),
    }
}

fn gvisor() -> Layer {
    if engine::is_gvisor() {
        Layer::enforced("gvisor", "the kernel is gVisor's")
    } else {
        Layer::absent("gvisor", "the kernel is the machine's own")
    }
}
