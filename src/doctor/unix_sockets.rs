//! Whether commands are kept from the host's socket (`AX_UNIX_SOCKETS`).

use super::Layer;
use crate::enter::environment::Environment;
use crate::os::guard::{Guard, Mode, Setting};
use nix::errno::Errno;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

const NAME: &str = "unix-sockets";

/// Tries what the runner would do, with two sockets of our own: one in the host's place, one that is nobody's.
pub(super) fn look(environment: &Environment) -> Layer {
    let text = |name: &'static str| environment.get(name).ok().flatten().filter(|value| !value.is_empty());
    let setting: Setting = match environment.get("AX_UNIX_SOCKETS").map(|value| value.unwrap_or_default().parse()) {
        Ok(Ok(setting)) => setting,
        Ok(Err(unknown)) => return Layer::failed(NAME, unknown.to_string()),
        Err(not_text) => return Layer::failed(NAME, not_text.to_string()),
    };
    if text("AX_HOST_URL").is_some() || text("AX_IPC_LISTEN") == Some("1") {
        return Layer::enforced(NAME, "not needed: in this mode the host has no socket that commands could reach");
    }
    if setting == Setting::Allow {
        return Layer::absent(NAME, "AX_UNIX_SOCKETS=allow: commands can connect to the host's socket");
    }
    let places = ["AX_HOME", "TMPDIR"].into_iter().filter_map(|name| environment.path(name)).chain([Path::new("/tmp")]);
    match Pair::make(places) {
        Ok(pair) => tried(setting, &pair),
        Err(error) => Layer::failed(NAME, format!("no socket can be made to try it with: {error}")),
    }
}

fn tried(setting: Setting, pair: &Pair) -> Layer {
    let guard = match Guard::start(setting, vec![pair.hosts.clone()]) {
        Ok(guard) => guard,
        Err(error) => return Layer::failed(NAME, error.to_string()),
    };
    let (hosts, other) = match (guard.try_connect(&pair.hosts), guard.try_connect(&pair.other)) {
        (Ok(hosts), Ok(other)) => (hosts, other),
        (Err(error), _) | (_, Err(error)) => return Layer::failed(NAME, format!("a child could not try: {error}")),
    };
    let mode = guard.mode();
    match (mode, hosts, other) {
        (_, 0, _) => Layer::failed(NAME, format!("{mode} should hold, but a command reaches the host's socket")),
        (Mode::Guard, _, 0) => Layer::enforced(NAME, "guard: the host's socket is refused to commands, others work"),
        (Mode::Guard, _, errno) => {
            Layer::failed(NAME, format!("guard refuses ordinary sockets too: {}", Errno::from_raw(errno).desc()))
        }
        (_, errno, _) => {
            let why =
                guard.fallback().map_or_else(String::new, |why| format!("; connects cannot be supervised: {why}"));
            let refusal = Errno::from_raw(errno).desc();
            Layer::enforced(NAME, format!("{mode}: commands can make no Unix sockets ({refusal}){why}"))
        }
    }
}

/// Two listening sockets in a directory of their own, removed when dropped.
struct Pair {
    directory: PathBuf,
    hosts: PathBuf,
    other: PathBuf,
    _listening: [UnixListener; 2],
}

impl Pair {
    /// In the first of `places` that takes them.
    fn make<'a>(places: impl Iterator<Item = &'a Path>) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match Self::make_in(place) {
                Ok(pair) => return Ok(pair),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn make_in(place: &Path) -> io::Result<Self> {
        let directory = place.join(format!(".ax-doctor-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        let (hosts, other) = (directory.join("h"), directory.join("o"));
        let listening = UnixListener::bind(&hosts).and_then(|first| Ok([first, UnixListener::bind(&other)?]));
        match listening {
            Ok(listening) => Ok(Self { directory, hosts, other, _listening: listening }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                Err(error)
            }
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn found(pairs: &[(&str, &str)]) -> Layer {
        look(&pairs.iter().copied().collect())
    }

    #[test]
    fn each_setting_is_tried() {
        let directory = tempfile::tempdir().unwrap();
        let home = ("AX_HOME", directory.path().to_str().unwrap());
        for (value, state, word) in [
            ("auto", State::Enforced, ": "),
            ("deny", State::Enforced, "deny: "),
            ("allow", State::Absent, "allow"),
            ("alow", State::Failed, "none of"),
        ] {
            let layer = found(&[home, ("AX_UNIX_SOCKETS", value)]);
            assert!(layer.state == state && layer.detail.contains(word), "{value}: {layer:?}");
        }
        for mode in [("AX_HOST_URL", "http://h"), ("AX_IPC_LISTEN", "1")] {
            assert!(found(&[home, mode]).detail.starts_with("not needed"));
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
