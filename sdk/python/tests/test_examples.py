#!/usr/bin/env python3
"""The tutorial of README.md and the examples, as a new user runs them: the tutorial from the wheel,
in an environment that has nothing else; the examples with a worker that is killed in the middle.

usage: test_examples.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from typing import Any, Callable

from case import PATIENCE_S, SDK, SOURCE, check, trouble
from pawl import Client, NotFound

store = trouble.fresh_sqlite()
server = trouble.Server(store)
client = Client(server.url)


def run(*command: str, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)
    check(done.returncode == 0, command, done.stdout, done.stderr)
    return str(done.stdout)


def until(what: str, condition: Callable[[], Any]) -> Any:
    return trouble.until(what, condition)


class Worker:
    """pawl-worker in a process of its own, with a short lease, so that a kill is noticed soon."""

    def __init__(self, app: str, place: str, command: list[str], **env: str) -> None:
        self._command = [*command, app, "--drain-timeout", "5s"]
        self._options = {"cwd": place, "env": {**os.environ, "PAWL_STORE": server.url, **env},
                         "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self._process = trouble.start(*self._command, **self._options)

    def kill_and_start_again(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._process = trouble.start(*self._command, **self._options)

    def end(self) -> str:
        self._process.terminate()
        out, err = self._process.communicate(timeout=PATIENCE_S)
        check(self._process.returncode == 0, self._process.returncode, out, err)
        return str(out)


def lines_of(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def waiting(id: str, key: str, there: Client = client) -> bool:
    # A job of an outbox is not there before a server has taken it.
    try:
        wait = there.job(id)["wait"]
    except NotFound:
        return False
    return wait is not None and wait["correlation_key"] == key


def blocks_of(section: str) -> list[str]:
    with open(f"{SDK}/README.md", encoding="utf-8") as page:
        found = re.search(rf"^## {section}$(.*?)^## ", page.read(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return re.findall(r"^```(?:python)?\n(.*?)^```$", found.group(1), re.MULTILINE | re.DOTALL)


def the_tutorial_runs_from_the_wheel() -> None:
    shop, command, submit, printed, sync = blocks_of("Tutorial")
    (test,) = blocks_of("Tests")
    test += "\n\nimport asyncio\nasyncio.run(test_refund())\n"
    place = os.path.join(trouble.place, "tutorial")
    run(f"{SOURCE}/scripts/build-sdk", place)
    (wheel,) = [name for name in os.listdir(place) if name.endswith(".whl")]
    # The environment is the wheel and nothing else: no network, no other package.
    run(sys.executable, "-m", "venv", f"{place}/venv")
    run(f"{place}/venv/bin/pip", "install", "--no-index", f"{place}/{wheel}")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for name, text in (("shop", shop), ("submit", submit), ("sync", sync),
                       ("test_shop", test)):
        with open(f"{place}/{name}.py", "w", encoding="utf-8") as file:
            file.write(text)
    check(command.strip() == "pawl-worker shop:app", command)
    worker = Worker("shop:app", place, [f"{place}/venv/bin/pawl-worker"], PYTHONPATH="")
    env = {**clean, "PAWL_STORE": server.url}
    python = f"{place}/venv/bin/python"
    check(run(python, "submit.py", cwd=place, env=env) == printed, printed)
    check("charge-8" in run(python, "sync.py", cwd=place, env=env))
    run(python, "test_shop.py", cwd=place, env={**env, "PAWL_BINARY": str(trouble.PAWL)})
    said = worker.end()
    check(said.count("scoring order 7") == 1 and said.count("paying 4200") == 1, said)


def the_order_pipeline_survives_a_kill() -> None:
    log = os.path.join(trouble.place, "orders.log")
    client.put_kind("order", lease_ttl_ms=1000)
    worker = Worker("orders:app", f"{SDK}/examples", [sys.executable, "-m", "pawl.cli"],
                    PYTHONPATH=SDK, ORDERS_LOG=log)
    order = {"id": 7, "amount": "42.10", "items": ["chair", "table"]}
    job = client.submit("order", order, retry={"max_attempts": 10, "initial_ms": 50},
                        in_doubt="ask")["id"]
    until("the wait", lambda: waiting(job, "packed"))
    worker.kill_and_start_again()
    client.signal(job, "packed")
    found = client.job(job, wait_ms=30_000)
    check(found["status"] == "completed", found)
    check(found["result"] == {"shipped": True, "tracking": "track-7", "reason": None}, found)
    check(sorted(lines_of(log)) == ["charged 42.10", "reserved chair", "reserved table",
                                    "shipped 7"], lines_of(log))
    os.remove(log)
    job = client.submit("order", {**order, "amount": "5000"})["id"]
    found = client.job(job, wait_ms=30_000)
    check(found["result"]["reason"] == "5000 is over the limit", found)
    check(sorted(lines_of(log)) == ["released 7/chair", "released 7/table", "reserved chair",
                                    "reserved table"], lines_of(log))
    worker.end()


def the_agent_survives_a_kill() -> None:
    log = os.path.join(trouble.place, "agent.log")
    worker = Worker("agent:app", f"{SDK}/examples", [sys.executable, "-m", "pawl.cli"],
                    PYTHONPATH=SDK, AGENT_LOG=log)
    job = client.submit("research", "why?")["id"]
    until("the question", lambda: waiting(job, "approve"))
    check(client.job(job)["progress"] == {"tools": ["search", "read"]})
    worker.kill_and_start_again()
    client.answer(job, "yes", by="ada")
    found = client.job(job, wait_ms=30_000)
    check(found["status"] == "completed" and found["result"]["published"], found)
    check(lines_of(log) == ["thought 0", "searched", "thought 1", "read", "thought 2",
                            "published"], lines_of(log))
    worker.end()


def the_plan_survives_a_kill() -> None:
    sys.path.insert(0, f"{SDK}/examples")
    from report import plan_for
    log = os.path.join(trouble.place, "report.log")
    worker = Worker("report:app", f"{SDK}/examples", [sys.executable, "-m", "pawl.cli"],
                    PYTHONPATH=SDK, REPORT_LOG=log)
    job = client.submit("report", plan=plan_for("rain").as_json())["id"]
    until("the question", lambda: [each for each in client.inbox() if each["id"] == job])
    worker.kill_and_start_again()
    client.answer(job, "yes", step="approve", by="ada")
    check(client.job(job, wait_ms=30_000)["status"] == "completed", client.job(job))
    (written,) = [step["result"] for step in client.steps(job) if step["id"] == "write"]
    check(written == "4 findings, approved: yes", written)
    check(sorted(lines_of(log)) == ["downloaded news", "downloaded papers", "wrote"], lines_of(log))
    worker.end()


def python_with_psycopg2() -> str:
    for candidate in (sys.executable, "/usr/bin/python3"):
        found = subprocess.run([candidate, "-c", "import psycopg2"], capture_output=True)
        if found.returncode == 0:
            return candidate
    raise AssertionError("python3-psycopg2 is missing")


def post(port: int, body: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("POST", "/", body)
    response = connection.getresponse()
    return response.status, response.read().decode()


def the_web_app_commits_order_and_job_together() -> None:
    database, log = trouble.fresh_postgres(), os.path.join(trouble.place, "web.log")
    shop = trouble.Server(database)
    there = Client(shop.url)
    python = python_with_psycopg2()
    env = {"PYTHONPATH": SDK, "WEB_LOG": log, "SHOP_DATABASE": database, "PAWL_STORE": shop.url}
    web = trouble.start(python, "web.py", "0", cwd=f"{SDK}/examples", env={**os.environ, **env},
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    worker = Worker("web:app", f"{SDK}/examples", [python, "-m", "pawl.cli"], **env)
    assert web.stdout is not None, "it is a pipe"
    port = int(web.stdout.readline())
    status, said = post(port, "x" * 30)
    check(status == 400, status, said)
    status, job = post(port, "ada")
    check(status == 201, status, job)
    until("the wait", lambda: waiting(job, "shipped", there))
    worker.kill_and_start_again()
    there.signal(job, "shipped", "bike")
    check(there.job(job, wait_ms=30_000)["result"] == "bike", there.job(job))
    check([each["id"] for each in there.jobs(kind="order.confirm")] == [job])
    check(lines_of(log) == ["mailed ada: order 2 is here", "mailed ada: order 2 comes by bike"],
          lines_of(log))
    worker.end()
    web.terminate()
    web.wait(PATIENCE_S)
    shop.end()


if __name__ == "__main__":
    trouble.run(the_tutorial_runs_from_the_wheel, the_order_pipeline_survives_a_kill,
                the_agent_survives_a_kill, the_plan_survives_a_kill,
                the_web_app_commits_order_and_job_together)
