#!/usr/bin/env python3
"""The workers of docs/how-to/workers.md do their work, as they are printed there.

usage: workers.py BUILD_DIRECTORY SOURCE_DIRECTORY

Each completes a job, fails one with a bad payload, keeps a job that outlasts its lease, and goes on
when its server is killed or replaced. The languages are the info strings of the code blocks.
"""
import atexit
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[2]), "tests", "server"))
from trouble import (BUILD, PATIENCE_S, SOURCE, Server, check, fresh_sqlite, run,  # noqa: E402
                     start, until)

PAGE = "docs/how-to/workers.md"


def program_of(language):
    with open(f"{SOURCE}/{PAGE}", encoding="utf-8") as page:
        found = re.findall(rf"^```{language}\n(.*?)^```$", page.read(), re.M | re.S)
    check(len(found) == 1, PAGE, "has", len(found), "programs in", language)
    return found[0]


def command_of(language, folder):
    """Builds the program in a folder, and returns the command that runs it."""
    name = {"sh": "worker.sh", "python": "worker.py", "js": "worker.mjs", "go": "worker.go",
            "c": "worker.c"}[language]
    path, binary = os.path.join(folder, name), os.path.join(folder, "worker")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program_of(language))
    if language == "go":
        subprocess.run(["go", "build", "-o", binary, path], check=True, timeout=300,
                       env={**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off",
                            "GOCACHE": os.path.join(folder, "cache"), "HOME": folder})
    elif language == "c":
        subprocess.run(["cc", "-D_DEFAULT_SOURCE", "-std=c17", "-Wall", "-Werror", "-o", binary,
                        path, f"-I{SOURCE}/include", f"-L{BUILD}", "-lpawl", f"-Wl,-rpath,{BUILD}"],
                       check=True, timeout=300)
    return {"sh": ["sh", path], "python": [sys.executable, path], "js": ["node", path]}.get(
        language, [binary])


def end_group(process):
    """The worker and whatever it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)


def submit(server, payload, **fields):
    status, job = server.call("POST", "/v1/jobs", {"kind": "hello", "payload": payload, **fields})
    check(status == 201, job)
    return job["id"]


def ended(server, job):
    return server.call("GET", f"/v1/jobs/{job}?wait_ms=30000")[1]


def greets(server, name, **payload):
    job = ended(server, submit(server, {"name": name, **payload}, lease_ttl_ms=1000))
    check(job["status"] == "completed", job)
    check(job["result"] == {"greeting": f"hello {name}"}, job)
    check(server.call("GET", f"/v1/jobs/{job['id']}/verify")[1]["ok"], "the history is broken")
    return job


def works(language):
    folder = tempfile.mkdtemp()
    atexit.register(subprocess.run, ["rm", "-rf", folder], check=False)
    command = command_of(language, folder)
    store = fresh_sqlite()
    server = Server(store)
    wrong = submit(server, "who?")
    worker = start(*command, stdout=subprocess.DEVNULL, env={**os.environ, "PAWL_URL": server.url},
                   start_new_session=True)
    atexit.register(end_group, worker)

    greets(server, "Ada")
    wrong = ended(server, wrong)
    check(wrong["status"] == "failed" and wrong["error"]["class"] == "validation", wrong)
    long = greets(server, "Grace", seconds=2)
    check(long["attempt"] == 1, "the lease was lost:", long)

    for how in (signal.SIGKILL, signal.SIGTERM):
        until("a waiting claim", lambda served=server: served.parked() >= 1)
        server.process.send_signal(how)
        server.process.wait(PATIENCE_S)
        server = Server(store, server.port)
        greets(server, how.name)
    check(worker.poll() is None, "the worker has ended")
    end_group(worker)
    server.end()


def the_worker_in_shell_works():
    works("sh")


def the_worker_in_python_works():
    works("python")


def the_worker_in_javascript_works():
    works("js")


def the_worker_in_go_works():
    works("go")


def the_worker_in_c_works():
    works("c")


run(the_worker_in_shell_works, the_worker_in_python_works, the_worker_in_javascript_works,
    the_worker_in_go_works, the_worker_in_c_works)
