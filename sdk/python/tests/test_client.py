#!/usr/bin/env python3
"""The client: every route, typed errors, paging, streams that resume, and repetitions that do
nothing twice.

usage: test_client.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from typing import Any, AsyncIterator

from case import SDK, Suite, check, raises, trouble, until
from pawl import (ApiError, AsyncClient, BadRequest, BatchRefused, Client, ConnectionLost,
                  IdempotencyMismatch, JobCancelled, JobFailed, NotFound, Pawl, Plan,
                  RequestTimeout, StaleLease, UnknownField, Unprocessable)
from pawl.http import AsyncTransport, Endpoint, Request

suite = Suite()
store = trouble.fresh_sqlite()
server = trouble.Server(store)


class Recording(AsyncTransport):
    """Remembers which routes were asked for."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.asked: set[tuple[str, str]] = set()

    async def request(self, request: Request) -> Any:
        self.asked.add((request.method, request.path.partition("?")[0]))
        return await super().request(request)

    async def stream(self, request: Request) -> AsyncIterator[tuple[str | None, str, str]]:
        self.asked.add((request.method, request.path.partition("?")[0]))
        async for event in super().stream(request):
            yield event


async def ask_everything(client: AsyncClient) -> None:
    """Each verb once, as it would be used."""
    job = await client.submit("a", {"n": 1}, queue="q", labels={"x": "1"})
    many = await client.submit_many([{"kind": "b", "queue": "q"}, {"kind": "b", "queue": "q"}])
    check((await client.job(job["id"], wait_ms=1))["payload"] == {"n": 1})
    check(len([each async for each in client.jobs(kind="b", limit=1)]) == 2)
    check((await client.bulk("cancel", {"kind": "b"}, dry_run=True))["matched"] == 2)
    await client.cancel(many[0]["id"], reason="not needed")
    check((await client.signal(job["id"], "k", 1))["signal"] == "stored")
    await client.dead_letter(many[1]["id"], "policy_violation")
    check(len([each async for each in client.dead_letters(kind="b")]) == 1)
    check(len([each async for each in client.dead_letter_groups()]) == 1)
    check((await client.redrive(kind="b", dry_run=True))["matched"] == 1)
    check((await client.drop(kind="b"))["done"] == 1)
    check((await client.verify(job["id"]))["ok"] and (await client.explain(job["id"]))["summary"])
    later = await client.submit("a", delay_ms=3_600_000, queue="later")
    check((await client.run_now(later["id"]))["status"] == "queued")
    (claim,) = await client.claim("w", queues=["q"], kinds=["a"], wait_ms=1000)
    token = claim["lease"]["token"]
    check((await client.effect(token, "e/1", "begin", input=1))["status"] == "execute")
    check((await client.effect(token, "e/1", "abort", error={"message": "x"}))["status"])
    check((await client.effect(token, "e/1", "begin", input=1))["status"] == "execute")
    check((await client.effect(token, "e/1", "commit", result=1))["status"] == "recorded")
    await client.lease(token, "heartbeat", progress={"n": 1})
    version = (await client.job(job["id"]))["version"]
    check(await client.append_events(job["id"], [{"type": "shop.seen", "payload": 1}], token=token,
                                     expected_version=version) == version + 1)
    await client.lease(token, "fail", error={"message": "x", "class": "permanent"})
    await client.requeue(job["id"], reason="again")
    for verb in ("release", "dead-letter"):
        (claim,) = await client.claim("w", queues=["q"], kinds=["a"], start=False, wait_ms=1000)
        await client.lease(claim["lease"]["token"], "start")
        fields = {"reason_code": "timeout"} if verb == "dead-letter" else {}
        await client.lease(claim["lease"]["token"], verb, **fields)
    check((await client.redact(job["id"]))["redacted"])
    for end in ("wait", "cancelled"):
        job = await client.submit("c", queue="c")
        (claim,) = await client.claim("w", queues=["c"], wait_ms=1000)
        if end == "wait":
            await client.lease(claim["lease"]["token"], end, type="human", correlation_key="ok")
            check([each["prompt"] async for each in client.inbox()] == [None])
            await client.answer(job["id"], "yes", by="me")
            (claim,) = await client.claim("w", queues=["c"], wait_ms=1000)
            await client.ops([{"op": "complete", "token": claim["lease"]["token"], "result": 1}],
                             atomic=True)
        else:
            await client.cancel(job["id"])
            await client.lease(claim["lease"]["token"], end)
    job = await client.submit("c", queue="c")
    (claim,) = await client.claim("w", queues=["c"], wait_ms=1000)
    await client.lease(claim["lease"]["token"], "complete", result=[1])
    check([each["type"] async for each in client.follow(job["id"])][-1] == "job_completed")
    check(len([each async for each in client.events(job["id"], limit=1)]) == 4)
    bundle = await client.export(job["id"])
    await client.import_jobs([bundle])
    async for event in client.feed(kind="c"):
        check(event.get("position") and event.get("queue") == "c", event)
        break
    await steps(client)
    await settings(client)


