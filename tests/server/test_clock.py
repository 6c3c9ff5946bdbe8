#!/usr/bin/env python3
"""A server with a manual clock: time stands still until somebody moves it, and everything that it
does is done when the move is over.

usage: test_clock.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import http.client
import subprocess
import threading

from surface import ADMIN, Document, Server
from trouble import PATIENCE_S, PAWL, check, place, run

START = "2000-01-01T00:00:00.000Z"
DAY_MS = 24 * 3600 * 1000


def manual():
    return Server("memory:", "--clock", "manual")


def advance(server, **how):
    return server.do("POST", "/v1/clock/advance", how)


def claim(server, **more):
    return server.do("POST", "/v1/claims", {"worker_id": "w", "wait_ms": 0, **more})["claims"]


def history(server, job):
    """What happened, and when."""
    events = server.do("GET", f"/v1/jobs/{job}/events")["events"]
    return [f"{event['at'][:19]} {event['type']} {event['reason']}" for event in events]


def time_stands_still_until_it_is_moved():
    server = manual()
    check(server.do("GET", "/v1/clock") == {"now": START, "next_due": None})
    job = server.do("POST", "/v1/jobs", {"kind": "k", "delay_ms": DAY_MS})
    check(job["created_at"] == START, job)
    check(claim(server) == [])
    check(server.do("GET", "/v1/clock")["next_due"] == "2000-01-02T00:00:00.000Z")
    moved = advance(server, ms=DAY_MS - 1)
    check(moved == {"now": "2000-01-01T23:59:59.999Z", "fired": 0,
                    "next_due": "2000-01-02T00:00:00.000Z"}, moved)
    check(claim(server) == [])
    check(advance(server, to_next=True)["fired"] == 1)
    check(len(claim(server)) == 1)
    server.end()


def all_that_is_due_happens_at_its_time_and_in_its_order():
    server = manual()
    retry = {"max_attempts": 3, "strategy": "fixed", "initial_ms": 3600000, "jitter": "none"}
    crashed = server.do("POST", "/v1/jobs", {"kind": "crash", "retry": retry})["id"]
    waits = server.do("POST", "/v1/jobs", {"kind": "wait"})["id"]
    slow = server.do("POST", "/v1/jobs", {"kind": "slow", "timeout_ms": 20000,
                                          "retry": {**retry, "max_attempts": 1}})["id"]
    leases = {each["job"]["id"]: each["lease"]["token"] for each in claim(server, max=10)}
    server.do("POST", f"/v1/leases/{leases[waits]}/wait",
              {"type": "timer", "correlation_key": "t", "delay_ms": 10 * DAY_MS})
    moved = advance(server, ms=30 * DAY_MS)
    check(moved["now"] == "2000-01-31T00:00:00.000Z" and moved["fired"] >= 4, moved)
    check(history(server, crashed)[-1] == "2000-01-01T00:00:30 job_requeued lease_expired",
          history(server, crashed))
    check("2000-01-11T00:00:00 wait_completed" in history(server, waits)[-1],
          history(server, waits))
    check(server.do("GET", f"/v1/jobs/{slow}")["status"] == "dead_lettered")
    check("2000-01-01T00:00:20 job_dead_lettered" in history(server, slow)[-1],
          history(server, slow))
    status, problem = server.ask(ADMIN, "POST", f"/v1/leases/{leases[crashed]}/complete", {})
    check(status == 409 and problem["code"] == "stale_lease", problem)
    # The second attempt holds for as long as its heartbeats say, by this clock.
    token = claim(server, kinds=["crash"])[0]["lease"]["token"]
    for _ in range(10):
        advance(server, ms=15000)
        server.do("POST", f"/v1/leases/{token}/heartbeat", {})
    check(server.do("POST", f"/v1/leases/{token}/complete", {})["status"] == "completed")
    server.end()


def retention_and_resources_go_by_it():
    server = manual()
    server.do("PUT", "/v1/resources/r", {"capabilities": ["c"], "slots": 1, "ttl_ms": 60000})
    job = server.do("POST", "/v1/jobs", {"kind": "k"})["id"]
    server.do("POST", f"/v1/leases/{claim(server)[0]['lease']['token']}/complete", {})
    advance(server, ms=6 * DAY_MS)
    check(server.ask(ADMIN, "GET", "/v1/resources/r")[0] == 404)
    check(server.ask(ADMIN, "GET", f"/v1/jobs/{job}")[0] == 200)
    advance(server, ms=2 * DAY_MS)
    check(server.ask(ADMIN, "GET", f"/v1/jobs/{job}")[0] == 404)
    server.end()


def a_claim_that_waits_is_woken_by_a_move():
    server = manual()
    server.do("POST", "/v1/jobs", {"kind": "k", "delay_ms": DAY_MS})
    got = []
    other = Server.__new__(Server)
    other.connection = http.client.HTTPConnection("127.0.0.1", server.connection.port,
                                                  timeout=PATIENCE_S)
    thread = threading.Thread(target=lambda: got.extend(
        other.do("POST", "/v1/claims", {"worker_id": "w", "wait_ms": 55000})["claims"]))
    thread.start()
    advance(server, ms=DAY_MS)
    thread.join(PATIENCE_S)
    check(len(got) == 1, got)
    server.end()


def wrong_moves_change_nothing():
    server = manual()
    advance(server, ms=1000)
    before = server.do("GET", "/v1/clock")
    for body, words in (({}, "exactly one of ms, to"),
                        ({"ms": 1, "to": START}, "exactly one of ms, to"),
                        ({"ms": 1, "to_next": True}, "exactly one of ms, to"),
                        ({"to_next": False}, "exactly one of ms, to"),
                        ({"to": START}, "1000 ms in the past"),
                        ({"ms": -1}, "from 0 up"),
                        ({"ms": 1.5}, "ms must be a whole number"),
                        ({"ms": 2 ** 62}, "pass the year 9999"),
                        ({"to": "tomorrow"}, "to must be a time"),
                        ({"to": "12000-01-01T00:00:00Z"}, "to must be a time")):
        status, problem = server.ask(ADMIN, "POST", "/v1/clock/advance", body)
        check(status == 400 and words in problem["detail"], body, status, problem)
    check(server.do("GET", "/v1/clock") == before)
    status, problem = server.ask(ADMIN, "POST", "/v1/clock/advance", {"by": 1})
    check(status == 400 and problem["code"] == "unknown_field", problem)
    # Not to move at all is no mistake, and a repetition does not move twice.
    check(advance(server, ms=0) == {**before, "fired": 0})
    for _ in range(2):
        status, moved = server.ask(ADMIN, "POST", "/v1/clock/advance", {"ms": 1000},
                                   **{"Idempotency-Key": "once"})
        check(status == 200 and moved["now"] == "2000-01-01T00:00:02.000Z", moved)
    far = advance(server, to="9999-12-31T23:59:59.999Z")
    check(far["now"] == "9999-12-31T23:59:59.999Z", far)
    document = Document(server)
    document.check("clock_advance", 200, far)
    document.check("clock", 200, server.do("GET", "/v1/clock"))
    server.end()


def other_servers_have_no_such_clock():
    server = Server()
    for method, path, body in (("GET", "/v1/clock", None), ("POST", "/v1/clock/advance", {"ms": 1})):
        status, problem = server.ask(ADMIN, method, path, body)
        check(status == 404 and "--clock manual" in problem["detail"], status, problem)
    server.end()
    for store, clock, words in ((f"sqlite:{place}/x.db", "manual", "requires the store memory:"),
                                ("memory:", "sundial", "unknown clock 'sundial'")):
        made = subprocess.run([PAWL, "serve", "--listen", "127.0.0.1:0", "--clock", clock,
                               "--store", store], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        check(made.returncode != 0 and words in made.stderr, clock, made)


run(time_stands_still_until_it_is_moved, all_that_is_due_happens_at_its_time_and_in_its_order,
    retention_and_resources_go_by_it, a_claim_that_waits_is_woken_by_a_move,
    wrong_moves_change_nothing, other_servers_have_no_such_clock)
