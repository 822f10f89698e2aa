//! Giving up privilege, and asking the kernel what is left of it.
//!
//! Everything here acts on the calling *thread*, as capabilities do; [`drop_all`] therefore refuses to run in a process
//! that has more than one. Nothing is believed because a call returned zero: [`Holdings::read`] asks the kernel again.
#![allow(unsafe_code)]

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::{self, Gid, Uid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Why privilege could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum DropError {
    /// Another thread would keep what this one gives up.
    #[error("{0} threads are running; privilege is given up per thread, so there must be one")]
    Threads(usize),
    /// A step the kernel refused.
    #[error("{step} failed: {errno}; {remedy}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        errno: String,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// The calls succeeded and the kernel still reports privilege.
    #[error("privilege is left after the drop: {0}")]
    Left(String),
}

/// The user and group a command runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// What the calling thread may do, as the kernel tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holdings {
    /// Real, effective and saved user id.
    pub uids: [u32; 3],
    /// Real, effective and saved group id.
    pub gids: [u32; 3],
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Each capability set by name, as the mask of the numbers in it.
    pub sets: [(&'static str, u64); 5],
    /// Whether `execve` can no longer add privilege.
    pub no_new_privs: bool,
}

/// Highest capability number a kernel could report; a newer kernel may know more names than any library.
const CAPABILITY_NUMBERS: u32 = 64;

impl Holdings {
    /// Asks the kernel. Needs no `/proc`.
    pub fn read() -> Result<Self, Errno> {
        let uid = unistd::getresuid()?;
        let gid = unistd::getresgid()?;
        let words = capget()?;
        Ok(Self {
            uids: [uid.real.as_raw(), uid.effective.as_raw(), uid.saved.as_raw()],
            gids: [gid.real.as_raw(), gid.effective.as_raw(), gid.saved.as_raw()],
            groups: unistd::getgroups()?.into_iter().map(Gid::as_raw).collect(),
            sets: [
                ("effective", words.effective),
                ("permitted", words.permitted),
                ("inheritable", words.inheritable),
                ("bounding", numbers(|n| prctl_query(libc::PR_CAPBSET_READ, n, 0))),
                ("ambient", numbers(is_ambient)),
            ],
            no_new_privs: prctl::get_no_new_privs()?,
        })
    }

    /// The mask of one set by name.
    pub fn set(&self, name: &str) -> u64 {
        self.sets.iter().find(|(set, _)| *set == name).map_or(0, |(_, mask)| *mask)
    }

    /// Whether a capability can be used now.
    pub fn can(&self, capability: Capability) -> bool {
        self.set("effective") & capability.bitmask() != 0
    }

    /// What should not be there when `identity` is meant to hold nothing; empty when all is well.
    pub fn excess(&self, identity: Option<Identity>) -> String {
        let mut found = String::new();
        if let Some(Identity { uid, gid }) = identity {
            if self.uids != [uid; 3] {
                let _ = write!(found, "uids are {:?}, not {uid}; ", self.uids);
            }
            if self.gids != [gid; 3] {
                let _ = write!(found, "gids are {:?}, not {gid}; ", self.gids);
            }
            if self.groups.iter().any(|group| *group != gid) {
                let _ = write!(found, "supplementary groups {:?}; ", self.groups);
            }
        }
        for (name, mask) in self.sets.iter().filter(|(_, mask)| *mask != 0) {
            let _ = write!(found, "{name} capabilities {mask:#x}; ");
        }
        if !self.no_new_privs {
            found.push_str("no_new_privs is not set; ");
        }
        found.trim_end_matches("; ").to_owned()
    }
}

/// What to do about the bounding set, which only `CAP_SETPCAP` can empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounding {
    /// Empty it or fail.
    Empty,
    /// Leave it. For a start without any capability: with `no_new_privs` nothing can draw on it.
    Leave,
}

/// Empties the capability sets, becomes `identity` without supplementary groups, and sets `no_new_privs`; then checks.
/// `None` keeps the user and group.
pub fn drop_all(identity: Option<Identity>, bounding: Bounding) -> Result<(), DropError> {
    single_thread()?;
    let step = |step, remedy| move |error: String| DropError::Step { step, errno: error, remedy };
    let setpcap = "add the SETPCAP capability, or start without capabilities";
    clear_ambient().map_err(step("clearing the ambient set", setpcap))?;
    if bounding == Bounding::Empty {
        empty_bounding().map_err(|e| e.to_string()).map_err(step("emptying the bounding set", setpcap))?;
    }
    if let Some(Identity { uid, gid }) = identity {
        let setgid = "add the SETGID capability, or start as that user";
        let setuid = "add the SETUID capability, or start as that user";
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        become_group(group).map_err(|e| e.to_string()).map_err(step("switching the group", setgid))?;
        unistd::setresuid(user, user, user).map_err(|e| e.to_string()).map_err(step("switching the user", setuid))?;
    }
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|e| e.to_string()).map_err(step("clearing a capability set", setpcap))?;
    }
    prctl::set_no_new_privs()
        .map_err(|e| e.to_string())
        .map_err(step("setting no_new_privs", "use a kernel that has it (3.5 or later)"))?;
    check(identity, bounding)
}

/// Asks the kernel whether the drop holds, and tries to undo it.
fn check(identity: Option<Identity>, bounding: Bounding) -> Result<(), DropError> {
    let mut holdings = Holdings::read().map_err(|errno| DropError::Left(format!("it cannot be read: {errno}")))?;
    if bounding == Bounding::Leave {
        holdings.sets.iter_mut().filter(|(name, _)| *name == "bounding").for_each(|(_, mask)| *mask = 0);
    }
    let excess = holdings.excess(identity);
    if !excess.is_empty() {
        return Err(DropError::Left(excess));
    }
    let root = Uid::from_raw(0);
    if identity.is_some_and(|identity| identity.uid != 0) && unistd::setresuid(root, root, root).is_ok() {
        return Err(DropError::Left("the user could be switched back to root".to_owned()));
    }
    Ok(())
}

