#!/usr/bin/env python3
"""pawl serve as people run it: what it says, how it ends, TLS, and kill -9.

usage: test_serve.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

PAWL = os.path.join(sys.argv[1], "pawl")
PATIENCE_S = 20


class Server:
    """A server in a process of its own."""

    def __init__(self, *args, **settings):
        self.lines = []
        self.process = subprocess.Popen(
            [PAWL, "serve", *args], stderr=subprocess.PIPE, text=True,
            env={**os.environ, **settings})
        self.port = None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        threading.Thread(target=self.drain, daemon=True).start()
        if self.port is None:
            self.process.wait(PATIENCE_S)

    def drain(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def call(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json",
                                                **(headers or {})} if text else (headers or {}))
        reply = connection.getresponse()
        answer = reply.read()
        connection.close()
        return reply.status, json.loads(answer) if answer[:1] in b"{[" else answer

    def is_ready(self):
        try:
            return self.call("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def end(self, sent=signal.SIGTERM):
        self.process.send_signal(sent)
        return self.process.wait(PATIENCE_S)


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def until(condition, text):
    """Waits for what must come soon."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < end, text)
        time.sleep(0.01)


def a_server_says_what_it_does_and_ends_when_told(place):
    url = f"sqlite:{place}/a.db"
    server = Server("--store", url, "--listen", "127.0.0.1:0")
    check(any("created" in line for line in server.lines), server.lines)
    check(json.loads(server.lines[-1])["message"].startswith("serving sqlite:"), server.lines)
    status, job = server.call("POST", "/v1/jobs", {"kind": "k"})
    check(status == 201, job)

    # Others reach the file through the server, as ever.
    listed = subprocess.run([PAWL, "ls", "--store", url, "--json"], capture_output=True, text=True,
                            timeout=PATIENCE_S)
    check(job["id"] in listed.stdout, listed)

    # But the store is served once.
    second = Server("--store", url, "--listen", "127.0.0.1:0")
    check(second.process.returncode == 5, second.lines)
    check("in use by another Pawl process" in second.lines[-1], second.lines)

    # And the port is taken.
    third = Server("--store", "memory:", "--listen", f"127.0.0.1:{server.port}")
    check(third.process.returncode == 5, third.lines)

    server.process.send_signal(signal.SIGHUP)
    check(server.call("GET", "/healthz")[0] == 200, "SIGHUP must not end it")
    check(server.end() == 0, server.lines)

    again = Server("--store", url, "--listen", "127.0.0.1:0")
    check(again.call("GET", f"/v1/jobs/{job['id']}")[1]["status"] == "queued", "the job is gone")
    check(again.end(signal.SIGINT) == 0, again.lines)


def a_second_signal_ends_at_once(place):
    server = Server("--store", f"sqlite:{place}/b.db", "--listen", "127.0.0.1:0", "--drain", "60s")
    # A client in the middle of a request keeps the server from ending for as long as it may.
    client = socket.create_connection(("127.0.0.1", server.port))
    client.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                   b"\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
    check(b" 100 " in client.recv(100), "the head of the request has not come in")
    client.sendall(b"{")
    server.process.send_signal(signal.SIGTERM)
    until(lambda: not server.is_ready(), "it does not end")
    check(server.process.poll() is None, "it did not wait")
    check(server.end() == -signal.SIGTERM, server.process.returncode)
    client.close()


def what_was_acknowledged_outlives_kill_9(place):
    url = f"sqlite:{place}/c.db"
    server = Server("--store", url, "--listen", "127.0.0.1:0")
    known = []
    stop = threading.Event()

    def submit():
        while not stop.is_set():
            try:
                status, job = server.call("POST", "/v1/jobs", {"kind": "k"})
            except OSError:
                return
            except http.client.HTTPException:
                return
            if status == 201:
                known.append(job["id"])

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: len(known) > 100, "nothing is acknowledged")
    server.end(signal.SIGKILL)
    stop.set()
    for thread in threads:
        thread.join()
    again = Server("--store", url, "--listen", "127.0.0.1:0")
    for job in known:
        check(again.call("GET", f"/v1/jobs/{job}")[0] == 200, f"{job} is lost")
    again.end()


def tls_is_served_with_a_certificate(place):
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{place}/key.pem",
         "-out", f"{place}/cert.pem"], capture_output=True, timeout=PATIENCE_S)
    check(made.returncode == 0, made.stderr)
    server = Server("--store", "memory:", "--listen", "127.0.0.1:0", "--certificate",
                    f"{place}/cert.pem", "--key", f"{place}/key.pem")
    check(server.port is not None, server.lines)
    context = ssl.create_default_context(cafile=f"{place}/cert.pem")
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=PATIENCE_S,
                                             context=context)
    connection.request("POST", "/v1/claims", '{"worker_id":"w","wait_ms":200}',
                       {"Content-Type": "application/json"})
    check(json.loads(connection.getresponse().read()) == {"claims": []}, "no answer over TLS")
    connection.close()
    check(server.end() == 0, server.lines)
    wrong = Server("--store", "memory:", "--listen", "127.0.0.1:0", "--certificate",
                   f"{place}/cert.pem")
    check(wrong.process.returncode == 2, wrong.lines)


def an_address_for_everybody_needs_a_token(place):
    del place
    refused = Server("--store", "memory:", "--listen", "0.0.0.0:0", PAWL_TOKEN="")
    check(refused.process.returncode == 2, refused.lines)
    token = "a-token-that-is-long-enough-0123456789"
    server = Server("--store", "memory:", "--listen", "0.0.0.0:0", PAWL_TOKEN=token)
    check(server.call("GET", "/v1/jobs")[0] == 401, "everybody gets in")
    check(server.call("GET", "/v1/jobs", headers={"Authorization": f"Bearer {token}"})[0] == 200,
          "the token opens nothing")
    check(server.end() == 0, server.lines)
    check(token not in "".join(server.lines), "the token is in the log")


def the_first_line_says_the_url_and_the_port(place):
    del place
    token = "a-token-that-is-long-enough-0123456789"
    for listen, host in (("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "localhost"),
                         ("[::1]:0", "[::1]")):
        server = Server("--store", "memory:", "--listen", listen, PAWL_TOKEN=token)
        line = json.loads(server.lines[-1])
        check(line["event"] == "server_started", line)
        check(line["port"] == server.port and server.port > 0, line)
        check(line["url"] == f"http://{host}:{server.port}/", line)
        check(server.end() == 0, server.lines)


def main():
    for test in (a_server_says_what_it_does_and_ends_when_told, a_second_signal_ends_at_once,
                 what_was_acknowledged_outlives_kill_9, tls_is_served_with_a_certificate,
                 an_address_for_everybody_needs_a_token,
                 the_first_line_says_the_url_and_the_port):
        with tempfile.TemporaryDirectory() as place:
            test(place)
        print("ok", test.__name__)


main()
