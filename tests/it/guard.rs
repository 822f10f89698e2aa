//! The socket guard against programs that try to reach the host's socket, and beside programs that only work.
//!
//! Each scene runs in a process of its own, hardened as the runner is: as root and as nobody where this process is root.

use crate::net::have;
use ax_runner::os::guard::{Guard, Mode, Setting};
use ax_runner::os::harden;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;

/// Runs one of the scenes below as this user and, where that is root, as nobody too.
fn scene(name: &str) {
    let mut users = vec![None];
    if nix::unistd::geteuid().is_root() {
        users.push(Some(NOBODY));
    }
    // Build directories are often closed to others.
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("scene");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open_to_all(place.path());
    open_to_all(&program);
    for user in users {
        let mut command = Command::new(&program);
        command.args(["--exact", &format!("guard::{name}"), "--ignored", "--nocapture"]).current_dir("/");
        command.env("HOME", "/tmp").env_remove("TMPDIR").env("RUST_BACKTRACE", "0");
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = loop {
            match command.output() {
                // Another test has forked while our copy was being written.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                outcome => break outcome.unwrap(),
            }
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        crate::support::relay(&text);
        assert!(output.status.success() && text.contains("1 passed"), "as {user:?}:\n{text}");
    }
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A host's socket that counts who comes, and a place for the children.
struct Host {
    directory: TempDir,
    accepted: Arc<AtomicUsize>,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("ipc")).unwrap();
        let host = Self { directory, accepted: Arc::default() };
        host.listen();
        host
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("ipc/proxy.sock")
    }

    fn listen(&self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let accepted = self.accepted.clone();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                accepted.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let mut sink = Vec::new();
                    let _ = stream.read_to_end(&mut sink);
                });
            }
        });
    }
}

/// The guard, or the reason why this scene cannot be played here.
fn guard(setting: Setting, host: &Host) -> Option<Guard> {
    harden().unwrap();
    match Guard::start(setting, vec![host.socket()]) {
        Ok(guard) => Some(guard),
        Err(error) => {
            crate::support::skip("guard", error);
            None
        }
    }
}

/// Runs a Python program as a child of the runner's.
fn python(guard: &Guard, host: &Host, program: &str) -> Output {
    let prelude = "import os,sys,socket,errno,ctypes,threading,time,struct\n\
        P=sys.argv[1]; D=sys.argv[2]\n\
        libc=ctypes.CDLL(None,use_errno=True)\n\
        def show(name,f):\n\
        \x20try: r=f(); print(name,'OK' if r is None else r,flush=True)\n\
        \x20except OSError as e: print(name,errno.errorcode.get(e.errno,e.errno),flush=True)\n\
        def unix(kind=socket.SOCK_STREAM): return socket.socket(socket.AF_UNIX,kind)\n";
    child(
        guard,
        "python3",
        &[
            "-c",
            &format!("{prelude}{program}"),
            host.socket().to_str().unwrap(),
            host.directory.path().to_str().unwrap(),
        ],
        host.directory.path(),
    )
}

fn child(guard: &Guard, program: &str, arguments: &[&str], directory: &Path) -> Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).current_dir(directory).env("HOME", directory).stdin(Stdio::null()).kill_on_drop(true);
        guard.child().confine(&mut command);
        tokio::time::timeout(Duration::from_secs(240), command.output()).await.expect("hangs").unwrap()
    })
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn no_spelling_of_the_hosts_socket_gets_through() {
    if have("python3", "no_spelling_of_the_hosts_socket_gets_through") {
        scene("spellings");
    }
}