/// A kernel without the set (gVisor, Linux before 4.3) refuses to clear it; then there is nothing in it.
fn clear_ambient() -> Result<(), String> {
    match caps::clear(None, CapSet::Ambient) {
        Err(error) if numbers(is_ambient) != 0 => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn is_ambient(number: libc::c_ulong) -> bool {
    prctl_query(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET as libc::c_ulong, number)
}

fn become_group(group: Gid) -> Result<(), Errno> {
    // Without the right to set groups, having none beyond the own one is just as good.
    if let Err(errno) = unistd::setgroups(&[]) {
        let own = unistd::getgroups()?.into_iter().all(|held| held == group);
        if !own {
            return Err(errno);
        }
    }
    unistd::setresgid(group, group, group)
}

fn empty_bounding() -> Result<(), Errno> {
    for number in 0..CAPABILITY_NUMBERS {
        if !prctl_query(libc::PR_CAPBSET_READ, number.into(), 0) {
            continue;
        }
        // SAFETY: PR_CAPBSET_DROP takes one integer and touches no memory of ours.
        let done = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
        Errno::result(done)?;
    }
    Ok(())
}

fn numbers(held: impl Fn(libc::c_ulong) -> bool) -> u64 {
    (0..CAPABILITY_NUMBERS).filter(|number| held((*number).into())).fold(0, |mask, number| mask | 1 << number)
}

/// A `prctl` that answers yes (1), no (0) or "no such thing" (an error).
fn prctl_query(option: libc::c_int, first: libc::c_ulong, second: libc::c_ulong) -> bool {
    // SAFETY: the two options used here take integers only and touch no memory of ours.
    (unsafe { libc::prctl(option, first, second, 0, 0) }) == 1
}

struct Words {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

/// `capget(2)`, since the library's sets hold only the names it knows.
fn capget() -> Result<Words, Errno> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    #[repr(C)]
    #[derive(Default, Clone, Copy)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 fills exactly two records of the layout above; both pointers are to live values of ours.
    let done = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    Errno::result(done)?;
    let join = |pick: fn(&Data) -> u32| u64::from(pick(&data[0])) | u64::from(pick(&data[1])) << 32;
    Ok(Words {
        effective: join(|d| d.effective),
        permitted: join(|d| d.permitted),
        inheritable: join(|d| d.inheritable),
    })
}

fn single_thread() -> Result<(), DropError> {
    // Without /proc nobody can tell; the caller starts no threads.
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(count) if count > 1 => Err(DropError::Threads(count)),
        _ => Ok(()),
    }
}

/// Refuses, for this process and all it starts, the socket families that no packet filter sees (`AF_VSOCK` reaches the
/// hypervisor, `AF_PACKET` goes below the filter), and `io_uring`, which opens sockets behind a seccomp filter's back.
pub fn confine_sockets() -> Result<(), String> {
    let filter = socket_filter(std::env::consts::ARCH)?;
    seccompiler::apply_filter(&filter).map_err(|error| error.to_string())
}

/// Families an agent has a use for.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Bit that marks a call of the x32 table; it shares the architecture number with x86-64.
const X32: i64 = 0x4000_0000;

fn socket_filter(architecture: &str) -> Result<BpfProgram, String> {
    let text = |error: seccompiler::BackendError| error.to_string();
    let other_family = || -> Result<Vec<SeccompRule>, String> {
        let conditions = FAMILIES
            .iter()
            .map(|family| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *family as u64))
            .collect::<Result<Vec<_>, _>>()
            .map_err(text)?;
        Ok(vec![SeccompRule::new(conditions).map_err(text)?])
    };
    let mut rules = std::collections::BTreeMap::new();
    rules.insert(libc::SYS_socket, other_family()?);
    rules.insert(libc::SYS_io_uring_setup, vec![]);
    if architecture == "x86_64" {
        rules.insert(libc::SYS_socket | X32, vec![]);
        rules.insert(libc::SYS_io_uring_setup | X32, vec![]);
    }
    let target = architecture.try_into().map_err(text)?;
    // EPERM, not a signal: programs that probe for such a socket go on without it.
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, target).and_then(BpfProgram::try_from).map_err(text)
}

/// Version of the Landlock interface the kernel offers, if it offers one.
pub fn landlock_abi() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no pointer and creates nothing; it returns a number or an error.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, VERSION) };
    u32::try_from(answer).ok().filter(|version| *version > 0)
}

/// Lets the child start with no signal blocked, whatever its parent blocks.
pub fn unblock_signals_in_child(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one async-signal-safe call on a set that lives on its own stack.
    unsafe {
        command.pre_exec(|| nix::sys::signal::SigSet::empty().thread_set_mask().map_err(std::io::Error::from));
    }
}

/// Lets the child end when the thread that starts it ends, by whatever.
pub fn end_with_parent(command: &mut Command) {
    let parent = nix::unistd::getpid();
    // SAFETY: between fork and exec the closure makes two async-signal-safe calls.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            // Gone before the call, a parent is not heard of.
            if nix::unistd::getppid() == parent { Ok(()) } else { Err(nix::errno::Errno::ESRCH.into()) }
        });
    }
}

#[cfg(test)]
#[path = "privileges_tests.rs"]
mod tests;