async def steps(client: AsyncClient) -> None:
    plan = Plan()
    first = plan.step("first", kind="s", capabilities=["gpu"])
    plan.ask("ok", "Go on?", choices=["yes", "no"], after=[first])
    plan.step("last", kind="s", after=["ok"])
    raises(ValueError, lambda: plan.step("first"))
    raises(ValueError, lambda: plan.step("other", after=["nowhere"]))
    job = await client.submit("planned", plan=plan.as_json(), queue="p")
    await client.put_resource("r", capabilities=["gpu"], slots=1, ttl_ms=60000)
    check((await client.resource("r"))["slots"] == 1)
    check([each["id"] async for each in client.resources()] == ["r"])
    (claim,) = await client.claim_steps("w", resource_id="r", queues=["p"], wait_ms=1000)
    await client.verdict(job["id"], "first", "accept", token=claim["lease"]["token"], result=1)
    check(len([each async for each in client.steps(job["id"])]) == 3)
    await until("the question", lambda: _question(client))
    await client.answer(job["id"], "yes", step="ok")
    await client.delete_resource("r")
    other = await client.submit("planned", plan={"steps": [{"id": "a", "kind": "s"}]}, queue="p")
    await client.plan(other["id"], [{"id": "b", "kind": "s"}], reason="better")
    check(await client.plan_diff(other["id"]))


async def _question(client: AsyncClient) -> list[Any]:
    return [each async for each in client.inbox()]


async def settings(client: AsyncClient) -> None:
    await client.put_worker("idle", kinds=["a"], ttl_ms=60000)
    check("idle" in [each["worker_id"] async for each in client.workers()])
    await client.delete_worker("idle")
    await client.pause("q")
    check(any(each["paused"] for each in [each async for each in client.queues()]))
    await client.resume("q")
    await client.put_kind("a", timeout_ms=1000)
    check((await client.patch_kind("a", heartbeat_ms=500))["timeout_ms"] == 1000)
    check((await client.kind("a"))["heartbeat_ms"] == 500)
    check(len([each async for each in client.kinds()]) == 1)
    check((await client.kind_versions("a"))["kind"] == "a")
    for call in (client.clock(), client.advance_clock(ms=1)):  # of servers for tests only
        try:
            check(not await call, "this server has no manual clock")
        except NotFound:
            pass
    check((await client.stats()) and (await client.doctor()) and await client.is_ready())
    token = await client.create_token("ci", ["read"])
    check(len([each async for each in client.tokens()]) == 1)
    await client.revoke_token(token["id"])
    await client.backup("copy.db")


