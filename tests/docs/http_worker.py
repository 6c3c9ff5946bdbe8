#!/usr/bin/env python3
"""The worker of docs/http.md does its work, as it stands there.

usage: http_worker.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import atexit
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[2]), "tests", "server"))
from trouble import (PATIENCE_S, SOURCE, Server, check, fresh_sqlite, run, start,  # noqa: E402
                     until)

LINES_MAX = 10


def worker_of_the_page():
    with open(f"{SOURCE}/docs/http.md", encoding="utf-8") as page:
        found = re.search(r"^## A worker in ten lines$.*?^```sh\n(.*?)^```$", page.read(),
                          re.MULTILINE | re.DOTALL)
    check(found, "docs/http.md has no worker")
    script = found.group(1)
    check(len(script.splitlines()) <= LINES_MAX, "the worker has more than ten lines:", script)
    return script


def end_group(process):
    """The worker and whatever it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)


def the_worker_in_ten_lines_works():
    store = fresh_sqlite()
    server = Server(store)
    job = server.call("POST", "/v1/jobs", {"kind": "hello", "payload": {"name": "Ada"}})[1]
    wrong = server.call("POST", "/v1/jobs", {"kind": "hello", "payload": "who?"})[1]
    worker = start("sh", "-c", worker_of_the_page(), stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT, text=True,
                   env={**os.environ, "PAWL_URL": server.url}, start_new_session=True)
    atexit.register(end_group, worker)
    status, job = server.call("GET", f"/v1/jobs/{job['id']}?wait_ms=20000")
    check(status == 200 and job["status"] == "completed", job)
    check(job["result"] == {"greeting": "hello Ada"}, job)
    # One that comes while it waits is done too.
    late = server.call("POST", "/v1/jobs", {"kind": "hello", "payload": {"name": "Bob"}})[1]
    late = server.call("GET", f"/v1/jobs/{late['id']}?wait_ms=20000")[1]
    check(late["result"] == {"greeting": "hello Bob"}, late)
    wrong = server.call("GET", f"/v1/jobs/{wrong['id']}")[1]
    check(wrong["failures"] > 0 and "not as expected" in wrong["error"]["message"], wrong)
    check(server.call("GET", f"/v1/jobs/{job['id']}/verify")[1]["ok"], "it is not right")
    # A server that dies and comes back finds it there, and so does one that is replaced.
    for how in (signal.SIGKILL, signal.SIGTERM):
        until("a waiting claim", lambda served=server: served.parked() == 1)
        server.process.send_signal(how)
        server.process.wait(PATIENCE_S)
        server = Server(store, server.port)
        job = server.call("POST", "/v1/jobs", {"kind": "hello", "payload": {"name": how.name}})[1]
        job = server.call("GET", f"/v1/jobs/{job['id']}?wait_ms=30000")[1]
        check(job["result"] == {"greeting": f"hello {how.name}"}, job)
    check(worker.poll() is None, "the worker has ended")
    end_group(worker)
    server.end()


run(the_worker_in_ten_lines_works)
