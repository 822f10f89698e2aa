//! Keeps names usable after the name service is closed off.
//!
//! In the host's own variables a plain `http` name is replaced by the address it resolved to: nothing else has to be
//! writable. `https` needs its name for the certificate, and the `allow` list is for any program, so those names go into
//! `/etc/hosts`.

use super::destination::{Destination, HostPart};
use super::environment::Environment;
use super::resolve::Addresses;
use crate::limits;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const MARK: &str = "# ax-runner enter";

/// Replaces the host of each `http` URL variable by its address. Returns the `https` names that still need a file.
pub(crate) fn rewrite_urls(environment: &mut Environment, addresses: &Addresses) -> Vec<String> {
    let mut left = Vec::new();
    for variable in ["AX_HOST_URL", "AX_WEB_PROXY_URL"] {
        let Ok(Some(url)) = environment.get(variable) else { continue };
        let Ok(Destination { host: HostPart::Name(name), .. }) = Destination::from_url(url, variable) else { continue };
        let Some(address) = addresses.get(&name).and_then(|set| set.first()) else { continue };
        let literal = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
        match replaced(url, &name, &literal) {
            Some(changed) => environment.set(variable, changed),
            None => left.push(name),
        }
    }
    left
}

fn replaced(url: &str, name: &str, literal: &str) -> Option<String> {
    let trimmed = url.trim();
    let (scheme, rest) = trimmed.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let start = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let host = rest.get(start..start + name.len())?;
    host.eq_ignore_ascii_case(name)
        .then(|| format!("{scheme}://{}{literal}{}", &rest[..start], &rest[start + name.len()..]))
}

/// The file without what earlier starts have added. Only our own lines are looked for, and they are plain; of the others every
/// byte stays.
pub(crate) fn others(file: &[u8]) -> Vec<u8> {
    let ours = |line: &&[u8]| line.trim_ascii_end().ends_with(MARK.as_bytes());
    file.split_inclusive(|byte| *byte == b'\n').filter(|line| !ours(line)).flatten().copied().collect()
}

/// Adds the names, in the place of those an earlier start has added. The file may be a mount, so it cannot be replaced.
pub(crate) fn add(file: &Path, addresses: &Addresses) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut hosts = options.read(true).append(true).create(true).custom_flags(libc::O_NONBLOCK).open(file)?;
    if !hosts.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    (&mut hosts).take(limits::HOSTS_FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::HOSTS_FILE_MAX_BYTES {
        return Err(std::io::Error::other("it is too large"));
    }
    let mut wanted = others(&bytes);
    if wanted.last().is_some_and(|byte| *byte != b'\n') {
        wanted.push(b'\n');
    }
    for (name, address) in addresses.iter().flat_map(|(name, set)| set.iter().map(move |address| (name, address))) {
        // With a final dot it is another name to those who read the file.
        let bare = name.trim_end_matches('.');
        let names = if bare == name { bare.to_owned() } else { format!("{bare} {name}") };
        wanted.extend_from_slice(format!("{address}\t{names}\t{MARK}\n").as_bytes());
    }
    // Half a line could name another address, so a write that fails is taken back.
    if let Some(rest) = wanted.strip_prefix(bytes.as_slice()) {
        return hosts.write_all(rest).inspect_err(|_| {
            let _ = hosts.set_len(bytes.len() as u64);
        });
    }
    hosts.set_len(0)?;
    hosts.write_all(&wanted).inspect_err(|_| {
        let _ = hosts.set_len(0).and_then(|()| hosts.write_all(&bytes));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn addresses() -> Addresses {
        let set = |text: &str| BTreeSet::from([text.parse().unwrap()]);
        Addresses::from([("ax-host.svc".to_owned(), set("10.0.0.2")), ("six".to_owned(), set("fd00::2"))])
    }

    #[test]
    fn only_the_host_of_an_http_url_changes() {
        for (url, expected) in [
            ("http://ax-host.svc", "http://10.0.0.2"),
            ("http://AX-host.svc:81/ax-host.svc?x", "http://10.0.0.2:81/ax-host.svc?x"),
            ("http://ax-host.svc:pw@ax-host.svc/", "http://ax-host.svc:pw@10.0.0.2/"),
            ("http://six:80", "http://[fd00::2]:80"),
            ("http://10.9.9.9", "http://10.9.9.9"),
            ("http://other", "http://other"),
        ] {
            let mut environment: Environment = [("AX_HOST_URL", url)].into_iter().collect();
            assert_eq!(rewrite_urls(&mut environment, &addresses()), [""; 0]);
            assert_eq!(environment.get("AX_HOST_URL").unwrap(), Some(expected));
        }
        let mut environment: Environment = [("AX_HOST_URL", "https://ax-host.svc")].into_iter().collect();
        assert_eq!(rewrite_urls(&mut environment, &addresses()), ["ax-host.svc"]);
    }

    #[test]
    fn the_hosts_file_grows_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        std::fs::write(&file, "127.0.0.1\tlocalhost").unwrap();
        add(&file, &addresses()).unwrap();
        let once = std::fs::read_to_string(&file).unwrap();
        assert!(once.starts_with("127.0.0.1\tlocalhost\n10.0.0.2\tax-host.svc\t"), "{once}");
        add(&file, &addresses()).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), once);
    }

    #[test]
    fn what_an_earlier_start_has_added_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        let theirs = b"# caf\xe9\n10.9.9.9\tax-host.svc\n";
        let old = format!("10.0.0.1\tax-host.svc\t{MARK}\n10.0.0.1\tgone\t{MARK}\r\n");
        std::fs::write(&file, [&theirs[..], old.as_bytes(), b"10.0.0.7\tlast"].concat()).unwrap();
        add(&file, &addresses()).unwrap();
        let ours = format!("10.0.0.2\tax-host.svc\t{MARK}\nfd00::2\tsix\t{MARK}\n");
        assert_eq!(std::fs::read(&file).unwrap(), [&theirs[..], b"10.0.0.7\tlast\n", ours.as_bytes()].concat());
        assert_eq!(others(format!("1.1.1.1 a\n{old}2.2.2.2 b").as_bytes()), b"1.1.1.1 a\n2.2.2.2 b");
    }
}
