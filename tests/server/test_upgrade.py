#!/usr/bin/env python3
"""A store that a released version has written opens, migrated, with nothing lost, and goes on.

usage: test_upgrade.py BUILD_DIRECTORY SOURCE_DIRECTORY

tests/upgrade/0.1.0 has a store with jobs in every state, as 0.1.0 left it on SQLite and on
PostgreSQL (dumps), and what its server said of them (JSON). sqlite-killed has the files of a store
whose server was killed under load, and what was acknowledged before: 9 completions are in its
`-ahead0` alone.
"""
import json
import os
import sqlite3
import subprocess
import tarfile
import time

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


KILLS = 12  # of a migration


def killed_sqlite(*left_out):
    url = fresh_sqlite()
    path = url.removeprefix("sqlite:")
    with tarfile.open(f"{FIXTURES}/sqlite-killed.tar.xz") as files:
        for name in files.getnames():
            suffix = name.removeprefix("jobs.db")
            if suffix not in left_out:
                with open(path + suffix, "wb") as file:
                    file.write(files.extractfile(name).read())
    return url


def pawl(*words):
    return subprocess.run([PAWL, *words], capture_output=True, text=True, timeout=PATIENCE_S)


def check_killed(url):
    """All that was acknowledged is there, and work goes on."""
    facts = json.loads(read("sqlite-killed.json"))
    burst = facts["burst"]
    server = Server(url)
    for job, history in facts["exports"].items():
        now = said(server, "GET", f"/v1/jobs/{job}/export")
        shown = [{**event, "correlation_id": event.get("correlation_id", job)}
                 for event in history["events"]]
        check(now["events"][:len(shown)] == shown, job, "has lost or changed events", now)
    for number, job in enumerate(burst["submitted"]):
        found = said(server, "GET", f"/v1/jobs/{job}")
        payload = {"n": number} if number < 60 else {"late": number - 60}
        status = ("completed" if job in burst["completed"] else
                  "failed" if job in burst["failed"] else
                  "running" if job in burst["leased"] else "queued")
        check(found["payload"] == payload and found["status"] == status, found, status)
        check(found["result"] == burst["completed"].get(job), found)
        check(said(server, "GET", f"/v1/jobs/{job}/verify")["ok"], job)
    for token in [facts["held"]["token"], *burst["leased"].values()]:
        said(server, "POST", f"/v1/leases/{token}/complete", {"result": "at last"})
    again = said(server, "POST", "/v1/jobs", {"kind": "burst", "queue": "burst",
                                              "payload": {"n": 7}, "idempotency_key": "b7"})
    check(again["duplicate"] and again["id"] == burst["submitted"][7], again)
    said(server, "POST", f"/v1/jobs/{facts['waiting']}/signal", {"correlation_key": "go"})
    for queue, count in (("waits", 1), ("late", 10), ("burst", 20), ("main", 4)):
        claims = said(server, "POST", "/v1/claims",
                      {"worker_id": "w9", "queues": [queue], "max": 99, "wait_ms": 0})["claims"]
        check(len(claims) == count, queue, len(claims))
        for claim in claims:
            said(server, "POST", f"/v1/leases/{claim['lease']['token']}/complete")
    server.end()
    done = pawl("verify", "--all", "--store", url)
    check(done.returncode == 0 and done.stdout.startswith("84 jobs verified, 0 "), done)
    done = pawl("doctor", "--store", url)
    check(done.returncode == 0, done)


def a_killed_sqlite_store_of_0_1_0_is_migrated_with_its_log():
    url = killed_sqlite()
    check_killed(url)
    files = os.listdir(os.path.dirname(url.removeprefix("sqlite:")))
    name = os.path.basename(url)
    mine = {file.removeprefix(name) for file in files if file.startswith(name)}
    # The copy is a store that 0.1.0 can open, with its own log.
    check({".v5.bak", ".v5.bak-ahead0"} <= mine and not mine & {"-ahead0", "-ahead1"}, mine)


def a_migration_that_is_killed_is_done_again():
    for number in range(KILLS):
        url = killed_sqlite()
        migrating = subprocess.Popen([PAWL, "verify", "--all", "--store", url],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.004 * number)
        migrating.kill()
        migrating.wait()
        check_killed(url)


def what_is_lost_with_a_file_of_a_killed_store_is_found_out_or_is_what_it_held():
    """The database alone says nothing of a log that is gone; the logs say which database they
    belong to."""
    done = pawl("verify", "--all", "--store", killed_sqlite("-wal"))
    check(done.returncode != 0 and "Restore the right database" in done.stderr, done)
    facts = json.loads(read("sqlite-killed.json"))
    url = killed_sqlite("-ahead0", "-ahead1")
    done = pawl("verify", "--all", "--store", url)
    check(done.returncode == 0 and done.stdout.startswith("84 jobs verified, 0 "), done)
    server = Server(url)
    lost = [job for job in facts["burst"]["completed"]
            if said(server, "GET", f"/v1/jobs/{job}")["status"] != "completed"]
    check(len(lost) == 9, lost)
    server.end()


run(a_killed_sqlite_store_of_0_1_0_is_migrated_with_its_log,
    a_migration_that_is_killed_is_done_again,
    what_is_lost_with_a_file_of_a_killed_store_is_found_out_or_is_what_it_held,
    a_sqlite_store_of_0_1_0_opens_with_nothing_lost_and_goes_on,
    a_postgres_store_of_0_1_0_opens_with_nothing_lost_and_goes_on)
