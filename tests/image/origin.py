#!/usr/bin/python3
"""What the clients of web.sh talk to: files, a package index, an npm registry, git, events, uploads, WebSockets.

origin.py ADDRESS DIRECTORY: plain on port 80 and 8080 (WebSocket), with TLS on 443 and 8443, raw echo on 7. DIRECTORY
holds s.pem and s.key, the repositories under git/ and a place for files.
"""
import asyncio
import base64
import hashlib
import http.server
import io
import json
import os
import socketserver
import ssl
import subprocess
import sys
import tarfile
import threading
import urllib.parse
import zipfile

ADDRESS, DIRECTORY = sys.argv[1:3]


def wheel():
    """A package with one line in it."""
    info = "axprobe-1.0.dist-info"
    files = {
        "axprobe/__init__.py": "said = 'pip'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: axprobe\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: web.sh\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def tarball():
    """The same for npm."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in {
            "package.json": json.dumps({"name": "axprobe", "version": "1.0.0", "main": "index.js"}),
            "index.js": "module.exports = 'npm'\n",
        }.items():
            entry = tarfile.TarInfo("package/" + name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


WHEEL, TARBALL = wheel(), tarball()
# Events are sent on only when the one before has been acknowledged: whoever holds them back never gets the second.
ACKNOWLEDGED = threading.Semaphore(0)


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def whole(self, body, kind="application/octet-stream", status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        base = f"{'https' if isinstance(self.connection, ssl.SSLSocket) else 'http'}://{self.headers['Host']}"
        if path == "/hello":
            self.whole(b"hello from outside\n", "text/plain")
        elif path == "/echo-header":
            self.whole((self.headers.get("X-Key") or "none").encode(), "text/plain")
        elif path == "/simple/axprobe/":
            name = "axprobe-1.0-py3-none-any.whl"
            digest = hashlib.sha256(WHEEL).hexdigest()
            self.whole(f'<a href="/files/{name}#sha256={digest}">{name}</a>'.encode(), "text/html")
        elif path.startswith("/files/"):
            self.whole(WHEEL)
        elif path == "/axprobe":
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode()
            version = {"name": "axprobe", "version": "1.0.0", "main": "index.js",
                       "dist": {"tarball": f"{base}/axprobe/-/axprobe-1.0.0.tgz", "integrity": integrity}}
            listing = {"name": "axprobe", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            self.whole(json.dumps(listing).encode(), "application/json")
        elif path == "/axprobe/-/axprobe-1.0.0.tgz":
            self.whole(TARBALL)
        elif path == "/events":
            self.events()
        elif path == "/ack":
            ACKNOWLEDGED.release()
            self.whole(b"")
        elif path.startswith("/git/"):
            self.git(b"")
        else:
            self.whole(b"nothing here\n", status=404)

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number in range(1, 6):
            self.wfile.write(f"id: {number}\ndata: event {number}\n\n".encode())
            self.wfile.flush()
            if not ACKNOWLEDGED.acquire(timeout=20):
                break
        self.close_connection = True

    def pieces(self):
        """The body, whatever way it is framed."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                piece = self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return
                yield piece
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def do_POST(self):
        if self.path.startswith("/git/"):
            return self.git(b"".join(self.pieces()))
        count, digest = 0, hashlib.sha256()
        for piece in self.pieces():
            count += len(piece)
            digest.update(piece)
        return self.whole(f"{count} {digest.hexdigest()}\n".encode(), "text/plain")

    do_PUT = do_POST

    def git(self, body):
        url = urllib.parse.urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": DIRECTORY + "/git", "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "agent", "REQUEST_METHOD": self.command, "PATH_INFO": url.path[len("/git"):],
            "QUERY_STRING": url.query, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "CONTENT_LENGTH": str(len(body)),
            "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "http.receivepack", "GIT_CONFIG_VALUE_0": "true",
            "GIT_CONFIG_KEY_1": "safe.directory", "GIT_CONFIG_VALUE_1": "*",
        }
        reply = subprocess.run(["git", "http-backend"], input=body, env=environment, stdout=subprocess.PIPE).stdout
        head, _, content = reply.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(value[:3]) for name, value in headers if name == "Status"), 200)
        self.send_response(status)
        for name, value in headers:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Echo(socketserver.BaseRequestHandler):
    """Sends back what comes, and ends after it."""

    def handle(self):
        while piece := self.request.recv(65536):
            self.request.sendall(piece)


class Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 512


class Web(http.server.ThreadingHTTPServer):
    request_queue_size = 512


def tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DIRECTORY + "/s.pem", DIRECTORY + "/s.key")
    return context


def start(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()


class Tls(Web):
    def get_request(self):
        connection, address = super().get_request()
        # The handshake belongs to the connection's own thread.
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address


async def websockets_forever():
    try:
        import websockets
    except ImportError:
        print("ready", flush=True)
        return await asyncio.Future()

    async def echo(connection, *_):
        await connection.send("first")
        async for message in connection:
            if message == "end":
                await connection.close(4321, "as asked")
            else:
                await connection.send(message)

    await websockets.serve(echo, ADDRESS, 8080, max_size=1 << 22)
    await websockets.serve(echo, ADDRESS, 8443, ssl=tls(), max_size=1 << 22)
    print("ready", flush=True)
    await asyncio.Future()


start(Web((ADDRESS, 80), Origin))
secure = Tls((ADDRESS, 443), Origin)
secure.context = tls()
start(secure)
start(Threads((ADDRESS, 7), Echo))
asyncio.run(websockets_forever())
