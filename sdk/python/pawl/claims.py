"""Where a worker's attempts come from: jobs, steps of plans, or results of steps to judge.

Each source has slots of its own, as many as the worker's concurrency. While there is no work a
source long-polls. While there is plenty, reports bring it: the outbox asks each source for a claim
that goes along with what ends leases.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Mapping

from .client import AsyncClient
from .errors import ConnectionLost, RequestTimeout, TryLater

if TYPE_CHECKING:
    from .worker import Job

log = logging.getLogger("pawl.worker")

CLAIM_WAIT_MS = 20_000
_CLAIM_MOST = 1000
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.05, 2.0


class Source:
    """Claims for some handlers. `begin(source, claim)` is called for each; the worker counts `busy`
    and `reports`, and calls `wake` when a slot is free."""

    def __init__(self, client: AsyncClient, op: str, handlers: Mapping[str, Job],
                 options: dict[str, Any], concurrency: int,
                 begin: Callable[[Source, Any], None]) -> None:
        self.handlers = handlers
        self.judges = bool(options.get("judge"))
        self.concurrency = concurrency
        self.busy = 0  # handlers that run
        self.reports = 0  # outcomes that are under way
        self._client, self._op, self._options, self._begin = client, op, options, begin
        self._asked = 0  # attempts that were asked for, and have not come yet
        self._is_plenty = False  # the last claim got all that it asked for
        self._slot_free = asyncio.Event()
        self._is_stopped = False

    def wake(self) -> None:
        """A slot is free."""
        self._slot_free.set()

    def _free(self) -> int:
        return min(self.concurrency - self.busy - self._asked, _CLAIM_MOST)

    async def claim(self, most: int, wait_ms: int = CLAIM_WAIT_MS) -> list[Any]:
        """What can be claimed now, or within the time."""
        path = "/v1/claims" if self._op == "claim" else "/v1/steps/claims"
        body = {**self._options, "max": most, "wait_ms": wait_ms}
        response = await self._client.request("POST", path, body, wait_ms=wait_ms)
        claims: list[Any] = response["claims"]
        return claims

    async def run(self, stopping: asyncio.Task[Any]) -> None:
        """Claims until the worker is stopped."""
        pause_s = _PAUSE_FIRST_S
        while not stopping.done():
            free = self._free()
            if free <= 0 or (self._is_plenty and self.reports > 0):
                self._slot_free.clear()
                await first(self._slot_free.wait(), stopping)
                continue
            self._asked += free
            try:
                claims = await first(self.claim(free), stopping)
                pause_s = _PAUSE_FIRST_S
                self._is_plenty = len(claims or []) == free
            except (ConnectionLost, RequestTimeout, TryLater) as error:
                log.warning("claim: %s", error)
                await first(asyncio.sleep(pause_s * random.uniform(0.5, 1.0)), stopping)
                pause_s = min(pause_s * 2, _PAUSE_MOST_S)
                continue
            finally:
                self._asked -= free
            for claim in claims or []:
                self._begin(self, claim)

    def stop(self) -> None:
        """Asks for no more work."""
        self._is_stopped = True

    def ask(self) -> dict[str, Any] | None:
        """As `Refill`: a claim for the slots that are free, while there is plenty of work."""
        free = self._free()
        if free <= 0 or not self._is_plenty or self._is_stopped:
            return None
        self._asked += free
        return {**self._options, "op": self._op, "max": free}

    def take(self, asked: dict[str, Any], claims: list[Any]) -> None:
        """As `Refill`."""
        self._asked -= asked["max"]
        self._is_plenty = len(claims) == asked["max"]
        for claim in claims:
            self._begin(self, claim)
        self._slot_free.set()


async def first(awaitable: Awaitable[Any], stopping: asyncio.Task[Any]) -> Any:
    """The result, or None when the worker is stopped before."""
    task = asyncio.ensure_future(awaitable)
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return task.result()
    task.cancel()
    return None