#[test]
#[ignore = "a scene"]
fn spellings() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let output = python(
        &guard,
        &host,
        r#"
def go(path,kind=socket.SOCK_STREAM,block=True):
    def f():
        s=unix(kind); s.setblocking(block); s.connect(path); s.send(b'x')
    return f
show('absolute',go(P))
show('dots',go(D+'/ipc/../ipc/./proxy.sock'))
os.chdir(D+'/ipc'); show('relative',go('proxy.sock')); show('relative2',go('../ipc/proxy.sock')); os.chdir('/')
os.symlink(P,D+'/link'); show('link',go(D+'/link'))
os.symlink(D+'/ipc',D+'/dirlink'); show('dirlink',go(D+'/dirlink/proxy.sock'))
os.symlink('/proc/self/root',D+'/rootlink'); show('rootlink',go(D+'/rootlink'+P))
show('self_root',go('/proc/self/root'+P))
show('thread_root',go('/proc/thread-self/root'+P))
show('pid_root',go('/proc/%d/root%s'%(os.getpid(),P)))
show('parent_root',go('/proc/%d/root%s'%(os.getppid(),P)))
d=os.open(D+'/ipc',os.O_RDONLY); show('fd_dir',go('/proc/self/fd/%d/proxy.sock'%d)); show('dev_fd',go('/dev/fd/%d/proxy.sock'%d))
f=os.open(P,os.O_PATH); show('fd_file',go('/proc/self/fd/%d'%f)); show('fd_file2',go('/dev/fd/%d'%f)); show('fd_file3',go('/proc/%d/fd/%d'%(os.getpid(),f)))
show('nonblocking',go(P,block=False))
show('seqpacket',go(P,socket.SOCK_SEQPACKET)); show('datagram',go(P,socket.SOCK_DGRAM))
show('sendto',lambda: unix().sendto(b'x',P) and None)
show('sendmsg',lambda: unix().sendmsg([b'x'],[],0,P) and None)
show('sendto_d',lambda: unix(socket.SOCK_DGRAM).sendto(b'x',P) and None)
show('sendmsg_d',lambda: unix(socket.SOCK_DGRAM).sendmsg([b'x'],[],0,P) and None)
def pair(kind,f):
    def g():
        a,b=socket.socketpair(socket.AF_UNIX,kind); f(a)
    return g
show('pair',pair(socket.SOCK_STREAM,lambda a:a.connect(P)))
show('pair_d',pair(socket.SOCK_DGRAM,lambda a:a.connect(P)))
show('pair_to',pair(socket.SOCK_DGRAM,lambda a:a.sendto(b'x',P) and None))
os.link(P,D+'/hard'); show('hardlink',go(D+'/hard'))
# Passed to a sibling and connected there; and from an orphan.
a,b=socket.socketpair()
s=unix(); socket.send_fds(a,[b'x'],[s.fileno()])
if os.fork()==0:
    _,fds,_,_=socket.recv_fds(b,1,1); q=socket.socket(fileno=fds[0]); show('passed',lambda:q.connect(P)); os._exit(0)
os.wait()
r,w=os.pipe()
if os.fork()==0:
    os.setsid()
    if os.fork()==0:
        time.sleep(0.1); show('orphan',go(P)); os.close(w); os._exit(0)
    os._exit(0)
os.close(w); os.wait(); os.read(r,1)
# A filter of its own that allows everything.
libc.prctl(38,1,0,0,0)
prog=ctypes.create_string_buffer(struct.pack('HBBI',6,0,0,0x7fff0000))
fprog=struct.pack('HxxxxxxQ',1,ctypes.addressof(prog)); fb=ctypes.create_string_buffer(fprog)
show('own_filter_set',lambda: None if libc.prctl(22,2,fb,0,0)==0 else 'failed')
show('own_filter',go(P))
show('io_uring',lambda: (_ for _ in ()).throw(OSError(ctypes.get_errno(),'')) if libc.syscall(425,8,ctypes.create_string_buffer(120))<0 else 'OPEN')
# Renamed: the inode is known.
os.rename(P,D+'/ipc/other.sock'); show('renamed',go(D+'/ipc/other.sock')); os.rename(D+'/ipc/other.sock',P)
show('last',go(P))
"#,
    );
    for line in lines(&output) {
        let (name, result) = line.split_once(' ').unwrap();
        let wanted: &[&str] = match name {
            "seqpacket" | "datagram" => &["EACCES"],
            "sendto" | "sendmsg" => &["ENOTCONN", "EOPNOTSUPP", "ENOTSUP", "EISCONN"],
            "sendto_d" | "sendmsg_d" | "pair_to" => &["EPROTOTYPE"],
            "own_filter_set" => &["OK"],
            "io_uring" => &["ENOSYS"],
            "thread_root" | "parent_root" => &["EACCES", "ENOENT"],
            _ => &["EACCES"],
        };
        assert!(wanted.contains(&result), "{line}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("last EACCES"));
    assert_eq!(host.accepted.load(Ordering::SeqCst), 0, "nobody came through");
    assert!(guard.refused() > 20);
    // The runner itself still gets there.
    std::os::unix::net::UnixStream::connect(host.socket()).unwrap();
}

#[test]
fn other_roots_and_mounts_do_not_help() {
    if have("python3", "other_roots_and_mounts_do_not_help") {
        scene("namespaces");
    }
}

#[test]
#[ignore = "a scene"]
fn namespaces() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let output = python(
        &guard,
        &host,
        r#"
def go(path): return lambda: unix().connect(path)
os.mkdir(D+'/mnt'); os.mkdir(D+'/jail'); os.mkdir(D+'/jail/sub')
uid,gid=os.getuid(),os.getgid()
if libc.unshare(0x10000000|0x00020000)!=0:
    print('SKIP_unshare',flush=True); sys.exit()
open('/proc/self/setgroups','w').write('deny'); open('/proc/self/uid_map','w').write('%d %d 1'%(uid,uid)); open('/proc/self/gid_map','w').write('%d %d 1'%(gid,gid))
if libc.mount((D+'/ipc').encode(),(D+'/mnt').encode(),b'none',4096,None)!=0:
    print('SKIP_mount',flush=True); sys.exit()
show('bind',go(D+'/mnt/proxy.sock'))
libc.mount((D+'/ipc').encode(),(D+'/jail/sub').encode(),b'none',4096,None)
os.symlink('/sub/proxy.sock',D+'/jail/link')
os.chdir(D+'/jail/sub'); show('bind_relative',go('proxy.sock'))
srv=unix(); srv.bind(D+'/jail/mine.sock'); srv.listen()
os.chroot(D+'/jail'); os.chdir('/')
show('chroot',go('/sub/proxy.sock')); show('chroot_relative',go('sub/proxy.sock')); show('chroot_link',go('/link')); show('chroot_up',go('/../sub/proxy.sock'))
show('mine',go('/mine.sock'))
"#,
    );
    let lines = lines(&output);
    if let Some(line) = lines.iter().find(|line| line.starts_with("SKIP")) {
        crate::support::skip("namespaces", line);
    }
    for line in lines.iter().filter(|line| !line.starts_with("SKIP")) {
        let wanted = if line.starts_with("mine") { "OK" } else { "EACCES" };
        assert_eq!(line.split_once(' ').unwrap().1, wanted, "{line}");
    }
    assert_eq!(host.accepted.load(Ordering::SeqCst), 0);
}