@suite.case
async def every_route_has_a_verb() -> None:
    client = AsyncClient(transport=Recording(Endpoint.of(server.url, None)))
    try:
        await ask_everything(client)
        transport = client.transport
        assert isinstance(transport, Recording)
        routes = (await client.request("GET", "/openapi.json"))["paths"]
        missing = []
        for path, methods in routes.items():
            pattern = re.compile(re.sub(r"\{[a-z]+\}", "[^/]+", path.partition("#")[0]))
            for method in set(methods) & {"get", "post", "put", "patch", "delete"}:
                if path.startswith("/v1/") and not any(
                        verb == method.upper() and pattern.fullmatch(asked)
                        for verb, asked in transport.asked):
                    missing.append(f"{method} {path}")
        # A page of effects exists beyond 4 MiB only: test_worker.py has it.
        check(missing == ["get /v1/leases/{token}/effects"] or not missing, missing)
    finally:
        await client.close()


@suite.plain
def the_sync_client_is_made_from_the_async_one() -> None:
    done = subprocess.run([sys.executable, f"{SDK}/make_sync.py", "--check"], check=False)
    check(done.returncode == 0)


@suite.plain
def the_reference_is_made_from_the_docstrings() -> None:
    done = subprocess.run([sys.executable, f"{SDK}/make_reference.py", "--check"], check=False)
    check(done.returncode == 0)


@suite.plain
def the_sync_client_speaks_the_same() -> None:
    with Client(server.url) as client:
        job = client.submit("sync", {"n": 1}, queue="sync")
        check([each["id"] for each in client.jobs(kind="sync")] == [job["id"]])
        (claim,) = client.claim("w", queues=["sync"])
        client.lease(claim["lease"]["token"], "complete", result="é")
        check(client.job(job["id"])["result"] == "é")
        check([event["type"] for event in client.follow(job["id"])][-1] == "job_completed")
        check(client.is_ready())
        check(raises(BadRequest, lambda: client.job("nothing")).code == "bad_request")
    handle = Pawl(server.url).sync.submit("sync", 1, key="k", delay="1h", queue="sync2")
    check(handle.status() == "queued" and handle.job()["idempotency_key"] == "k")
    handle.cancel(reason="enough")
    raises(JobCancelled, lambda: handle.result(timeout=5))
    raises(TimeoutError, lambda: Pawl(server.url).sync.submit("sync", 2).result(timeout=0))


@suite.case
async def errors_are_typed_by_their_code() -> None:
    async with AsyncClient(server.url) as client:
        async def of(kind: type[ApiError], request: Any) -> ApiError:
            try:
                await request
            except kind as error:
                check(type(error) is kind, error)
                return error
            raise AssertionError(kind)

        await of(UnknownField, client.submit("a", colour="red"))
        error = await of(BadRequest, client.submit("a", priority="high"))
        check(error.status == 400 and error.code == "bad_request" and "priority" in error.detail)
        await of(NotFound, client.job("01a1ed74-13da-7434-9833-f29830f6f0ea"))
        await of(StaleLease, client.lease("unknown", "complete"))
        await of(Unprocessable, client.submit(
            "a", plan={"steps": [{"id": "a", "deps": ["b"]}]}))
        await client.submit("a", 1, idempotency_key="once")
        await of(IdempotencyMismatch, client.submit("a", 2, idempotency_key="once"))
        refused = await of(BatchRefused, client.ops([
            {"op": "submit", "kind": "a"}, {"op": "complete", "token": "unknown"}], atomic=True))
        check(isinstance(refused, BatchRefused) and refused.index == 1)


class Proxy:
    """Between a client and the server. Drops the connection once it has carried a response, or a
    part of it, when it is told to."""

    def __init__(self) -> None:
        self.cuts = 0
        self.passed = 0

    async def __aenter__(self) -> Proxy:
        self.listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection("127.0.0.1", server.port)
        asking = asyncio.create_task(self._copy(reader, down))
        while data := await up.read(65536):
            if self.cuts > 0:
                self.cuts -= 1
                break
            self.passed += 1
            writer.write(data)
            await writer.drain()
        asking.cancel()
        writer.close()
        down.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@suite.case
