#!/usr/bin/env python3
"""The network between clients and servers, and between three servers and PostgreSQL, fails in every
way that it knows; afterwards what clients were told is held against what is stored (history.py).

usage: test_network_faults.py BUILD_DIRECTORY SOURCE_DIRECTORY

11 faults, of which 6 on a proxy in front of a server and 5 on links of network namespaces; TORTURE=1:
200, of which 100 on each. Namespaces are root's: without them all faults are on the proxy, and that
is said.

  delay      what is said arrives late
  cut        connections end, with or without a word
  half_open  the client believes that it is gone, the server does not hear of it
  one_way    requests arrive, answers do not
  double     an answer comes twice
  gone       answers are lost, and then nobody is there for longer than the hasty are patient
  unplugged  a server's link is down
  no_road    a server hears others and is not heard
  no_store   a server reaches its clients and not PostgreSQL
"""
import atexit
import os
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import threading
import time

from history import all_go_on, settle_all
from trouble import (Load, PATIENCE_S, PAWL, Postgres, Server, TORTURE, check,
                     fresh_sqlite, psql, run, start, until)

HASTY_MS = 1000
LEASE_MS = 1500
TOKEN = "a-token-for-servers-that-others-can-reach"
chance = random.Random(3)


def a_while():
    """How long a fault lasts: shorter than the hasty are patient, or longer."""
    return chance.choice((0.2, 0.4, 1.5))


# ---- a proxy in front of a server ---------------------------------------------------------------


