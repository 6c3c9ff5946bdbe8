"""What the handlers of a worker send, many operations in one request.

Nothing is delayed to fill a request: an operation leaves at once when fewer than `_IN_FLIGHT_MOST`
requests are under way, and otherwise with the next one. So a quiet worker has the latency of single
requests, and a busy one few requests. Handlers that were resumed together would go on in step, and
worker and server would work in turns: so when nothing is under way, half of many operations leave
first. A request that ends leases asks for new work too: one commit ends some jobs and claims the
next.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from typing import Any, Protocol, Sequence

from .client import AsyncClient
from .errors import ApiError, PawlError, PayloadTooLarge, TryLater, api_error
from .http import to_bytes

log = logging.getLogger("pawl.worker")

_IN_FLIGHT_MOST = 2
_OPS_MOST = 500
_SPLIT_LEAST = 32
_BYTES_MOST = 4 << 20
_BODY_BYTES_MOST = 8 << 20  # what the server reads of a request; it closes the connection then
_REQUEST_TIMEOUT_S = 60.0
ENDS = frozenset({"complete", "fail", "wait", "release", "cancelled", "abandon", "verdict"})


class Refill(Protocol):
    """Who claims with what is sent."""

    def ask(self) -> dict[str, Any] | None:
        """The claim that goes along; None: no work is wanted. `take` is called once for each."""

    def take(self, asked: dict[str, Any], claims: list[Any]) -> None:
        """What it has brought; nothing when the request failed."""


class _Parcel:
    """Operations that go together, and who waits for them."""

    __slots__ = ("ops", "results")

    def __init__(self, ops: tuple[dict[str, Any], ...],
                 results: asyncio.Future[list[Any]]) -> None:
        self.ops, self.results = ops, results

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

    def __init__(self, client: AsyncClient, refills: Sequence[Refill]) -> None:
        self._client, self._refills = client, refills
        self._waiting: collections.deque[_Parcel] = collections.deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._active = 0  # senders that will look at _waiting again; a task is done later than that
        self._under_way = 0
        self._loop = asyncio.get_running_loop()

    async def send(self, *ops: dict[str, Any]) -> list[Any]:
        """Sends operations in one commit and gives their responses. They are repeated until the
        server has responded; raises the error of the first that was refused."""
        results: asyncio.Future[list[Any]] = self._loop.create_future()
        self._waiting.append(_Parcel(ops, results))
        if self._active < _IN_FLIGHT_MOST:
            self._active += 1
            sender = self._loop.create_task(self._drain())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        # A handler that is cancelled here does not take back what it has sent.
        return await results

    def close(self) -> None:
        """Gives up what was not sent."""
        for sender in self._senders:
            sender.cancel()

    async def _drain(self) -> None:
        try:
            await self._send_waiting()
        finally:
            self._active -= 1

    async def _send_waiting(self) -> None:
        while self._waiting:
            most = len(self._waiting)
            if self._under_way == 0 and most >= _SPLIT_LEAST:
                most = (most + 1) // 2
            parcels: list[_Parcel] = []
            count = 0
            while self._waiting and len(parcels) < most and count < _OPS_MOST:
                parcels.append(self._waiting.popleft())
                count += len(parcels[-1].ops)
            self._under_way += 1
            try:
                await self._post(parcels)
            finally:
                self._under_way -= 1

    async def _post(self, parcels: list[_Parcel]) -> None:
        ops = [op for parcel in parcels for op in parcel.ops]
        asked: list[tuple[Refill, dict[str, Any]]] = []
        if any(op["op"] in ENDS for op in ops):
            asked = [(refill, claim) for refill in self._refills
                     if (claim := refill.ask()) is not None]
        claims: list[Any] = [[] for _ in asked]
        try:
            body = to_bytes({"ops": [*ops, *(claim for _, claim in asked)]})
            most = _BYTES_MOST if len(parcels) > 1 else _BODY_BYTES_MOST
            if len(body) > most:
                raise PayloadTooLarge(413, {"code": "payload_too_large", "detail":
                                            f"the request has {len(body)} bytes;"
                                            f" at most {most} are allowed"})
            results = await self._client.send_ops(body, timeout=_REQUEST_TIMEOUT_S)
            claims = [result["body"]["claims"] if result["status"] == 200 else []
                      for result in results[len(ops):]]
        except (ApiError, TypeError, ValueError) as error:
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
            at = 0
            for parcel in parcels:
                parcel.settle(results[at:at + len(parcel.ops)])
                at += len(parcel.ops)
        finally:
            for (refill, claim), found in zip(asked, claims):
                refill.take(claim, found)
