"""A forward proxy on a Unix socket that writes down every request. Usage: proxy.py SOCKET LOG

One line a request: METHOD URL STATUS. Tunnels are refused, so nothing passes unread.
"""
import http.client
import socketserver
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler

SOCKET, LOG = sys.argv[1:]
DROPPED = {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "proxy-authorization"}


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.scheme != "http":
            return self.refuse()
        upstream = http.client.HTTPConnection(url.netloc, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
            upstream.request(self.command, urllib.parse.urlunsplit(("", "", url.path, url.query, "")), headers=headers)
            reply = upstream.getresponse()
            body = reply.read()
        except OSError as error:
            self.note(f"502 {error}")
            return self.send_error(502)
        finally:
            upstream.close()
        self.note(reply.status)
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in DROPPED | {"content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
