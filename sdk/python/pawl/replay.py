"""Replays the histories of stored jobs against the code that is here, before it is deployed:
`pawl-worker check`.

A handler runs from its first line with the effects and waits that its job recorded. Nothing is
executed and nothing is sent: the replay ends at the first call that has no record. The code fits
when it has asked for everything that is recorded, with the same inputs, by then.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import inspect
from typing import Any, AsyncIterator, Mapping, Sequence

from .client import AsyncClient
from .codec import Codec
from .durable import Attempt, Context, EffectCall, SyncContext
from .errors import CodecError, NotDone, ReplayMismatch, Suspend, UsageError
from .threads import Threads
from .types import Event, Job as JobFields
from .worker import Job

LIVE = "queued,running,waiting,parked,retrying"


@dataclasses.dataclass
class Checked:
    """A job whose history was replayed. `problem` says what does not fit; None: all does."""

    job: JobFields
    calls: int
    problem: str | None


class _EndOfHistory(BaseException):
    """Unwinds a handler that did something new."""


class _Replay(Attempt):
    """An attempt that only remembers."""

    async def send(self, *ops: dict[str, Any]) -> list[Any]:
        if all(op["op"] == "heartbeat" for op in ops):  # progress
            return [{} for _ in ops]
        raise _EndOfHistory

    async def begin(self, call: EffectCall[Any]) -> bool:
        known = self.effects.get(call.key, {})
        if known.get("status") == "aborted":  # it did not happen, and the handler learned that
            raise NotDone((known.get("error") or {}).get("message", ""))
        raise _EndOfHistory

    def unused(self) -> list[str]:
        """What is recorded and was not asked for, in the order of the history."""
        return [key for key in (*self.effects, *self.waits) if key not in self._keys]


def maps_of(events: Sequence[Event]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The effects and waits of a history since its last fresh start, as a claim has them."""
    effects: dict[str, Any] = {}
    waits: dict[str, Any] = {}
    doubts: set[str] = set()
    for event in events:
        payload, type = event.get("payload") or {}, event["type"]
        key = payload.get("key", "")
        if type == "job_requeued" and payload.get("fresh"):
            effects, waits = {}, {}
        elif type == "tool_called":
            effects[key] = {"status": "open", "input_hash":
                            payload.get("fingerprint") or payload.get("input_hash")}
        elif type == "tool_returned" and key in effects:
            effects[key].update(status="recorded", result=payload.get("result"),
                                error=payload.get("error"))
        elif type == "tool_aborted" and key in effects:
            effects[key].update(status="aborted", error=payload.get("error"))
        elif type == "job_waiting" and payload.get("effect"):
            doubts.add(payload["correlation_key"])
        elif type == "wait_completed" and payload["correlation_key"] not in doubts:
            waits[payload["correlation_key"]] = payload
    return effects, waits


async def replay(job: JobFields, events: Sequence[Event], handler: Job, codec: Codec) -> Checked:
    """Replays one job."""
    effects, waits = maps_of(events)
    at = datetime.datetime.now(datetime.timezone.utc)
    attempt = _Replay({"job": {**job, "cancel_requested": False}, "effects": effects,
                       "waits": waits, "lease": {"token": "", "attempt": job["attempt"]}},
                      codec, _never, lambda: at)
    checked = Checked(job, len(effects) + len(waits), None)
    try:
        arguments = ([] if handler.payload is inspect.Parameter.empty
                     else [codec.decode(job.get("payload"), handler.payload)])
        if handler.is_async:
            await handler.handler(Context(attempt, Threads()), *arguments)
        else:
            threads = Threads()
            await threads.run(handler.handler, SyncContext(
                attempt, threads, asyncio.get_running_loop()), *arguments)
    except (ReplayMismatch, UsageError, CodecError) as error:
        checked.problem = str(error)
    except (Exception, Suspend, _EndOfHistory, asyncio.CancelledError):
        pass  # the handler has gone as far as the history does, or fails as it may
    unused = attempt.unused()
    if checked.problem is None and unused:
        checked.problem = (f'"{unused[0]}" is recorded, and the code does not ask for it any more'
                           + (f' ({len(unused)} in all)' if len(unused) > 1 else ""))
    return checked


async def _never(*ops: dict[str, Any]) -> list[Any]:
    raise AssertionError(f"a replay sends nothing: {ops}")


async def check(client: AsyncClient, handlers: Mapping[str, Job], codec: Codec, *,
                status: str = LIVE, limit: int = 1000) -> AsyncIterator[Checked]:
    """Replays jobs of all handlers that were begun, the newest of each kind first, at most `limit`
    of each."""
    for kind, handler in sorted(handlers.items()):
        found = 0
        async for listed in client.jobs(kind=kind, status=status, include="payload"):
            if listed["attempt"] == 0 or listed.get("plan") is not None:
                continue
            events = [event async for event in client.events(listed["id"])]
            yield await replay(listed, events, handler, codec)
            found += 1
            if found == limit:
                break
