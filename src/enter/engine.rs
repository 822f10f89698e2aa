//! What kind of place this is, as far as it changes what can be relied on.

use nix::sys::statvfs::{FsFlags, statvfs};
use std::path::Path;

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
pub(crate) fn is_privileged_container() -> bool {
    let marked = ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
        || ["container", "KUBERNETES_SERVICE_HOST"].iter().any(|name| std::env::var_os(name).is_some());
    std::process::id() == 1 && marked && is_writable("/proc/sys") && is_writable("/sys") && !is_gvisor()
}

fn is_writable(mount: &str) -> bool {
    statvfs(mount).is_ok_and(|stat| !stat.flags().contains(FsFlags::ST_RDONLY))
}
