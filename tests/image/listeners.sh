# Runs as a command of the agent's: what listens here, and whether its place can be taken.
python3 - <<'END'
import socket

rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
listening = [row[1].split(":") for row in rows if row[3] == "0A"]
elsewhere = [address for address, _ in listening if address != "0100007F"]
abstract = [line for line in open("/proc/net/unix").readlines()[1:] if line.split()[-1].startswith("@")]
print(len(listening), "listener,", len(elsewhere), "elsewhere,", len(abstract), "abstract")
for address, port in listening:
    for place in ("127.0.0.1", "0.0.0.0"):
        for option in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with socket.socket() as s:
                try:
                    if option:
                        s.setsockopt(socket.SOL_SOCKET, option, 1)
                    s.bind((place, int(port, 16)))
                    s.listen()
                    print("TAKEN", place, option)
                except OSError as error:
                    print("refused to bind:", error.strerror)
    with socket.create_connection(("127.0.0.1", int(port, 16)), 5) as s:
        s.sendall(b"GET http://example.test/ HTTP/1.1\r\nHost: example.test\r\n\r\n")
        s.settimeout(5)
        print("says", s.recv(100).decode(errors="replace").strip())
END