async def a_response_that_was_lost_is_asked_for_again_and_nothing_is_done_twice() -> None:
    async with Proxy() as proxy, AsyncClient(proxy.url) as client:
        proxy.cuts = 2
        job = await client.submit("repeated", queue="repeated")
        proxy.cuts = 1
        (claim,) = await client.claim("w", queues=["repeated"], wait_ms=1000)
        proxy.cuts = 1
        await client.lease(claim["lease"]["token"], "fail", error={"message": "x"})
        check([each["id"] async for each in client.jobs(kind="repeated")] == [job["id"]])
        found = await client.job(job["id"])
        check(found["failures"] == 1 and not proxy.cuts, found)


@suite.case
async def a_stream_goes_on_where_it_was_cut() -> None:
    async with Proxy() as proxy, AsyncClient(proxy.url) as client:
        job = await client.submit("streamed", queue="streamed")
        seen = []
        async for event in client.follow(job["id"]):
            seen.append(event["version"])
            if event["type"] == "job_created":
                proxy.cuts = 1
                async with AsyncClient(server.url) as direct:
                    (claim,) = await direct.claim("w", queues=["streamed"])
                    await direct.lease(claim["lease"]["token"], "complete")
        check(seen == [1, 2, 3, 4] and proxy.cuts == 0, seen, proxy.cuts)


@suite.case
async def a_server_that_does_not_respond_is_a_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    for request in (AsyncClient(url, timeout=0.05).stats(),
                    asyncio.to_thread(Client(url, timeout=0.05).stats)):
        try:
            await request
            check(False, "it has responded")
        except RequestTimeout:
            pass
    listener.close()


@suite.case
async def a_server_that_is_away_is_a_lost_connection() -> None:
    url = f"http://127.0.0.1:{trouble.free_port()}"
    for request in (AsyncClient(url, timeout=0.5).stats(),
                    asyncio.to_thread(Client(url, timeout=0.5).stats)):
        try:
            await request
            check(False, "there is one")
        except ConnectionLost:
            pass


@suite.plain
def a_url_that_is_none_is_refused() -> None:
    for url in ("sqlite:pawl.db", "http://", "127.0.0.1:7295"):
        raises(ValueError, lambda: Pawl(url))


@suite.plain
def clients_are_safe_for_threads() -> None:
    client = Client(server.url)
    faults: list[BaseException] = []

    def submit() -> None:
        try:
            for _ in range(10):
                client.submit("threads", queue="threads")
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not faults, faults)
    check(len(list(client.jobs(kind="threads", limit=7))) == 80)
    client.close()


@suite.case
async def an_application_outlives_its_event_loops() -> None:
    app = Pawl(server.url)

    def twice() -> None:
        for _ in range(2):
            asyncio.run(app.submit("loops", queue="loops"))

    await asyncio.to_thread(twice)
    check(len([each async for each in app.client.jobs(kind="loops")]) == 2)
    await app.client.close()


@suite.case
async def a_handle_tells_how_its_job_ended() -> None:
    app = Pawl(server.url)
    handle = await app.submit("handled", queue="handled", key="h", priority=3, max_attempts=1)
    again = await app.submit("handled", queue="handled", key="h")
    check(handle.id == again.id)
    (claim,) = await app.client.claim("w", queues=["handled"])
    await app.client.lease(claim["lease"]["token"], "fail",
                           error={"message": "broken", "class": "permanent"})
    try:
        await app.handle(handle.id).result()
        check(False, "it has not failed")
    except JobFailed as error:
        check(error.error["message"] == "broken" and "broken" in str(error), error)
    check([event["type"] async for event in handle.events()][-1] == "job_failed")
    await app.client.close()


suite.run()
