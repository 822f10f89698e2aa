//! What can be written, run and trusted on disk.

use super::Layer;
use crate::enter::environment::Environment;
use crate::enter::workdir;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub(super) fn look(environment: &Environment) -> Vec<Layer> {
    vec![root(), temporary(), workspace(environment), certificates(environment)]
}

fn root() -> Layer {
    const NAME: &str = "root-read-only";
    let Ok(stat) = statvfs("/") else { return Layer::failed(NAME, "/ cannot be examined") };
    if !stat.flags().contains(FsFlags::ST_RDONLY) {
        return Layer::absent(NAME, "the file system at / is mounted writable");
    }
    match Scratch::in_directory(Path::new("/"), "") {
        Ok(_) => Layer::failed(NAME, "the mount says read-only, but a file could be written"),
        Err(error) => Layer::enforced(NAME, format!("writing to / fails: {error}")),
    }
}

fn temporary() -> Layer {
    const NAME: &str = "tmp";
    let scratch = match Scratch::in_directory(Path::new("/tmp"), "#!/bin/sh\nexit 0\n") {
        Ok(scratch) => scratch,
        Err(error) => return Layer::failed(NAME, format!("/tmp cannot be written: {error}")),
    };
    let runs = match run(&scratch.0) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => false,
        Err(error) => return Layer::failed(NAME, format!("running a file in /tmp fails strangely: {error}")),
    };
    let Ok(stat) = statvfs("/tmp") else { return Layer::failed(NAME, "/tmp cannot be examined") };
    let flags = stat.flags();
    let mib = stat.blocks().saturating_mul(stat.fragment_size()) / (1024 * 1024);
    let mut lacking = Vec::new();
    if runs {
        lacking.push("noexec");
    }
    for (flag, name) in [(FsFlags::ST_NOSUID, "nosuid"), (FsFlags::ST_NODEV, "nodev")] {
        if !flags.contains(flag) {
            lacking.push(name);
        }
    }
    if lacking.is_empty() {
        Layer::enforced(NAME, format!("writable, noexec, nosuid, nodev, {mib} MiB"))
    } else {
        Layer::absent(NAME, format!("writable, {mib} MiB, without {}", lacking.join(", ")))
    }
}

fn workspace(environment: &Environment) -> Layer {
    const NAME: &str = "workspace";
    let Some(path) = environment.path("AX_WORKSPACE") else { return Layer::absent(NAME, "AX_WORKSPACE is not set") };
    if let Err(error) = workdir::check(path, None) {
        return Layer::failed(NAME, error.to_string());
    }
    if let Some(trouble) = workdir::trouble(path) {
        return Layer::failed(NAME, trouble);
    }
    if let Err(error) = Scratch::in_directory(path, "") {
        return Layer::failed(NAME, format!("{} cannot be written: {error}", path.display()));
    }
    let uid = nix::unistd::getuid().as_raw();
    match path.metadata().map(|metadata| metadata.uid()) {
        Ok(owner) if owner == uid => {
            Layer::enforced(NAME, format!("{} is writable and owned by uid {uid}", path.display()))
        }
        Ok(owner) => Layer::enforced(NAME, format!("{} is writable, but owned by uid {owner}", path.display())),
        Err(error) => Layer::failed(NAME, format!("{}: {error}", path.display())),
    }
}

/// The variables programs take their roots from; the runner rewrites them for its children every turn.
fn certificates(environment: &Environment) -> Layer {
    const NAME: &str = "ca";
    const VARIABLES: [&str; 4] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];
    let named: Vec<_> =
        VARIABLES.iter().filter_map(|name| environment.path(name).map(|path| (*name, path.to_owned()))).collect();
    let broken: Vec<_> = named
        .iter()
        .filter(|(_, path)| !is_pem(path))
        .map(|(name, path)| format!("{name}={}", path.display()))
        .collect();
    let system = Path::new("/etc/ssl/certs/ca-certificates.crt");
    if !broken.is_empty() {
        return Layer::failed(
            NAME,
            format!("{} names no certificates; they are set anew from the payload each turn", broken.join(", ")),
        );
    }
    match is_pem(system) {
        true => Layer::enforced(NAME, format!("{} and {} variable(s)", system.display(), named.len())),
        false if named.is_empty() => {
            Layer::absent(NAME, "no system certificates; the runner has its own, children have none")
        }
        false => Layer::enforced(NAME, format!("{} variable(s); no system certificates", named.len())),
    }
}

fn is_pem(path: &Path) -> bool {
    // A certificate file is small; anything else that stands there is not read to its end.
    let Ok(file) = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) else {
        return false;
    };
    let mut text = Vec::new();
    file.metadata().is_ok_and(|metadata| metadata.is_file())
        && io::Read::read_to_end(&mut io::Read::take(file, 8 * 1024 * 1024), &mut text).is_ok()
        && text.windows(27).any(|window| window == b"-----BEGIN CERTIFICATE-----")
}

/// A file that is gone when it is let go.
struct Scratch(PathBuf);

impl Scratch {
    fn in_directory(directory: &Path, text: &str) -> io::Result<Self> {
        let path = directory.join(format!(".ax-doctor-{}", std::process::id()));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        let scratch = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[allow(clippy::disallowed_methods)] // two fixed lines of shell that exit at once
fn run(program: &Path) -> io::Result<()> {
    std::process::Command::new(program).env_clear().stdin(std::process::Stdio::null()).status().map(drop)
}