#[test]
fn nothing_can_be_exchanged_between_look_and_use() {
    if have("python3", "nothing_can_be_exchanged_between_look_and_use") {
        scene("races");
    }
}

#[test]
#[ignore = "a scene"]
fn races() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let output = python(
        &guard,
        &host,
        r#"
import subprocess
good=D+'/g.sock'
srv=unix(); srv.bind(good); srv.listen(4096)
def drain():
    while True:
        try: srv.accept()[0].close()
        except OSError: return
threading.Thread(target=drain,daemon=True).start()
# The address changes in memory while the call is made.
a=b'\x01\x00'+good.encode().ljust(108,b'\0'); b=b'\x01\x00'+P.encode().ljust(108,b'\0')
buf=ctypes.create_string_buffer(a,110)
stop=False
def flip():
    while not stop: ctypes.memmove(buf,b,110); ctypes.memmove(buf,a,110)
t=[threading.Thread(target=flip) for _ in range(2)]
for x in t: x.start()
sys.setswitchinterval(1e-6)
for i in range(800):
    s=unix(); libc.connect(s.fileno(),buf,110)
stop=True
for x in t: x.join()
# The link behind a name changes.
os.symlink(good,D+'/flip'); stop=False
def flip2():
    while not stop:
        for target in (P,good):
            os.symlink(target,D+'/tmp'); os.rename(D+'/tmp',D+'/flip')
t=threading.Thread(target=flip2); t.start()
for i in range(800):
    try: unix().connect(D+'/flip')
    except OSError: pass
stop=True; t.join()
# The number of the socket changes from TCP to Unix.
tcp=socket.socket(); un=unix(); slot=os.dup(tcp.fileno()); stop=False
def flip3():
    while not stop: os.dup2(un.fileno(),slot); os.dup2(tcp.fileno(),slot)
t=threading.Thread(target=flip3); t.start()
target=ctypes.create_string_buffer(b,110)
for i in range(800): libc.connect(slot,target,110)
stop=True; t.join()
print('done OK')
"#,
    );
    assert_eq!(lines(&output), ["done OK"]);
    assert_eq!(host.accepted.load(Ordering::SeqCst), 0, "not once in all the races");
}

