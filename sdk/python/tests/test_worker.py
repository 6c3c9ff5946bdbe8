#!/usr/bin/env python3
"""The worker: heartbeats that nothing starves, registration, large histories, batches, drain.

usage: test_worker.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any, cast

from case import PATIENCE_S, SDK, Suite, check, trouble, until, working
from pawl import AsyncClient, Context, Pawl, SyncContext
from pawl.outbox import Outbox
from pawl.http import AsyncTransport, Endpoint, Request

suite = Suite()
server = trouble.Server("memory:")


class Counting(AsyncTransport):
    """Counts requests, the operations in them, and pages of effects."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.requests = self.ops = self.claims = self.pages = 0

    async def request(self, request: Request) -> Any:
        if request.path == "/v1/ops":
            self.requests += 1
            names = [op["op"] for op in json.loads(request.body or b"")["ops"]]
            self.claims += names.count("claim")
            self.ops += len(names) - names.count("claim")
        self.pages += "/effects?after=" in request.path
        return await super().request(request)


@suite.case
async def a_handler_that_never_awaits_keeps_its_lease() -> None:
    app = Pawl(server.url)

    @app.job("busy", max_attempts=1)
    async def busy(ctx: Context) -> int:
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            pass  # the event loop stands still for longer than the lease
        return ctx.attempt

    async with working(app, lease_ttl="2s"):
        handle = await app.submit(busy)
        check(await handle.result(timeout=30) == 1)
        check((await handle.job())["failures"] == 0)


@suite.case
async def a_worker_is_registered_while_it_runs() -> None:
    app = Pawl(server.url)

    @app.job("registered")
    async def registered(ctx: Context) -> None:
        return None

    async def listed() -> list[Any]:
        return [each async for each in app.client.workers() if each["worker_id"] == "me"]

    async with working(app, worker_id="me", concurrency=3, queues=["q"]):
        (found,) = await until("the worker", listed)
        check(found["kinds"] == ["registered"] and found["queues"] == ["q"], found)
        check(found["slots"] == 3, found)
    check(await listed() == [])


@suite.case
async def effects_that_do_not_fit_into_the_claim_are_read_page_by_page() -> None:
    transport = Counting(Endpoint.of(server.url, None))
    app = Pawl(server.url, transport=lambda _: transport)
    made: list[int] = []

    def large(number: int) -> str:
        made.append(number)
        return str(number) * 900_000

    @app.job("large")
    async def big(ctx: Context) -> int:
        total = 0
        for number in range(6):
            total += len(await ctx.effect(f"e{number}", large, number))
        await ctx.sleep("1ms")
        return total

    async with working(app):
        handle = await app.submit(big)
        check(await handle.result(timeout=60) == 6 * 900_000)
    check(made == list(range(6)) and transport.pages > 0, made, transport.pages)


@suite.case
async def reports_of_many_jobs_share_requests() -> None:
    transport = Counting(Endpoint.of(server.url, None))
    app = Pawl(server.url, transport=lambda _: transport)
    done = 0

    @app.job("many")
    async def many(ctx: Context) -> None:
        nonlocal done
        done += 1

    await app.client.submit_many([{"kind": "many"}] * 200)
    async with working(app, concurrency=50):
        await until("all of them", _given(lambda: done == 200))
    check(transport.ops == 200 and transport.requests < 40, transport.ops, transport.requests)
    check(transport.claims > 0, "reports bring no new work")


def _given(condition: Any) -> Any:
    async def ask() -> Any:
        return condition()

    return ask


class Slow:
    """Stands in for a client: responses come when the test says so."""

    def __init__(self) -> None:
        self.requests: list[asyncio.Future[None]] = []

    async def send_ops(self, body: bytes, *, timeout: float) -> list[dict[str, Any]]:
        self.requests.append(asyncio.get_running_loop().create_future())
        await self.requests[-1]
        return [{"status": 200, "body": {}} for _ in json.loads(body)["ops"]]


