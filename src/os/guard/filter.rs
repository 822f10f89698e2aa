//! The filters, as the kernel reads them. Data only.

use libc::sock_filter;

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64` of the kernel's `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Calls of the x32 ABI have this bit in their number, under the same architecture.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
/// The low half of the first argument; both architectures are little-endian. The kernel takes an `int` and so never looks
/// at the high half.
const FIRST: u32 = 16;

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
#[cfg(target_arch = "x86_64")]
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// A filter. Empty when there is none.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) code: Vec<sock_filter>,
    /// Calls wait for a supervisor.
    pub(super) notifies: bool,
}

impl Program {
    /// No filter.
    pub(super) fn none() -> Self {
        Self { code: Vec::new(), notifies: false }
    }

    /// Every `connect` is shown to the supervisor.
    pub(super) fn guard() -> Self {
        let mut code = common();
        code.extend(when(libc::SYS_connect, libc::SECCOMP_RET_USER_NOTIF));
        code.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
        Self { code, notifies: true }
    }

    /// `socket(AF_UNIX, …)` is refused as on a kernel without Unix sockets, which programs know how to take.
    pub(super) fn deny() -> Self {
        let mut code = common();
        code.push(step(EQUAL, 0, 3, number(libc::SYS_socket)));
        code.push(step(LOAD, 0, 0, FIRST));
        code.push(step(EQUAL, 0, 1, libc::AF_UNIX as u32));
        code.push(step(RETURN, 0, 0, errno(libc::EAFNOSUPPORT)));
        code.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
        Self { code, notifies: false }
    }
}

/// What both refuse; afterwards the call's number is loaded. `ENOSYS` is what programs with a second way expect.
fn common() -> Vec<sock_filter> {
    let missing = errno(libc::ENOSYS);
    let mut code = vec![
        step(LOAD, 0, 0, ARCH),
        step(EQUAL, 1, 0, ARCHITECTURE),
        step(RETURN, 0, 0, missing),
        step(LOAD, 0, 0, NUMBER),
    ];
    #[cfg(target_arch = "x86_64")]
    code.extend([step(AT_LEAST, 0, 1, X32), step(RETURN, 0, 0, missing)]);
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        code.extend(when(call, missing));
    }
    code
}

fn when(call: libc::c_long, result: u32) -> [sock_filter; 2] {
    [step(EQUAL, 0, 1, number(call)), step(RETURN, 0, 0, result)]
}

fn step(code: u16, yes: u8, no: u8, k: u32) -> sock_filter {
    sock_filter { code, jt: yes, jf: no, k }
}

fn errno(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

/// Numbers of system calls are small.
fn number(call: libc::c_long) -> u32 {
    call as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel does.
    fn run(program: &Program, arch: u32, number: u32, first: u64) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = &program.code[at];
            at += 1;
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        NUMBER => number,
                        ARCH => arch,
                        FIRST => first as u32,
                        other => panic!("offset {other}"),
                    }
                }
                EQUAL => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                RETURN => return step.k,
                _ => at += usize::from(if loaded >= step.k { step.jt } else { step.jf }),
            }
        }
    }

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    #[test]
    fn each_filter_on_each_call() {
        let (guard, deny) = (Program::guard(), Program::deny());
        let missing = errno(libc::ENOSYS);
        let unix = libc::AF_UNIX as u64;
        for (call, first, wanted_guard, wanted_deny) in [
            (libc::SYS_connect, 3, libc::SECCOMP_RET_USER_NOTIF, ALLOW),
            (libc::SYS_socket, unix, ALLOW, errno(libc::EAFNOSUPPORT)),
            (libc::SYS_socket, unix | (7 << 32), ALLOW, errno(libc::EAFNOSUPPORT)),
            (libc::SYS_socket, libc::AF_INET as u64, ALLOW, ALLOW),
            (libc::SYS_socketpair, unix, ALLOW, ALLOW),
            (libc::SYS_io_uring_setup, 0, missing, missing),
            (libc::SYS_io_uring_enter, 0, missing, missing),
            (libc::SYS_io_uring_register, 0, missing, missing),
            (libc::SYS_read, unix, ALLOW, ALLOW),
            (libc::SYS_execve, 0, ALLOW, ALLOW),
        ] {
            assert_eq!(run(&guard, ARCHITECTURE, number(call), first), wanted_guard, "guard, call {call}");
            assert_eq!(run(&deny, ARCHITECTURE, number(call), first), wanted_deny, "deny, call {call}");
        }
    }

    #[test]
    fn other_architectures_are_refused_whatever_the_call() {
        for program in [Program::guard(), Program::deny()] {
            for call in 0..600 {
                // i386, ARM, and a big-endian relative of our own.
                for arch in [0x4000_0003, 0x4000_0028, ARCHITECTURE & !0x4000_0000] {
                    assert_eq!(run(&program, arch, call, 0), errno(libc::ENOSYS));
                }
                #[cfg(target_arch = "x86_64")]
                assert_eq!(run(&program, ARCHITECTURE, call | X32, 0), errno(libc::ENOSYS));
            }
        }
    }
}
