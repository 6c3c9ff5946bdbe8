#!/usr/bin/env python3
"""Settings of a server: where they come from, which goes first, what a bad file is told, and what
SIGHUP changes while it serves: certificates, tokens, rates, kinds.

usage: test_settings.py BUILD_DIRECTORY SOURCE_DIRECTORY
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

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from trouble import PATIENCE_S, PAWL, check, fresh_postgres, start, until  # noqa: E402

TOKEN = "an-admin-token-that-is-long-enough"


class Server:
    """`pawl serve` with nothing but what it is given."""

    def __init__(self, *args, tls=None, **settings):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("PAWL_")}
        self.lines = []
        self.tls = tls
        self.port = None
        self.process = start(PAWL, "serve", *args, stderr=subprocess.PIPE, text=True,
                             env={**environment, **settings})
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            self.process.wait(PATIENCE_S)
        else:
            threading.Thread(target=self.keep_lines, daemon=True).start()

    def keep_lines(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def connect(self, trusted=None):
        if trusted is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return http.client.HTTPSConnection("localhost", self.port, timeout=PATIENCE_S,
                                           context=ssl.create_default_context(cafile=trusted))

    def call(self, method, path, body=None, headers=None, token=None, connection=None):
        """Status, answer and headers."""
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        own = connection or self.connect()
        own.request(method, path, None if body is None else json.dumps(body), headers)
        reply = own.getresponse()
        text = reply.read()
        if connection is None:
            own.close()
        return reply.status, json.loads(text) if text[:1] == b"{" else text, reply.headers

    def said(self, text):
        return any(text in line for line in self.lines)

    def reload(self, text="settings reloaded"):
        """Reads its settings again, and waits until it has said something new about that."""
        before = len(self.lines)
        self.process.send_signal(signal.SIGHUP)
        until(text, lambda: any(text in line for line in self.lines[before:]))
        # What has changed is said after it; a request comes after all of it.
        time.sleep(0.02)
        return "".join(self.lines[before:])

    def end(self):
        self.process.terminate()
        check(self.process.wait(PATIENCE_S) == 0, self.lines)


def write(place, text, name="pawl.yaml"):
    """In one step, as whoever is careful does."""
    with open(f"{place}/{name}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{place}/{name}.new", f"{place}/{name}")
    return f"{place}/{name}"


def run(*args, **settings):
    done = subprocess.run([PAWL, *args], capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, "PAWL_PATIENCE": "10s", **settings})
    return done.returncode, done.stdout, done.stderr


# ---- where they come from -----------------------------------------------------------------------


def a_flag_goes_before_the_environment_and_that_before_the_file(place):
    file = write(place, f"store: sqlite:{place}/file.db\nlisten: 127.0.0.1:0\n")
    server = Server("--config", file)
    check(server.said(f"serving sqlite:{place}/file.db"), server.lines)
    server.end()
    server = Server(PAWL_CONFIG=file, PAWL_STORE=f"sqlite:{place}/environment.db")
    check(server.said(f"serving sqlite:{place}/environment.db"), server.lines)
    server.end()
    server = Server("--store", f"sqlite:{place}/flag.db", "--config", file,
                    PAWL_STORE=f"sqlite:{place}/environment.db", PAWL_CONFIG="/nowhere")
    check(server.said(f"serving sqlite:{place}/flag.db"), server.lines)
    server.end()
    check(Server(PAWL_CONFIG="/nowhere").process.returncode == 2, "a file that is not there")


def the_settings_of_jobstore_say_which_store(place):
    for text, shown in ((f"type: sqlite, dsn: {place}/a.db", f"sqlite:{place}/a.db"),
                        (f"type: sqlite, dsn: 'sqlite:{place}/b.db'", f"sqlite:{place}/b.db"),
                        ("type: memory", "memory:")):
        server = Server("--config", write(
            place, f"listen: 127.0.0.1:0\njobstore: {{{text}, lease_duration: 45s}}\n"))
        check(server.said(f"serving {shown} at 127.0.0.1 on"), server.lines)
        # Whoever does not say how long gets a lease of that length.
        server.call("POST", "/v1/jobs", {"kind": "k"})
        status, answer, _ = server.call("POST", "/v1/claims", {"worker_id": "w"})
        check(status == 200 and answer["claims"][0]["lease"]["heartbeat_ms"] == 22500, answer)
        server.end()
    url = fresh_postgres()
    server = Server("--config", write(
        place, f"listen: 127.0.0.1:0\njobstore:\n  type: postgres\n  dsn: \"{url}\"\n"))
    check(server.said("serving postgres"), server.lines)
    server.end()


KINDS = """
listen: 127.0.0.1:0
kinds:
  email:
    lease_ttl: 2m
    heartbeat_ms: 20000
    timeout: 1h
    retention_ms: 86400000
    retry: {max_attempts: 7, strategy: fixed, initial: 5s, jitter: none}
  # nothing of its own
  sms:
"""


def kinds_of_the_file_are_set_at_the_start_and_when_it_is_read_again(place):
    for url in (f"sqlite:{place}/kinds.db", fresh_postgres(), "memory:"):
        file = write(place, KINDS)
        server = Server("--store", url, "--config", file)
        check(server.port, server.lines)
        kind = server.call("GET", "/v1/kinds/email")[1]
        check(kind["lease_ttl_ms"] == 120000 and kind["heartbeat_ms"] == 20000, kind)
        check(kind["timeout_ms"] == 3600000 and kind["retention_ms"] == 86400000, kind)
        check(kind["retry"]["max_attempts"] == 7 and kind["retry"]["initial_ms"] == 5000, kind)
        if url != "memory:":
            shown = run("kind", "show", "email", "--store", f"http://127.0.0.1:{server.port}")
            check("lease ttl:        2m" in shown[1], shown)
        write(place, KINDS.replace("2m", "3m"))
        check("kinds changed\"" in server.reload(), server.lines)
        check(server.call("GET", "/v1/kinds/email")[1]["lease_ttl_ms"] == 180000, "not changed")
        server.end()


# ---- bad files ----------------------------------------------------------------------------------

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi"))

BAD = (
    ("liste: x\n", "line 1", "'liste'", "Did you mean 'listen'?"),
    ("listen: a\nstore: b\nlisten: c\n", "line 3", "'listen'", "duplicate"),
    ("listen: 127.0.0.1:0\nthreads: many\n", "line 2", "threads", "whole number"),
    ("threads: '4'\n", "line 1", "threads", "whole number"),
    ("threads: 0\n", "line 1", "threads", "from 1 to 64"),
    ("threads: 4.5\n", "line 1", "threads", "whole number"),
    ("threads: [4]\n", "line 1", "threads", "list"),
    ("threads: {a: 4}\n", "line 1", "threads", "single value"),
    ("threads: 99999999999999999999\n", "line 1", "threads", "from 1 to 64"),
    ("rate_per_s: -1\n", "line 1", "rate_per_s", "from 0"),
    ("store: true\n", "line 1", "store", "a text"),
    ("store: 5\n", "line 1", "store", "a text"),
    ("store:\n", "line 1", "store", "no value"),
    ("store: ''\n", "line 1", "store", "no value"),
    ("drain: 30\n", "line 1", "drain", "duration"),
    ("drain: 1d\n", "line 1", "drain", "10m"),
    ("require_tokens: yes\n", "line 1", "require_tokens", "true or false"),
    ("log: loud\n", "line 1", "log", "error|warn|info"),
    ("listen: [::1]:7295\n", "line 1", "listen", "quote a string"),
    ("limits: 5\n", "line 1", "limits", "must contain settings"),
    ("limits: {connections: 5, connections: 6}\n", "line 1", "limits.connections", "duplicate"),
    ("limits:\n  files: 5\n", "line 2", "limits.files"),
    ("token: secret-secret-secret\n", "line 1", "'token'"),
    ("config: x\n", "line 1", "'config'"),
    ("jobstore: {type: memory}\nstore: 'memory:'\n", "line 1", "store (line 2) and jobstore exclude"),
    ("jobstore: {type: postgres}\n", "line 1", "jobstore.dsn is required"),
    ("jobstore: {type: postgres, dsn: /var/lib}\n", "line 1", "jobstore.dsn", "postgres://"),
    ("jobstore: {type: memory, dsn: x}\n", "line 1", "jobstore.dsn"),
    ("jobstore: {type: mysql}\n", "line 1", "jobstore.type", "memory|sqlite|postgres"),
    ("jobstore: {dsn: x}\n", "line 1", "jobstore.type is required"),
    ("jobstore: {type: memory, lease_duration: 1ms}\n", "line 1", "jobstore.lease_duration"),
    ("lease_duration: 30s\njobstore: {type: memory, lease_duration: 30s}\n", "line 2", "exclude each other"),
    ("kinds: [a]\n", "line 1", "kinds"),
    ("kinds:\n  a: 5\n", "line 2", "kinds.a"),
    ("kinds:\n  a: {}\n  a: {}\n", "line 3", "duplicate", "'a'"),
    ("kinds:\n  a:\n    heartbeat_ms: 1000\n    lease_ttl_ms: 5\n", "line 4", "lease_ttl_ms"),
    ("kinds:\n  a:\n    heartbeat_ms: 1000\n    color: red\n", "line 4", "kinds.a", "color"),
    ("kinds:\n  a:\n    timeout: 1s\n    timeout_ms: 5000\n", "line 4", "timeout_ms", "duplicate"),
    ("kinds:\n  a:\n    retry: {max_attempts: 0}\n", "line 3", "max_attempts"),
    ("kinds:\n  a:\n    retry:\n      jitter: some\n", "line 3", "jitter"),
    ("kinds:\n  a:\n    kind: b\n", "line 3", "kind"),
    ("kinds:\n  " + "k" * 200 + ": {}\n", "line 2", "too long"),
    ("kinds: {a: {x: " + "[" * 20 + "]" * 20 + "}}\n", "line 1", "too deep"),
    ("".join(["kinds:\n"] + [f"  k{i}:\n" for i in range(1001)]), "line 1002", "more than 1000"),
    ("listen: &x 127.0.0.1:0\n", "line 1", "anchors"),
    ("listen: *x\n", "line 1", "anchors"),
    ("listen: !!str 5\n", "line 1", "tags"),
    ("kinds:\n  a: &k {timeout: 5s}\n  b:\n    <<: *k\n", "line 2", "anchors"),
    (BOMB, "line 1"),
    ("listen: 127.0.0.1:0\n---\nstore: x\n", "line 2", "only one YAML document"),
    ("listen: 127.0.0.1:0\n  store: x\n", "line 2", "invalid YAML"),
    ("listen: \"a\n", "line", "invalid YAML"),
    ("listen:\t127.0.0.1:0\n\tstore: x\n", "line 2", "invalid YAML"),
    ("{listen: x\n", "line", "invalid YAML"),
    ("- a\n", "line 1", "key: value"),
    ("? [a]\n: b\n", "line 1", "keys must be plain words"),
    ("listen: \"a\\0b\"\n", "line 1", "zero byte"),
    ("listen: \x01\n", "not UTF-8 text"),
    ("[" * 100000, "line 1"),
    ("store: memory:\n", "line 1", 'like "memory:"'),
    ("", "empty"),
    ("# " + "x" * 1024 * 1024, "too large"),
)


def a_bad_file_is_refused_with_its_line_and_key_and_nothing_is_started(place):
    for text, *wanted in BAD:
        file = write(place, text)
        server = Server("--config", file, "--store", f"sqlite:{place}/never.db", "--listen",
                        "127.0.0.1:0")
        said = "".join(server.lines)
        check(server.process.returncode == 2, text[:60], server.process.returncode, said)
        for part in [file, *wanted]:
            check(part in said, text[:60], part, said)
        check(len(server.lines) == 1, said)
    with open(file, "wb") as binary:
        binary.write(b"listen: \xff\xfe\n")
    check("not UTF-8" in "".join(Server("--config", file).lines), "bytes")
    check(not os.path.exists(f"{place}/never.db"), "something was started")


def bad_values_elsewhere_are_refused_too(place):
    del place
    for settings, part in (({"PAWL_THREADS": "x"}, "PAWL_THREADS"),
                           ({"PAWL_REQUIRE_TOKENS": "maybe"}, "PAWL_REQUIRE_TOKENS"),
                           ({"PAWL_DRAIN": "soon"}, "PAWL_DRAIN"),
                           ({"PAWL_LOG": "loud"}, "PAWL_LOG")):
        server = Server("--store", "memory:", "--listen", "127.0.0.1:0", **settings)
        check(server.process.returncode == 2 and part in "".join(server.lines), server.lines)


# ---- SIGHUP -------------------------------------------------------------------------------------


def a_reload_changes_what_can_change_and_names_what_cannot(place):
    file = write(place, "listen: 127.0.0.1:0\nstore: 'memory:'\n")
    server = Server("--config", file, PAWL_TOKEN=TOKEN)
    check("no settings changed" in server.reload(), server.lines)
    check(server.call("GET", "/v1/jobs")[0] == 200, "loopback is not open")

    write(place, "listen: 127.0.0.1:1\nstore: sqlite:x.db\nthreads: 2\nrequire_tokens: true\n"
                 "limits: {connections: 50}\njobstore_lease: 1\n")
    said = server.reload("settings unchanged")
    check("line 6" in said and "jobstore_lease" in said, said)
    check(server.call("GET", "/v1/jobs")[0] == 200, "half of a bad file was taken")

    for _ in range(2):  # what waits for a restart is named every time
        write(place, "listen: 127.0.0.1:1\nstore: sqlite:x.db\nthreads: 2\nrequire_tokens: true\n"
                     "limits: {connections: 50}\n")
        said = server.reload()
        for name in ("listen", "store", "threads", "limits.connections"):
            check(f"{name} changed; restart the server to apply it" in said, name, said)
    check(server.call("GET", "/v1/jobs")[0] == 401, "no token is asked for")
    check(server.call("GET", "/v1/jobs", token=TOKEN)[0] == 200, "the token opens nothing")

    write(place, "listen: 127.0.0.1:0\nstore: 'memory:'\n")
    check("require_tokens changed\"" in server.reload(), server.lines)
    check(server.call("GET", "/v1/jobs")[0] == 200, "loopback is not open again")

    os.unlink(file)
    check("cannot read" in server.reload("settings unchanged"), server.lines)
    write(place, "")
    check("is empty" in server.reload("settings unchanged"), server.lines)
    # A pipe that nobody writes into must not make it deaf.
    os.unlink(file)
    os.mkfifo(file)
    check("not a file" in server.reload("settings unchanged"), server.lines)
    server.end()


def a_reload_does_not_end_a_server_that_is_about_to_end(place):
    server = Server("--store", f"sqlite:{place}/a.db", "--listen", "127.0.0.1:0", "--drain", "60s")
    # A client in the middle of a request keeps the server from ending for as long as it may.
    client = socket.create_connection(("127.0.0.1", server.port))
    client.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                   b"\r\nContent-Length: 12\r\n\r\n{")
    time.sleep(0.1)
    server.process.terminate()
    until("the end", lambda: server.said("ending"))
    server.process.send_signal(signal.SIGHUP)
    client.sendall(b'"kind":"k"}')
    check(client.recv(1000).startswith(b"HTTP/1.1 201"), "what was begun is not finished")
    check(server.process.wait(PATIENCE_S) == 0, server.process.returncode, server.lines)
    client.close()


def whoever_stands_before_a_server_sees_its_end_coming(place):
    server = Server("--store", f"sqlite:{place}/a.db", "--listen", "127.0.0.1:0", "--drain", "60s",
                    "--drain-delay", "1s")
    head = (b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
            b"\r\nContent-Length: 12\r\n\r\n{")
    client = socket.create_connection(("127.0.0.1", server.port))
    client.sendall(head)
    check(server.call("GET", "/readyz")[0] == 200, "not ready")
    server.process.terminate()
    until("the end coming", lambda: server.call("GET", "/readyz")[0] == 503)
    # Everything is served as before.
    check(not server.said('"server_ending"'), server.lines)
    check(server.call("POST", "/v1/jobs", {"kind": "k"})[0] == 201, "nothing is taken any more")
    status, claim, _ = server.call("POST", "/v1/claims", {"worker_id": "w"})
    check(status == 200 and claim["claims"], claim)
    until("the end", lambda: server.said('"server_ending"'))
    # While what was begun is finished others are told, and not just cut off.
    def refused(path, status=503):
        got, answer, headers = server.call("GET", path)
        check(got == status and headers["Connection"] == "close", path, got, dict(headers))
        check(status == 200 or (answer["code"] == "unavailable" and headers["Retry-After"] == "1"),
              answer, dict(headers))
    until("refusals", lambda: server.call("GET", "/v1/jobs")[0] == 503)
    for path in ("/v1/jobs", "/readyz", "/metrics", "/openapi.json"):
        refused(path)
    refused("/healthz", 200)
    # And those who ask all the time do not keep it from ending.
    done = threading.Event()
    def keep_asking():
        while not done.is_set():
            try:
                server.call("GET", "/readyz")
            except OSError:
                return
    askers = [threading.Thread(target=keep_asking) for _ in range(4)]
    for asker in askers:
        asker.start()
    client.sendall(b'"kind":"k"}')
    check(client.recv(1000).startswith(b"HTTP/1.1 201"), "what was begun is not finished")
    check(server.process.wait(PATIENCE_S) == 0, server.process.returncode, server.lines)
    done.set()
    for asker in askers:
        asker.join()
    client.close()


def a_revoked_token_ends_its_stream_though_others_guess(place):
    del place
    server = Server("--store", "memory:", "--listen", "127.0.0.1:0", "--require-tokens",
                    PAWL_TOKEN=TOKEN)
    _, made, _ = server.call("POST", "/v1/tokens", {"name": "a", "scopes": ["read"]}, token=TOKEN)
    stream = server.connect()
    stream.request("GET", "/v1/feed", headers={"Authorization": f"Bearer {made['token']}"})
    reply = stream.getresponse()
    check(reply.status == 200 and b"retry" in reply.readline(), reply.status)
    for number in range(200):
        status, answer, _ = server.call("GET", "/v1/jobs", token=f"pawl_{number:043d}")
        check(status in (401, 429), answer)
    check(status == 429, "guessing is free")
    # Whoever has a right one is let in from the same address.
    check(server.call("GET", "/v1/jobs", token=TOKEN)[0] == 200, "the admin is locked out")
    status, answer, _ = server.call("DELETE", f"/v1/tokens/{made['id']}", token=TOKEN)
    check(status == 200, answer)
    check(server.call("POST", "/v1/jobs", {"kind": "secret"}, token=TOKEN)[0] == 201, "no job")
    rest = reply.read()  # to the end
    check(b"secret" not in rest, rest)
    server.end()


def tokens_are_not_required_when_nobody_could_get_in(place):
    file = write(place, "listen: 127.0.0.1:0\nstore: 'memory:'\nrequire_tokens: true\n")
    refused = Server("--config", file)
    check(refused.process.returncode == 2, refused.lines)
    check("tokens are required, but none exists" in refused.lines[-1], refused.lines)
    server = Server("--config", write(place, "listen: 127.0.0.1:0\nstore: 'memory:'\n"))
    write(place, "listen: 127.0.0.1:0\nstore: 'memory:'\nrequire_tokens: true\n")
    check("none exists" in server.reload("settings unchanged"), server.lines)
    status, made, _ = server.call("POST", "/v1/tokens", {"name": "ann", "scopes": ["admin"]})
    check(status == 201, made)
    server.reload()
    check(server.call("GET", "/v1/jobs")[0] == 401, "no token is asked for")
    check(server.call("GET", "/v1/jobs", token=made["token"])[0] == 200, "the token is not taken")
    server.end()
    flagged = Server("--store", "memory:", "--listen", "127.0.0.1:0", "--require-tokens",
                     PAWL_TOKEN=TOKEN)
    check(flagged.call("GET", "/v1/jobs")[0] == 401, "no token is asked for")
    check(flagged.call("GET", "/healthz")[0] == 200, "it does not say how it is")
    flagged.end()


# ---- certificates -------------------------------------------------------------------------------


def make_certificate(place, name):
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", f"{place}/{name}.key", "-out", f"{place}/{name}.pem"],
        capture_output=True, timeout=PATIENCE_S)
    check(made.returncode == 0, made.stderr)


def install(place, name):
    for kind in ("pem", "key"):
        with open(f"{place}/{name}.{kind}", encoding="utf-8") as file:
            write(place, file.read(), f"live.{kind}")


def is_served(server, trusted):
    connection = server.connect(trusted)
    try:
        return server.call("GET", "/healthz", connection=connection)[0] == 200
    except ssl.SSLCertVerificationError:
        return False
    finally:
        connection.close()


def a_certificate_is_renewed_under_traffic(place):
    first, second = f"{place}/first.pem", f"{place}/second.pem"
    make_certificate(place, "first")
    make_certificate(place, "second")
    with open(first, encoding="utf-8") as a, open(second, encoding="utf-8") as b:
        both = write(place, a.read() + b.read(), "both.pem")
    install(place, "first")
    server = Server("--store", "memory:", "--listen", "127.0.0.1:0", "--certificate",
                    f"{place}/live.pem", "--key", f"{place}/live.key")
    check(server.said("with TLS"), server.lines)
    check(is_served(server, first) and not is_served(server, second), "not the first certificate")

    stop = threading.Event()
    done, wrong = [0], []

    def work(keep):
        """New connections all the time, or one for ever."""
        connection = server.connect(both)
        while not stop.is_set():
            try:
                status, answer, _ = server.call("POST", "/v1/jobs", {"kind": "k"},
                                                connection=connection)
                if status != 201:
                    wrong.append(answer)
                done[0] += 1
                if not keep:
                    connection.close()
                    connection = server.connect(both)
            except (OSError, http.client.HTTPException) as error:
                wrong.append(error)
                return
        connection.close()

    old = server.connect(first)
    check(server.call("GET", "/healthz", connection=old)[0] == 200, "no answer")
    threads = [threading.Thread(target=work, args=(keep,)) for keep in (False, False, True)]
    for thread in threads:
        thread.start()
    until("traffic", lambda: done[0] > 20)
    for round in range(6):
        name = ("second", "first")[round % 2]
        install(place, name)
        check("reloaded" in server.reload("certificate and key"), server.lines)
        check(is_served(server, f"{place}/{name}.pem"), f"{name} is not served")
        now = done[0]
        until("traffic", lambda: done[0] > now + 10)
    # Whoever was connected before goes on with what they have.
    check(server.call("GET", "/healthz", connection=old)[0] == 200, "an old connection was cut")
    stop.set()
    for thread in threads:
        thread.join()
    check(not wrong, wrong)

    # What cannot be used changes nothing.
    for name, text in (("live.pem", "nonsense"), ("live.key", "nonsense"), ("live.pem", "")):
        install(place, "second")
        write(place, text, name)
        server.reload("settings unchanged")
        check(is_served(server, first), "the old certificate is gone")
    install(place, "second")
    with open(f"{place}/first.key", encoding="utf-8") as key:
        write(place, key.read(), "live.key")
    check("cannot be used" in server.reload("settings unchanged"), server.lines)
    check(is_served(server, first), "the old certificate is gone")
    old.close()
    server.end()
    check(not any("PRIVATE KEY" in line for line in server.lines), "a key is in the log")


def a_certificate_that_cannot_be_used_starts_nothing(place):
    make_certificate(place, "a")
    make_certificate(place, "b")
    for certificate, key in (("a.pem", "b.key"), ("a.key", "a.key"), ("none", "a.key"),
                             ("a.pem", ".")):
        server = Server("--store", "memory:", "--listen", "127.0.0.1:0", "--certificate",
                        f"{place}/{certificate}", "--key", f"{place}/{key}")
        check(server.process.returncode == 2, certificate, key, server.lines)


# ---- rates --------------------------------------------------------------------------------------


def a_token_that_asks_too_often_is_told_when_to_come_back(place):
    file = write(place, "listen: 127.0.0.1:0\nstore: 'memory:'\nrate_per_s: 2\n")
    server = Server("--config", file, PAWL_TOKEN=TOKEN)
    made = {}
    for name, scopes in (("ann", ["submit", "read"]), ("bob", ["work"])):
        made[name] = None
        while made[name] is None:  # the admin token has its own two a second
            status, answer, headers = server.call(
                "POST", "/v1/tokens", {"name": name, "scopes": scopes}, token=TOKEN)
            if status == 201:
                made[name] = answer["token"]
            else:
                check(status == 429 and answer["code"] == "rate_limited", answer)
                check(headers["Retry-After"] == "1", headers)
                time.sleep(0.1)
    began = time.monotonic()
    codes = []
    while 429 not in codes and len(codes) < 500:
        codes.append(server.call("POST", "/v1/jobs", {"kind": "k"}, token=made["ann"])[0])
    check(codes[:2] == [201, 201] and codes[-1] == 429, codes)
    check(codes.count(201) <= 2 + 2 * (time.monotonic() - began), codes)
    # Others have a bucket of their own, and whoever needs no token has no limit.
    status, claim, _ = server.call("POST", "/v1/claims", {"worker_id": "w"}, token=made["bob"])
    check(status == 200 and claim["claims"], claim)
    check([server.call("GET", "/v1/jobs")[0] for _ in range(10)] == [200] * 10, "open")
    # Heartbeats and results are never refused, but they are counted.
    token = claim["claims"][0]["lease"]["token"]
    for _ in range(50):
        status, answer, _ = server.call("POST", f"/v1/leases/{token}/heartbeat", {},
                                        token=made["bob"])
        check(status == 200, answer)
    status, answer, headers = server.call("POST", "/v1/claims", {"worker_id": "w"},
                                          token=made["bob"])
    check(status == 429 and int(headers["Retry-After"]) >= 5, status, dict(headers))
    # So it is in a batch, when there is nothing else in it.
    beat = {"op": "heartbeat", "token": token}
    status, answer, _ = server.call("POST", "/v1/batch", {"ops": [beat] * 3}, token=made["bob"])
    check(status == 200 and answer["results"][0]["status"] == 200, answer)
    status, answer, _ = server.call(
        "POST", "/v1/batch", {"ops": [{"op": "claim", "worker_id": "w"}] * 3}, token=made["bob"])
    check(status == 429 and answer["code"] == "rate_limited", answer)
    for others in ([{"op": "claim", "worker_id": "w"}] * 900, [{"op": "submit", "kind": "k"}],
                   [{"op": "no such"}], [7], [{"op": 7}]):
        status, answer, _ = server.call("POST", "/v1/batch", {"ops": [beat, *others]},
                                        token=made["bob"])
        check(status == 429, "one heartbeat lets others in", answer)
    status, answer, _ = server.call("POST", f"/v1/leases/{token}/complete", {}, token=made["bob"])
    check(status == 200, answer)
    # Without a limit everything passes at once.
    write(place, "listen: 127.0.0.1:0\nstore: 'memory:'\n")
    server.reload()
    codes = [server.call("GET", "/v1/jobs", token=made["ann"])[0] for _ in range(20)]
    check(codes == [200] * 20, codes)
    server.end()


# ---- who acts -----------------------------------------------------------------------------------


def histories_say_who_it_was_and_nobody_can_pass_for_a_token(place):
    url = f"sqlite:{place}/actor.db"
    server = Server("--store", url, "--listen", "127.0.0.1:0", PAWL_TOKEN=TOKEN)
    tokens = {}
    for name, scope in (("ci", "submit"), ("ops", "admin")):
        tokens[name] = server.call("POST", "/v1/tokens", {"name": name, "scopes": [scope]})[1][
            "token"]

    def actor(**how):
        status, job, _ = server.call("POST", "/v1/jobs", {"kind": "k"}, **how)
        check(status == 201, job)
        return server.call("GET", f"/v1/jobs/{job['id']}/events")[1]["events"][0]["actor"]

    ann = {"Pawl-Actor": "ann"}
    check(actor() == "http", actor())
    check(actor(headers=ann) == "ann", "an open caller is not believed")
    check(actor(token=tokens["ci"]) == "token:ci", actor(token=tokens["ci"]))
    check(actor(token=tokens["ci"], headers=ann) == "token:ci", "anybody is believed")
    check(actor(token=tokens["ops"]) == "token:ops", "ops")
    check(actor(token=tokens["ops"], headers=ann) == "ann", "an admin is not believed")
    check(actor(token=TOKEN) == "token:PAWL_TOKEN", actor(token=TOKEN))
    for name in ("token:ci", "x" * 129, "a\x7fb", "a\u202eb".encode()):
        status, answer, _ = server.call("POST", "/v1/jobs", {"kind": "k"},
                                        headers={"Pawl-Actor": name})
        check(status == 400 and "Pawl-Actor" in answer["detail"], name, answer)
    status, answer, _ = server.call("POST", "/v1/claims", {"worker_id": "token:ci"})
    check(status == 400 and "worker_id" in answer["detail"], answer)
    for name in ("PAWL_TOKEN", "x" * 123):
        status, answer, _ = server.call("POST", "/v1/tokens", {"name": name, "scopes": ["read"]})
        check(status == 400, name, answer)

    # The command line says who it is, over HTTP as on a store.
    there = f"http://127.0.0.1:{server.port}"
    for store in (url, there):
        code, job, error = run("submit", "k", "--store", store, USER="ada")
        check(code == 0, error)
        shown = run("events", job.strip(), "--store", store)
        check("cli:ada" in shown[1], shown)
    server.end()


# ---- the service manager ------------------------------------------------------------------------


def the_service_manager_is_told(place):
    for address in (f"{place}/notify", f"\0pawl-test-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(PATIENCE_S)
            server = Server("--store", "memory:", "--listen", "127.0.0.1:0",
                            NOTIFY_SOCKET=address.replace("\0", "@"))
            check(manager.recv(1000) == b"READY=1\n", "not ready")
            server.reload()
            check(manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC="), "no reload")
            check(manager.recv(1000) == b"READY=1\n", "not ready again")
            server.end()
            check(manager.recv(1000) == b"STOPPING=1\n", "no end")


def main():
    for test in (a_flag_goes_before_the_environment_and_that_before_the_file,
                 the_settings_of_jobstore_say_which_store,
                 kinds_of_the_file_are_set_at_the_start_and_when_it_is_read_again,
                 a_bad_file_is_refused_with_its_line_and_key_and_nothing_is_started,
                 bad_values_elsewhere_are_refused_too,
                 a_reload_changes_what_can_change_and_names_what_cannot,
                 a_reload_does_not_end_a_server_that_is_about_to_end,
                 whoever_stands_before_a_server_sees_its_end_coming,
                 a_revoked_token_ends_its_stream_though_others_guess,
                 tokens_are_not_required_when_nobody_could_get_in,
                 a_certificate_is_renewed_under_traffic,
                 a_certificate_that_cannot_be_used_starts_nothing,
                 a_token_that_asks_too_often_is_told_when_to_come_back,
                 histories_say_who_it_was_and_nobody_can_pass_for_a_token,
                 the_service_manager_is_told):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            test(place)
        print(f"ok {test.__name__} {time.monotonic() - began:.1f} s")


main()