#[test]
fn everything_else_works_as_before() {
    if have("python3", "everything_else_works_as_before") {
        scene("ordinary");
    }
}

/// What programs do with sockets; the same lines with and without the guard.
const ORDINARY: &str = r#"
import asyncio,signal
def server(family,addr,kind=socket.SOCK_STREAM):
    s=socket.socket(family,kind); s.bind(addr)
    if kind!=socket.SOCK_DGRAM: s.listen(64)
    return s
def talk(family,s,name=None):
    c=socket.socket(family,s.type); c.settimeout(20); c.connect(name or s.getsockname()); a,_=s.accept(); c.send(b'ping'); r=a.recv(4); a.send(b'pong'+r); return c.recv(8).decode()
show('tcp4',lambda: talk(socket.AF_INET,server(socket.AF_INET,('127.0.0.1',0))))
show('tcp6',lambda: talk(socket.AF_INET6,server(socket.AF_INET6,('::1',0))))
show('unix',lambda: talk(socket.AF_UNIX,server(socket.AF_UNIX,D+'/u1')))
show('seqpacket',lambda: talk(socket.AF_UNIX,server(socket.AF_UNIX,D+'/u2',socket.SOCK_SEQPACKET)))
show('abstract',lambda: talk(socket.AF_UNIX,server(socket.AF_UNIX,'\0ax-%d'%os.getpid())))
os.chdir(D); s=server(socket.AF_UNIX,'rel.sock'); show('relative',lambda: talk(socket.AF_UNIX,s,'rel.sock'))
dfd=os.open(D,os.O_RDONLY); show('proc_fd',lambda: talk(socket.AF_UNIX,s,'/proc/self/fd/%d/rel.sock'%dfd))
os.symlink('rel.sock','sym'); show('symlink',lambda: talk(socket.AF_UNIX,s,'sym'))
def peername():
    s=server(socket.AF_UNIX,D+'/pn'); c=unix(); c.connect(D+'/pn'); return c.getpeername()==D+'/pn'
show('peername',peername)
def cred():
    s=server(socket.AF_UNIX,D+'/cr'); c=unix(); c.connect(D+'/cr'); a,_=s.accept()
    return struct.unpack('3i',a.getsockopt(socket.SOL_SOCKET,socket.SO_PEERCRED,12))[1:]==(os.getuid(),os.getgid())
show('credentials',cred)
def dgram():
    s=server(socket.AF_UNIX,D+'/dg',socket.SOCK_DGRAM); c=unix(socket.SOCK_DGRAM); c.connect(D+'/dg'); c.send(b'a'); unix(socket.SOCK_DGRAM).sendto(b'b',D+'/dg'); return (s.recv(1)+s.recv(1)).decode()
show('datagram',dgram)
def udp():
    s=server(socket.AF_INET,('127.0.0.1',0),socket.SOCK_DGRAM); c=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); c.connect(s.getsockname()); c.send(b'u'); return s.recv(1).decode()
show('udp',udp)
def unspec():
    s=server(socket.AF_INET,('127.0.0.1',0),socket.SOCK_DGRAM); c=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); c.connect(s.getsockname())
    return libc.connect(c.fileno(),ctypes.create_string_buffer(16),16)
show('disconnect',unspec)
def raw(fd,addr,n): 
    r=libc.connect(fd,addr,n); 
    if r: raise OSError(ctypes.get_errno(),'')
