#!/usr/bin/env python3
"""Traces and logs of `pawl serve` as others get them: a collector that is told by HTTP, and whoever
reads stderr.

usage: test_telemetry.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import datetime
import http.client
import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

PAWL = os.path.join(sys.argv[1], "pawl")
PATIENCE_S = 20
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = "sesame"  # in everything that nobody else may see
HOSTILE = "m a\"il\u00e9"  # a name that ends a string, and has a letter of two bytes


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def now_text():
    """As lines of the log say it."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def until(condition, text):
    """Waits for what must come soon."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < end, text() if callable(text) else text)
        time.sleep(0.01)


class Collector:
    """Takes spans, or does not: `answer` is the status, or a function that waits."""

    def __init__(self):
        self.spans = []
        self.requests = []
        self.raw = b""
        self.answers = []  # statuses to give first; then 200
        self.hold = threading.Event()
        self.hold.set()
        self.endless = False  # its answers are
        self.talked = 0
        self.left = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.hold.wait(PATIENCE_S)
                status = collector.answers.pop(0) if collector.answers else 200
                collector.requests.append((self.path, dict(self.headers), status))
                if status == 200:
                    collector.take(body)
                self.send_response(status)
                if collector.endless:
                    self.send_header("Connection", "close")
                    self.end_headers()
                    self.talk_on()
                    return
                self.send_header("Content-Length", "2")
                self.end_headers()
                try:
                    self.wfile.write(b"{}")
                except OSError:
                    pass

            def talk_on(self):
                """Until nobody listens."""
                try:
                    while True:
                        collector.talked += self.wfile.write(bytes(65536))
                except OSError:
                    collector.left.set()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def take(self, body):
        self.raw += body
        document = json.loads(body)
        for resource in document["resourceSpans"]:
            attributes = read_attributes(resource["resource"]["attributes"])
            for scope in resource["scopeSpans"]:
                check(scope["scope"]["name"] == "pawl", scope["scope"])
                for span in scope["spans"]:
                    span["attributes"] = read_attributes(span["attributes"])
                    span["resource"] = attributes
                    self.spans.append(span)

    def of(self, job):
        return [span for span in self.spans if span["attributes"]["pawl.job.id"] == job]

    def close(self):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


def read_attributes(attributes):
    """OTLP's list as a dictionary."""
    found = {}
    for entry in attributes:
        check(entry["key"] not in found, attributes)
        (kind, value), = entry["value"].items()
        found[entry["key"]] = int(value) if kind == "intValue" else value
        check(kind in ("intValue", "stringValue"), entry)
    return found


class Server:
    """A server in a process of its own, whose lines are read unless told otherwise."""

    all = []

    def __init__(self, *args, reading=True, **settings):
        self.lines = []
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("OTEL_", "PAWL_LOG"))}
        self.process = subprocess.Popen(
            [PAWL, "serve", "--listen", "127.0.0.1:0", *args], stderr=subprocess.PIPE,
            env={**environment, **settings})
        Server.all.append(self.process)
        self.port = None
        for line in self.process.stderr:
            self.lines.append(line.decode())
            found = re.search(r"on port (\d+)", self.lines[-1])
            if found:
                self.port = int(found.group(1))
                break
        check(self.port is not None, self.lines)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        self.reader = threading.Thread(target=self.drain, daemon=True)
        if reading:
            self.reader.start()

    def drain(self):
        for line in self.process.stderr:
            self.lines.append(line.decode())

    def call(self, path, body, status=200, **headers):
        self.connection.request("POST", path, json.dumps(body),
                                {"Content-Type": "application/json", **headers})
        reply = self.connection.getresponse()
        answer = json.loads(reply.read())
        check(reply.status == status, answer)
        return answer

    def metric(self, line):
        self.connection.request("GET", "/metrics")
        text = self.connection.getresponse().read().decode()
        found = re.search("^" + re.escape(line) + r" (\d+)$", text, re.M)
        check(found, f"{line} is not among the figures")
        return int(found.group(1))

    def facts(self):
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def end(self, sent=signal.SIGTERM):
        self.connection.close()
        self.process.send_signal(sent)
        if not self.reader.is_alive():
            self.reader.start()
        status = self.process.wait(PATIENCE_S)
        self.reader.join(PATIENCE_S)
        return status


