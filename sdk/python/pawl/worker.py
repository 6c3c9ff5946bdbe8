"""The worker: claims jobs, runs their handlers, and reports what came of them.

Happy path: register, claim as many jobs as there are free slots, run each handler in a task (a
`def` handler in a thread), send its outcome through the outbox, claim again. Heartbeats come from
their own thread.

- The server is away: requests are repeated; the worker goes on when it is back.
- A lease is lost: the handler is cancelled, and nothing is reported.
- The job is to be cancelled: `Cancelled` in the handler, not inside an effect.
- SIGTERM or `stop()`: no more claims; handlers may end until `drain_timeout` is over, then their
  leases are released, which costs no retry.
"""

from __future__ import annotations

import asyncio
import datetime
import inspect
import logging
import os
import random
import signal
import socket
import threading
import uuid
from typing import Any, Awaitable, Callable, Mapping, Sequence

from .client import AsyncClient
from .codec import Codec
from .durable import Attempt, Context, State, SyncContext, error_fields
from .durations import to_ms
from .errors import (ApiError, CodecError, ConnectionLost, PawlError, Permanent, ReplayMismatch,
                     RequestTimeout, Retry, StaleLease, Suspend, SuspendSwallowed, TryLater,
                     Validation)
from .heartbeats import Heartbeats
from .outbox import Outbox
from .sync_client import Client
from .threads import Threads
from .types import Claim

log = logging.getLogger("pawl.worker")

CLAIM_WAIT_MS = 20_000
REGISTRATION_MS = 60_000
_CLAIM_MOST = 1000
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.05, 2.0

Handler = Callable[..., Any]


def _system_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


class Job:
    """What a worker runs for a kind: the handler, and the types that go in and out."""

    def __init__(self, kind: str, handler: Handler, payload: Any) -> None:
        self.kind, self.handler, self.payload = kind, handler, payload
        self.is_async = inspect.iscoroutinefunction(handler)