addr=ctypes.create_string_buffer(b'\x01\x00/nope',110)
k=unix(); show('bad_fd',lambda: raw(999,addr,110)); show('not_a_socket',lambda: raw(dfd,addr,110)); show('bad_pointer',lambda: raw(k.fileno(),ctypes.c_void_p(8),110))
show('too_long',lambda: raw(k.fileno(),addr,4096)); show('negative',lambda: raw(k.fileno(),addr,-1)); show('empty',lambda: raw(k.fileno(),addr,0)); show('short',lambda: raw(k.fileno(),addr,1))
show('missing',lambda: unix().connect(D+'/missing')); show('a_file',lambda: (open(D+'/file','w').close(),unix().connect(D+'/file'))[1]); show('a_directory',lambda: unix().connect(D))
show('not_a_directory',lambda: unix().connect(D+'/file/x')); os.symlink('loop',D+'/loop'); show('loop',lambda: unix().connect(D+'/loop'))
dead=server(socket.AF_UNIX,D+'/dead'); dead.close(); show('nobody_listens',lambda: unix().connect(D+'/dead'))
closed=server(socket.AF_INET,('127.0.0.1',0)); port=closed.getsockname(); closed.close(); show('tcp_refused',lambda: socket.create_connection(port))
def nonblocking():
    s=server(socket.AF_INET,('127.0.0.1',0)); c=socket.socket(); c.setblocking(False); return errno.errorcode[c.connect_ex(s.getsockname())]
show('nonblocking',nonblocking)
def again():
    s=server(socket.AF_UNIX,D+'/ag'); c=unix(); c.connect(D+'/ag'); c.connect(D+'/ag')
show('connected_already',again)
def full():
    s=unix(); s.bind(D+'/full'); s.listen(0); c=unix(); c.connect(D+'/full'); n=unix(); n.setblocking(False); n.connect(D+'/full')
show('queue_full',full)
def blocked():
    s=unix(); s.bind(D+'/blk'); s.listen(0); held=[]
    c=unix(); c.connect(D+'/blk'); held.append(c)
    out=[]
    def late():
        x=unix(); x.connect(D+'/blk'); out.append('in'); held.append(x)
    ts=[threading.Thread(target=late) for _ in range(12)]
    for t in ts: t.start()
    time.sleep(0.2)
    free=talk(socket.AF_UNIX,server(socket.AF_UNIX,D+'/free'))   # not held up by the others
    for _ in range(13): held.append(s.accept()[0])
    for t in ts: t.join(20)
    return free,len(out)
show('others_wait',blocked)
def signals():
    s=server(socket.AF_INET,('127.0.0.1',0)); n=0
    signal.signal(signal.SIGALRM,lambda *a:None); signal.siginterrupt(signal.SIGALRM,False); signal.setitimer(signal.ITIMER_REAL,0.0005,0.0005)
    for i in range(200):
        c=socket.create_connection(s.getsockname()); a,_=s.accept(); c.close(); a.close(); n+=1
    signal.setitimer(signal.ITIMER_REAL,0); return n
show('under_signals',signals)
async def aio():
    async def serve(r,w): w.write(await r.read(3)); await w.drain(); w.close()
    s=await asyncio.start_unix_server(serve,D+'/aio'); r,w=await asyncio.open_unix_connection(D+'/aio'); w.write(b'abc'); w.write_eof(); return (await r.read()).decode()
show('asyncio',lambda: asyncio.run(aio()))
def pool():
    import subprocess
    open(D+'/p.py','w').write("import multiprocessing as m\ndef f(x): return x*x\nif __name__=='__main__':\n c=m.get_context('forkserver')\n with c.Pool(4) as p: print(sum(p.map(f,range(100))))\n")
    return subprocess.run([sys.executable,D+'/p.py'],capture_output=True,text=True,timeout=200).stdout.strip()
show('forkserver',pool)
"#;

