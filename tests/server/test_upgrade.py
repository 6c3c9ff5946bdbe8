#!/usr/bin/env python3
"""A store that a released version has written opens, migrated, with nothing lost, and goes on.

usage: test_upgrade.py BUILD_DIRECTORY SOURCE_DIRECTORY

tests/upgrade/0.1.0 has a store with jobs in every state, as 0.1.0 left it on SQLite and on
PostgreSQL (dumps), and what its server said of them (JSON).
"""
import json
import sqlite3
import subprocess

from trouble import (PATIENCE_S, PAWL, SOURCE, Server, check, fresh_postgres, fresh_sqlite, run)

FIXTURES = f"{SOURCE}/tests/upgrade/0.1.0"
# A lease may have expired since then, and what was due may have been done.
MOVED = {"leased", "running", "planned"}


def read(name):
    with open(f"{FIXTURES}/{name}", encoding="utf-8") as file:
        return file.read()


def old_sqlite():
    url = fresh_sqlite()
    database = sqlite3.connect(url.removeprefix("sqlite:"))
    database.executescript(read("sqlite.sql"))
    database.close()
    return url


def old_postgres():
    url = fresh_postgres()
    done = subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", url], input=read("postgres.sql"),
                          capture_output=True, text=True, timeout=PATIENCE_S)
    check(done.returncode == 0, done.stderr)
    return url


def said(server, method, path, body=None):
    status, answer = server.call(method, path, body)
    check(status < 300, method, path, status, answer)
    return answer


def check_job(server, name, was, history):
    job = said(server, "GET", f"/v1/jobs/{was['id']}")
    now = said(server, "GET", f"/v1/jobs/{was['id']}/export")
    # Where none was given, the id of the job is shown as its correlation id.
    events = [{**event, "correlation_id": event.get("correlation_id", was["id"])}
              for event in history["events"]]
    check(now["events"][:len(events)] == events, name, "has lost or changed events", now, history)
    check(now.get("salt") == history.get("salt"), name, "has another salt")
    verified = said(server, "GET", f"/v1/jobs/{was['id']}/verify")
    check(verified["ok"], name, verified)
    if name in MOVED:
        return
    # What is derived when it is shown may be told in more detail now, but not otherwise.
    for member in ("status", "version", "attempt", "epoch", "failures", "payload", "result", "labels",
                   "goal", "agent_id", "idempotency_key", "priority", "run_at", "created_at",
                   "progress", "cursor", "timeout_ms", "redacted"):
        check(job[member] == was[member], name, member, job[member], was[member])
    for member in ("wait", "error", "dead_letter"):
        for key, value in (was[member] or {}).items():
            check(value is None or job[member][key] == value, name, member, key, job[member])


def goes_on(server, jobs):
    """Work that 0.1.0 began is finished."""
    said(server, "POST", f"/v1/jobs/{jobs['waiting']['id']}/answer", {"answer": "no"})
    for name in ("waiting", "effects", "signalled", "queued"):
        claim = said(server, "POST", "/v1/claims",
                     {"worker_id": "w9", "queues": [f"q-{name}"]})["claims"][0]
        check(claim["job"]["id"] == jobs[name]["id"], name, claim)
        token = claim["lease"]["token"]
        if name == "waiting":
            check(claim["resume"]["payload"] == "no", claim)
        if name == "effects":
            paid = said(server, "POST", f"/v1/leases/{token}/effects/pay/begin",
                        {"input": {"cents": 4200}})
            check(paid["status"] == "recorded" and paid["result"] == {"charge": "c1"}, paid)
            open_one = said(server, "POST", f"/v1/leases/{token}/effects/mail/begin",
                            {"input": "hi"})
            check(open_one["status"] == "in_doubt", open_one)
            continue
        if name == "signalled":
            said(server, "POST", f"/v1/leases/{token}/wait",
                 {"type": "signal", "correlation_key": "early"})
            continue
        said(server, "POST", f"/v1/leases/{token}/complete", {"result": 1})


def check_upgrade(url, facts):
    if url.startswith("postgres"):
        done = subprocess.run([PAWL, "migrate", "--store", url], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        check(done.returncode == 0, done.stdout, done.stderr)
    server = Server(url)
    for name, was in facts["jobs"].items():
        check_job(server, name, was, facts["exports"][name])
    steps = said(server, "GET", f"/v1/jobs/{facts['jobs']['planned']['id']}/steps")["steps"]
    check([step["id"] for step in steps] == ["a", "b", "ask"], steps)
    check([step["result"] for step in steps] ==
          [step["result"] for step in facts["steps"]["steps"]], steps)
    kind = said(server, "GET", "/v1/kinds/queued")
    check(kind["timeout_ms"] == 60000 and kind["retry"]["max_attempts"] == 7, kind)
    paused = [q["queue"] for q in said(server, "GET", "/v1/queues")["queues"] if q["paused"]]
    check(paused == facts["paused"], paused)
    tokens = {t["name"]: t for t in said(server, "GET", "/v1/tokens")["tokens"]}
    check(set(tokens["front"]["scopes"]) == {"submit", "answer"}, tokens)
    check(tokens["agent"]["scopes"] == ["work"] and tokens["agent"]["queues"] == ["q-queued"],
          tokens)
    again = said(server, "POST", "/v1/jobs", {
        "kind": "queued", "queue": "q-queued", "payload": {"n": 1.1, "name": "queued"},
        "idempotency_key": "k1"})
    check(again["id"] == facts["jobs"]["queued"]["id"] and again["duplicate"], again)
    goes_on(server, facts["jobs"])
    server.end()
    done = subprocess.run([PAWL, "verify", "--all", "--store", url], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    check(done.returncode == 0, done.stdout, done.stderr)


def a_sqlite_store_of_0_1_0_opens_with_nothing_lost_and_goes_on():
    check_upgrade(old_sqlite(), json.loads(read("sqlite.json")))


def a_postgres_store_of_0_1_0_opens_with_nothing_lost_and_goes_on():
    check_upgrade(old_postgres(), json.loads(read("postgres.json")))


run(a_sqlite_store_of_0_1_0_opens_with_nothing_lost_and_goes_on,
    a_postgres_store_of_0_1_0_opens_with_nothing_lost_and_goes_on)
