"""A name server with the faults met in the field. Usage: dns.py ADDRESS ANSWER4 ANSWER6 [FAULT] (port 53, UDP and TCP).

FAULT: refused or servfail answers everything so, tcp serves TCP only.
"""
import socket
import socketserver
import struct
import sys
import threading

ADDRESS, FOUR, SIX = sys.argv[1:4]
FAULT = (sys.argv[4:] or [""])[0]
A, AAAA = 1, 28
REFUSED, SERVFAIL, NXDOMAIN = 5, 2, 3
ALWAYS = {"refused": REFUSED, "servfail": SERVFAIL}.get(FAULT)
asked = {}


def answer(query, over_tcp):
    """The reply, or None for silence."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += query[at] + 1
    kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
    name, question = labels[0].lower(), query[12 : at + 5]
    if ALWAYS:
        return reply(query, question, ALWAYS)
    if len(labels) != 2 or labels[1] != "test":
        return reply(query, question, NXDOMAIN)
    four = [] if kind != A else [(A, socket.inet_pton(socket.AF_INET, FOUR))]
    six = [] if kind != AAAA else [(AAAA, socket.inet_pton(socket.AF_INET6, SIX))]
    asked[name, kind] = asked.get((name, kind), 0) + 1
    if name == "refused6":
        return reply(query, question, REFUSED if kind == AAAA else 0, four)
    if name == "silent6":
        return None if kind == AAAA else reply(query, question, 0, four)
    if name == "under_score":
        return reply(query, question, 0, four)
    if name == "double":
        return reply(query, question, 0, four * 2)
    if name == "only6":
        return reply(query, question, 0, six)
    if name == "truncated":
        return reply(query, question, 0, four) if over_tcp else reply(query, question, 0, [], truncated=True)
    if name == "flaky":
        return reply(query, question, SERVFAIL) if asked[name, kind] == 1 else reply(query, question, 0, four)
    if name == "nowhere4":
        return reply(query, question, 0, [(A, b"\0\0\0\0")] if kind == A else [])
    if name == "silent":
        return None
    return reply(query, question, NXDOMAIN)


def reply(query, question, code, answers=(), truncated=False):
    flags = 0x8180 | code | (0x0200 if truncated else 0)
    header = query[:2] + struct.pack("!HHHHH", flags, 1, len(answers), 0, 0)
    records = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(data)) + data for kind, data in answers)
    return header + question + records


class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        text = answer(data, False)
        if text:
            sock.sendto(text, self.client_address)


class Tcp(socketserver.BaseRequestHandler):
    def handle(self):
        size = struct.unpack("!H", self.request.recv(2))[0]
        text = answer(self.request.recv(size), True)
        if text:
            self.request.sendall(struct.pack("!H", len(text)) + text)


socketserver.TCPServer.allow_reuse_address = True
tcp = socketserver.ThreadingTCPServer((ADDRESS, 53), Tcp)
tcp.daemon_threads = True
if FAULT == "tcp":
    tcp.serve_forever()
threading.Thread(target=tcp.serve_forever, daemon=True).start()
socketserver.ThreadingUDPServer((ADDRESS, 53), Udp).serve_forever()