#[test]
#[ignore = "a scene"]
fn ordinary() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let guarded = lines(&python(&guard, &host, ORDINARY));
    drop(guard);
    let host = Host::new();
    let plain = Guard::start(Setting::Allow, vec![host.socket()]).unwrap();
    let plain = lines(&python(&plain, &host, ORDINARY));
    assert_eq!(guarded, plain);
    assert!(plain.iter().any(|line| line == "forkserver 328350"), "{plain:?}");
    assert!(plain.iter().any(|line| line.contains("others_wait ('pongping', 12)")), "{plain:?}");
}

#[test]
fn real_servers_and_agents_work() {
    scene("servers");
}

#[test]
#[ignore = "a scene"]
fn servers() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let run = |script: &str| child(&guard, "bash", &["-c", script], host.directory.path());
    let named = nix::unistd::User::from_uid(nix::unistd::geteuid()).is_ok_and(|user| user.is_some());
    if !named {
        return crate::support::skip("servers", "ssh-keygen and initdb want a user with a name");
    }
    if have("ssh-agent", "servers") {
        let output = run(
            "eval $(ssh-agent -a $PWD/a.sock) >&2; ssh-add -l; ssh-keygen -q -t ed25519 -N '' -f k; ssh-add -q k; \
                          ssh-add -l | cut -d' ' -f4; kill $SSH_AGENT_PID",
        );
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "The agent has no identities.\n(ED25519)\n", "{}", String::from_utf8_lossy(&output.stderr));
    }
    // Postgres refuses to run as root; a root's tests play this scene as nobody too.
    if !nix::unistd::geteuid().is_root() && have("postgres", "servers") && have("psql", "servers") {
        let output = run(
            "set -e; B=$(dirname $(readlink -f $(command -v initdb || echo /usr/lib/postgresql/*/bin/initdb))); \
            $B/initdb -D d -A peer -U u --no-sync >/dev/null; \
            echo \"m $(id -un) u\" > d/pg_ident.conf; echo 'local all all peer map=m' > d/pg_hba.conf; \
            $B/pg_ctl -D d -w -l log -o \"-k $PWD -c listen_addresses=''\" start >/dev/null; \
            for i in 1 2 3; do psql -h $PWD -U u -d postgres -Atc 'select 6*7'; done; $B/pg_ctl -D d -m fast stop >/dev/null",
        );
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "42\n42\n42\n", "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn without_the_supervisor_nothing_connects() {
    if have("python3", "without_the_supervisor_nothing_connects") {
        scene("orphaned");
    }
}

#[test]
#[ignore = "a scene"]
fn orphaned() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let text = runtime.block_on(async {
        use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
        let mut command = tokio::process::Command::new("python3");
        let program = "import socket,sys,errno\ns=socket.socket(); s.bind(('127.0.0.1',0)); s.listen()\n\
            def t():\n\x20try: socket.create_connection(s.getsockname(),5); return 'OK'\n\x20except OSError as e: return errno.errorcode[e.errno]\n\
            print(t(),flush=True); sys.stdin.readline(); print(t(),flush=True)";
        command.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        guard.child().confine(&mut command);
        let mut child = command.spawn().unwrap();
        let mut output = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let first = output.next_line().await.unwrap().unwrap();
        drop(guard);
        child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
        format!("{first} {}", output.next_line().await.unwrap().unwrap())
    });
    assert_eq!(text, "OK ENOSYS");
}

#[test]
fn deny_leaves_pairs_and_tcp() {
    if have("python3", "deny_leaves_pairs_and_tcp") {
        scene("denied");
    }
}

