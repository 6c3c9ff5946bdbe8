#!/usr/bin/env python3
"""pawl.testing: a server with a manual clock and a worker in the test's process.

usage: test_testing.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import time

from case import PATIENCE_S, Suite, check, trouble
from pawl import Context, Pawl, WaitTimeout
from pawl import testing

suite = Suite()
BINARY = str(trouble.PAWL)
DAYS_MOST_S = 0.1


def reminders() -> tuple[Pawl, list[str]]:
    """An application whose job lasts for a month, and what it did."""
    app, did = Pawl(), list[str]()

    async def send(what: str) -> str:
        did.append(what)
        return what

    @app.job("remind", max_attempts=5, retry={"strategy": "fixed", "initial_ms": 60_000,
                                              "jitter": "none"})
    async def remind(ctx: Context, customer: str) -> list[str]:
        sent = []
        for number in range(3):
            sent.append(await ctx.effect(f"send-{number}", send, f"{customer} {number}"))
            await ctx.sleep("10d")
        if ctx.attempt < 6:
            raise RuntimeError("not yet")
        return [*sent, (await ctx.now()).isoformat()]

    return app, did


async def thirty_days() -> tuple[list[str], list[str], list[str], float]:
    """Sleeps, retries and a lease that is lost, in a month of the server's."""
    app, did = reminders()
    async with testing.start(app, binary=BINARY) as env:
        began = time.perf_counter()
        handle = await app.submit(app.jobs["remind"], "ada")
        lost = await app.client.claim("crashes", kinds=["remind"])
        check(lost[0]["lease"]["attempt"] == 1, lost)
        await env.advance("31d")
        result = await handle.result(timeout=PATIENCE_S)
        history = [f"{event['at']} {event['type']}"
                   async for event in app.client.events(handle.id)]
        return result, did, history, time.perf_counter() - began


@suite.case
async def a_month_passes_in_a_tenth_of_a_second() -> None:
    result, did, history, took_s = await thirty_days()
    check(did == ["ada 0", "ada 1", "ada 2"], did)
    check(result[:3] == did and result[3].startswith("2000-01-31T00:0"), result)
    check(sum("job_leased" in each for each in history) == 6, history)
    check(any("job_requeued" in each for each in history), history)
    took_s = min([took_s] + [(await thirty_days())[3] for _ in range(4)])
    check(took_s < DAYS_MOST_S, f"a month takes {took_s:.3f} s")
    print(f"a month took {took_s * 1000:.0f} ms")


@suite.case
async def it_is_the_same_a_hundred_times() -> None:
    first = (await thirty_days())[:3]
    for number in range(99):
        check((await thirty_days())[:3] == first, "another history in run", number)


@suite.case
async def a_wait_times_out_when_the_clock_says_so() -> None:
    app = Pawl()

    @app.job("approve")
    async def approve(ctx: Context) -> str:
        try:
            return str(await ctx.wait("go", "7d"))
        except WaitTimeout:
            return "too late"

    async with testing.start(app, binary=BINARY) as env:
        late, signalled = await app.submit(approve), await app.submit(approve)
        await env.advance("6d")
        check(await late.status() in ("waiting", "parked"), await late.status())
        await signalled.signal("go", "yes")
        await env.settle()
        check(await signalled.result(timeout=PATIENCE_S) == "yes")
        await env.advance("1d")
        check(await late.result(timeout=PATIENCE_S) == "too late")
        check((await env.history(late))[-1] == "job_completed", await env.history(late))


@suite.case
async def other_versions_of_the_code_leave_pinned_jobs_alone() -> None:
    app = Pawl()

    @app.job("agent")
    async def agent(ctx: Context) -> int:
        await ctx.sleep("1d")
        return ctx.attempt

    async with testing.start(app, binary=BINARY, code_version="v41") as env:
        await app.client.put_kind("agent", pin=True)
        handle = await app.submit(agent)
        await env.settle()
        other = testing.Environment(app, code_version="v42")
        await app.client.advance_clock(ms=24 * 3600 * 1000)
        check(await other.settle() == 0, "v42 has run a job of v41")
        check((await app.client.kind_versions("agent"))["versions"]
              == [{"code_version": "v41", "jobs": 1}])
        check(await env.settle() == 1)
        check(await handle.result(timeout=PATIENCE_S) == 2)


@suite.plain
def ordinary_tests_have_it_too() -> None:
    app, did = reminders()
    before = app.endpoint
    with testing.Sync(app, binary=BINARY) as env:
        handle = app.sync.submit(app.jobs["remind"], "bob")
        env.settle()
        check(did == ["bob 0"] and env.now().isoformat() == "2000-01-01T00:00:00+00:00", did)
        env.advance("25d")
        check(did == ["bob 0", "bob 1", "bob 2"], did)
        check(env.history(handle).count("job_waiting") == 3, env.history(handle))
    check(app.endpoint == before)


suite.run()
