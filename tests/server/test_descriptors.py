#!/usr/bin/env python3
"""A server that has no file descriptors left: callers are told so, nothing that was acknowledged is
lost, and when there are some again all is as before.

usage: test_descriptors.py BUILD_DIRECTORY SOURCE_DIRECTORY

The limit is set to what a server has open, and a few more; TORTURE=1: 20 times.
"""
import http.client
import os
import resource
import signal
import socket
import subprocess
import threading

from trouble import (PATIENCE_S, PAWL, Server, TORTURE, all_jobs, ask, check, fresh_sqlite, run,
                     until, verify_all)

CLIENTS = 8
TIMES = 20 if TORTURE else 1
SPARES = (0, 0, 0, 1, 2, 4, 7)  # descriptors that are left
LIMITS = range(4, 40) if TORTURE else range(4, 40, 3)


class Client:
    """A connection that stays, and what it was told."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self.acknowledged = []
        self.refused = []
        self.call("GET", "/v1/queues")

    def call(self, method, path, body=None):
        status, answer = ask(self.connection, method, path, body)
        if status >= 500:
            check(status == 503 and answer["code"] in ("unavailable", "no_memory"), status, answer)
            check(len(answer["detail"]) > 10, answer)
            self.refused.append(answer["detail"])
        return status, answer

    def work(self):
        """Writes and reads, as a client does whose server is in trouble."""
        for number in range(5):
            status, answer = self.call("POST", "/v1/jobs", {"kind": "k", "payload": number})
            if status == 201:
                self.acknowledged.append(answer["id"])
            self.call("GET", "/v1/jobs?limit=50")
            self.call("GET", "/v1/queues")


def highest(server):
    return max(int(name) for name in os.listdir(f"/proc/{server.process.pid}/fd"))


def knock(server):
    """Somebody new, who may be kept waiting or sent away."""
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=0.2) as client:
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(100)
    except OSError:
        pass


def starve(server, clients, spare):
    """What happens while there are no more than so many descriptors left."""
    usual = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    limit = highest(server) + 1 + spare
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, usual[1]))
    threads = [threading.Thread(target=client.work) for client in clients]
    for thread in threads:
        thread.start()
    for _ in range(3):
        knock(server)
    for thread in threads:
        thread.join()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, usual)


def a_server_without_descriptors_says_so_and_loses_nothing():
    server = Server(fresh_sqlite())
    acknowledged, refused = [], []
    before = server.files()
    for _ in range(TIMES):
        for spare in SPARES:
            clients = [Client(server) for _ in range(CLIENTS)]
            starve(server, clients, spare)
            for client in clients:
                acknowledged += client.acknowledged
                refused += client.refused
                client.connection.close()
            until("a server that is ready", server.is_ready)
    check(server.process.poll() is None, server.lines)
    check(refused, "nobody was refused")
    check(all("open files" in why for why in refused), set(refused))
    there = {job["id"] for job in all_jobs(server)}
    check(there == set(acknowledged), len(there), "jobs, but acknowledged", len(acknowledged))
    verify_all(server)
    # Connections that readers of the store keep stay open: no more than those.
    until("closed files", lambda: server.files() <= before + 30)
    server.end()
    return f"{len(acknowledged)} jobs acknowledged, {len(refused)} calls refused"


def a_server_that_is_started_without_descriptors_says_what_it_lacks():
    came_up, refused = 0, 0
    for limit in LIMITS:
        process = subprocess.Popen(
            [PAWL, "serve", "--store", fresh_sqlite(), "--listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
        said = ""
        for line in process.stderr:
            said += line
            if "on port" in line:
                process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)
        if "on port" in said:
            came_up += 1
            check(code == 0, limit, code, said)
        else:
            refused += 1
            check(code > 0 and ("open files" in said or "descriptors" in said), limit, code, said)
    check(came_up > 0 and refused > 0, came_up, refused)
    return f"{refused} limits were too low, {came_up} were not"


run(a_server_without_descriptors_says_so_and_loses_nothing,
    a_server_that_is_started_without_descriptors_says_what_it_lacks)
