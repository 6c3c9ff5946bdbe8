"""The worker of the conformance cases: runs programs (sdk/conformance/README.md) and dies when it
is told to. A module of its own, for processes that do nothing else."""
from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import signal
from typing import Any, Coroutine, Generator

from pawl import Context, EffectFailed, NotDone, Pawl, WaitTimeout
from pawl.http import AsyncTransport, Endpoint, Request


class Counted:
    """Awaits a coroutine, and kills the process when a handler, or a task that it started, awaits
    for the time with a number."""

    left = 0
    is_handler: contextvars.ContextVar[bool] = contextvars.ContextVar("is_handler", default=False)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        step = functools.partial(self._coroutine.send, None)
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            Counted.left -= 1
            if Counted.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                step = functools.partial(self._coroutine.send, (yield awaited))
            except BaseException as error:
                step = functools.partial(self._coroutine.throw, error)

    @classmethod
    def task(cls, loop: asyncio.AbstractEventLoop, coroutine: Any,
             **options: Any) -> asyncio.Task[Any]:
        """Makes a task: the loop's factory."""
        if cls.is_handler.get():
            coroutine = _awaiting(cls(coroutine))
        return asyncio.Task(coroutine, loop=loop, **options)


async def _awaiting(counted: Counted) -> Any:
    return await counted


class Killing(AsyncTransport):
    """Kills the process before or after the request with a number."""

    def __init__(self, endpoint: Endpoint, number: int, side: str) -> None:
        super().__init__(endpoint)
        self._left, self._side = number, side

    async def request(self, request: Request) -> Any:
        self._left -= 1
        is_last = self._left == 0
        if is_last and self._side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        response = await super().request(request)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return response


class Ledger:
    """What has happened in the world, line by line."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, line: str) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def lines(self) -> list[str]:
        try:
            with open(self._path, encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


class Declined(Exception):
    """A failure that is a result."""


class Program:
    """One run of a program."""

    def __init__(self, ctx: Context, program: dict[str, Any], ledger: Ledger) -> None:
        self._ctx, self._program, self._ledger = ctx, program, ledger

    async def run(self) -> list[Any]:
        outcomes: list[Any] = []
        try:
            for step in self._program["steps"]:
                outcomes += await getattr(self, f"_{step['do']}")(step)
        except asyncio.CancelledError:
            if self._ctx.cancelled and "cleanup" in self._program:
                await self._ctx.effect(self._program["cleanup"], self._call,
                                       {"key": self._program["cleanup"], "value": 0})
            raise
        return outcomes

    async def _call(self, step: dict[str, Any], _: Any = None) -> Any:
        key, fails = step["key"], step.get("fails")
        if fails and f"{key}!" not in self._ledger.lines():
            self._ledger.write(f"{key}!")
            raise {"not_done": NotDone("busy"), "recorded": Declined("declined"),
                   "other": RuntimeError("lost")}[fails]
        self._ledger.write(key)
        return step["value"]

    async def _effect(self, step: dict[str, Any]) -> list[Any]:
        given = [self._ctx.attempt] if step.get("input") == "attempt" else []
        try:
            return [await self._ctx.effect(
                step["key"], self._call, step, *given, in_doubt=step.get("in_doubt"),
                record=(Declined,))]
        except EffectFailed as error:
            return [error.error["message"]]

    async def _gather(self, step: dict[str, Any]) -> list[Any]:
        return [await self._ctx.gather(*(
            self._ctx.effect(each["key"], self._call, each, in_doubt=each.get("in_doubt"))
            for each in step["effects"]))]

    async def _sleep(self, step: dict[str, Any]) -> list[Any]:
        await self._ctx.sleep(step["duration"])
        return []

    async def _wait(self, step: dict[str, Any]) -> list[Any]:
        try:
            return [await self._ctx.wait(step["key"], step.get("timeout"))]
        except WaitTimeout:
            return ["timeout"]

    async def _ask(self, step: dict[str, Any]) -> list[Any]:
        answer = await self._ctx.ask(step["key"], step["prompt"], step.get("choices"),
                                     timeout=step.get("timeout"), default=step.get("default"))
        return [[answer.value, answer.by, answer.comment, answer.timed_out]]

    async def _record(self, _: dict[str, Any]) -> list[Any]:
        await self._ctx.now()
        await self._ctx.random()
        await self._ctx.uuid()
        return []

    async def _block(self, _: dict[str, Any]) -> list[Any]:
        if self._ctx.attempt == 1:
            self._ledger.write("blocked")
            await asyncio.Event().wait()
        return []

    async def _fail(self, _: dict[str, Any]) -> list[Any]:
        if self._ctx.attempt == 1:
            raise RuntimeError("the first attempt fails")
        return []


def main(url: str, kind: str, ledger_path: str, lease_ttl: str, kill_at: int = 0,
         side: str = "") -> None:
    """Works until SIGTERM, or until it is killed."""
    app = Pawl(url, transport=lambda endpoint: Killing(
        endpoint, 0 if side == "await" else kill_at, side))
    ledger = Ledger(ledger_path)

    @app.job(kind)
    async def run(ctx: Context, program: Any) -> Any:
        Counted.is_handler.set(True)
        return await Counted(Program(ctx, program, ledger).run())

    async def work() -> None:
        if side == "await":
            Counted.left = kill_at
            asyncio.get_running_loop().set_task_factory(Counted.task)
        await app.run(concurrency=1, lease_ttl=lease_ttl, drain_timeout=0.1)

    asyncio.run(work())
