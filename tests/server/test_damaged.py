#!/usr/bin/env python3
"""Rows that somebody has damaged: what cannot be read is told as that, and hides nothing else.

usage: test_damaged.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import sqlite3

from surface import Document, Server, Stage
from trouble import check, fresh_postgres, fresh_sqlite, psql, run


def make_jobs(store):
    """Two jobs that are well, and one between them that will not be."""
    server = Server(store)
    stage = Stage(server, "q")
    ids = []
    for _ in range(3):
        stage.lease()
        ids.append(stage.id)
    server.end()
    return ids


def look(store, damaged, others):
    server = Server(store)
    document = Document(server)
    listed = server.do("GET", "/v1/jobs")
    document.check("list", 200, listed)
    found = {job["id"]: job for job in listed["jobs"]}
    check(set(found) == {damaged, *others}, found)
    check(damaged in found[damaged]["damaged"], found[damaged])
    for job in others:
        check(found[job]["status"] == "running" and "damaged" not in found[job], found[job])
    one_by_one = []
    cursor = ""
    while cursor is not None:
        page = server.do("GET", f"/v1/jobs?limit=1{cursor and '&cursor=' + cursor}")
        one_by_one += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
    check(one_by_one == [job["id"] for job in listed["jobs"]], one_by_one)
    counts = server.do("POST", "/v1/jobs/bulk", {"action": "cancel", "filter": {}})
    check((counts["matched"], counts["done"], counts["refused"]) == (3, 2, 1), counts)
    check(server.ask(None, "GET", "/v1/stats")[0] == 401, "it is open")
    return server, document


def one_job_that_cannot_be_read_does_not_hide_others_on_sqlite():
    store = fresh_sqlite()
    first, second, third = make_jobs(store)
    with sqlite3.connect(store[7:]) as base:
        changed = base.execute("UPDATE claim_rows SET state = '{\"no' WHERE job = ?",
                               (bytes.fromhex(second.replace("-", "")),)).rowcount
    base.close()
    check(changed == 1, "nothing was damaged")
    look(store, second, [first, third])[0].end()


def one_job_that_cannot_be_read_does_not_hide_others_on_postgres():
    store = fresh_postgres()
    first, second, third = make_jobs(store)
    psql(store, f"UPDATE pawl.claim_rows SET state = '[]' WHERE job_id = '{second}'")
    look(store, second, [first, third])[0].end()


def a_payload_that_is_no_json_does_not_break_the_answer():
    store = fresh_sqlite()
    _, second, _ = make_jobs(store)
    with sqlite3.connect(store[7:]) as base:
        changed = base.execute(
            "UPDATE claim_rows SET record = replace(record, '{\"worker_id', '\"},{') WHERE job = ?",
            (bytes.fromhex(second.replace("-", "")),)).rowcount
    base.close()
    check(changed == 1, "nothing was damaged")
    server = Server(store)
    document = Document(server)
    events = server.do("GET", f"/v1/jobs/{second}/events")
    document.check("events", 200, events)
    check([event["version"] for event in events["events"]] == [1, 2, 3], events)
    check([event.get("damaged") for event in events["events"]] == [None, True, None], events)
    check(events["events"][1]["payload"] is None, events)
    feed = server.do("GET", "/v1/feed?limit=100")
    document.check("feed", 200, feed)
    check(sum(event.get("damaged", False) for event in feed["events"]) == 1, feed)
    check(len(feed["events"]) == 9, feed)
    check(not server.do("GET", f"/v1/jobs/{second}/verify")["ok"], "it is verified all the same")
    server.end()


run(one_job_that_cannot_be_read_does_not_hide_others_on_sqlite,
    one_job_that_cannot_be_read_does_not_hide_others_on_postgres,
    a_payload_that_is_no_json_does_not_break_the_answer)