class Worker:
    """Runs until it is stopped. One event loop, one run."""

    def __init__(self, client: AsyncClient, heartbeat_client: Client, jobs: Mapping[str, Job],
                 codec: Codec, *, concurrency: int, queues: Sequence[str], kinds: Sequence[str],
                 worker_id: str | None, drain_timeout: float,
                 lease_ttl_ms: int | None, code_version: str | None) -> None:
        unknown = sorted(set(kinds) - set(jobs))
        if unknown or not jobs:
            raise ValueError(f"no job function for kind {', '.join(unknown) or 'any'}")
        self.id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._client, self._jobs, self._codec = client, jobs, codec
        self._concurrency, self._queues = concurrency, list(queues)
        self._kinds = list(kinds) or sorted(jobs)
        self._drain_timeout, self._lease_ttl_ms = drain_timeout, lease_ttl_ms
        self._code_version = code_version
        self.clock: Callable[[], datetime.datetime] = _system_clock  # what ctx.now() records
        self._outbox = Outbox(client, self)
        self._threads = Threads()
        self._running: dict[asyncio.Task[None], Attempt] = {}
        self._handlers: dict[Attempt, asyncio.Task[None]] = {}  # of async handlers that run now
        self._loop = asyncio.get_running_loop()
        self._heartbeats = Heartbeats(heartbeat_client, self._tell, self._register,
                                      REGISTRATION_MS / 3000)
        self._busy = 0  # handlers that run
        self._asked = 0  # jobs that were asked for, and have not come yet
        self._reports = 0  # outcomes that are under way
        self._is_plenty = False  # the last claim got all that it asked for
        self._slot_free = asyncio.Event()
        self._stopping = asyncio.Event()
        self._draining = False

    # ---- life ----

    async def run(self, *, handle_signals: bool) -> None:
        """Works until `stop`. Raises what no repetition mends, as Unauthorized."""
        with_signals = handle_signals and threading.current_thread() is threading.main_thread()
        if with_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._on_signal)
        self._heartbeats.start()
        try:
            await self._client.put_worker(self.id, **self._registration())
            await self._claim_until_stopped()
        finally:
            await self._drain()
            self._heartbeats.stop()
            self._outbox.close()
            if with_signals:
                for number in (signal.SIGTERM, signal.SIGINT):
                    self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Claims no more, lets handlers end, and returns from `run`. Safe from any thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            self._drain_timeout = 0.0  # a second signal: do not wait
            for task in self._running:
                task.cancel()
        self._stopping.set()

    def _registration(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kinds": self._kinds, "slots": self._concurrency,
                                  "ttl_ms": REGISTRATION_MS}
        if self._code_version is not None:
            fields["code_version"] = self._code_version
        return {**fields, "queues": self._queues} if self._queues else fields

    def _register(self, client: Client) -> None:
        client.put_worker(self.id, **self._registration())

    async def _drain(self) -> None:
        self._draining = True
        end = self._loop.time() + self._drain_timeout
        while self._running and self._loop.time() < end:
            await asyncio.wait(self._running, timeout=end - self._loop.time())
        late = dict(self._running)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=max(1.0, self._drain_timeout / 10))
        try:
            await asyncio.wait_for(self._client.delete_worker(self.id), 2.0)
        except (PawlError, asyncio.TimeoutError) as error:
            log.info("not deregistered: %s", error)
        await self._client.close()

    # ---- claims ----

    async def _claim_until_stopped(self) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        pause_s = _PAUSE_FIRST_S
        try:
            while not self._stopping.is_set():
                free = self._free()
                # While there is plenty of work, reports bring it: see `ask`.
                if free <= 0 or (self._is_plenty and self._reports > 0):
                    self._slot_free.clear()
                    await _first(self._slot_free.wait(), stopping)
                    continue
                self._asked += free
                try:
                    claims = await _first(self._claim(free), stopping)
                    pause_s = _PAUSE_FIRST_S
                    self._is_plenty = len(claims or []) == min(free, _CLAIM_MOST)
                except (ConnectionLost, RequestTimeout, TryLater) as error:
                    log.warning("claim: %s", error)
                    await _first(asyncio.sleep(pause_s * random.uniform(0.5, 1.0)), stopping)
                    pause_s = min(pause_s * 2, _PAUSE_MOST_S)
                    continue
                finally:
                    self._asked -= free
                for claim in claims or []:
                    self._begin(claim)
        finally:
            stopping.cancel()

    def _free(self) -> int:
        return self._concurrency - self._busy - self._asked

    def _claim_options(self, free: int) -> dict[str, Any]:
        options: dict[str, Any] = {"kinds": self._kinds, "max": min(free, _CLAIM_MOST)}
        if self._code_version is not None:
            options["code_version"] = self._code_version
        if self._queues:
            options["queues"] = self._queues
        if self._lease_ttl_ms is not None:
            options["lease_ttl_ms"] = self._lease_ttl_ms
        return options

    async def _claim(self, free: int, wait_ms: int = CLAIM_WAIT_MS) -> list[Claim]:
        return await self._client.claim(self.id, wait_ms=wait_ms, **self._claim_options(free))

    def ask(self) -> dict[str, Any] | None:
        """As `Refill`: a claim for the slots that are free, while there is plenty of work."""
        free = self._free()
        if free <= 0 or not self._is_plenty or self._stopping.is_set():
            return None
        options = self._claim_options(free)
        self._asked += options["max"]
        return {"op": "claim", "worker_id": self.id, **options}

    def take(self, asked: dict[str, Any], claims: list[Any]) -> None:
        """As `Refill`."""
        self._asked -= asked["max"]
        self._is_plenty = len(claims) == asked["max"]
        for claim in claims:
            if self._stopping.is_set():
                self._release(claim)
            else:
                self._begin(claim)
        self._slot_free.set()

    def _release(self, claim: Claim) -> None:
        """Gives back what came after the worker was stopped."""
        attempt = Attempt(claim, self._codec, self._outbox.send, self.clock)
        task = asyncio.create_task(self._report(attempt, {"op": "release"}))
        self._running[task] = attempt
        task.add_done_callback(self._ended)

    def _begin(self, claim: Claim) -> None:
        self._busy += 1
        attempt = Attempt(claim, self._codec, self._outbox.send, self.clock)
        self._heartbeats.add(attempt, claim["lease"]["heartbeat_ms"])
        task = asyncio.create_task(self._work(attempt, claim))
        self._running[task] = attempt
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        attempt = self._running.pop(task)
        self._heartbeats.remove(attempt)
        self._slot_free.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("job %s: not reported", attempt.job["id"], exc_info=task.exception())

    async def settle(self) -> int:
        """For tests, in place of `run`: works off all that can be claimed now, and returns when
        nothing is left. Gives how many attempts that were. Leases are not renewed meanwhile."""
        attempts = 0
        while claims := await self._claim(self._concurrency, wait_ms=0):
            attempts += len(claims)
            for claim in claims:
                self._begin(claim)
            await asyncio.wait(self._running)
        return attempts

    # ---- one job ----

    async def _work(self, attempt: Attempt, claim: Claim) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            await self._complete_maps(attempt, claim)
            result = await self._call(attempt)
        except KeyboardInterrupt:
            raise
        except BaseException as caught:  # Suspend and CancelledError among them
            error = caught
        finally:
            self._handlers.pop(attempt, None)
            self._busy -= 1
        op = outcome(attempt, result, error, is_draining=self._draining)
        if op is None:
            return
        if op["op"] == "release":
            attempt.lose()  # a thread may still run
        self._reports += 1
        try:
            await self._report(attempt, op)
        finally:
            self._reports -= 1

    async def _complete_maps(self, attempt: Attempt, claim: Claim) -> None:
        """Reads what did not fit into the claim."""
        after = claim.get("effects_next")
        while after is not None:
            page = await self._client.effects(attempt.token, after)
            attempt.effects.update(page.get("effects") or {})
            attempt.waits.update(page.get("waits") or {})
            after = page.get("effects_next")

    async def _call(self, attempt: Attempt) -> Any:
        job = self._jobs[attempt.job["kind"]]
        arguments: list[Any] = []
        if job.payload is not inspect.Parameter.empty:
            try:
                arguments.append(self._codec.decode(attempt.job.get("payload"), job.payload))
            except CodecError as error:
                raise Validation(f"the payload is not as expected: {error}") from error
        if job.is_async:
            task = asyncio.current_task()
            assert task is not None, "handlers run in a task"
            self._handlers[attempt] = task
            return await job.handler(Context(attempt, self._threads), *arguments)
        context = SyncContext(attempt, self._threads, self._loop)
        call = asyncio.wrap_future(self._threads.start(job.handler, context, *arguments))
        # A thread cannot be interrupted: its slot is taken until it returns, or the worker ends.
        return await call

    async def _report(self, attempt: Attempt, op: dict[str, Any]) -> None:
        try:
            await self._outbox.send({**op, "token": attempt.token})
        except StaleLease as error:
            log.warning("job %s: %s", attempt.job["id"], error)
        except (TryLater, ConnectionLost, RequestTimeout) as error:
            log.error("job %s: %s", attempt.job["id"], error)  # its lease will expire
        except ApiError as error:
            if op["op"] == "fail":
                raise
            fields = {**error_fields(error), "class": "permanent"}
            await self._report(attempt, {"op": "fail", "error": fields})

    # ---- cancellation ----

    def _tell(self, attempt: Attempt) -> None:
        try:
            self._loop.call_soon_threadsafe(self._interrupt, attempt)
        except RuntimeError:
            pass  # the loop has ended

    def _interrupt(self, attempt: Attempt) -> None:
        """Cancels an async handler whose lease is lost, or whose job is to be cancelled and which
        is in no effect. Any other handler learns it from its next call on the context."""
        task = self._handlers.get(attempt)
        if task is None:
            return
        if attempt.state is State.LOST:
            task.cancel()
        elif not attempt.cancel_delivered and attempt.running_effects == 0:
            attempt.cancel_delivered = True
            task.cancel()


