//! Names to addresses: `/etc/hosts`, then the servers of `/etc/resolv.conf`, and nobody else. The C library is not asked,
//! since a static binary cannot load its modules; nor is any public server, since a container without a resolver has none
//! on purpose.

use crate::limits;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::proto::rr::Name as RecordName;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

/// Why a name has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// Nobody to ask.
    #[error("there is no usable /etc/resolv.conf to resolve {0} with")]
    NoResolver(String),
    /// The servers gave none.
    #[error("{0} cannot be resolved: {1}")]
    Failed(String, String),
}

/// Resolves names; remembers answers as long as the servers allow. Clones share what is remembered.
#[derive(Clone, Default)]
pub struct Names(Arc<Servers>);

#[derive(Default)]
struct Servers {
    four: OnceLock<TokioResolver>,
    six: OnceLock<TokioResolver>,
}

impl Names {
    /// Every address of a name, asked for until `deadline`.
    pub async fn addresses(&self, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, DnsError> {
        // As the C library does: a name that is in the file is not asked for elsewhere.
        // A comment in some other encoding must not hide the other lines.
        let listed = std::fs::read("/etc/hosts").unwrap_or_default();
        match in_hosts_file(&String::from_utf8_lossy(&listed), name) {
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
            (Err(error), _) => Err(error),
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
    server: &OnceLock<TokioResolver>,
    name: &str,
    version: LookupIpStrategy,
) -> Result<Vec<IpAddr>, DnsError> {
    let failed = |error: hickory_resolver::net::NetError| DnsError::Failed(name.to_owned(), error.to_string());
    let server = match server.get() {
        Some(server) => server,
        None => {
            let mut builder = TokioResolver::builder_tokio().map_err(|_| DnsError::NoResolver(name.to_owned()))?;
            builder.options_mut().ip_strategy = version;
            let made = builder.build().map_err(failed)?;
            server.get_or_init(|| made)
        }
    };
    // As it stands: what is not ASCII is translated, but the rules for that know no underscore, which service names have.
    let asked = if name.is_ascii() { RecordName::from_ascii(name) } else { RecordName::from_utf8(name) };
    let asked = asked.map_err(|error| DnsError::Failed(name.to_owned(), error.to_string()))?;
    Ok(server.lookup_ip(asked).await.map_err(failed)?.iter().collect())
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
}
