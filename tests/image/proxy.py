"""A forward proxy on a Unix socket that writes down every request. Usage: proxy.py SOCKET LOG DIRECTORY

One line a request: METHOD URL STATUS. Tunnels are refused, so nothing passes unread. What was found once is kept in the
directory and given again: a mirror may change between two builds that are compared. What a mirror fails to give is asked
for four times.
"""
import hashlib
import http.client
import os
import pickle
import socketserver
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler

SOCKET, LOG, KEPT = sys.argv[1:]
DROPPED = {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "proxy-authorization"}
# Of a part, or only if it has changed: the whole is asked for and given.
PARTIAL = {"range", "if-range", "if-modified-since", "if-none-match"}


def place(url):
    return os.path.join(KEPT, hashlib.sha256(url.encode()).hexdigest())


def kept(url):
    try:
        with open(place(url), "rb") as file:
            return pickle.load(file)
    except OSError:
        return None


def keep(url, told):
    part = f"{place(url)}.{os.getpid()}.{threading.get_ident()}"
    with open(part, "wb") as file:
        pickle.dump(told, file)
    os.rename(part, place(url))


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.scheme != "http":
            return self.refuse()
        status, headers, body = kept(self.path) or self.fetched(url)
        self.note(status)
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in DROPPED | {"content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fetched(self, url):
        headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED | PARTIAL}
        for pause in (2, 10, 30, None):
            upstream = http.client.HTTPConnection(url.netloc, timeout=60)
            try:
                upstream.request(self.command, urllib.parse.urlunsplit(("", "", url.path, url.query, "")), headers=headers)
                reply = upstream.getresponse()
                told = reply.status, reply.getheaders(), reply.read()
            except (OSError, http.client.HTTPException) as error:
                told = 502, [], str(error).encode()
            finally:
                upstream.close()
            if told[0] == 200:
                keep(self.path, told)
            if told[0] < 500 or pause is None:
                return told
            time.sleep(pause)

    def refuse(self):
        self.note(403)
        self.send_error(403)

    do_CONNECT = do_POST = do_PUT = do_HEAD = refuse

    def note(self, status):
        with open(LOG, "a") as log:
            log.write(f"{self.command} {self.path} {status}\n")

    def address_string(self):
        return "build"

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


Server(SOCKET, Proxy).serve_forever()
