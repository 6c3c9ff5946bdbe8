#!/usr/bin/env python3
"""The worker of docs/http.md does its work, as it stands there.

usage: http_worker.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[2]), "tests", "server"))
from trouble import PATIENCE_S, SOURCE, Server, check, run, start  # noqa: E402

LINES_MAX = 10


def worker_of_the_page():
    with open(f"{SOURCE}/docs/http.md", encoding="utf-8") as page:
        found = re.search(r"^## A worker in ten lines$.*?^```sh\n(.*?)^```$", page.read(),
                          re.MULTILINE | re.DOTALL)
    check(found, "docs/http.md has no worker")
    script = found.group(1)
    check(len(script.splitlines()) <= LINES_MAX, "the worker has more than ten lines:", script)
    return script


def the_worker_in_ten_lines_works():
    server = Server("memory:")
    job = server.call("POST", "/v1/jobs", {"kind": "hello", "payload": {"name": "Ada"}})[1]
    wrong = server.call("POST", "/v1/jobs", {"kind": "hello", "payload": "who?"})[1]
    worker = start("sh", "-c", worker_of_the_page(), stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT, text=True,
                   env={**os.environ, "PAWL_URL": server.url})
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
    # When the server ends, so does the worker.
    server.end()
    worker.communicate(timeout=PATIENCE_S)


run(the_worker_in_ten_lines_works)
