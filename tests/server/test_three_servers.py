#!/usr/bin/env python3
"""Three servers on one PostgreSQL are one system: no job is given out twice, a claim that waits at
one is woken by a submit at another, and the feed of each has everything, in order.

usage: test_three_servers.py BUILD_DIRECTORY SOURCE_DIRECTORY

1,000 jobs and 64 claimers; TORTURE=1: 20,000.
"""
import collections
import http.client
import json
import threading
import time

from trouble import (PATIENCE_S, Server, TORTURE, all_jobs, ask, check, events_of, fresh_postgres,
                     run, until, verify_all)

JOBS = 20000 if TORTURE else 1000
CLAIMERS = 64
SERVERS = 3
WAKES = 200 if TORTURE else 10
EVENTS = ("job_created", "job_leased", "job_running", "job_completed")


class Reader(threading.Thread):
    """Reads the feed of a server as it comes."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.events = []
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self.connection.request("GET", "/v1/feed", headers={"Accept": "text/event-stream"})
        self.reply = self.connection.getresponse()
        check(self.reply.status == 200, self.reply.status)
        self.start()

    def run(self):
        try:
            for line in self.reply:
                if line.startswith(b"data: "):
                    self.events.append(json.loads(line[6:]))
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # the end


def work(server, number, done, stop, wrong):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    while not stop.is_set():
        status, answer = ask(connection, "POST", "/v1/claims",
                             {"worker_id": f"w{number}", "wait_ms": 1000, "max": 2})
        if status != 200:
            wrong.append(answer)
            return
        for claim in answer["claims"]:
            job = claim["job"]["id"]
            if claim["lease"]["attempt"] != 1:
                wrong.append(claim)
            done.append(job)
            status, answer = ask(connection, "POST", f"/v1/leases/{claim['lease']['token']}"
                                 "/complete", {"result": number})
            if status != 200:
                wrong.append(answer)
    connection.close()


def check_feed(reader, stored):
    """Everything is there, once, and in order within each job."""
    by_job = collections.defaultdict(list)
    for event in reader.events:
        by_job[event["job_id"]].append(event)
    check(by_job.keys() == stored.keys(), len(by_job), "jobs in the feed,", len(stored), "stored")
    for job, events in stored.items():
        check([event["version"] for event in by_job[job]] == [event["version"] for event in events],
              job, "has in the feed:", by_job[job])
        check([event["hash"] for event in by_job[job]] == [event["hash"] for event in events], job)


def three_servers_are_one():
    store = fresh_postgres()
    servers = [Server(store) for _ in range(SERVERS)]
    readers = [Reader(server) for server in servers]
    done, wrong, stop = [], [], threading.Event()
    workers = [threading.Thread(target=work, daemon=True,
                                args=(servers[i % SERVERS], i, done, stop, wrong))
               for i in range(CLAIMERS)]
    for worker in workers:
        worker.start()
    # From all servers at once, so that commits of different servers mix.
    for i in range(JOBS // 20):
        status, answer = servers[i % SERVERS].call(
            "POST", "/v1/jobs", {"jobs": [{"kind": "k", "payload": i}] * 20})
        check(status == 201, answer)
    until("all claims", lambda: len(done) >= JOBS or wrong)
    stop.set()
    for worker in workers:
        worker.join(PATIENCE_S)
    check(not wrong, wrong[:3])
    check(len(done) == JOBS and len(set(done)) == JOBS, len(done), len(set(done)))

    jobs = all_jobs(servers[0])
    check(len(jobs) == JOBS, len(jobs))
    connection = http.client.HTTPConnection("127.0.0.1", servers[1].port, timeout=PATIENCE_S)
    stored = {job["id"]: events_of(connection, job["id"]) for job in jobs}
    for events in stored.values():
        check(tuple(event["type"] for event in events) == EVENTS, events)
    verify_all(servers[2])
    for reader in readers:
        until("the feed", lambda found=reader: len(found.events) >= JOBS * len(EVENTS))
    for reader in readers:
        check_feed(reader, stored)

    # Whoever comes later reads the same.
    late = Reader(servers[1])
    until("the feed", lambda: len(late.events) >= JOBS * len(EVENTS))
    check_feed(late, stored)
    for server in servers:
        server.end()


def a_submit_at_one_server_wakes_a_claim_at_another():
    store = fresh_postgres()
    servers = [Server(store) for _ in range(SERVERS)]
    took = []
    for i in range(WAKES):
        claimed = []

        def claim(server=servers[i % SERVERS], heard=claimed):
            heard += server.call("POST", "/v1/claims",
                                 {"worker_id": "w", "wait_ms": 30000})[1]["claims"]
            heard.append(time.monotonic())

        waiting = threading.Thread(target=claim, daemon=True)
        waiting.start()
        until("a waiting claim", lambda served=servers[i % SERVERS]: served.parked() == 1)
        begun = time.monotonic()
        status, job = servers[(i + 1) % SERVERS].call("POST", "/v1/jobs", {"kind": "k"})
        check(status == 201, job)
        waiting.join(PATIENCE_S)
        check(len(claimed) == 2 and claimed[0]["job"]["id"] == job["id"], claimed)
        took.append(claimed[1] - begun)
    for server in servers:
        server.end()
    took.sort()
    check(took[-1] < 1, "a claim was woken after", took[-1], "s")
    return f"woken after {took[len(took) // 2] * 1000:.0f} ms, at most {took[-1] * 1000:.0f} ms"


run(three_servers_are_one, a_submit_at_one_server_wakes_a_claim_at_another)
