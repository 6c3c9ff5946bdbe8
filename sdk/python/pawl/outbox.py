"""What the handlers of a worker send, many operations in one request.

Nothing is delayed to fill a request: an operation leaves at once when fewer than `_IN_FLIGHT_MOST`
requests are under way, and otherwise with the next one. So a quiet worker has the latency of single
requests, and a busy one few requests. A request that ends leases asks for new work too: one commit
ends some jobs and claims the next.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from typing import Any, Protocol

from .client import AsyncClient
from .errors import ApiError, PawlError, TryLater, api_error
from .http import to_bytes

log = logging.getLogger("pawl.worker")

_IN_FLIGHT_MOST = 2
_OPS_MOST = 500
_BYTES_MOST = 4 << 20
_REQUEST_TIMEOUT_S = 60.0
ENDS = frozenset({"complete", "fail", "wait", "release", "cancelled", "abandon"})


class Refill(Protocol):
    """Who claims with what is sent."""

    def ask(self) -> dict[str, Any] | None:
        """The claim that goes along; None: no work is wanted. `take` is called once for each."""

    def take(self, asked: dict[str, Any], claims: list[Any]) -> None:
        """What it has brought; nothing when the request failed."""


class _Parcel:
    """Operations that go together, and who waits for them."""

    def __init__(self, ops: tuple[dict[str, Any], ...]) -> None:
        self.ops = [to_bytes(op) for op in ops]
        self.size = sum(map(len, self.ops))
        self.ends = any(op["op"] in ENDS for op in ops)
        self.results: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def settle(self, results: list[dict[str, Any]]) -> None:
        """The bodies of the results, or the error of the first that was refused."""
        if self.results.done():
            return
        for result in results:
            if result["status"] >= 400:
                self.results.set_exception(api_error(result["status"], result["body"]))
                return
        self.results.set_result([result["body"] for result in results])

    def fail(self, error: Exception) -> None:
        if not self.results.done():
            self.results.set_exception(error)


class Outbox:
    """Belongs to one event loop."""

    def __init__(self, client: AsyncClient, refill: Refill) -> None:
        self._client, self._refill = client, refill
        self._waiting: collections.deque[_Parcel] = collections.deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def send(self, *ops: dict[str, Any]) -> list[Any]:
        """Sends operations in one commit and gives their responses. They are repeated until the
        server has responded; raises the error of the first that was refused."""
        parcel = _Parcel(ops)
        self._waiting.append(parcel)
        if len(self._senders) < _IN_FLIGHT_MOST:
            sender = asyncio.create_task(self._drain())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        # A handler that is cancelled does not take back what is under way.
        return await asyncio.shield(parcel.results)

    def close(self) -> None:
        """Gives up what was not sent."""
        for sender in self._senders:
            sender.cancel()

    async def _drain(self) -> None:
        while self._waiting:
            parcels: list[_Parcel] = []
            count = size = 0
            while self._waiting and (not parcels or (
                    count + len(self._waiting[0].ops) <= _OPS_MOST
                    and size + self._waiting[0].size <= _BYTES_MOST)):
                parcel = self._waiting.popleft()
                parcels.append(parcel)
                count, size = count + len(parcel.ops), size + parcel.size
            await self._post(parcels)

    async def _post(self, parcels: list[_Parcel]) -> None:
        ops = [op for parcel in parcels for op in parcel.ops]
        claim = self._refill.ask() if any(parcel.ends for parcel in parcels) else None
        claims: list[Any] = []
        try:
            more = [] if claim is None else [to_bytes(claim)]
            results = await self._client.send_ops(ops + more, timeout=_REQUEST_TIMEOUT_S)
            if claim is not None and results[-1]["status"] == 200:
                claims = results[-1]["body"]["claims"]
        except ApiError as error:
            if isinstance(error, TryLater) or len(parcels) == 1:
                for parcel in parcels:
                    parcel.fail(error)
                return
            for parcel in parcels:  # one of them is to blame
                await self._post([parcel])
        except PawlError as error:
            for parcel in parcels:
                parcel.fail(error)
        else:
            for parcel in parcels:
                settled, results = results[:len(parcel.ops)], results[len(parcel.ops):]
                parcel.settle(settled)
        finally:
            if claim is not None:
                self._refill.take(claim, claims)
