"""What the tests that make trouble for servers share: servers and clients as processes, stores of
their own, and what must be true afterwards.

Tests get the build directory and the source directory as arguments.
"""
import atexit
import collections
import ctypes
import fnmatch
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(sys.argv[2])
PAWL = os.path.join(BUILD, "pawl")
LOAD = os.path.join(BUILD, "tests", "server_load")
TORTURE = bool(os.environ.get("TORTURE"))
PATIENCE_S = 600 if TORTURE else 60

libc = ctypes.CDLL(None)


def is_sanitized():
    """Whether this is a build under a sanitizer, where memory tells nothing."""
    with open(PAWL, "rb") as program:
        text = program.read()
    return b"__asan_init" in text or b"__tsan_init" in text


def check(condition, *facts):
    if not condition:
        raise AssertionError(" ".join(str(fact) for fact in facts))


def until(what, condition, patience_s=PATIENCE_S, pause_s=0.01, why=lambda: ""):
    """Waits until something is true, and says what it has come to."""
    end = time.monotonic() + patience_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= end:
            raise AssertionError(f"{what} has not come within {patience_s} s {why()}")
        time.sleep(pause_s)


def die_with_parent():
    libc.prctl(1, signal.SIGKILL)


def start(*command, **how):
    return subprocess.Popen(command, preexec_fn=die_with_parent, **how)


# ---- stores -------------------------------------------------------------------------------------

# Whoever is started by a test, and perhaps killed, shares its place.
place = os.environ.get("PAWL_TROUBLE_PLACE")
if not place:
    place = os.environ["PAWL_TROUBLE_PLACE"] = tempfile.mkdtemp(prefix="pawl-trouble-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
made = [0]


def fresh_sqlite():
    made[0] += 1
    return f"sqlite:{place}/{made[0]}.db"


def psql(url, sql):
    done = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", url, "-c", sql],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    check(done.returncode == 0, sql, done.stderr)
    return done.stdout


def fresh_postgres(server=None):
    """A database on the server of scripts/with-postgres, or on another one."""
    server = server or os.environ["PAWL_TEST_POSTGRES"]
    made[0] += 1
    name = f"pawl_trouble_{os.getpid()}_{made[0]}"
    psql(server, f"CREATE DATABASE {name}")
    atexit.register(lambda: subprocess.run(
        ["psql", "-Xq", server, "-c", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"],
        capture_output=True, timeout=PATIENCE_S))
    return re.sub(r"/postgres(\?|$)", rf"/{name}\1", server)


class Postgres:
    """A PostgreSQL that nobody else uses, so that it can be ended."""

    def __init__(self):
        self.holder = start(
            os.path.join(SOURCE, "scripts", "with-postgres"), "sh", "-c",
            'echo "$PAWL_TEST_POSTGRES"; cat', stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "PAWL_POSTGRES_FSYNC": "off"})
        self.url = self.holder.stdout.readline().strip()
        check(self.url, "there is no PostgreSQL")
        self.data = re.search(r"host=([^&]*)", self.url).group(1) + "/data"
        with open(self.data + "/postmaster.opts", encoding="utf-8") as opts:
            self.bin = os.path.dirname(opts.read().split()[0])

    def control(self, *words):
        command = [self.bin + "/pg_ctl", "-D", self.data, "-w", *words]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, cwd="/", timeout=PATIENCE_S)
        check(done.returncode == 0, words)

    def crash(self):
        with open(self.data + "/postmaster.opts", encoding="utf-8") as opts:
            self.opts = " ".join(opts.read().split()[1:]).replace('"', "")
        self.control("stop", "-m", "immediate")

    def start_again(self):
        self.control("start", "-l", self.data + "/server.log", "-o", self.opts)

    def end(self):
        self.holder.stdin.close()
        self.holder.wait(PATIENCE_S)


# ---- servers ------------------------------------------------------------------------------------


