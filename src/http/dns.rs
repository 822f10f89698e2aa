//! Names to addresses: `/etc/hosts`, then the servers of `/etc/resolv.conf`, and nobody else. The C library is not asked,
//! since a static binary cannot load its modules; nor is any public server, since a container without a resolver has none
//! on purpose.

use crate::limits;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name as RecordName;
use hickory_resolver::{TokioResolver, system_conf};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Why a name has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// Nobody to ask.
    #[error("there is no usable /etc/resolv.conf to resolve {0} with")]
    NoResolver(String),
    /// The servers say that it has none.
    #[error("{0} cannot be resolved: it has no address")]
    Absent(String),
    /// No server answered.
    #[error("{0} cannot be resolved: {1}")]
    Failed(String, String),
}

/// Resolves names; remembers answers as long as the servers allow. Clones share what is remembered.
#[derive(Clone, Default)]
pub struct Names(Arc<Servers>);

#[derive(Default)]
struct Servers {
    four: OnceLock<Vec<TokioResolver>>,
    six: OnceLock<Vec<TokioResolver>>,
}

impl Names {
    /// Every address of a name, asked for until `deadline`.
    pub async fn addresses(&self, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, DnsError> {
        self.addresses_with(&hosts_file(), name, deadline).await
    }

    /// The same with this text for `/etc/hosts`. As the C library does: a name that is there is not asked for elsewhere.
    pub async fn addresses_with(&self, hosts: &str, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, DnsError> {
        match in_hosts_file(hosts, name) {
            found if found.is_empty() => self.ask(name, deadline).await,
            found => Ok(found),
        }
    }

    /// Asks for both versions at once. A server that is silent about one, or refuses it, does not spoil the other.
    async fn ask(&self, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, DnsError> {
        let four = std::pin::pin!(ask_version(&self.0.four, name, LookupIpStrategy::Ipv4Only));
        let six = std::pin::pin!(ask_version(&self.0.six, name, LookupIpStrategy::Ipv6Only));
        let silent = || DnsError::Failed(name.to_owned(), "no answer came".to_owned());
        let first =
            tokio::time::timeout_at(deadline, futures_util::future::select(four, six)).await.map_err(|_| silent())?;
        let (first, other) = first.factor_first();
        let until = if first.is_ok() { deadline.min(Instant::now() + limits::RESOLVE_OTHER) } else { deadline };
        match (first, tokio::time::timeout_at(until, other).await) {
            (Ok(mut first), other) => {
                first.extend(other.into_iter().flatten().flatten());
                Ok(first)
            }
            (Err(_), Ok(Ok(other))) => Ok(other),
            // That one version has no address says nothing of the other.
            (Err(DnsError::Absent(_)), Ok(Err(error))) | (Err(error), _) => Err(error),
        }
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let found = names.addresses(name.as_str(), Instant::now() + limits::RESOLVE_DEADLINE).await?;
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

async fn ask_version(
    known: &OnceLock<Vec<TokioResolver>>,
    name: &str,
    version: LookupIpStrategy,
) -> Result<Vec<IpAddr>, DnsError> {
    let servers = match known.get() {
        Some(servers) => servers,
        None => {
            let made = servers(version).map_err(|_| DnsError::NoResolver(name.to_owned()))?;
            known.get_or_init(|| made)
        }
    };
    // As it stands: what is not ASCII is translated, but the rules for that know no underscore, which service names have.
    let asked = if name.is_ascii() { RecordName::from_ascii(name) } else { RecordName::from_utf8(name) };
    let asked = asked.map_err(|error| DnsError::Failed(name.to_owned(), error.to_string()))?;
    first_answer(servers, asked).await.map_err(|error| match error.is_no_records_found() {
        true => DnsError::Absent(name.to_owned()),
        false => DnsError::Failed(name.to_owned(), error.to_string()),
    })
}

/// One resolver for each server of `/etc/resolv.conf`: within one the library takes the refusal of any server for the
/// answer of all.
fn servers(version: LookupIpStrategy) -> Result<Vec<TokioResolver>, NetError> {
    let text = std::fs::read(RESOLV_CONF)?;
    let only_tcp = by_tcp(&String::from_utf8_lossy(&text));
    let (config, mut options) = system_conf::parse_resolv_conf(text)?;
    options.ip_strategy = version;
    // Read here, by the caller's rules.
    options.use_hosts_file = ResolveHosts::Never;
    let (domain, search, servers) = config.into_parts();
    let one = |server: NameServerConfig| {
        let server = if only_tcp { NameServerConfig::tcp(server.ip) } else { server };
        let config = ResolverConfig::from_parts(domain.clone(), search.clone(), vec![server]);
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(options.clone())
            .build()
    };
    servers.into_iter().map(one).collect()
}

/// The option that the library does not know.
fn by_tcp(resolv_conf: &str) -> bool {
    let options = resolv_conf.lines().filter_map(|line| line.trim_start().strip_prefix("options"));
    options.flat_map(str::split_whitespace).any(|option| option == "use-vc" || option == "usevc")
}

/// Asks the servers in their order: the next one too when one has failed, or has said nothing for a while. That a name has
/// no address is an answer.
async fn first_answer(servers: &[TokioResolver], name: RecordName) -> Result<Vec<IpAddr>, NetError> {
    let mut waiting = servers.iter();
    let mut asked = FuturesUnordered::new();
    let mut last = NetError::from("there is no server to ask");
    loop {
        match waiting.next() {
            Some(server) => asked.push(server.lookup_ip(name.clone())),
            None if asked.is_empty() => return Err(last),
            None => {}
        }
        let next = tokio::time::sleep(limits::RESOLVE_NEXT_SERVER);
        let answer = tokio::select! {
            Some(answer) = asked.next() => answer,
            () = next, if waiting.len() > 0 => continue,
        };
        match answer {
            Ok(found) => return Ok(found.iter().collect()),
            Err(error) if error.is_no_records_found() => return Err(error),
            Err(error) => last = error,
        }
    }
}

/// A comment in some other encoding must not hide the other lines.
pub(crate) fn hosts_file() -> String {
    String::from_utf8_lossy(&std::fs::read("/etc/hosts").unwrap_or_default()).into_owned()
}

pub(crate) fn in_hosts_file(text: &str, name: &str) -> Vec<IpAddr> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().split_whitespace())
        .filter_map(|mut words| {
            let address = words.next()?.parse().ok()?;
            words.any(|word| word.eq_ignore_ascii_case(name.trim_end_matches('.'))).then_some(address)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_in_its_usual_disorder() {
        let text = "# a.test\n10.0.0.1 a.test\n\tfd00::1\tother A.TEST # note\n10.0.0.2 b.test # a.test\nbroken a.test\n10.0.0.3\n";
        let found: Vec<_> = in_hosts_file(text, "a.test.").iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1", "fd00::1"]);
    }

    #[test]
    fn an_option_for_tcp_is_found() {
        assert!(by_tcp("nameserver 10.0.0.1\noptions ndots:2 use-vc\n") && by_tcp(" options\tusevc\r\n"));
        assert!(!by_tcp("# options use-vc\nsearch use-vc\noptions use-vcx\n"));
    }
}
