#!/usr/bin/env python3
"""Clients that disappear while they wait for work, or while they are being answered: jobs go to
those who are still there, at once.

usage: test_vanish.py BUILD_DIRECTORY SOURCE_DIRECTORY

500 clients that wait; TORTURE=1: 20 times.
"""
import http.client
import json
import socket
import struct
import subprocess
import threading
import time

from trouble import (PATIENCE_S, Server, TORTURE, all_jobs, ask, check, fresh_postgres,
                     fresh_sqlite, psql, run, until, verify_all)

CLIENTS = 500
TIMES = 20 if TORTURE else 1
WORKERS = 4


def send_claim(server, **wanted):
    body = json.dumps({"worker_id": "gone", **wanted}).encode()
    client = socket.create_connection(("127.0.0.1", server.port))
    client.sendall(b"POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                   b"\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return client


def vanish(client, rude):
    if rude:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def work(server, done, jobs, until_s):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    while len(done) < jobs and time.monotonic() < until_s:
        status, answer = ask(connection, "POST", "/v1/claims",
                             {"worker_id": "alive", "wait_ms": 200, "max": 8})
        check(status == 200, answer)
        for claim in answer["claims"]:
            status, answer = ask(connection, "POST",
                                 f"/v1/leases/{claim['lease']['token']}/complete", {})
            check(status == 200, answer)
            done.append(claim["job"]["id"])
    connection.close()


def all_are_done(server, jobs, patience_s):
    """How many seconds it takes a few workers that are alive to do all jobs."""
    done = []
    begun = time.monotonic()
    workers = [threading.Thread(target=work, args=(server, done, jobs, begun + patience_s))
               for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.monotonic() - begun
    check(len(done) == jobs and len(set(done)) == jobs, len(done), "of", jobs, "jobs are done")
    return took


def vanish_while_waiting(store):
    server = Server(store)
    took = []
    for _ in range(TIMES):
        clients = [send_claim(server, wait_ms=50000) for _ in range(CLIENTS)]
        until("all clients", lambda: server.connections() >= CLIENTS)
        # What has come in by now is answered before what comes now: all are parked.
        server.call("POST", "/v1/claims", {"worker_id": "w", "wait_ms": 0})
        for number, client in enumerate(clients):
            vanish(client, number % 2 == 0)
        status, answer = server.call("POST", "/v1/jobs", {"jobs": [{"kind": "k"}] * CLIENTS})
        check(status == 201, answer)
        took.append(all_are_done(server, CLIENTS, 20))
        until("the end of their connections", lambda: server.connections() == 0, 20, 0.1,
              server.connections)
    for job in all_jobs(server):
        check(job["attempt"] == 1 and job["version"] == 4, "somebody else had it first:", job)
    verify_all(server)
    server.end()
    return f"{CLIENTS * TIMES} gone, {CLIENTS} jobs done after {max(took):.2f} s at most"


def jobs_pass_by_clients_that_are_gone_in_memory():
    return vanish_while_waiting("memory:")


def jobs_pass_by_clients_that_are_gone_on_sqlite():
    return vanish_while_waiting(fresh_sqlite())


def jobs_pass_by_clients_that_are_gone_on_postgres():
    return vanish_while_waiting(fresh_postgres())


def leases_in_answers_that_cannot_be_sent_are_given_back():
    """Answers that are too long for the system to take as a whole, for clients that do not read."""
    server = Server("memory:")
    jobs = 24
    for _ in range(jobs):
        status, answer = server.call("POST", "/v1/jobs", {"kind": "k", "payload": "x" * 900000,
                                                          "lease_ttl_ms": 3600000})
        check(status == 201, answer)
    clients = [send_claim(server, max=8) for _ in range(jobs // 8)]
    until("the leases", lambda: len(server.call(
        "GET", "/v1/jobs?status=running&limit=50")[1]["jobs"]) == jobs)
    for number, client in enumerate(clients):
        vanish(client, number % 2 == 0)
    took = all_are_done(server, jobs, 20)
    for job in all_jobs(server):
        check(job["attempt"] == 2, job)
    verify_all(server)
    server.end()
    return f"done after {took:.2f} s"


def leases_of_clients_that_left_during_the_commit_are_given_back():
    """A lock holds the commit up, from before it is begun until all clients are gone."""
    store = fresh_postgres()
    server = Server(store)
    jobs = 24
    status, answer = server.call("POST", "/v1/jobs", {
        "jobs": [{"kind": "k", "lease_ttl_ms": 3600000}] * jobs})
    check(status == 201, answer)
    with subprocess.Popen(["psql", "-qAtX", store], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as locker:
        locker.stdin.write("BEGIN; LOCK TABLE pawl.job_rows; SELECT 'locked';\n")
        locker.stdin.flush()
        check(locker.stdout.readline() == "locked\n")
        clients = [send_claim(server) for _ in range(jobs)]
        until("a commit that waits for the lock", lambda: psql(
            store, "SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database "
                   "WHERE datname = current_database() AND NOT granted") != "")
        for number, client in enumerate(clients):
            vanish(client, number % 2 == 0)
        locker.stdin.write("COMMIT;\n")
    took = all_are_done(server, jobs, 20)
    lost = [job for job in all_jobs(server) if job["attempt"] == 2]
    check(lost, "nobody was given a job after leaving")
    verify_all(server)
    server.end()
    return f"{len(lost)} leases given back, done after {took:.2f} s"


run(jobs_pass_by_clients_that_are_gone_in_memory, jobs_pass_by_clients_that_are_gone_on_sqlite,
    jobs_pass_by_clients_that_are_gone_on_postgres,
    leases_in_answers_that_cannot_be_sent_are_given_back,
    leases_of_clients_that_left_during_the_commit_are_given_back)