class Server:
    """`pawl serve` in a process of its own."""

    def __init__(self, url, port=0, *args, **settings):
        self.lines = []
        self.store = url
        self.url = f"http://127.0.0.1:{port}"
        self.port = None
        self.process = start(PAWL, "serve", "--store", url, "--listen", f"127.0.0.1:{port}", *args,
                             stderr=subprocess.PIPE, text=True, env={**os.environ, **settings})
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        check(self.port, "the server has not come up:", self.lines)
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.keep_lines, daemon=True).start()

    def keep_lines(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def call(self, method, path, body=None, patience_s=PATIENCE_S):
        return call(self.port, method, path, body, patience_s)

    def is_ready(self):
        try:
            return self.call("GET", "/readyz", patience_s=10)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def kill(self):
        self.process.kill()
        check(self.process.wait(PATIENCE_S) == -signal.SIGKILL, self.lines)

    def tell(self):
        self.process.terminate()

    def end(self):
        self.tell()
        check(self.process.wait(PATIENCE_S) == 0, self.process.returncode, self.lines)

    def parked(self):
        """How many requests wait for something."""
        page = self.call("GET", "/metrics")[1].decode()
        return int(re.search(r"^pawl_http_parked_requests (\d+)$", page, re.MULTILINE).group(1))

    def memory_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connections(self):
        """How many it has with clients, also those whose client has hung up."""
        with open("/proc/net/tcp", encoding="ascii") as table:
            rows = [line.split() for line in table.readlines()[1:]]
        return sum(row[1].endswith(f":{self.port:04X}") and row[3] in ("01", "08") for row in rows)


def call(port, method, path, body=None, patience_s=PATIENCE_S):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
    try:
        answer = ask(connection, method, path, body)
    finally:
        connection.close()
    return answer


def ask(connection, method, path, body=None):
    """One request on a connection that stays."""
    if body is None:
        connection.request(method, path)
    else:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    text = reply.read()
    return reply.status, json.loads(text) if text[:1] in (b"{", b"[") else text


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


# ---- clients ------------------------------------------------------------------------------------


class Load:
    """Submitters and workers over the C library, and workers of the command line. None of them is
    helped while servers come and go."""

    def __init__(self, url, name="l", submitters=4, workers=4, cli_workers=2, pause_ms=2,
                 patience_ms=0, lease_ms=60000, **settings):
        self.name, self.lease_ms, self.settings = name, lease_ms, settings
        self.log = f"{place}/{name}.log"
        self.cli_log = f"{place}/{name}.cli"
        with open(self.log, "ab") as log:
            self.process = start(LOAD, url, name, str(submitters), str(workers), str(pause_ms),
                                 str(patience_ms), str(lease_ms), stdin=subprocess.PIPE,
                                 stdout=log, env={**os.environ, **settings})
        script = f'echo "R $PAWL_JOB_ID $PAWL_ATTEMPT" >>{self.cli_log}'
        self.cli_words = open(f"{self.cli_log}.words", "ab")
        self.cli = [start(PAWL, "work", "--store", url, "--kind", "cli", "--", "sh", "-c", script,
                          stdin=subprocess.DEVNULL, stderr=self.cli_words,
                          env={**os.environ, **settings})
                    for _ in range(cli_workers)]

    def count(self, fact):
        with open(self.log, "rb") as log:
            return sum(line.startswith(fact.encode()) for line in log)

    def goes_on(self, jobs=50):
        """Waits until so many more jobs are acknowledged and completed."""
        submitted, done = self.count("S"), self.count("D")
        until("work", lambda: self.count("S") >= submitted + jobs and
              self.count("D") >= done + jobs, pause_s=0.02)

    def stop(self):
        """Submits no more."""
        self.process.stdin.close()

    def end(self):
        self.stop()
        check(self.process.wait(PATIENCE_S) == 0, "the load has ended with",
              self.process.returncode, self.facts("F"))

    def end_cli(self):
        for worker in self.cli:
            worker.terminate()
        for worker in self.cli:
            check(worker.wait(PATIENCE_S) == 0, "pawl work has ended with", worker.returncode,
                  self.said())
        self.cli_words.close()

    def said(self):
        with open(f"{self.cli_log}.words", encoding="utf-8") as words:
            return words.read()

    def facts(self, fact, log=None):
        try:
            with open(log or self.log, encoding="utf-8") as lines:
                return [line.split(" ", 2)[1:] for line in lines.read().splitlines()
                        if line.startswith(fact + " ")]
        except FileNotFoundError:
            return []


def all_jobs(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    jobs, cursor = [], ""
    while cursor is not None:
        status, answer = ask(connection, "GET", "/v1/jobs?limit=500&include=payload" +
                             (f"&cursor={cursor}" if cursor else ""))
        check(status == 200, answer)
        jobs += answer["jobs"]
        cursor = answer["next_cursor"]
    connection.close()
    return jobs


def events_of(connection, job):
    status, answer = ask(connection, "GET", f"/v1/jobs/{job}/events?limit=1000")
    check(status == 200, answer)
    return answer["events"]


def verify_all(server):
    done = subprocess.run([PAWL, "verify", "--all", "--json", "--store", server.url],
                          capture_output=True, text=True, timeout=3600 if TORTURE else 600)
    check(done.returncode == 0, done.stdout[-2000:], done.stderr)


def settle(server, load, patience_s=PATIENCE_S):
    """Ends the load, once all that it has submitted is done."""
    load.end()
    check_kept(server, load)

    def left():
        return server.call(
            "GET", "/v1/jobs?status=queued,leased,running,retrying&limit=1")[1]["jobs"]

    until("the end of all jobs", lambda: left() == [], patience_s, 0.05, lambda: [
        (job, server.call("GET", f"/v1/jobs/{job['id']}/events")[1]) for job in left()])
    load.end_cli()


def check_kept(server, load):
    """What the load was told is so, whether or not all is done by now: no call has failed, every
    job that was acknowledged is there, once, and every completion. Gives the jobs by id."""
    jobs = {job["id"]: job for job in all_jobs(server)}
    submitted = load.facts("S")
    lost = [job for job, _ in submitted if job not in jobs]
    check(not lost, len(lost), "jobs were acknowledged and are lost:", lost[:5])
    for job, name in submitted:
        check(jobs[job]["payload"]["name"] == name, job, name)
    names = [job["payload"]["name"] for job in jobs.values()]
    check(len(set(names)) == len(names), len(names) - len(set(names)), "jobs were submitted twice")

    claims = [tuple(fact) for fact in load.facts("R") + load.facts("R", load.cli_log)]
    twice = {claim for claim, count in collections.Counter(claims).items() if count > 1}
    check(not twice, "jobs were given to two:", list(twice)[:5])
    done = [job for job, _ in load.facts("D")]
    check(len(set(done)) == len(done), "a job was completed twice")
    for job in done:
        check(jobs[job]["status"] == "completed", "was acknowledged as completed:", jobs[job])
    failures = load.facts("F")
    check(not failures, len(failures), "calls have failed:", failures[:5])
    return jobs


def check_load(server, load, attempts_max=1):
    """Nothing that was acknowledged is lost or was done twice, and every history is right. All jobs
    are those of the load. More than `attempts_max` claims of a job must not have been needed."""
    jobs = check_kept(server, load)
    submitted = load.facts("S")
    check(len(jobs) == len(submitted), len(jobs), "jobs, but acknowledged", len(submitted))
    for job in jobs.values():
        check(job["status"] == "completed", job)
        check(job["attempt"] <= attempts_max, "was claimed too often:", job)
    verify_all(server)
    again = sum(job["attempt"] - 1 for job in jobs.values())
    return f"{len(jobs)} jobs acknowledged and completed, {again} claims repeated"


def run(*tests):
    """All of them, or those that PAWL_TEST_CASE names, as with programs in C."""
    wanted = os.environ.get("PAWL_TEST_CASE", "*")
    tests = [test for test in tests if fnmatch.fnmatch(test.__name__, wanted)]
    check(tests, "there is no case", wanted)
    for test in tests:
        begun = time.monotonic()
        said = test()
        print(f"ok {test.__name__} ({time.monotonic() - begun:.1f} s)", said or "", flush=True)
