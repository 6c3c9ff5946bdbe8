#!/usr/bin/env python3
"""Idempotency-Key on every POST: the same request gets the first response and nothing is done twice;
another one under the same key is refused. Calls under a lease are told by its token. Each caller has
keys of its own.

usage: test_keys.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import json
import threading

from surface import ADMIN, OPERATIONS, Document, Server, Stage
from trouble import check, fresh_postgres, fresh_sqlite, run, until


def requests_of(server, stage):
    """One for each POST of the document."""
    document = Document(server)
    for name in document.operations:
        if not name.startswith("page_"):
            method, path, body = OPERATIONS[name].request(stage, "work")
            yield name, method, path, body


def prepare(stage, name, body):
    """Things that must be there for something to come of the request."""
    if name in ("redrive", "drop"):
        stage.dead()
    if name == "claim":
        body["history"] = False
    if name == "claim_steps":
        stage.step_lease()
        body.update({"judge": False, "resource_id": stage.resource})
        stage.server.do("POST", f"/v1/jobs/{stage.id}/cancel", {"mode": "hard"})
        skill = stage.fresh()
        stage.server.do("PUT", f"/v1/resources/{stage.resource}",
                        {"capabilities": [skill], "slots": 1, "ttl_ms": 60000})
        stage.submit(plan={"steps": [{"id": "s", "kind": "k", "capabilities": [skill]}]})
        body["capabilities"] = [skill]


def try_all(store):
    server = Server(store)
    stage = Stage(server, "q")
    stage.submit()
    keyed = 0
    for name, method, path, body in requests_of(server, stage):
        key = {"Idempotency-Key": f"key of {name}"}
        if method in ("GET", "PUT", "PATCH") or name == "token_revoke":
            status, answer = server.ask(ADMIN, method, path, body, **key)
            check(status == 400 and "Idempotency-Key" in answer["detail"], name, status, answer)
            continue
        if name == "backup":
            body = {"path": f"{store.split(':')[1]}.copy"}
            if not store.startswith("sqlite:"):
                continue
        if name == "clock_advance":
            continue  # of a server with a manual clock: test_clock.py
        prepare(stage, name, body)
        first = server.ask(ADMIN, method, path, body, **key)
        check(first[0] in (200, 201), name, first)
        if name == "drop":
            stage.submit()  # the one before is gone
        before = server.do("GET", f"/v1/jobs/{stage.id}")["version"]
        again = server.ask(ADMIN, method, path, body, **key)
        if name == "token_create":
            check(first[1].pop("token") and again[1].pop("token") is None, "the token is kept")
        of_lease = path.startswith("/v1/leases/")
        if of_lease:  # a start or heartbeat that is sent again may find another end
            for answer in (first[1], again[1]):
                answer.pop("repeated", None), answer.pop("expires_at", None)
        check(again == first, name, "gave", first, "and then", again)
        after = server.do("GET", f"/v1/jobs/{stage.id}")["version"]
        check(before == after, name, "was done twice")
        if method == "POST":
            status, answer = server.ask(ADMIN, method, path, json.dumps(body) + " ", **key,
                                        **{"Content-Type": "application/json"})
            check(status == first[0], name, "is another for a space behind it", answer)
            other = json.dumps(body, indent=1) if body else '{ }'
            status, answer = server.ask(ADMIN, method, path, other, **key)
            # What the holder of a lease says is told by its token and by what it says.
            codes = (None, "replay_mismatch") if of_lease else ("idempotency_mismatch",)
            check(answer.get("code") in codes, name, status, answer)
        keyed += 1
    server.end()
    return f"{keyed} operations"


def every_post_is_done_once_under_its_key_on_sqlite():
    return try_all(fresh_sqlite())


def every_post_is_done_once_under_its_key_on_postgres():
    return try_all(fresh_postgres())


def what_takes_long_is_not_begun_twice():
    server = Server()
    stage = Stage(server, "q")
    for _ in range(40):
        stage.submit()
    body = {"action": "cancel", "filter": {}, "rate_per_s": 50}
    key = {"Idempotency-Key": "slowly"}
    answers = []

    def run_slowly():
        other = Server.__new__(Server)
        other.connection = type(server.connection)("127.0.0.1", server.connection.port)
        answers.append(other.ask(ADMIN, "POST", "/v1/jobs/bulk", body, **key))

    thread = threading.Thread(target=run_slowly)
    thread.start()
    until("the first cancel", lambda: server.do("GET", "/v1/stats")["jobs"]["cancelled"] > 0)
    status, answer = server.ask(ADMIN, "POST", "/v1/jobs/bulk", body, **key)
    check((status, answer["code"]) == (503, "unavailable"), status, answer)
    check("still running" in answer["detail"], answer)
    thread.join()
    check(answers[0][0] == 200 and answers[0][1]["done"] == 40, answers)
    check(server.ask(ADMIN, "POST", "/v1/jobs/bulk", body, **key) == answers[0], "another answer")
    server.end()


def a_key_is_its_callers_own():
    server = Server()
    claim = {"worker_id": "w", "wait_ms": 0}
    given = {}
    for queue in ("qa", "qb"):
        job = server.do("POST", "/v1/jobs", {"kind": "k", "queue": queue})["id"]
        token = server.do("POST", "/v1/tokens", {"name": queue, "scopes": ["work"],
                                                 "queues": [queue]})["token"]
        status, answer = server.ask(token, "POST", "/v1/claims", claim,
                                    **{"Idempotency-Key": "the same"})
        check(status == 200, queue, status, answer)
        given[queue] = [found["job"]["id"] for found in answer["claims"]]
        check(given[queue] == [job], "the caller of", queue, "was given", given, "and not", job)
    server.end()


run(every_post_is_done_once_under_its_key_on_sqlite,
    every_post_is_done_once_under_its_key_on_postgres, what_takes_long_is_not_begun_twice,
    a_key_is_its_callers_own)