#[test]
#[ignore = "a scene"]
fn denied() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Deny, &host) else { return };
    assert_eq!((guard.mode(), guard.mode().to_string().as_str()), (Mode::Deny, "deny"));
    let output = python(
        &guard,
        &host,
        r#"
show('unix',lambda: unix().connect(P))
show('datagram',lambda: unix(socket.SOCK_DGRAM))
def high():
    if libc.syscall(41 if os.uname().machine=='x86_64' else 198,ctypes.c_ulong((7<<32)|1),1,0)<0: raise OSError(ctypes.get_errno(),'')
show('high_bits',high)
show('pair',lambda: socket.socketpair() and None)
def pair_d():
    a,b=socket.socketpair(socket.AF_UNIX,socket.SOCK_DGRAM); a.connect(P)
show('pair_connect',pair_d)
def pair_s():
    a,b=socket.socketpair(); a.connect(P)
show('pair_stream',pair_s)
s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen()
show('tcp',lambda: socket.create_connection(s.getsockname()) and None)
show('io_uring',lambda: (_ for _ in ()).throw(OSError(ctypes.get_errno(),'')) if libc.syscall(425,8,ctypes.create_string_buffer(120))<0 else 'OPEN')
"#,
    );
    let wanted = [
        "unix EAFNOSUPPORT",
        "datagram EAFNOSUPPORT",
        "high_bits EAFNOSUPPORT",
        "pair OK",
        "pair_connect EPROTOTYPE",
        "pair_stream EISCONN",
        "tcp OK",
        "io_uring ENOSYS",
    ];
    assert_eq!(lines(&output), wanted);
    assert_eq!(host.accepted.load(Ordering::SeqCst), 0);
}

/// A 64-bit program can still make calls in the 32-bit way, and with x32 numbers.
#[test]
fn another_architectures_calls_are_refused() {
    if cfg!(target_arch = "x86_64") && have("gcc", "another_architectures_calls_are_refused") {
        scene("architectures");
    }
}

#[test]
#[ignore = "a scene"]
fn architectures() {
    let host = Host::new();
    let source = host.directory.path().join("a.c");
    let program = host.directory.path().join("a");
    std::fs::write(
        &source,
        "#include <stdio.h>\n#include <unistd.h>\n#include <errno.h>\n#include <sys/syscall.h>\nint main(){\n\
         long r; __asm__ volatile(\"int $0x80\":\"=a\"(r):\"a\"(20):\"memory\"); printf(\"i386 %ld\\n\",r);\n\
         r=syscall(0x40000000|39); printf(\"x32 %d\\n\", r<0?-errno:1); return 0;}\n",
    )
    .unwrap();
    assert!(Command::new("gcc").arg("-o").args([&program, &source]).status().unwrap().success());
    for setting in [Setting::Guard, Setting::Deny] {
        let Some(guard) = guard(setting, &host) else { continue };
        let output = child(&guard, program.to_str().unwrap(), &[], Path::new("/"));
        assert_eq!(lines(&output), ["i386 -38", "x32 -38"], "{setting:?}");
    }
}

#[test]
fn a_connect_costs_little_more() {
    if have("python3", "a_connect_costs_little_more") {
        scene("latency");
    }
}

#[test]
#[ignore = "a scene"]
fn latency() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let program = r#"
srv=socket.socket(); srv.bind(('127.0.0.1',0)); srv.listen(512); u=unix(); u.bind(D+'/u%d'%os.getpid()); u.listen(512)
for name,family,s in (('tcp',socket.AF_INET,srv),('unix',socket.AF_UNIX,u)):
    times=[]
    for i in range(400):
        c=socket.socket(family,socket.SOCK_STREAM); a=s.getsockname(); t=time.perf_counter_ns(); c.connect(a); times.append(time.perf_counter_ns()-t); s.accept()[0].close(); c.close()
    print(name,sorted(times)[200]//1000,'us median')
"#;
    let guarded = lines(&python(&guard, &host, program));
    let plain = Guard::start(Setting::Allow, vec![host.socket()]).unwrap();
    let plain = lines(&python(&plain, &host, program));
    println!("MEASURED connect with the guard: {guarded:?}, without: {plain:?}");
}

#[test]
fn threads_and_descriptors_do_not_pile_up() {
    scene("leaks");
}

#[test]
#[ignore = "a scene"]
fn leaks() {
    let host = Host::new();
    let Some(guard) = guard(Setting::Guard, &host) else { return };
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    child(&guard, "true", &[], Path::new("/"));
    // May still count what that first call is about to give back, hence "no more than" below: a leak would add a hundred.
    let before = (count("fd"), count("task"));
    for _ in 0..100 {
        child(&guard, "true", &[], Path::new("/"));
    }
    let piled_up = || count("fd") > before.0 || count("task") > before.1;
    let started = Instant::now();
    while piled_up() && started.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!piled_up(), "before {before:?}, after {:?}", (count("fd"), count("task")));
    drop(guard);
}