@suite.case
async def handlers_go_on_when_two_requests_end_in_one_turn_of_the_loop() -> None:
    client, turns, most = Slow(), 0, 0
    outbox = Outbox(cast(AsyncClient, client), [])

    async def handler(operations: int) -> None:
        for _ in range(operations):
            await outbox.send({"op": "heartbeat"})

    # Those of the first request go on when those of the second one have ended.
    tasks = [asyncio.create_task(handler(2 if number < 32 else 1)) for number in range(64)]
    while not all(task.done() for task in tasks):
        turns += 1
        check(turns < 1000, "nothing is sent any more")
        await asyncio.sleep(0)
        under_way = [request for request in client.requests if not request.done()]
        if len(under_way) == 2 or turns % 10 == 0:
            most = max(most, len(under_way))
            for request in under_way:
                request.set_result(None)
    check(most == 2, "requests did not overlap")


@suite.case
async def an_operation_that_is_refused_does_not_harm_the_others_of_its_batch() -> None:
    app = Pawl(server.url)

    @app.job("mixed", max_attempts=1)
    async def mixed(ctx: Context, size: int) -> str:
        return "x" * size

    async with working(app):
        handles = [await app.submit(mixed, size) for size in (1, 2 << 20, 2)]
        check(await handles[0].result(timeout=30) == "x")
        check(await handles[2].result(timeout=30) == "xx")
        job = await app.client.job(handles[1].id, wait_ms=30_000)
        error = job["error"] or {}
        check(job["status"] == "failed" and error["class"] == "permanent", error)


@suite.case
async def a_drain_ends_at_its_deadline_and_releases_what_a_thread_still_does() -> None:
    app = Pawl(server.url)
    blocked, go = threading.Event(), threading.Event()

    @app.job("stuck")
    def stuck(ctx: SyncContext) -> None:
        blocked.set()
        go.wait(60)

    task = asyncio.create_task(app.run(handle_signals=False, drain_timeout=0.05))
    handle = await app.submit(stuck)
    await asyncio.to_thread(blocked.wait, 30)
    app.stop()
    await asyncio.wait_for(task, 30)
    job = await handle.job()
    check(job["status"] == "queued" and job["failures"] == 0 and job["attempt"] == 1, job)
    go.set()
    await handle.cancel()


@suite.plain
def the_command_says_what_is_wrong() -> None:
    def command(*arguments: str, **env: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "pawl.cli", *arguments], text=True, timeout=60,
                              capture_output=True, env={**os.environ, "PYTHONPATH": SDK, **env})
        return done.returncode, done.stderr

    for name, message in (("nothing", "module:app"), ("no_such:app", "cannot load"),
                          ("json:loads", "not a Pawl application")):
        status, said = command(name)
        check(status == 2 and message in said, status, said)


@suite.case
async def a_worker_in_development_starts_anew_when_its_code_changes() -> None:
    app = Pawl(server.url)
    path = f"{trouble.place}/dev_app.py"

    def write(answer: int) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write("from pawl import Context, Pawl\n"
                       f"app = Pawl({server.url!r})\n"
                       "@app.job('dev')\n"
                       "async def dev(ctx: Context) -> int:\n"
                       f"    return {answer}\n")

    async def answers(wanted: int) -> bool:
        handle = await app.submit("dev")
        return bool(await handle.result(timeout=PATIENCE_S) == wanted)

    write(1)
    worker = subprocess.Popen(
        [sys.executable, "-m", "pawl.cli", "dev_app:app", "--reload"], cwd=trouble.place,
        env={**os.environ, "PYTHONPATH": SDK}, stderr=subprocess.DEVNULL)
    try:
        check(await answers(1))
        write(2)
        await until("the new code", lambda: answers(2))
    finally:
        worker.terminate()
        check(worker.wait(PATIENCE_S) == 0, worker.returncode)


suite.run()