async def _first(awaitable: Awaitable[Any], stopping: asyncio.Task[Any]) -> Any:
    """The result, or None when the worker is stopped before."""
    task = asyncio.ensure_future(awaitable)
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return task.result()
    task.cancel()
    return None


def outcome(attempt: Attempt, result: Any, error: BaseException | None, *,
            is_draining: bool = False) -> dict[str, Any] | None:
    """What to report of a handler that has returned or raised; None: the lease is over."""
    state, closed_by = attempt.state, attempt.error
    if state in (State.LOST, State.ASKED):
        return None
    if state is State.CHANGED:
        return _dead_letter(closed_by)
    if state is State.SUSPENDED:
        if error is closed_by:
            return attempt.wait
        swallowed = SuspendSwallowed("the handler caught Suspend; let it pass")
        swallowed.__cause__ = error
        return _failure(swallowed)
    if isinstance(error, asyncio.CancelledError):
        if attempt.cancel_requested:
            return {"op": "cancelled"}
        if is_draining:
            return {"op": "release"}
    if state is State.BROKEN and closed_by is not None:
        return _failure(closed_by if error is None else error)
    if error is not None:
        return _dead_letter(error) if isinstance(error, ReplayMismatch) else _failure(error)
    try:
        return {"op": "complete", "result": attempt.codec.encode(result)}
    except CodecError as unfit:
        return _failure(unfit)


def _failure(error: BaseException) -> dict[str, Any]:
    fields = error_fields(error)
    if isinstance(error, Permanent):
        fields["class"] = "validation" if isinstance(error, Validation) else "permanent"
    elif isinstance(error, Suspend):
        fields["message"] = "Suspend of another job"
    op: dict[str, Any] = {"op": "fail", "error": fields}
    if isinstance(error, Retry) and error.after is not None:
        op["retry_after_ms"] = to_ms(error.after)
    return op


def _dead_letter(error: BaseException | None) -> dict[str, Any]:
    return {"op": "abandon", "reason_code": "policy_violation", "stage": "exec",
            "message": f"ReplayMismatch: {error}"}