# ---- stores ----

class Postgres:
    """A database of its own."""

    def __init__(self):
        base = os.environ.get("PAWL_TEST_POSTGRES")
        check(base, "PAWL_TEST_POSTGRES is not set: scripts/with-postgres sets it")
        self.base, self.name = base, f"pawl_telemetry_{os.getpid()}"
        self.ask(f"CREATE DATABASE {self.name}")
        self.url = base.replace("/postgres?", f"/{self.name}?")

    def ask(self, words):
        subprocess.run(["psql", "-q", "-X", self.base, "-c", words], check=True,
                       timeout=PATIENCE_S)

    def close(self):
        self.ask(f"DROP DATABASE {self.name} WITH (FORCE)")


# ---- traces ----

def live(server, before_the_end):
    """A job that is tried twice, with an effect; and one that comes with a header alone."""
    job = server.call("/v1/jobs", {
        "kind": "mail", "queue": "q", "correlation_id": "c1", "payload": SECRET,
        "traceparent": f"00-{TRACE}-{PARENT}-01"}, 201)["id"]
    claim = server.call("/v1/claims", {"worker_id": "w", "queues": ["q"]})["claims"][0]
    server.call(f"/v1/leases/{claim['lease']['token']}/fail", {
        "error": {"class": "timeout", "message": SECRET, "details": {"x": SECRET}},
        "retry_after_ms": 0})
    second = server.call("/v1/claims", {"worker_id": "w", "queues": ["q"],
                                        "wait_ms": 5000})["claims"][0]
    lease = f"/v1/leases/{second['lease']['token']}"
    server.call(lease + "/effects/charge/begin", {"input": SECRET})
    server = before_the_end(server)
    server.call(lease + "/effects/charge/commit", {"result": SECRET})
    server.call(lease + "/complete", {"result": SECRET})
    return server, job, claim["traceparent"], second["traceparent"]


def one(spans, **wanted):
    found = [span for span in spans
             if all(span["attributes"].get("pawl." + name.replace("_", ".")) == value
                    for name, value in wanted.items() if name != "name")
             and ("name" not in wanted or span["name"] == wanted["name"])]
    check(len(found) == 1, (wanted, found))
    return found[0]


