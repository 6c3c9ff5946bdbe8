#!/usr/bin/env python3
"""Jobs of a pinned kind stay with the code version that claimed them first, on every store: no other
claim gets them, none walks over them, and a claim that waits is woken by its own only.

usage: test_versions.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import http.client
import threading

from surface import ADMIN, Document, Server
from trouble import PATIENCE_S, check, fresh_postgres, fresh_sqlite, run


def claim(server, version=None, **more):
    body = {"worker_id": f"w-{version}", "kinds": ["agent"], "wait_ms": 0, **more}
    if version is not None:
        body["code_version"] = version
    return server.do("POST", "/v1/claims", body)["claims"]


def release(server, claims):
    for each in claims:
        server.do("POST", f"/v1/leases/{each['lease']['token']}/release", {})


def pinned(server, version):
    """A new job that is pinned, and ready."""
    job = server.do("POST", "/v1/jobs", {"kind": "agent"})["id"]
    claims = claim(server, version)
    check([each["job"]["id"] for each in claims] == [job], claims)
    check(claims[0]["job"]["pin"] == version, claims)
    release(server, claims)
    return job


def versions(server):
    counted = server.do("GET", "/v1/kinds/agent/versions")
    check(counted["more"] is False, counted)
    return {each["code_version"]: each["jobs"] for each in counted["versions"]}


def walk_through(store):
    server = Server(store)
    document = Document(server)
    check(server.do("PUT", "/v1/kinds/agent", {"pin": True})["pin"] is True)
    job = pinned(server, "v41")
    check(claim(server, "v42") == [] and claim(server) == [])
    fresh = server.do("POST", "/v1/jobs", {"kind": "agent"})["id"]
    check(versions(server) == {"v41": 1, None: 1}, versions(server))
    got = claim(server, "v42", max=10)  # the one behind it is not blocked
    check([each["job"]["id"] for each in got] == [fresh], got)
    release(server, got)

    server.do("PUT", "/v1/workers/w-v42", {"kinds": ["agent"], "code_version": "v42",
                                           "ttl_ms": 60000})
    reasons = " ".join(server.do("GET", f"/v1/jobs/{job}/explain")["reasons"])
    check("pinned to v41, no worker of that version is connected" in reasons, reasons)
    server.do("PUT", "/v1/workers/w-v41", {"kinds": ["agent"], "code_version": "v41",
                                           "ttl_ms": 60000})
    reasons = " ".join(server.do("GET", f"/v1/jobs/{job}/explain")["reasons"])
    check("Live workers for it: 1" in reasons and '"v41"' in reasons, reasons)

    # A claim that waits is woken by a repin, and only the one of that version.
    waiting = {}

    def wait_for(version):
        other = http.client.HTTPConnection("127.0.0.1", server.connection.port, timeout=PATIENCE_S)
        twin = Server.__new__(Server)
        twin.connection = other
        waiting[version] = claim(twin, version, wait_ms=2000 if version == "v44" else 55000)

    threads = [threading.Thread(target=wait_for, args=(each,)) for each in ("v43", "v44")]
    for each in threads:
        each.start()
    body = {"action": "repin", "filter": {"kind": "agent"}, "to": "v43", "from": "v41"}
    dry = server.do("POST", "/v1/jobs/bulk", {**body, "dry_run": True})
    check(dry["matched"] == 2 and dry["done"] == 0, dry)
    moved = server.do("POST", "/v1/jobs/bulk", body)
    check(moved["done"] == 1 and moved["refused"] == 1, moved)
    document.check("bulk", 200, moved)
    for each in threads:
        each.join(PATIENCE_S)
    check([each["job"]["id"] for each in waiting["v43"]] == [job], waiting)
    check(waiting["v44"] == [], waiting)
    server.do("POST", f"/v1/leases/{waiting['v43'][0]['lease']['token']}/fail",
              {"error": {"class": "permanent", "message": "no"}})
    check(versions(server) == {"v42": 1}, versions(server))
    document.check("kind_versions", 200, server.do("GET", "/v1/kinds/agent/versions"))

    # Requeued it keeps its version; fresh it does not.
    server.do("POST", f"/v1/jobs/{job}/requeue", {"reason": "again"})
    check(claim(server, "v42", max=1)[0]["job"]["id"] == fresh)
    check(claim(server, "v42") == [])
    server.do("POST", f"/v1/jobs/{job}/cancel", {"mode": "hard"})
    check(server.do("GET", f"/v1/jobs/{job}/verify")["ok"] is True)
    check(server.do("GET", f"/v1/jobs/{fresh}/verify")["ok"] is True)
    again = pinned(server, "v7")
    got = claim(server, "v7")
    server.do("POST", f"/v1/leases/{got[0]['lease']['token']}/fail",
              {"error": {"class": "permanent", "message": "no"}})
    server.do("POST", f"/v1/jobs/{again}/requeue", {"reason": "again", "fresh": True})
    check(claim(server, "v8")[0]["job"]["id"] == again)

    # To another store and back: the pin goes along.
    moving = pinned(server, "v9")
    bundle = server.do("GET", f"/v1/jobs/{moving}/export")
    other = Server()
    other.do("POST", "/v1/import", {"jobs": [bundle]})
    check(other.do("GET", f"/v1/jobs/{moving}/verify")["ok"] is True)
    check(claim(other, "v1") == [] and claim(other, "v9")[0]["job"]["id"] == moving)
    other.end()
    server.end()


def pins_hold_in_memory():
    walk_through("memory:")


def pins_hold_on_sqlite():
    walk_through(fresh_sqlite())


def pins_hold_on_postgres():
    walk_through(fresh_postgres())


def wrong_requests_are_told_what_to_do():
    server = Server()
    for body, words in (({"action": "repin", "filter": {}}, "to is required"),
                        ({"action": "cancel", "filter": {}, "to": "v1"}, "to and from are"),
                        ({"action": "repin", "filter": {}, "to": "v1", "fresh": True}, "fresh is"),
                        ({"action": "repin", "filter": {}, "to": "v1", "mode": "hard"}, "mode is")):
        status, problem = server.ask(ADMIN, "POST", "/v1/jobs/bulk", body)
        check(status == 400 and words in problem["detail"], body, status, problem)
    token = server.do("POST", "/v1/tokens", {"name": "t", "scopes": ["admin"], "queues": ["q"]})
    status, problem = server.ask(token["token"], "POST", "/v1/jobs/bulk",
                                 {"action": "repin", "filter": {"queue": "q"}, "to": "v1"})
    check(status == 403, status, problem)
    status, problem = server.ask(ADMIN, "POST", "/v1/claims", {"worker_id": "w", "code_version": ""})
    check(status == 400 and "code_version" in problem["detail"], problem)
    server.end()


run(pins_hold_in_memory, pins_hold_on_sqlite, pins_hold_on_postgres,
    wrong_requests_are_told_what_to_do)
