#!/usr/bin/env python3
"""Workers that register with one server are known to all servers of the database, and claims at any
of them keep them registered.

usage: test_registry.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from surface import Server
from trouble import check, fresh_postgres, run

TTL_MS = 60000


def workers_of(server):
    return {each["worker_id"]: each for each in server.do("GET", "/v1/workers")["workers"]}


def reasons_of(server, job):
    return " ".join(server.do("GET", f"/v1/jobs/{job}/explain")["reasons"])


def workers_are_known_to_all_servers_of_a_database():
    store = fresh_postgres()
    first, second = Server(store), Server(store)
    job = first.do("POST", "/v1/jobs", {"kind": "mail", "queue": "other"})["id"]
    check("No live worker is registered for the kind" in reasons_of(second, job), reasons_of(second, job))
    first.do("PUT", "/v1/workers/w", {"kinds": ["mail"], "queues": ["default"], "ttl_ms": TTL_MS})
    check(workers_of(second)["w"]["kinds"] == ["mail"], workers_of(second))
    check('in the queue "other" (in other queues: 1)' in reasons_of(second, job))
    # A claim that may wait for so long renews at once, whether it has to wait or not.
    before = workers_of(first)["w"]["registered_until"]
    second.do("POST", "/v1/jobs", {"kind": "mail"})
    claim = second.do("POST", "/v1/claims", {"worker_id": "w", "queues": ["default"],
                                             "wait_ms": 50000})
    check(len(claim["claims"]) == 1, claim)
    after = workers_of(first)["w"]
    check(after["registered_until"] > before and after["leases"] == 1, before, after)
    second.do("POST", f"/v1/leases/{claim['claims'][0]['lease']['token']}/complete", {})
    second.do("DELETE", "/v1/workers/w")
    check(workers_of(first) == {}, workers_of(first))
    for server in (first, second):
        server.end()


run(workers_are_known_to_all_servers_of_a_database)