def is_below(span, parent):
    check(span["traceId"] == parent["traceId"], (span, parent))
    check(span["parentSpanId"] == parent["spanId"], (span, parent))
    check(int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
          <= int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"]), (span, parent))


def check_life(spans, job, first, second, begun):
    whole = one(spans, name="job mail")
    check(whole["traceId"] == TRACE and whole["parentSpanId"] == PARENT, whole)
    check(begun - 1 < int(whole["startTimeUnixNano"]) / 1e9 < time.time() + 1, whole)
    check(whole["attributes"] == {
        "pawl.job.id": job, "pawl.job.kind": "mail", "pawl.queue": "q", "pawl.attempt": 2,
        "pawl.epoch": 1, "pawl.correlation_id": "c1", "pawl.outcome": "completed",
        "pawl.cause": "complete"}, whole)
    check(whole["resource"]["service.name"] == "pawl-test", whole)
    check(whole["kind"] == 1 and whole["status"] == {}, whole)
    failed = one(spans, name="attempt mail", attempt=1)
    is_below(failed, whole)
    check(failed["status"] == {"code": 2, "message": "timeout"}, failed)
    check(failed["attributes"]["pawl.worker.id"] == "w" and failed["kind"] == 5, failed)
    check(first == f"00-{TRACE}-{failed['spanId']}-01", (first, failed))
    done = one(spans, name="attempt mail", attempt=2)
    is_below(done, whole)
    check(second == f"00-{TRACE}-{done['spanId']}-01", (second, done))
    effect = one(spans, name="effect")
    is_below(effect, done)
    check(effect["attributes"]["pawl.effect.key"] == "charge" and effect["kind"] == 3, effect)
    check(len(spans) == 4, spans)


def follow_a_plan(server):
    """Steps, and a traceparent that comes with the request and not in it."""
    server.connection.request("PUT", "/v1/resources/r", '{"slots":2}',
                              {"Content-Type": "application/json"})
    server.connection.getresponse().read()
    header = f"00-{TRACE}-00f067aa0ba902b7-01"
    job = server.call("/v1/jobs", {"kind": "tour", "plan": {"steps": [
        {"id": "a", "kind": "walk", "payload": SECRET}]}}, 201, traceparent=header)
    check(job["traceparent"] == header, job)
    claim = server.call("/v1/steps/claims", {"worker_id": "w", "resource_id": "r"})["claims"][0]
    server.call(f"/v1/leases/{claim['lease']['token']}/complete", {"result": SECRET})
    return job["id"], claim["traceparent"]


def check_plan(spans, given):
    whole = one(spans, name="job tour")
    check(whole["parentSpanId"] == "00f067aa0ba902b7", whole)
    step = one(spans, name="step walk")
    is_below(step, whole)
    check(given == f"00-{TRACE}-{step['spanId']}-01", (given, step))
    check(step["attributes"]["pawl.step.id"] == "a", step)


def hand_on(server):
    """What a command of `pawl work` is told, and what events say."""
    job = server.call("/v1/jobs", {"kind": "env", "queue": "env",
                                   "traceparent": f"00-{TRACE}-{PARENT}-01"}, 201)["id"]
    url = f"http://127.0.0.1:{server.port}"
    worked = subprocess.run([PAWL, "work", "--store", url, "--kind", "env", "--once", "--", "sh",
                             "-c", 'echo "\\"$PAWL_TRACEPARENT\\""'], capture_output=True,
                            text=True, timeout=PATIENCE_S)
    check(worked.returncode == 0, worked)
    server.connection.request("GET", f"/v1/jobs/{job}")
    result = json.loads(server.connection.getresponse().read())["result"]
    server.connection.request("GET", f"/v1/jobs/{job}/events")
    events = json.loads(server.connection.getresponse().read())["events"]
    check(len(events) == 4 and all(event["trace_id"] == TRACE for event in events), events)
    return job, result


def try_headers(server):
    header = f"00-{TRACE}-00f067aa0ba902b7-01"
    # What the body says goes first, what is no traceparent is passed over, several jobs have it.
    jobs = server.call("/v1/jobs", {"jobs": [
        {"kind": "k", "queue": "other"},
        {"kind": "k", "queue": "other", "traceparent": f"00-{TRACE}-{PARENT}-00"}]}, 201,
                       traceparent=header)["jobs"]
    check([job["traceparent"] for job in jobs] == [header, f"00-{TRACE}-{PARENT}-00"], jobs)
    for bad in ("hello", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01"):
        job = server.call("/v1/jobs", {"kind": "k", "queue": "other"}, 201, traceparent=bad)
        check(job["traceparent"] is None, job)
    refused = server.call("/v1/jobs", {"kind": "k", "traceparent": f"00-{'0' * 32}-{PARENT}-01"},
                          400)
    check("traceparent must follow W3C" in refused["detail"], refused)

    # A call that comes again under its key is the same call, whatever span it is in now.
    for span in ("00f067aa0ba902b7", "00f067aa0ba902b8"):
        job = server.call("/v1/jobs", {"kind": "k", "queue": "other"}, 201,
                          **{"traceparent": f"00-{TRACE}-{span}-01", "Idempotency-Key": "once"})
        check(job["traceparent"] == header, job)


def spans_reach_a_collector_from_every_store(place):
    postgres = Postgres()
    try:
        for url in ("memory:", f"sqlite:{place}/a.db", postgres.url):
            collector = Collector()
            settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}/",
                        "OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=a%20b, x-other=c",
                        "OTEL_SERVICE_NAME": "pawl-test"}
            server = Server("--store", url, **settings)

            def again(server, url=url, settings=settings):
                """Another server goes on where the first one has ended."""
                if url == "memory:":
                    return server
                server.end()
                return Server("--store", url, **settings)

            begun = time.time()
            server, *life = live(server, again)
            tour, given = follow_a_plan(server)
            try_headers(server)
            env, told = hand_on(server)
            if url == "memory:":  # they come by themselves, and not only at the end
                until(lambda: server.metric('pawl_trace_spans_total{outcome="exported"}') >= 6,
                      lambda: collector.spans)
            job = server.call("/v1/jobs", {"kind": "last", "queue": "last"}, 201)["id"]
            claim = server.call("/v1/claims", {"worker_id": "w", "queues": ["last"]})["claims"][0]
            server.call(f"/v1/leases/{claim['lease']['token']}/complete", {})
            check(server.end() == 0, server.lines)
            check_life(collector.of(life[0]), *life, begun)
            check_plan(collector.of(tour), given)
            attempt = one(collector.of(env), name="attempt env")
            check(told == f"00-{TRACE}-{attempt['spanId']}-01", (told, attempt))
            last = one(collector.of(job), name="job last")
            check(last["traceId"] == job.replace("-", ""), last)
            check("parentSpanId" not in last, last)
            check(claim["traceparent"].startswith("00-" + job.replace("-", "")), claim)
            path, headers, _ = collector.requests[0]
            check(path == "/v1/traces" and headers["Content-Type"] == "application/json", headers)
            check(headers["x-api-key"] == "a b" and headers["x-other"] == "c", headers)
            check(SECRET.encode() not in collector.raw, "a payload is in a trace")
            check(SECRET not in "".join(server.lines), "a payload is in the log")
            check(len({span["spanId"] for span in collector.spans}) == len(collector.spans),
                  "a span came twice")
            collector.close()
    finally:
        postgres.close()


