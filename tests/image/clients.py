#!/usr/bin/python3
"""Clients that web.sh needs and that no package brings; run as a command of the agent's, with the turn's environment.

clients.py events URL | websocket URL | tunnels TARGET SEQUENTIAL PARALLEL
"""
import asyncio
import http.client
import os
import ssl
import sys
import threading
import urllib.parse
import urllib.request

PROXY = urllib.parse.urlsplit(os.environ["https_proxy"])


def through(target):
    """A connection to host:port through the proxy, by CONNECT."""
    connection = http.client.HTTPConnection(PROXY.hostname, PROXY.port, timeout=60)
    host, port = target.rsplit(":", 1)
    connection.set_tunnel(host, int(port))
    connection.connect()
    return connection.sock


def events(url):
    """Reads events and acknowledges each; the next one comes only then."""
    acknowledge = urllib.parse.urljoin(url, "/ack")
    with urllib.request.urlopen(url, timeout=60) as reply:
        for line in reply:
            if line.startswith(b"data: "):
                print(line.decode().strip()[6:], end=";")
                urllib.request.urlopen(acknowledge, timeout=60).read()
    print()


def websocket(url):
    """A greeting, a large frame there and back, silence, a close code."""
    import websockets

    parts = urllib.parse.urlsplit(url)
    context = ssl.create_default_context() if parts.scheme == "wss" else None

    async def talk():
        sock = through(f"{parts.hostname}:{parts.port}")
        sock.settimeout(None)
        extra = {"server_hostname": parts.hostname} if context else {}
        async with websockets.connect(url, sock=sock, ssl=context, max_size=1 << 22, **extra) as connection:
            print(await connection.recv(), end=" ")
            large = os.urandom(1 << 20)
            await connection.send(large)
            print("same" if await connection.recv() == large else "different", end=" ")
            await asyncio.sleep(2)
            await connection.send("later")
            print(await connection.recv(), end=" ")
            await connection.send("end")
            try:
                await connection.recv()
            except websockets.ConnectionClosed as closed:
                print(closed.code, closed.reason)

    asyncio.run(asyncio.wait_for(talk(), 120))


def tunnels(target, sequential, parallel):
    """Each reads back what it sends. It does not end its own side first: tinyproxy and squid drop the rest then."""
    failed = []

    def one(number, size):
        try:
            data = bytes([number % 251]) * size
            with through(target) as sock:
                writer = threading.Thread(target=sock.sendall, args=(data,))
                writer.start()
                got = b""
                while len(got) < size and (piece := sock.recv(65536)):
                    got += piece
                writer.join()
            if got != data:
                failed.append(f"{number}: other bytes")
        except OSError as error:
            failed.append(f"{number}: {error}")

    for number in range(int(sequential)):
        one(number, 100)
    threads = [threading.Thread(target=one, args=(number, 50_000)) for number in range(int(parallel))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("failed", len(failed), *failed[:3])


{"events": events, "websocket": websocket, "tunnels": tunnels}[sys.argv[1]](*sys.argv[2:])
