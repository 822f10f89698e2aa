//! Turns the names of a policy into addresses, once, before the rules close the way to any name service.

use super::destination::{Destination, HostPart, one_host};
use super::hosts;
use super::policy::names;
use super::signals::Signals;
use crate::http::dns::{DnsError, Names, hosts_file};
use crate::limits;
use crate::os;
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::runtime::Runtime;

const NO_ADDRESS: &str = "it has no address";
const SIGNAL_LOOK: Duration = Duration::from_millis(20);

/// Every name with its addresses.
pub(crate) type Addresses = BTreeMap<String, BTreeSet<IpAddr>>;

/// Why the names could not be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// No resolver to ask.
    #[error(
        "the name {0} cannot be resolved, as there is no usable /etc/resolv.conf: name the address, or mount the file"
    )]
    NoResolver(String),
    /// The resolver gave no address.
    #[error("the name {0} cannot be resolved ({1}): name the address, or add it to /etc/hosts")]
    Failed(String, String),
    /// An answer that is no remote host.
    #[error("the name {0} resolves to {1}, which is not the address of one remote host: name the address itself")]
    Strange(String, IpAddr),
    /// More answers than rules one can read.
    #[error("the names of the policy resolve to more than {max} addresses: name the addresses", max = limits::POLICY_ADDRESSES_MAX)]
    TooMany,
    /// We were asked to end meanwhile.
    #[error("{0} while names were being resolved")]
    Signal(Signal),
    /// The event loop could not be set up.
    #[error("names cannot be resolved: {0}")]
    Io(#[from] std::io::Error),
}

/// Resolves every name of the list.
pub(crate) fn resolve(list: &[Destination], signals: &Signals) -> Result<Addresses, ResolveError> {
    let wanted: BTreeSet<_> = names(list).collect();
    if wanted.is_empty() {
        return Ok(Addresses::new());
    }
    let runtime = runtime()?;
    let answer = runtime.block_on(async {
        tokio::select! {
            answer = look_up(&wanted) => answer,
            signal = next_signal(signals) => Err(ResolveError::Signal(signal)),
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    answer
}

fn runtime() -> io::Result<Runtime> {
    os::need_descriptors()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Looks now and then: a descriptor of ours cannot be lent to the event loop without `unsafe`, and this is short.
async fn next_signal(signals: &Signals) -> Signal {
    loop {
        if let Ok(Some(signal)) = signals.pending() {
            return signal;
        }
        tokio::time::sleep(SIGNAL_LOOK).await;
    }
}

/// The addresses of one name, for `doctor`.
pub(crate) fn addresses_of(name: &str) -> Result<BTreeSet<IpAddr>, ResolveError> {
    let runtime = runtime()?;
    let mut found = runtime.block_on(look_up(&BTreeSet::from([name])))?;
    Ok(found.remove(name).unwrap_or_default())
}

async fn look_up(wanted: &BTreeSet<&str>) -> Result<Addresses, ResolveError> {
    let deadline = tokio::time::Instant::now() + limits::RESOLVE_DEADLINE;
    let names = Names::default();
    // What an earlier start has written there may be old.
    let hosts = hosts::others(hosts_file().as_bytes());
    let hosts = String::from_utf8_lossy(&hosts);
    let mut found = Addresses::new();
    for name in wanted {
        let answers = names.addresses_with(&hosts, name, deadline).await.map_err(|error| match error {
            DnsError::NoResolver(name) => ResolveError::NoResolver(name),
            DnsError::Absent(name) => ResolveError::Failed(name, NO_ADDRESS.to_owned()),
            DnsError::Failed(name, reason) => ResolveError::Failed(name, reason),
        })?;
        found.insert((*name).to_owned(), usable(name, answers.into_iter())?);
        if found.values().map(BTreeSet::len).sum::<usize>() > limits::POLICY_ADDRESSES_MAX {
            return Err(ResolveError::TooMany);
        }
    }
    Ok(found)
}

/// Takes each address once; one that points nowhere or at the engine's own resolver spoils the name.
fn usable(name: &str, answers: impl Iterator<Item = IpAddr>) -> Result<BTreeSet<IpAddr>, ResolveError> {
    let mut addresses = BTreeSet::new();
    for address in answers {
        addresses.insert(one_host(address).map_err(|_| ResolveError::Strange(name.to_owned(), address))?);
    }
    match addresses.first() {
        None => Err(ResolveError::Failed(name.to_owned(), NO_ADDRESS.to_owned())),
        Some(_) => Ok(addresses),
    }
}

/// The socket addresses the rules let out. Loopback needs no rule.
pub(crate) fn socket_addresses(list: &[Destination], addresses: &Addresses) -> BTreeSet<SocketAddr> {
    let mut all = BTreeSet::new();
    for to in list {
        match &to.host {
            HostPart::Address(address) => {
                all.insert(SocketAddr::new(*address, to.port));
            }
            HostPart::Name(name) => {
                all.extend(addresses.get(name).into_iter().flatten().map(|address| SocketAddr::new(*address, to.port)));
            }
        }
    }
    all.retain(|to| !to.ip().is_loopback());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_answers_are_one_and_strange_ones_spoil_the_name() {
        let parse = |list: &[&str]| list.iter().map(|a| a.parse().unwrap()).collect::<Vec<IpAddr>>();
        let twice = usable("a.test", parse(&["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"]).into_iter()).unwrap();
        assert_eq!(twice.len(), 1);
        for bad in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255"] {
            assert!(usable("a.test", parse(&["10.0.0.1", bad]).into_iter()).is_err(), "{bad}");
        }
        assert!(usable("a.test", std::iter::empty()).is_err());
    }

    #[test]
    fn loopback_and_names_without_answer_add_nothing() {
        let list: Vec<_> =
            ["127.0.0.11:53", "[::1]:80", "10.0.0.1:80", "a.test:80"].map(|t| Destination::parse(t).unwrap()).into();
        let addresses = Addresses::from([("a.test".to_owned(), BTreeSet::from(["fd00::1".parse().unwrap()]))]);
        let all: Vec<_> = socket_addresses(&list, &addresses).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["10.0.0.1:80", "[fd00::1]:80"]);
    }
}