def burn(server, seconds):
    """Jobs from submit to completion, many in one call, for so long; how many there were."""
    done = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        server.call("/v1/jobs", {"jobs": [{"kind": "k"}] * 500}, 201)
        claims = server.call("/v1/claims", {"worker_id": "w", "max": 500})["claims"]
        answer = server.call("/v1/batch", {"ops": [
            {"op": "complete", "token": claim["lease"]["token"]} for claim in claims]})
        done += sum(result["status"] == 200 for result in answer["results"])
    return done


def a_collector_that_is_slow_or_away_costs_spans_and_nothing_else(place):
    del place
    collector = Collector()
    collector.hold.clear()
    endpoint = f"http://127.0.0.1:{collector.port}/custom"
    plain = Server("--store", "memory:")
    server = Server("--store", "memory:", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=endpoint)
    usual, traced_too = burn(plain, 0.8), burn(server, 0.8)
    plain.end()
    # The two run on the same two processors as everybody else: only a stall is told by this.
    check(traced_too > usual / 3, (usual, traced_too))
    while server.metric('pawl_trace_spans_total{outcome="dropped"}') == 0:
        traced_too += burn(server, 0.1)
    dropped = server.metric('pawl_trace_spans_total{outcome="dropped"}')
    check(server.metric('pawl_trace_spans_total{outcome="exported"}') == 0, "who took them?")
    # Busy for a moment: asked again. Of all spans each is counted once.
    collector.answers = [503, 429]
    collector.hold.set()
    until(lambda: server.metric('pawl_trace_spans_total{outcome="exported"}')
          + dropped == 2 * traced_too, lambda: (dropped, traced_too, len(collector.spans)))
    check(server.metric('pawl_trace_spans_total{outcome="failed"}') == 0, "they were not lost")
    check(len(collector.spans) == 2 * traced_too - dropped, len(collector.spans))
    check(all(path == "/custom" for path, _, _ in collector.requests), collector.requests[0])
    check([status for _, _, status in collector.requests][:3] == [503, 429, 200],
          collector.requests)

    # One that refuses is not asked again, and one that is gone for good keeps nobody from ending.
    collector.answers = [400]
    burn(server, 0.01)
    until(lambda: server.metric('pawl_trace_spans_total{outcome="failed"}') > 0, "400 is final")
    collector.close()
    burn(server, 0.01)
    begun = time.monotonic()
    check(server.end() == 0, server.lines)
    check(time.monotonic() - begun < 5, "it waited for a collector that is not there")
    told = [fact["event"] for fact in server.facts() if fact["event"].startswith("traces_")]
    check(told[:2] == ["traces_refused", "traces_taken"] and len(told) <= 4, told)


