#!/usr/bin/env python3
"""A real primary and a real standby: commits that wait for a standby which is away, readiness that
tells the truth, and a standby whose clock is behind.

usage: test_standby.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import glob
import http.client
import json
import threading
import time

from cluster import Cluster
from trouble import PATIENCE_S, Server, check, run, until

WAITING = ("SELECT coalesce(min(pid), 0) FROM pg_stat_activity"
           " WHERE wait_event = 'SyncRep' AND datname = '{}'")
READY_S = 5  # what /readyz says is true after so long


class Asked(threading.Thread):
    """A request that is sent now, and answered when it is."""

    def __init__(self, server, path, body, **headers):
        super().__init__(daemon=True)
        self.server, self.path, self.body, self.headers = server, path, body, headers
        self.status = self.answer = None
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
        try:
            connection.request("POST", self.path, json.dumps(self.body),
                               {"Content-Type": "application/json", **self.headers})
            reply = connection.getresponse()
            text = reply.read()
            self.answer, self.status = json.loads(text), reply.status
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            connection.close()


def waits(cluster, name):
    """The process of a commit that waits for the standby; 0: there is none."""
    return int(cluster.primary.say(WAITING.format(name)))


def interrupt(cluster, name, asked, how):
    """Ends the waiting of a commit, and waits until the next one waits, or is answered."""
    process = until("a commit that waits", lambda: waits(cluster, name) or asked.status)
    if asked.status is None:
        cluster.primary.say(f"SELECT {how}({process})")
        until("another, or an answer",
              lambda: asked.status or waits(cluster, name) not in (0, process))


def find(server, job_id):
    """What is said of a job once the store can be asked."""
    found = server.call("GET", f"/v1/jobs/{job_id}")
    return found if found[0] != 503 else None


def what_no_standby_has_is_not_acknowledged():
    """Three ways to make a commit end without the standby: its process is ended, its waiting is
    cancelled, and the request comes again to another server."""
    cluster = Cluster(synchronous=True)
    store = cluster.database("jobs")
    servers = [Server(store), Server(store)]
    first = servers[0].call("POST", "/v1/jobs", {"kind": "mail"})
    check(first[0] == 201, first)
    cluster.cut()
    job = {"kind": "mail", "payload": {"n": 1}}
    ended = Asked(servers[0], "/v1/jobs", job, **{"Idempotency-Key": "one"})
    interrupt(cluster, "jobs", ended, "pg_terminate_backend")
    again = Asked(servers[1], "/v1/jobs", job, **{"Idempotency-Key": "one"})
    interrupt(cluster, "jobs", again, "pg_cancel_backend")
    cluster.fail_over()
    for server in servers:
        until("readiness", server.is_ready)
    acknowledged = [first[1]["id"]]
    for asked in (ended, again):
        asked.join(PATIENCE_S)
        if asked.status in (200, 201):
            acknowledged.append(asked.answer["id"])
    for job_id in acknowledged:
        there = until("an answer", lambda: find(servers[0], job_id))
        check(there[0] == 200, job_id, "was acknowledged, and is gone:", there)
    for server in servers:
        server.end()
    cluster.end()
    return f"{len(acknowledged)} acknowledged, all there"


def why_not_ready(server):
    status, answer = server.call("GET", "/readyz", patience_s=10)
    return answer["detail"] if status == 503 else None


def readiness_ends_while_the_standby_is_away():
    cluster = Cluster(synchronous=True)
    store = cluster.database("jobs")
    server = Server(store)
    check(server.is_ready(), "not ready at first")
    cluster.cut()
    begun = time.monotonic()
    why = until("the end of readiness", lambda: why_not_ready(server))
    took = time.monotonic() - begun
    check("no write has succeeded" in why, why)
    # Nothing piles up behind the write that waits.
    for _ in range(50):
        check(why_not_ready(server), "ready while no write can succeed")
    waiting = int(cluster.primary.say("SELECT count(*) FROM pg_stat_activity"
                                      " WHERE wait_event = 'SyncRep' AND datname = 'jobs'"))
    check(waiting <= 4, waiting, "commits wait")
    cluster.heal()
    until("readiness", server.is_ready)
    check(server.call("POST", "/v1/jobs", {"kind": "mail"})[0] == 201, "no job is taken")
    server.end()
    cluster.end()
    check(took < 2 * READY_S, "it took", took, "s")
    return f"not ready after {took:.1f} s"


def a_read_only_host_is_not_ready():
    cluster = Cluster()
    cluster.primary.say("CREATE DATABASE jobs")
    server = Server(cluster.primary.url("jobs"))
    check(server.is_ready(), "not ready at first")
    # The host is a standby from now on, and answers all who only read.
    cluster.primary.stop()
    with open(cluster.primary.data + "/standby.signal", "w", encoding="ascii"):
        pass
    cluster.primary.start()
    begun = time.monotonic()
    until("the end of readiness", lambda: why_not_ready(server))
    took = time.monotonic() - begun
    check(server.call("GET", "/healthz")[0] == 200, "the server itself is well")
    server.process.kill()
    cluster.end()
    check(took < 2 * READY_S, "it took", took, "s")
    return f"not ready after {took:.1f} s"


def faketime():
    found = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    check(found, "libfaketime is not installed; see scripts/install-deps")
    return found[0]


def time_goes_on_after_a_failover_to_a_clock_that_is_behind():
    cluster = Cluster()
    cluster.standby.crash()
    cluster.standby.start(LD_PRELOAD=faketime(), FAKETIME="-1h", FAKETIME_DONT_FAKE_MONOTONIC="1",
                          FAKETIME_NO_CACHE="1")
    until("the standby", lambda: cluster.primary.followers() == 1, why=cluster.standby.last_words)
    behind = float(cluster.primary.say("SELECT extract(epoch FROM clock_timestamp())")) - float(
        cluster.standby.say("SELECT extract(epoch FROM clock_timestamp())"))
    check(behind > 3000, "the standby's clock is behind by", behind, "s only")
    store = cluster.database("jobs")
    server = Server(store)

    def submit(**more):
        status, job = server.call("POST", "/v1/jobs", {"kind": "mail", "retry": {
            "strategy": "fixed", "initial_ms": 1000, "jitter": "none"}, **more})
        check(status == 201, status, job)
        return job["id"]

    def claim():
        status, answer = server.call("POST", "/v1/claims", {
            "worker_id": "w", "kinds": ["mail"], "lease_ttl_ms": 3000, "wait_ms": 0})
        return [c["job"]["id"] for c in answer["claims"]] if status == 200 else []

    dead = submit()
    check(claim() == [dead], "no claim")
    delayed = submit(delay_ms=4000)
    cluster.catch_up()
    cluster.fail_over()
    until("readiness", server.is_ready)
    # The lease of a worker that is gone ends and the job is tried again; the delay is over.
    left = {dead, delayed}

    def take():
        left.difference_update(claim())
        return not left

    begun = time.monotonic()
    until("the lease and the delay", take, pause_s=0.1)
    took = time.monotonic() - begun
    histories = server.call("GET", f"/v1/jobs/{dead}/verify")
    check(histories[1]["ok"], histories)
    server.end()
    cluster.end()
    return f"{took:.1f} s after the failover, {behind / 60:.0f} min behind"


run(what_no_standby_has_is_not_acknowledged, readiness_ends_while_the_standby_is_away,
    a_read_only_host_is_not_ready, time_goes_on_after_a_failover_to_a_clock_that_is_behind)
