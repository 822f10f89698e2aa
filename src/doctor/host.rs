//! Whether the host and its web proxy answer.

use super::Layer;
use crate::enter::destination::{Destination, HostPart};
use crate::enter::environment::Environment;
use crate::enter::resolve;
use crate::limits;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;

pub(super) fn look(environment: &Environment) -> Vec<Layer> {
    vec![host(environment), proxy(environment)]
}

/// The same choice as the runner's: a URL wins, then listening, then connecting.
fn host(environment: &Environment) -> Layer {
    const NAME: &str = "host";
    if let Some(url) = text(environment, "AX_HOST_URL") {
        return reached(NAME, "AX_HOST_URL", tcp(url, "AX_HOST_URL"));
    }
    match environment.path("AX_IPC_SOCKET") {
        Some(path) if text(environment, "AX_IPC_LISTEN") == Some("1") => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            match nix::unistd::access(directory, nix::unistd::AccessFlags::W_OK) {
                Ok(()) => Layer::enforced(NAME, format!("listen mode; {} can be bound", path.display())),
                Err(errno) => {
                    Layer::failed(NAME, format!("listen mode; {} cannot be bound: {}", path.display(), errno.desc()))
                }
            }
        }
        Some(path) => reached(NAME, "AX_IPC_SOCKET", unix(path)),
        None => Layer::absent(NAME, "neither AX_HOST_URL nor AX_IPC_SOCKET is set"),
    }
}

fn proxy(environment: &Environment) -> Layer {
    const NAME: &str = "proxy";
    match (environment.path("AX_WEB_PROXY_SOCKET"), text(environment, "AX_WEB_PROXY_URL")) {
        (_, Some(url)) => reached(NAME, "AX_WEB_PROXY_URL", tcp(url, "AX_WEB_PROXY_URL")),
        // The host names the socket always and makes it only while a turn with web access runs.
        (Some(path), None) if !path.exists() => Layer::absent(NAME, format!("{} does not exist", path.display())),
        (Some(path), None) => reached(NAME, "AX_WEB_PROXY_SOCKET", unix(path)),
        (None, None) => Layer::absent(NAME, "neither AX_WEB_PROXY_SOCKET nor AX_WEB_PROXY_URL is set"),
    }
}

fn text<'a>(environment: &'a Environment, name: &'static str) -> Option<&'a str> {
    environment.get(name).ok().flatten().filter(|value| !value.is_empty())
}

fn reached(name: &'static str, variable: &str, result: Result<String, String>) -> Layer {
    match result {
        Ok(place) => Layer::enforced(name, format!("{variable}: {place} answers")),
        Err(why) => Layer::failed(name, format!("{variable}: {why}")),
    }
}

/// Never blocks: a listener with a full backlog would hold a blocking connect for ever.
fn unix(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let told = |errno: Errno| match errno {
        Errno::ENOENT => format!("{shown} does not exist"),
        Errno::EACCES | Errno::EPERM => format!(
            "{shown} may not be used by uid {}: its directory or the socket belongs to another user",
            nix::unistd::getuid()
        ),
        Errno::ECONNREFUSED => format!("nobody listens at {shown}"),
        Errno::EAGAIN => format!("{shown} is busy"),
        other => format!("{shown}: {}", other.desc()),
    };
    let address = UnixAddr::new(path).map_err(told)?;
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(told)?;
    connect(socket.as_raw_fd(), &address).map_err(told)?;
    Ok(shown.to_string())
}

fn tcp(url: &str, variable: &'static str) -> Result<String, String> {
    let to = Destination::from_url(url, variable).map_err(|error| error.to_string())?;
    let addresses = match &to.host {
        HostPart::Address(address) => [*address].into(),
        HostPart::Name(name) => resolve::addresses_of(name).map_err(|error| error.to_string())?,
    };
    let mut last = String::new();
    for address in addresses.into_iter().take(4) {
        match TcpStream::connect_timeout(&SocketAddr::new(address, to.port), limits::DOCTOR_CONNECT_DEADLINE) {
            Ok(_) => return Ok(to.to_string()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("{to}: {last}"))
}