def a_collector_that_answers_without_end_is_left(place):
    del place
    collector = Collector()
    collector.endless = True
    server = Server("--store", "memory:",
                    OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}")
    job = server.call("/v1/jobs", {"kind": "k"}, 201)["id"]
    claim = server.call("/v1/claims", {"worker_id": "w"})["claims"][0]
    server.call(f"/v1/leases/{claim['lease']['token']}/complete", {})
    begun = time.monotonic()
    check(collector.left.wait(PATIENCE_S), "it is listened to for ever")
    check(time.monotonic() - begun < 5, "it is listened to for long")
    # What it took, it took, and is not sent again; buffers of the system are large.
    until(lambda: server.metric('pawl_trace_spans_total{outcome="exported"}') == 2,
          "no span is taken")
    check(collector.talked < 32 * 1024 * 1024, collector.talked)
    check(len(collector.of(job)) == 2, collector.spans)
    check(server.end() == 0, server.lines)
    collector.close()


def wrong_addresses_are_refused(place):
    del place
    for name, value, words in (
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "http://127.0.0.1:4318/v1/traces"),
            ("OTEL_EXPORTER_OTLP_HEADERS", f"{SECRET}\r\nx=y", "name=value"),
            ("OTEL_EXPORTER_OTLP_HEADERS", SECRET, "name=value")):
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", name: value}
        ended = subprocess.run([PAWL, "serve", "--store", "memory:", "--listen", "127.0.0.1:0"],
                               env={**os.environ, **settings}, capture_output=True, text=True,
                               timeout=PATIENCE_S)
        check(ended.returncode == 2 and words in ended.stderr, ended)
        check(SECRET not in ended.stderr, "a header's value is shown")


# ---- logs ----

def die_once(server):
    """A job that becomes a dead letter, whose names do their worst."""
    job = server.call("/v1/jobs", {
        "kind": HOSTILE, "payload": SECRET, "labels": {"a": SECRET},
        "retry": {"max_attempts": 1}}, 201)["id"]
    claim = server.call("/v1/claims", {"worker_id": "w"})["claims"][0]
    server.call(f"/v1/leases/{claim['lease']['token']}/fail", {"error": {"message": SECRET}})
    return job


def the_log_has_a_line_for_each_fact(place):
    server = Server("--store", f"sqlite:{place}/a.db")
    job = die_once(server)
    server.call("/v1/queues/q/pause", {})
    check(server.end() == 0, server.lines)
    facts = server.facts()
    for fact in facts:
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fact.pop("at")), fact)
    # The command line says for itself that it was told to end, and may overtake others then.
    check("server_ending" in [fact["event"] for fact in facts], facts)
    facts = [fact for fact in facts if fact["event"] != "server_ending"]
    check([fact["event"] for fact in facts] == [
        "server_started", "job_dead_lettered", "queue_paused", "server_drained",
        "server_stopped"], facts)
    check(facts[1] == {
        "level": "warn", "event": "job_dead_lettered", "job_id": job, "version": 4,
        "kind": HOSTILE, "queue": "default", "attempt": 1, "worker_id": "w",
        "reason": "exhausted_retries", "error_class": "transient", "failures": 1, "cause": "fail",
        "actor": "w"}, facts[1])

    # Less and more.
    server = Server("--store", "memory:", "--log", "debug")
    job = die_once(server)
    lease = server.call("/v1/claims", {"worker_id": "w", "wait_ms": 0})
    check(lease == {"claims": []}, lease)
    server.end()
    requests = [(fact["method"], fact["route"], fact["status"]) for fact in server.facts()
                if fact["event"] == "http_request"]
    check(requests == [("POST", "/v1/jobs", 201), ("POST", "/v1/claims", 200),
                       ("POST", "/v1/leases/{token}/fail", 200), ("POST", "/v1/claims", 200)],
          requests)
    moves = [fact["event"] for fact in server.facts() if fact.get("job_id") == job]
    check(moves == ["job_created", "job_leased", "job_running", "job_dead_lettered"], moves)
    check(SECRET not in "".join(server.lines), "a payload is in the log")


