# Connects that wait, from the inside of a command. Prints one line for each thing seen.
import ctypes, errno, os, signal, socket, struct, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)


def connect(s, name):
    """The bare call: 0 or the name of its error."""
    if s.family == socket.AF_UNIX:
        address = struct.pack("H", socket.AF_UNIX) + name.encode() + b"\0"
    else:
        address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", name[1]) + socket.inet_aton(name[0]) + bytes(8)
    done = libc.connect(s.fileno(), address, len(address))
    return errno.errorcode[ctypes.get_errno()] if done else 0


def listening(family, backlog):
    """A server and its name."""
    server = socket.socket(family)
    try:
        server.bind(f"{time.monotonic_ns()}.sock" if family == socket.AF_UNIX else ("127.0.0.1", 0))
    except OSError as error:
        print("NO SOCKETS", error)
        sys.exit()
    server.listen(backlog)
    return server, server.getsockname()


def full(family):
    """A server whose queue is full, its name, and who fills it."""
    server, name = listening(family, 0)
    first = socket.socket(family)
    first.connect(name)
    return server, name, first


def eventually(condition):
    until = time.monotonic() + 100
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def runner():
    """The topmost process of that name above us."""
    pid, found = os.getppid(), None
    while pid > 1:
        if open(f"/proc/{pid}/comm").read() == "ax-runner\n":
            found = pid
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(") ")[2].split()[1])
    return found or pid


def guard_threads():
    task = f"/proc/{runner()}/task"
    count = 0
    for thread in os.listdir(task):
        try: count += open(f"{task}/{thread}/comm").read() == "ax-guard\n"
        except OSError: pass
    return count


def others():
    """Connects that need not wait."""
    server, name = listening(socket.AF_UNIX, 5)
    quick = connect(socket.socket(socket.AF_UNIX), name)
    closed, port = listening(socket.AF_INET, 5)
    closed.close()
    return quick, connect(socket.socket(), port)


def left_behind(server):
    """Threads of the guard, and connections nobody wants."""
    print("threads left", eventually(lambda: guard_threads() <= 3) or guard_threads())
    server.setblocking(False)
    arrived = 0
    while server.family == socket.AF_UNIX:
        try: server.accept()
        except BlockingIOError: break
        arrived += 1
    print("arrived", arrived)


def crowd(family, size):
    """So many processes wait at once."""
    server, name, first = full(family)
    read, write = os.pipe()
    waiting = []
    for _ in range(size):
        pid = os.fork()
        if pid == 0:
            os.write(write, b".")
            os._exit(7 if connect(socket.socket(family), name) == "EAGAIN" else 8)
        waiting.append(pid)
    started = 0
    while started < size: started += len(os.read(read, size))
    print("others", *others())
    ended = {}
    def turned_away():
        for pid in waiting:
            if pid not in ended:
                gone, status = os.waitpid(pid, os.WNOHANG)
                if gone: ended[pid] = os.waitstatus_to_exitcode(status)
        return len(ended) >= size - 64
    print("turned away", eventually(turned_away), set(ended.values()))
    time.sleep(1.5)  # By now the guard has sent home the threads that had nothing to do.
    print("others", *others())
    for pid in waiting:
        if pid not in ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    left_behind(server)


def signalled(family, again, timed=False):
    """A connect that waits while signals come; after some of them there is room."""
    server, name, first = full(family)
    come, enough = [0], [threading.Event()]
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, not again)
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    def make_room():
        seen = 0
        while seen < 3: seen += len(os.read(read, 1))
        server.accept()
    if again and not timed: threading.Thread(target=make_room, daemon=True).start()
    s = socket.socket(family)
    if timed: s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 100, 0))
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    seen = [connect(s, name)]
    signal.setitimer(signal.ITIMER_REAL, 0, 0)
    if not again:
        server.accept()
        seen.append(connect(s, name))
    signal.set_wakeup_fd(-1)
    return seen


def to_a_thread():
    server, name, first = full(socket.AF_UNIX)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(connect(socket.socket(socket.AF_UNIX), name)), daemon=True)
    thread.start()
    def ended():
        if thread.is_alive(): signal.pthread_kill(thread.ident, signal.SIGUSR1)
        return not thread.is_alive()
    eventually(ended)
    return seen


def signals():
    for family in (socket.AF_UNIX, socket.AF_INET):
        print(family.name, "ended", *signalled(family, False))
        print(family.name, "taken up again", *signalled(family, True))
        print(family.name, "with a limit of its own", *signalled(family, True, True))
    print("to a thread", *to_a_thread())


def abandoned():
    """Connects that a signal ends, and that are not made again."""
    server, name, first = full(socket.AF_UNIX)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    for _ in range(6):
        with socket.socket(socket.AF_UNIX) as s: print(connect(s, name), end=" ")
    signal.setitimer(signal.ITIMER_REAL, 0, 0)
    print()
    left_behind(server)


{"crowd": lambda: crowd(socket.AF_UNIX, int(sys.argv[2])), "tcp_crowd": lambda: crowd(socket.AF_INET, int(sys.argv[2])),
 "signals": signals, "abandoned": abandoned}[sys.argv[1]]()
