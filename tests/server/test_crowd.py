#!/usr/bin/env python3
"""Ten thousand connections: those over the limit are closed, memory stays bounded, others' work
goes on, and afterwards the server is as before.

usage: test_crowd.py BUILD_DIRECTORY SOURCE_DIRECTORY

One crowd; TORTURE=1: ten, and crowds from many addresses.
"""
import http.client
import resource
import select
import socket
import time

from trouble import PATIENCE_S, Server, TORTURE, ask, check, is_sanitized, run, until

WANTED = 10000
SPARE = 200  # files that we need for other things
SERVERS_MAX = 8192
SERVERS_SPARE = 128
MEMORY_MIB_MAX = 10000 if is_sanitized() else 200  # some 40 KiB for each that is taken
GROWTH_MIB_MAX = 10000 if is_sanitized() else 24
TIMES = 10 if TORTURE else 1
SLOW_S = 2

LONG_POLL = (b"POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             b'Content-Length: 54\r\n\r\n{"worker_id":"c","kinds":["crowd"],"wait_ms":50000}   ')
WORDS = (b"", b"GET /v1/jo", b"GET /v1/jobs HTTP/1.1\r\nHost: local", LONG_POLL,
         b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         b'Content-Length: 100\r\n\r\n{"kind"')


def files_allowed():
    """Lets this process have as many files as it may; how many connections that makes, and how many
    a server takes from one address, which is half of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = Server("memory:")  # which has to ask for more than our `soft`, too
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    count = min(WANTED, files - SPARE)
    per_client = min(SERVERS_MAX, files - SERVERS_SPARE) // 2
    print(f"{count} connections, of which {per_client} are to be taken; files: {soft} to {hard}")
    return server, count, per_client


class Crowd:
    """Connections that say all sorts of things or nothing. When there is little room the server cuts
    off those that have not said all within seconds, so that the number of those that are open tells
    little; `held` is the most that the server had at once."""

    def __init__(self, server, count, addresses=1):
        self.server = server
        self.poll = select.epoll()
        self.open = {}
        self.waiting = []  # those who wait for work, in the order in which they came
        self.closed = 0
        self.held = 0
        for number in range(count):
            client = socket.socket()
            client.bind((f"127.0.0.{2 + number % addresses}", 0))
            client.settimeout(PATIENCE_S)
            word = WORDS[number % len(WORDS)]
            try:
                client.connect(("127.0.0.1", server.port))
                client.sendall(word)
            except ConnectionError:
                client.close()
                self.closed += 1
                continue
            client.setblocking(False)
            self.open[client.fileno()] = client
            if word is LONG_POLL:
                self.waiting.append((number, client))
            self.poll.register(client, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
            # The system drops those that come faster than they are taken.
            if number % 128 == 0:
                self.look(0.005)

    def look(self, wait_s=0):
        """Counts those that were closed by the server; answers do not matter."""
        self.held = max(self.held, self.server.files())
        for file, events in self.poll.poll(wait_s, 10000):
            if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                self.open.pop(file).close()
                self.closed += 1

    def leave(self):
        for client in self.open.values():
            client.close()
        self.open.clear()


def lives(server, count):
    """Whole lives of jobs, on one connection; the slowest of them, in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    slowest = 0
    for number in range(count):
        begun = time.monotonic()
        status, job = ask(connection, "POST", "/v1/jobs", {"kind": "k", "payload": number})
        check(status == 201, job)
        # Now and then by somebody who was not there before.
        status, answer = (ask(connection, "POST", "/v1/claims", {"worker_id": "w", "kinds": ["k"]})
                          if number % 10 else
                          server.call("POST", "/v1/claims", {"worker_id": "w", "kinds": ["k"]}))
        check(status == 200 and answer["claims"][0]["job"]["id"] == job["id"], answer)
        token = answer["claims"][0]["lease"]["token"]
        status, answer = ask(connection, "POST", f"/v1/leases/{token}/complete", {})
        check(status == 200, answer)
        slowest = max(slowest, time.monotonic() - begun)
    connection.close()
    return slowest


def a_crowd_of_one_address_is_bounded_and_hinders_nobody():
    server, count, per_client = files_allowed()
    lives(server, 20)
    before = server.memory_mib()
    most = {"held": 0, "came_s": 0, "life_ms": 0, "memory_mib": 0, "after_mib": 0}
    for _ in range(TIMES):
        begun = time.monotonic()
        crowd = Crowd(server, count)
        until("the end of those over the limit",
              lambda: crowd.look(0.1) or len(crowd.open) <= per_client)
        check(per_client * 0.9 <= crowd.held <= per_client + SERVERS_SPARE, "the server had",
              crowd.held, "files for", per_client, "connections")
        # Those who came when there was room, and have said all, are left alone.
        early = [client for number, client in crowd.waiting if number < per_client * 0.7]
        cut = [client for client in early if client.fileno() < 0]
        check(early and not cut, len(cut), "of", len(early), "who waited were cut off")
        note(most, "held", crowd.held)
        note(most, "came_s", time.monotonic() - begun)
        note(most, "life_ms", lives(server, 200) * 1000)
        note(most, "memory_mib", server.memory_mib())
        check(most["life_ms"] < SLOW_S * 1000 and most["memory_mib"] < MEMORY_MIB_MAX, most)
        crowd.leave()
        until("the end of all connections", lambda: server.connections() == 0, 20, 0.1,
              server.connections)
        lives(server, 20)
        until("the end of what they cost", lambda: server.memory_mib() < before + GROWTH_MIB_MAX,
              20, 0.1, lambda: (before, most, server.memory_mib()))
        note(most, "after_mib", server.memory_mib())
    server.end()
    return (f"{TIMES} times, {count} tried, at most {most['held']} files at once; {before:.0f} MiB before, at most "
            f"{most['memory_mib']:.0f} MiB with them and {most['after_mib']:.0f} MiB after; a life "
            f"took at most {most['life_ms']:.0f} ms")


def note(most, name, value):
    most[name] = max(most[name], value)


def a_crowd_of_many_addresses_makes_room_in_time():
    """All connections there are. Whoever was there before goes on; new ones get in soon, since
    those who do nothing are cut off."""
    server, count, per_client = files_allowed()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    check(ask(connection, "GET", "/healthz")[0] == 200, "")
    crowd = Crowd(server, count, addresses=20)
    held, memory = server.connections(), server.memory_mib()
    slowest = 0
    for number in range(100):
        begun = time.monotonic()
        check(ask(connection, "POST", "/v1/jobs", {"kind": "k", "payload": number})[0] == 201, "")
        slowest = max(slowest, time.monotonic() - begun)
    check(slowest < SLOW_S, slowest)
    begun = time.monotonic()
    check(server.call("GET", "/healthz")[0] == 200, "nobody else gets in")
    took = time.monotonic() - begun
    memory = max(memory, server.memory_mib())
    check(memory < 2 * MEMORY_MIB_MAX, memory)
    crowd.leave()
    connection.close()
    server.end()
    return (f"{count} tried, {held} connected when all had tried, {2 * per_client} are taken at "
            f"once; at most {memory:.0f} MiB, a new one was let in after {took:.1f} s")


run(a_crowd_of_one_address_is_bounded_and_hinders_nobody,
    *([a_crowd_of_many_addresses_makes_room_in_time] if TORTURE else []))