def people_read_text_on_a_terminal(place):
    del place
    master, slave = pty.openpty()
    process = subprocess.Popen([PAWL, "serve", "--store", "memory:", "--listen", "127.0.0.1:0"],
                               stderr=slave, env=dict(os.environ))
    os.close(slave)
    text = b""

    def read(wanted):
        nonlocal text
        end = time.monotonic() + PATIENCE_S
        while not re.search(wanted, text):
            check(time.monotonic() < end, text)
            if select.select([master], [], [], 0.1)[0]:
                text += os.read(master, 4096)

    # On a terminal it says where to click.
    read(rb"at http://127\.0\.0\.1:(\d+)/\r\n")
    server = Server.__new__(Server)
    port = int(re.search(rb"at http://127\.0\.0\.1:(\d+)/\r\n", text).group(1))
    server.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    job = die_once(server)
    read(rb"job_dead_lettered[^\n]*\r\n")
    line = [line for line in text.decode().split("\r\n") if "dead_lettered" in line][0]
    check(re.fullmatch(
        r"\d\d:\d\d:\d\d warn   job_dead_lettered  job=" + job + r"  version=4  "
        r'kind="m a\\"il\u00e9"  queue=default  attempt=1  worker=w  '
        r"reason=exhausted_retries  error=transient  failures=1  cause=fail  actor=w", line), line)
    process.send_signal(signal.SIGTERM)
    check(process.wait(PATIENCE_S) == 0, text)
    os.close(master)


def nobody_waits_for_whoever_reads_the_log(place):
    del place
    server = Server("--store", "memory:", "--log", "debug", reading=False)
    # Far more lines than a pipe and the backlog hold.
    done = burn(server, 0.5)
    while server.metric("pawl_log_lines_dropped_total") == 0:
        done += burn(server, 0.1)
    check(done > 0, "nothing was done")
    stalled = now_text()
    until(lambda: now_text() > stalled, "time stands still")
    server.end()
    # Lines say when it happened, and not when they could be written.
    late = [fact for fact in server.facts() if "job_id" in fact and fact["at"] > stalled]
    check(not late, late[:1])
    dropped = [fact["count"] for fact in server.facts() if fact["event"] == "log_lines_dropped"]
    check(len(dropped) >= 1 and min(dropped) > 0, dropped)


def a_server_whose_log_nobody_reads_ends_all_the_same(place):
    del place
    server = Server("--store", "memory:", "--log", "debug", reading=False)
    while server.metric("pawl_log_lines_dropped_total") == 0:
        burn(server, 0.1)
    server.process.send_signal(signal.SIGTERM)
    check(server.process.wait(PATIENCE_S) == 0, server.process.returncode)


def main():
    for test in (spans_reach_a_collector_from_every_store,
                 a_collector_that_is_slow_or_away_costs_spans_and_nothing_else,
                 a_collector_that_answers_without_end_is_left,
                 wrong_addresses_are_refused, the_log_has_a_line_for_each_fact,
                 people_read_text_on_a_terminal, nobody_waits_for_whoever_reads_the_log,
                 a_server_whose_log_nobody_reads_ends_all_the_same):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            try:
                test(place)
            finally:
                for process in Server.all:
                    if process.poll() is None:
                        process.kill()
        print("ok", test.__name__, f"{time.monotonic() - begun:.1f} s")


main()
