"""What the tests of the SDK share: servers and stores (those of tests/server/trouble.py), the
package from the source tree, and workers that run in the test's process.

Tests get the build directory and the source directory as arguments.
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any, AsyncGenerator, Awaitable, Callable

SOURCE = os.path.abspath(sys.argv[2])
SDK = os.path.join(SOURCE, "sdk", "python")
sys.path[:0] = [os.path.join(SOURCE, "tests", "server"), SDK]

import trouble as trouble  # noqa: E402
from pawl import Pawl  # noqa: E402

check = trouble.check
PATIENCE_S: float = trouble.PATIENCE_S


@contextlib.asynccontextmanager
async def working(app: Pawl, **options: Any) -> AsyncGenerator[asyncio.Task[None], None]:
    """A worker of the application, which drains in the end."""
    task = asyncio.create_task(app.run(handle_signals=False, **options))
    try:
        yield task
    finally:
        app.stop()
        await asyncio.wait_for(task, PATIENCE_S)


async def until(what: str, condition: Callable[[], Awaitable[Any]]) -> Any:
    """Waits until something is true, and gives it."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while not (found := await condition()):
        check(asyncio.get_running_loop().time() < end, what, "has not come")
        await asyncio.sleep(0.005)
    return found


class Suite:
    """Tests that are coroutines, in their order."""

    def __init__(self) -> None:
        self._tests: list[Callable[[], None]] = []

    def case(self, test: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        def run() -> None:
            asyncio.run(asyncio.wait_for(test(), PATIENCE_S))

        run.__name__ = test.__name__
        self._tests.append(run)
        return test

    def plain(self, test: Callable[[], None]) -> Callable[[], None]:
        """A test that is an ordinary function."""
        self._tests.append(test)
        return test

    def run(self) -> None:
        trouble.run(*self._tests)


def raises(kind: type[BaseException], call: Callable[[], Any]) -> Any:
    """The error that a call must raise."""
    try:
        found = call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised, but there is {found!r}")
