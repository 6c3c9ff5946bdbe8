"""Tests of durable functions in milliseconds: the production engine on a store in memory, with a
clock that the test moves, and a worker that runs in the test's process.

    async with pawl.testing.start(app) as env:
        handle = await app.submit(remind, Order(7))
        await env.advance("30d")
        assert await handle.result() == "paid"
        assert "wait_completed" in await env.history(handle)

`advance` moves the clock from one moment at which something is due to the next, and lets the worker
settle at each: a function that sleeps for ten days three times has slept when it returns. Nothing
depends on how fast the machine is.

`pawl.testing.Sync` is the same for tests that are ordinary functions; the pytest plugin has it as
the fixture `pawl_env`. The program is `pawl` in PATH, or what PAWL_BINARY names.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import os
import shutil
import subprocess
from typing import Any, AsyncGenerator, Coroutine, TypeVar, Union

from .app import Handle, Pawl
from .durations import Duration, to_ms
from .worker import Worker

T = TypeVar("T")


class Server:
    """A server on memory with a manual clock, on a free port, until `close`."""

    def __init__(self, binary: str | None = None) -> None:
        program = binary or os.environ.get("PAWL_BINARY") or shutil.which("pawl")
        if program is None:
            raise FileNotFoundError("there is no pawl in PATH; set PAWL_BINARY")
        settings = {name: value for name, value in os.environ.items()
                    if not name.startswith("PAWL_")}
        self._process = subprocess.Popen(
            [program, "serve", "--store", "memory:", "--clock", "manual", "--listen",
             "127.0.0.1:0", "--drain", "0s"], env=settings, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None, "it is a pipe"
        said: list[str] = []
        for line in self._process.stderr:
            said.append(line)
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self.url = str(json.loads(line)["url"])
                return
        self._process.wait()
        raise RuntimeError(f"the server has not started: {''.join(said)[-500:]}")

    def close(self) -> None:
        """Ends the server; nothing of it is kept."""
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


class Environment:
    """A server, a clock and a worker of an application. Made by `start`."""

    def __init__(self, app: Pawl, **worker: Any) -> None:
        self.app = app
        self._worker: Worker = app.worker(**worker)
        self._worker.clock = lambda: self._time

    async def settle(self) -> int:
        """Runs what can run now, until nothing can. Gives the number of attempts."""
        await self.now()
        return await self._worker.settle()

    async def now(self) -> datetime.datetime:
        """The time of the server, which is that of `ctx.now()` too."""
        self._time = _moment((await self.app.client.clock())["now"])
        return self._time

    async def advance(self, duration: Duration) -> datetime.datetime:
        """Moves the clock, and lets the worker settle wherever something is due. Gives the time."""
        target = await self.now() + datetime.timedelta(milliseconds=to_ms(duration))
        await self.settle()
        while True:
            state = await self.app.client.clock()
            due = target if state["next_due"] is None else _moment(state["next_due"])
            # What is overdue and was not done then cannot be done now.
            to = due if _moment(state["now"]) < due < target else target
            await self.app.client.advance_clock(to=_text(to))
            await self.settle()
            if to == target:
                return target

    async def history(self, job: Union[Handle[Any], str]) -> list[str]:
        """The types of a job's events, in their order."""
        id = job if isinstance(job, str) else job.id
        return [event["type"] async for event in self.app.client.events(id)]


@contextlib.asynccontextmanager
async def start(app: Pawl, *, binary: str | None = None,
                **worker: Any) -> AsyncGenerator[Environment, None]:
    """Starts a server, and points the application at it until the block ends. Options are those of
    `Pawl.run`: concurrency, queues, kinds, code_version."""
    server, before = Server(binary), app.endpoint
    try:
        app.connect(server.url)
        yield Environment(app, **worker)
    finally:
        await app.client.close()
        app.connect(before)
        server.close()


class Sync:
    """`start` for ordinary functions: `with pawl.testing.Sync(app) as env`."""

    def __init__(self, app: Pawl, **options: Any) -> None:
        self.app = app
        self._loop = asyncio.new_event_loop()
        self._context = start(app, **options)

    def __enter__(self) -> Sync:
        self._env = self.run(self._context.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self.run(self._context.__aexit__(*error))
        self._loop.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine of the application, as `env.run(handle.result())`."""
        return self._loop.run_until_complete(call)

    def settle(self) -> int:
        """As `Environment.settle`."""
        return self.run(self._env.settle())

    def advance(self, duration: Duration) -> datetime.datetime:
        """As `Environment.advance`."""
        return self.run(self._env.advance(duration))

    def now(self) -> datetime.datetime:
        """As `Environment.now`."""
        return self.run(self._env.now())

    def history(self, job: Any) -> list[str]:
        """As `Environment.history`, of a handle or an id."""
        return self.run(self._env.history(job if isinstance(job, str) else job.id))


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def _text(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