class Line:
    """A connection through the proxy."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.blind = self.muted = self.doubled = False
        self.asked = self.lost = False  # a request that has no answer yet; an answer that was kept
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self, end, rude=False):
        try:
            if rude:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()
            else:
                end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class FaultProxy:
    """Passes bytes on as the fault of the moment has it."""

    def __init__(self, port):
        self.to = port
        self.late_s = 0
        self.away = False
        self.lines = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.away:
                client.close()
                continue
            line = Line(client, socket.create_connection(("127.0.0.1", self.to)))
            with self.lock:
                self.lines.append(line)
            threading.Thread(target=self.pump, args=(line,), daemon=True).start()

    def pump(self, line):
        try:
            self.pass_on(line)
        except (OSError, ValueError):
            pass
        for end in (line.client, line.server):
            line.close(end)
        line.asked = False
        with self.lock:
            self.lines.remove(line)

    def pass_on(self, line):
        while True:
            ready, _, _ = select.select([line.client, line.server], [], [])
            for source in ready:
                data = source.recv(65536)
                if not data:
                    return
                if self.late_s:
                    time.sleep(self.late_s)
                line.asked = source is line.client
                if source is line.client and not line.blind:
                    line.server.sendall(data)
                elif source is line.server and not line.muted:
                    line.client.sendall(data + data if line.doubled else data)
                elif source is line.server:
                    line.lost = True

    def some(self):
        """Lines of the moment, about half of them; never none."""
        with self.lock:
            lines = list(self.lines)
        return [line for line in lines if chance.random() < 0.5] or lines[:1]

    def delay(self):
        self.late_s = 0.15
        time.sleep(a_while())
        self.late_s = 0

    def cut(self):
        for line in self.some():
            line.close(line.client if chance.random() < 0.5 else line.server)

    def half_open(self):
        lines = self.some()
        for line in lines:
            line.blind = line.muted = True
            line.client.shutdown(socket.SHUT_WR)
        time.sleep(a_while())
        for line in lines:
            line.close(line.server)

    def one_way(self):
        lines = self.some()
        for line in lines:
            line.muted = True
        time.sleep(a_while())
        for line in lines:
            line.close(line.client)

    def double(self):
        for line in self.some():
            line.doubled = True

    def gone(self):
        self.away = True
        with self.lock:
            lines = list(self.lines)
        for line in lines:
            line.muted = True
        until("answers to lose", lambda: any(line.lost for line in lines) and
              not any(line.asked for line in lines))
        for line in lines:
            line.close(line.client)
        time.sleep(HASTY_MS / 1000 + 0.7)
        self.away = False


def proxy_faults(store, count):
    server = Server(store)
    proxy = FaultProxy(server.port)
    loads = clients("near", [proxy.url])
    kinds = [proxy.delay, proxy.cut, proxy.half_open, proxy.one_way, proxy.double, proxy.gone]
    fail(loads, [kinds[i] if i < len(kinds) else chance.choice(kinds) for i in range(count)])
    hows, said = settle_all(server, loads)
    check(hows["refused"] > 0 and hows["unknown"] > 0, "some call was to come to nothing:", said)
    server.end()
    return f"{count} faults; {said}"


def clients(kind, urls, **settings):
    """A patient load on each server, and a hasty one on the first."""
    loads = [Load(url, name=f"{kind}{i}", submitters=1, workers=2, cli_workers=0,
                  pause_ms=60, lease_ms=LEASE_MS, **settings) for i, url in enumerate(urls)]
    return loads + [Load(urls[0], name=f"{kind}h", submitters=1, workers=2, cli_workers=0,
                         pause_ms=60, patience_ms=HASTY_MS, lease_ms=LEASE_MS, **settings)]


def fail(loads, faults):
    for fault in faults:
        all_go_on(loads)
        begun = time.monotonic()
        fault()
        took = time.monotonic() - begun
        all_go_on(loads)
        print(f"# {fault.__name__}: {took:.1f} s, work after "
              f"{time.monotonic() - begun - took:.1f} s more", flush=True)


# ---- three servers in namespaces ----------------------------------------------------------------


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    check(done.returncode == 0, words, done.stderr)


class Place:
    """A namespace with a link of its own to the rest of the world."""

    def __init__(self, number):
        self.name = f"pawl{os.getpid()}n{number}"
        self.link = f"pw{os.getpid() % 100000}x{number}"
        # Not those of another run at the same time.
        self.net = f"10.{160 + os.getpid() % 64}.{os.getpid() // 64 % 64 * 4 + number}"
        ip("netns", "add", self.name)
        atexit.register(subprocess.run, ["ip", "netns", "del", self.name], capture_output=True)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "out", "netns", self.name)
        ip("address", "add", f"{self.net}.1/24", "dev", self.link)
        ip("address", "add", f"{self.net}.3/24", "dev", self.link)  # PostgreSQL's
        ip("link", "set", self.link, "up")
        self.inside("address", "add", f"{self.net}.2/24", "dev", "out")
        self.inside("link", "set", "lo", "up")
        self.inside("link", "set", "out", "up")

    def inside(self, *words):
        ip("-n", self.name, *words)

    def unplugged(self):
        ip("link", "set", self.link, "down")
        time.sleep(a_while())
        ip("link", "set", self.link, "up")

    def send_astray(self, address):
        """What is sent to that address goes to nobody, and nobody is told."""
        self.inside("neigh", "replace", address, "lladdr", "02:00:00:00:00:01", "dev", "out",
                    "nud", "permanent")
        time.sleep(a_while())
        self.inside("neigh", "del", address, "dev", "out")

    def no_road(self):
        self.send_astray(f"{self.net}.1")

    def no_store(self):
        self.send_astray(f"{self.net}.3")


class FarServer(Server):
    """`pawl serve` in a namespace."""

    def __init__(self, where, store):
        self.lines, self.port = [], None
        self.process = start("ip", "netns", "exec", where.name, PAWL, "serve", "--store", store,
                             "--listen", f"{where.net}.2:0", stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "PAWL_TOKEN": TOKEN})
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        check(self.port, "the server has not come up:", self.lines)
        self.url = f"http://{where.net}.2:{self.port}"
        threading.Thread(target=self.keep_lines, daemon=True).start()


def serve_far(postgres, places):
    """Lets PostgreSQL be reached from the namespaces, and starts a server in each."""
    with open(postgres.data + "/pg_hba.conf", "a", encoding="utf-8") as rules:
        rules.write("host all all 10.0.0.0/8 trust\n")
    psql(postgres.url, "ALTER SYSTEM SET listen_addresses = '*'")
    postgres.crash()
    postgres.start_again()
    port = re.search(r"localhost:(\d+)", postgres.url).group(1)
    psql(postgres.url, "CREATE DATABASE far")
    return [FarServer(where, f"postgres://postgres@{where.net}.3:{port}/far") for where in places]


def far_faults(count):
    places = [Place(number) for number in range(3)]
    postgres = Postgres()
    servers = serve_far(postgres, places)
    near = Server(postgres.url.replace("/postgres?", "/far?"), 0, PAWL_TOKEN=TOKEN)
    loads = clients("far", [server.url for server in servers], PAWL_TOKEN=TOKEN)
    kinds = [places[0].unplugged, places[1].no_road, places[2].no_store,
             places[1].unplugged, places[0].no_road]
    fail(loads, [kinds[i] if i < len(kinds) else chance.choice(kinds) for i in range(count)])
    _, said = settle_all(near, loads)
    for server in [*servers, near]:
        server.end()
    postgres.end()
    return f"{count} faults; {said}"


def may_have_namespaces():
    if os.getuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"pawl{os.getpid()}try"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    linked = subprocess.run(["ip", "link", "add", f"pw{os.getpid() % 100000}t", "type", "veth",
                             "peer", "name", "out", "netns", name], capture_output=True,
                            check=False).returncode == 0
    ip("netns", "del", name)  # and the link with it
    return linked


HAVE_PLACES = may_have_namespaces()
NEAR = (200 if TORTURE else 11) if not HAVE_PLACES else (100 if TORTURE else 6)


def a_proxy_that_fails_loses_and_repeats_nothing_on_sqlite():
    return proxy_faults(fresh_sqlite(), NEAR)


def three_servers_whose_links_fail_lose_and_repeat_nothing():
    if not HAVE_PLACES:
        return "skipped: only root may make network namespaces"
    return far_faults(100 if TORTURE else 5)


run(a_proxy_that_fails_loses_and_repeats_nothing_on_sqlite,
    three_servers_whose_links_fail_lose_and_repeat_nothing)
