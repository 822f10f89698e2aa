//! What kind of place this is, as far as it changes what can be relied on.

use nix::sys::statvfs::{FsFlags, statvfs};

/// Whether the kernel is gVisor's, whatever the runtime is called: it answers with one fixed build date, or says so.
pub(crate) fn is_gvisor() -> bool {
    let Ok(name) = nix::sys::utsname::uname() else { return false };
    let has = |text: &std::ffi::OsStr, part: &str| text.to_string_lossy().contains(part);
    has(name.version(), "Sun Jan 10 15:06:54 PST 2016")
        || has(name.release(), "gvisor")
        || std::fs::read_to_string("/proc/version").is_ok_and(|version| version.contains("gVisor"))
}

/// Whether we are the first process of a container whose engine left the kernel's settings writable, as `--privileged`
/// does. Such a container can be taken over from inside by ways no packet filter and no capability set closes.
///
/// First is also who was started by the engine's own init (`--init`), or from outside by its `exec`, where no parent is
/// seen. A process deeper in such a container is not refused: somebody works there on purpose.
pub(crate) fn is_privileged_container() -> bool {
    let first = std::process::id() == 1 || nix::unistd::getppid().as_raw() <= 1;
    first && is_engine_made() && is_writable("/proc/sys") && is_writable("/sys") && !is_gvisor()
}

/// Whether an engine laid out the mounts: each of them gives a container its own names this way. A namespace somebody
/// made by hand has none of it.
fn is_engine_made() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    ["/etc/hosts", "/etc/hostname"].iter().all(|place| mounts.lines().any(|line| line.split(' ').nth(4) == Some(place)))
}

fn is_writable(mount: &str) -> bool {
    statvfs(mount).is_ok_and(|stat| !stat.flags().contains(FsFlags::ST_RDONLY))
}
