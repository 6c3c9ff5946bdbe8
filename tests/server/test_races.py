#!/usr/bin/env python3
"""Races for one job: 64 claims at once, of which one gets it. Those who lose it to another count as
conflicts; claims that find nothing because there is nothing do not.

usage: test_races.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import http.client
import json

from trouble import PATIENCE_S, Server, ask, check, fresh_postgres, fresh_sqlite, run

RACES = 20
RACES_MAX = 400
CLAIMERS = 64
CLAIM = json.dumps({"worker_id": "w", "wait_ms": 0})


def conflicts(servers):
    """What the servers have counted."""
    total = 0
    for server in servers:
        page = server.call("GET", "/metrics")[1].decode()
        total += sum(int(float(line.split()[1])) for line in page.splitlines()
                     if line.startswith("pawl_claim_conflicts_total "))
    return total


def race(connections):
    """All claim before any of them hears an answer; the claims that were given."""
    for connection in connections:
        connection.request("POST", "/v1/claims", CLAIM, {"Content-Type": "application/json"})
    given = []
    for connection in connections:
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        check(reply.status == 200, answer)
        given += answer["claims"]
    return given


def races(store, count=1):
    servers = [Server(store) for _ in range(count)]
    connections = [http.client.HTTPConnection("127.0.0.1", servers[i % count].port,
                                              timeout=PATIENCE_S) for i in range(CLAIMERS)]
    check(race(connections) == [], "there is nothing to be had")
    check(conflicts(servers) == 0, "nobody has lost anything yet", conflicts(servers))
    raced = 0
    # On a machine that is busy elsewhere the claims may come one by one for a while.
    while raced < RACES or raced < RACES_MAX and conflicts(servers) == 0:
        raced += 1
        status, job = servers[0].call("POST", "/v1/jobs", {"kind": "k"})
        check(status == 201, job)
        given = race(connections)
        check([claim["job"]["id"] for claim in given] == [job["id"]], given)
        status, answer = ask(connections[0], "POST",
                             f"/v1/leases/{given[0]['lease']['token']}/complete", {})
        check(status == 200, answer)
    lost = conflicts(servers)
    check(0 < lost <= raced * (CLAIMERS - 1), lost, "conflicts in", raced, "races")
    for server in servers:
        server.end()
    return f"{lost} conflicts in {raced} races of {CLAIMERS}"


def losers_of_races_are_counted_on_sqlite():
    return races(fresh_sqlite())


def losers_of_races_are_counted_on_postgres():
    return races(fresh_postgres())


def losers_of_races_between_two_servers_are_counted():
    return races(fresh_postgres(), 2)


run(losers_of_races_are_counted_on_sqlite, losers_of_races_are_counted_on_postgres,
    losers_of_races_between_two_servers_are_counted)
