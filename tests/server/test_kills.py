#!/usr/bin/env python3
"""A server that is killed with kill -9 while clients submit and work, and started again; workers that
are killed in the middle of their jobs: nothing that was acknowledged is lost, nothing is done twice,
and clients go on without help.

usage: test_kills.py BUILD_DIRECTORY SOURCE_DIRECTORY

20 kills of each on each store; TORTURE=1: 500. KILLS=... of them.
"""
import collections
import os
import random
import signal
import subprocess
import time

from history import by_job, check_job, read_beats, read_feed
from trouble import (Load, PATIENCE_S, PAWL, Server, TORTURE, all_jobs, check, check_load,
                     fresh_postgres, fresh_sqlite, place, run, settle, start, until, verify_all)

KILLS = int(os.environ.get("KILLS", 500 if TORTURE else 20))
WORKERS = 3
JOBS = 10  # for each worker that is killed
LEASE_MS = 400


def kill_servers(store):
    chance = random.Random(7)
    server = Server(store)
    load = Load(server.url, name=store[:3], pause_ms=10)
    for _ in range(KILLS):
        load.goes_on(20)
        time.sleep(chance.random() * 0.1)
        server.kill()
        time.sleep(chance.random() * 0.2)
        server = Server(store, server.port)
    load.goes_on(20)
    settle(server, load)
    said = check_load(server, load)
    server.end()
    return f"{KILLS} kills, {said}"


def submit(server):
    job = {"kind": "cli", "lease_ttl_ms": LEASE_MS,
           "retry": {"max_attempts": 100, "initial_ms": 1, "max_ms": 10}}
    status, answer = server.call("POST", "/v1/jobs", {"jobs": [job] * JOBS})
    check(status == 201, answer)
    return [made["id"] for made in answer["jobs"]]


def hire(server, log):
    script = f'echo "$PAWL_JOB_ID $PAWL_ATTEMPT" >>{log}; sleep 0.02'
    return start(PAWL, "work", "--store", server.url, "--kind", "cli", "--concurrency", "2", "--",
                 "sh", "-c", script, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def lines(log):
    with open(log, encoding="utf-8") as facts:
        return facts.read().split("\n")[:-1]


def kill_workers(store):
    """Whoever is in the middle of something dies; what it did is done again by another, once the
    lease is over."""
    chance = random.Random(8)
    server = Server(store)
    log = f"{place}/{store[:3]}.workers"
    with open(log, "x", encoding="utf-8"):
        pass
    acknowledged = []
    workers = [hire(server, log) for _ in range(WORKERS)]
    for _ in range(KILLS):
        acknowledged += submit(server)
        before = len(lines(log))
        until("some work", lambda: len(lines(log)) > before)  # pylint: disable=cell-var-from-loop
        time.sleep(chance.random() * 0.03)
        victim = workers.pop(chance.randrange(WORKERS))
        victim.kill()
        check(victim.wait(PATIENCE_S) == -signal.SIGKILL, "a worker has ended by itself")
        workers.append(hire(server, log))

    def left():
        return server.call("GET", "/v1/jobs?status=queued,leased,running,retrying&limit=3")[1][
            "jobs"]

    until("the end of all jobs", lambda: left() == [], why=left)
    for worker in workers:
        worker.terminate()
        check(worker.wait(PATIENCE_S) == 0, "pawl work has ended with", worker.returncode)
    histories = by_job(read_feed(server))
    beats = read_beats(server, histories)
    there = sorted(job["id"] for job in all_jobs(server))
    check(sorted(histories) == sorted(acknowledged) == there,
          len(acknowledged), "jobs acknowledged, there are", len(histories))
    again = sum(check_job(job, events, beats.get(job, ())) - 1
                for job, events in histories.items())
    twice = [run for run, count in collections.Counter(lines(log)).items() if count > 1]
    check(not twice, "an attempt was given to two:", twice[:5])
    verify_all(server)
    server.end()
    check(again > 0, "no worker was killed amid a job")
    return f"{KILLS} kills, {len(histories)} jobs completed once, {again} attempts made again"


def kill_9_of_a_server_loses_nothing_on_sqlite():
    return kill_servers(fresh_sqlite())


def kill_9_of_a_server_loses_nothing_on_postgres():
    return kill_servers(fresh_postgres())


def kill_9_of_workers_loses_nothing_on_sqlite():
    return kill_workers(fresh_sqlite())


def kill_9_of_workers_loses_nothing_on_postgres():
    return kill_workers(fresh_postgres())


run(kill_9_of_a_server_loses_nothing_on_sqlite, kill_9_of_a_server_loses_nothing_on_postgres,
    kill_9_of_workers_loses_nothing_on_sqlite, kill_9_of_workers_loses_nothing_on_postgres)
