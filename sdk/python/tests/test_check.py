#!/usr/bin/env python3
"""pawl-worker check: stored histories against new code.

usage: test_check.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Callable

from case import SDK, Suite, check, trouble
from pawl import Context, EffectFailed, NotDone, Pawl, SyncContext, replay, testing

suite = Suite()
called: list[str] = []


class Declined(Exception):
    """A failure that is a result."""


async def fetch(name: str) -> str:
    called.append(f"fetch {name}")
    return name.upper()


async def pay(cents: int) -> int:
    called.append(f"pay {cents}")
    return cents


async def refuse() -> None:
    raise NotDone("busy")


async def decline() -> None:
    raise Declined("declined")


async def first_version(ctx: Context, name: str) -> int:
    await ctx.effect("fetch", fetch, name)
    await ctx.now()
    try:
        await ctx.effect("busy", refuse)
    except NotDone:
        pass
    try:
        await ctx.effect("card", decline, record=(Declined,))
    except EffectFailed:
        pass
    await ctx.gather(ctx.effect("a", pay, 1), ctx.effect("b", pay, 2))
    await ctx.sleep("1d")
    await ctx.progress(1)
    await ctx.wait("go")
    return await ctx.effect("last", pay, 3)


async def longer(ctx: Context, name: str) -> int:
    await first_version(ctx, name)
    return await ctx.effect("afterwards", pay, 4)


def blocking(ctx: SyncContext, name: str) -> int:
    ctx.effect("fetch", lambda _: "", name)
    ctx.now()
    return 1


async def other_input(ctx: Context, name: str) -> str:
    return await ctx.effect("fetch", fetch, name + "!")


async def renamed(ctx: Context, name: str) -> str:
    return await ctx.effect("get", fetch, name)


async def shorter(ctx: Context, name: str) -> str:
    return await ctx.effect("fetch", fetch, name)


async def replayed(app: Pawl, handler: Callable[..., Any]) -> list[str | None]:
    changed = Pawl()
    changed.job("order")(handler)
    return [each.problem async for each in replay.check(app.client, changed.jobs, app.codec)]


@suite.case
async def code_that_goes_on_from_the_history_fits_and_runs_nothing() -> None:
    app = Pawl()
    order = app.job("order")(first_version)
    async with testing.start(app, binary=str(trouble.PAWL)) as env:
        await app.submit(order, "ada")
        await env.advance("2d")
        never_begun = await app.submit(order, "bob")
        before = list(called)
        check(await replayed(app, first_version) == [None])
        check(await replayed(app, longer) == [None])
        check(called == before, called)
        (problem,) = await replayed(app, other_input)
        check('effect "fetch" was recorded with another input' in (problem or ""), problem)
        (problem,) = await replayed(app, renamed)
        check('"fetch" is recorded' in (problem or "") and "in all" in (problem or ""), problem)
        (problem,) = await replayed(app, shorter)
        check('"pawl:now:1" is recorded' in (problem or ""), problem)
        (problem,) = await replayed(app, blocking)
        check('"busy" is recorded' in (problem or ""), problem)
        check(await never_begun.status() == "queued")


@suite.case
async def a_fresh_start_forgets_what_was_recorded() -> None:
    app = Pawl()

    @app.job("order", max_attempts=1, retry={"on_exhausted": "fail"})
    async def failing(ctx: Context, name: str) -> None:
        await ctx.effect("fetch", fetch, name)
        raise RuntimeError("no")

    async with testing.start(app, binary=str(trouble.PAWL)) as env:
        handle = await app.submit(failing, "ada")
        await env.settle()
        check(await replayed(app, renamed) == [])
        await handle.job()
        await app.client.requeue(handle.id, fresh=True)
        check(await replayed(app, renamed) == [None])


@suite.plain
def the_command_prints_what_does_not_fit() -> None:
    server = trouble.Server(trouble.fresh_sqlite())
    code = ("from pawl import Context, Pawl\n"
            "app = Pawl(timeout=1.0)\n"
            "async def send(text: str) -> None: pass\n"
            "@app.job('mail')\n"
            "async def mail(ctx: Context) -> None:\n"
            "    await ctx.effect('send', send, 'hello')\n"
            "    await ctx.sleep('1d')\n")
    path = f"{trouble.place}/mails.py"
    env = {**os.environ, "PYTHONPATH": SDK, "PAWL_STORE": server.url}

    def write(text: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def command(*words: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "pawl.cli", *words], text=True, timeout=60,
                              capture_output=True, env=env, cwd=trouble.place)
        return done.returncode, done.stdout + done.stderr

    write(code)
    worker = trouble.start(sys.executable, "-m", "pawl.cli", "mails:app", cwd=trouble.place,
                           env=env, stderr=subprocess.DEVNULL)
    app = Pawl(server.url)
    id = app.sync.submit("mail").id
    trouble.until("the sleep", lambda: app.sync.client.job(id)["status"] == "parked")
    worker.terminate()
    worker.wait(60)
    status, said = command("check", "mails:app")
    check(status == 0 and "1 jobs with 1 recorded calls replayed, 0 do not fit" in said, said)
    write(code.replace("hello", "goodbye"))
    status, said = command("check", "mails:app")
    check(status == 1 and f"mail {id}: " in said and "another input" in said, status, said)
    server.end()
    status, said = command("check", "mails:app")
    check(status == 5, status, said)


suite.run()
