#!/usr/bin/env python3
"""Without a token, loopback is for the server's own user and root: other users of the machine get
401, over IPv4 and IPv6, and also when they hang up before they are answered.

usage: test_loopback.py BUILD_DIRECTORY SOURCE_DIRECTORY

A second user takes root; without it only what root itself may do is tried.
"""
import json
import os
import re
import subprocess
import sys
import threading

from trouble import PAWL, PATIENCE_S, check, run, start

NOBODY = 65534
TOKEN = "an-admin-token-of-more-than-16-bytes"

# One request from a process of its own, whose user is the first argument: prints status and body.
CLIENT = """
import http.client, json, os, sys
user, host, port, method, path, token = sys.argv[1:7]
host.encode("idna")  # while its module can still be read
if int(user) != 0:
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
connection = http.client.HTTPConnection(host, int(port), timeout=60)
headers = {"Content-Type": "application/json"}
if token:
    headers["Authorization"] = "Bearer " + token
body = json.dumps({"kind": "k"}) if method == "POST" else None
connection.request(method, path, body, headers)
if len(sys.argv) > 7:  # hang up at once
    connection.sock.close()
    sys.exit()
reply = connection.getresponse()
print(json.dumps([reply.status, reply.read().decode()]))
"""


class Server:
    def __init__(self, listen, user=0, **environment):
        # Another user cannot write where the responses of servers are recorded.
        inherited = {name: value for name, value in os.environ.items()
                     if user == 0 or name not in ("PAWL_RECORD", "LD_PRELOAD")}
        self.process = start("setpriv", f"--reuid={user}", "--clear-groups", PAWL, "serve",
                             "--store", "memory:", "--listen", listen, stderr=subprocess.PIPE,
                             text=True, env={**inherited, **environment})
        port = None
        for line in self.process.stderr:
            found = re.search(r"on port (\d+)|\"port\": ?(\d+)", line)
            if found:
                port = found.group(1) or found.group(2)
                break
        check(port, "the server has not come up")
        self.port = port
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def ask(self, user, host, method, path, token="", *more):
        done = subprocess.run([sys.executable, "-c", CLIENT, str(user), host, self.port, method,
                               path, token, *more], capture_output=True, text=True, check=True,
                              timeout=PATIENCE_S)
        return json.loads(done.stdout) if done.stdout else None

    def end(self):
        self.process.terminate()
        check(self.process.wait(PATIENCE_S) == 0, "it has not ended well")


def users():
    return (0, NOBODY) if os.geteuid() == 0 else ()


def has_ipv6():
    return os.path.exists("/proc/net/if_inet6") and open("/proc/net/if_inet6").read() != ""


def places():
    yield "127.0.0.1:0", "127.0.0.1"
    yield "[::ffff:127.0.0.1]:0", "127.0.0.1"
    if has_ipv6():
        yield "[::1]:0", "::1"


def other_users_of_the_machine_need_a_token():
    for listen, host in places():
        server = Server(listen)
        status, body = server.ask(0, host, "POST", "/v1/jobs")
        check(status == 201, "root at", listen, status, body)
        for method, path in (("POST", "/v1/jobs"), ("GET", "/v1/jobs"), ("GET", "/metrics"),
                             ("GET", "/openapi.json"), ("POST", "/v1/backup")):
            status, body = server.ask(NOBODY, host, method, path)
            check(status == 401 and "own user and root" in body, method, path, status, body)
        # What is open to everybody stays so.
        for path in ("/healthz", "/readyz", "/"):
            status, body = server.ask(NOBODY, host, "GET", path)
            check(status == 200, path, status, body)
        status, body = server.ask(NOBODY, host, "GET", "/session")
        check(status == 200 and json.loads(body)["auth"] is True, status, body)
        status, body = server.ask(0, host, "GET", "/session")
        check(status == 200 and json.loads(body)["auth"] is False, status, body)
        server.end()


def a_token_lets_them_in():
    server = Server("127.0.0.1:0", PAWL_TOKEN=TOKEN)
    status, body = server.ask(NOBODY, "127.0.0.1", "POST", "/v1/jobs", TOKEN)
    check(status == 201, status, body)
    status, body = server.ask(NOBODY, "127.0.0.1", "POST", "/v1/jobs", "wrong" * 10)
    check(status == 401, status, body)
    server.end()


def a_socket_that_was_closed_belongs_to_nobody():
    server = Server("127.0.0.1:0")
    for _ in range(10):
        server.ask(NOBODY, "127.0.0.1", "POST", "/v1/jobs", "", "hang up")
    status, body = server.ask(0, "127.0.0.1", "GET", "/v1/jobs")
    check(status == 200 and json.loads(body)["jobs"] == [], status, body)
    server.end()


def a_server_of_another_user_is_open_to_it_and_to_root():
    server = Server("127.0.0.1:0", user=NOBODY)
    for user in (0, NOBODY):
        status, body = server.ask(user, "127.0.0.1", "POST", "/v1/jobs")
        check(status == 201, user, status, body)
    status, body = server.ask(NOBODY - 1, "127.0.0.1", "POST", "/v1/jobs")
    check(status == 401, status, body)
    server.end()


def the_own_user_needs_none():
    server = Server("127.0.0.1:0", user=os.geteuid())
    status, body = server.ask(0, "127.0.0.1", "POST", "/v1/jobs")
    check(status == 201, status, body)
    server.end()


if os.geteuid() == 0:
    run(other_users_of_the_machine_need_a_token, a_token_lets_them_in,
        a_socket_that_was_closed_belongs_to_nobody,
        a_server_of_another_user_is_open_to_it_and_to_root)
else:
    print("without root there is no second user")
    run(the_own_user_needs_none)
