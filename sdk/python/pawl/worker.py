"""The worker: claims jobs and steps, runs their handlers, and reports what came of them.

Happy path: register, claim as much as there are free slots, run each handler in a task (a `def`
handler in a thread), send its outcome through the outbox, claim again. Heartbeats come from their
own thread. A worker that has step functions is a resource, too.

- The server is away: requests are repeated; the worker goes on when it is back.
- A lease is lost: the handler is cancelled, and nothing is reported.
- The job is to be cancelled: `Cancelled` in the handler, not inside an effect.
- SIGTERM or `stop()`: no more claims; handlers may end until `drain_timeout` is over, then their
  leases are released, which costs no retry.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import inspect
import logging
import os
import signal
import socket
import threading
import uuid
from typing import Any, Callable, Mapping, Sequence

from . import tracing
from .claims import Source
from .client import AsyncClient
from .codec import Codec
from .durable import Attempt, Context, State, SyncContext, error_fields
from .durations import to_ms
from .errors import (ApiError, CodecError, ConnectionLost, PawlError, Permanent, ReplayMismatch,
                     RequestTimeout, ResourceFailed, Retry, StaleLease, Suspend, SuspendSwallowed,
                     TryLater, UsageError, Validation)
from .heartbeats import Heartbeats
from .outbox import Outbox
from .sync_client import Client
from .plans import Verdict
from .threads import Threads

log = logging.getLogger("pawl.worker")

REGISTRATION_MS = 60_000

Handler = Callable[..., Any]


def _system_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


class Job:
    """What a worker runs for a kind: the handler, and the types that go in and out."""

    def __init__(self, kind: str, handler: Handler, payload: Any) -> None:
        self.kind, self.handler, self.payload = kind, handler, payload
        self.is_async = inspect.iscoroutinefunction(handler)


@dataclasses.dataclass
class Handlers:
    """What a worker can do, by kind: jobs, steps of plans, and results of steps to judge."""

    jobs: Mapping[str, Job]
    steps: Mapping[str, Job]
    judges: Mapping[str, Job]

    def only(self, kinds: Sequence[str]) -> Handlers:
        """Those of some kinds. Raises ValueError for a kind that nobody handles."""
        unknown = sorted(set(kinds) - {*self.jobs, *self.steps, *self.judges})
        if unknown or not (self.jobs or self.steps or self.judges):
            raise ValueError(f"no function for kind {', '.join(unknown) or 'any'}")
        return self if not kinds else Handlers(*(
            {kind: job for kind, job in part.items() if kind in kinds}
            for part in (self.jobs, self.steps, self.judges)))


class Worker:
    """Runs until it is stopped. One event loop, one run."""

    def __init__(self, client: AsyncClient, heartbeat_client: Client, handlers: Handlers,
                 codec: Codec, *, concurrency: int, queues: Sequence[str], kinds: Sequence[str],
                 worker_id: str | None, drain_timeout: float, lease_ttl_ms: int | None,
                 code_version: str | None, resource: Mapping[str, Any]) -> None:
        handlers = handlers.only(kinds)
        self.id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._client, self._codec = client, codec
        self._drain_timeout = drain_timeout
        self._loop = asyncio.get_running_loop()
        self.clock: Callable[[], datetime.datetime] = _system_clock  # what ctx.now() records
        self._registration: dict[str, Any] = {
            "kinds": sorted({*handlers.jobs, *handlers.steps, *handlers.judges}),
            "slots": concurrency, "ttl_ms": REGISTRATION_MS}
        options: dict[str, Any] = {"worker_id": self.id}
        if queues:
            options["queues"] = self._registration["queues"] = list(queues)
        if lease_ttl_ms is not None:
            options["lease_ttl_ms"] = lease_ttl_ms
        version: dict[str, Any] = {} if code_version is None else {"code_version": code_version}
        self._registration.update(version)
        self._resource: dict[str, Any] | None = None
        if handlers.steps:
            self._resource = {"slots": concurrency, "ttl_ms": REGISTRATION_MS, **resource}
            self._resource_id = self._resource.pop("id", self.id)
            if queues:
                self._resource["queues"] = list(queues)
        self._sources = [
            Source(client, op, part, {**options, "kinds": sorted(part), **more}, concurrency,
                   self._begin)
            for op, part, more in (
                ("claim", handlers.jobs, version),
                ("claim_steps", handlers.steps, {"resource_id": getattr(self, "_resource_id", "")}),
                ("claim_steps", handlers.judges, {"judge": True})) if part]
        self._outbox = Outbox(client, self._sources)
        self._threads = Threads()
        self._running: dict[asyncio.Task[None], Attempt] = {}
        self._handlers: dict[Attempt, asyncio.Task[None]] = {}  # of async handlers that run now
        self._heartbeats = Heartbeats(heartbeat_client, self._tell, self._register,
                                      REGISTRATION_MS / 3000)
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
            await self.register()
            log.info("worker %s: waiting for jobs of kind %s", self.id,
                     ", ".join(self._registration["kinds"]))
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

    async def register(self) -> None:
        """Tells the server about this worker, and the resource that it is."""
        await self._client.put_worker(self.id, **self._registration)
        if self._resource is not None:
            await self._client.put_resource(self._resource_id, **self._resource)

    def _register(self, client: Client) -> None:
        client.put_worker(self.id, **self._registration)
        if self._resource is not None:
            client.put_resource(self._resource_id, **self._resource)

    async def _claim_until_stopped(self) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        loops = [asyncio.create_task(source.run(stopping)) for source in self._sources]
        try:
            await asyncio.gather(*loops)
        finally:
            for source in self._sources:
                source.stop()
            for task in (stopping, *loops):
                task.cancel()

    async def _drain(self) -> None:
        self._draining = True
        if self._running:
            log.info("draining: %d handlers still running", len(self._running))
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
            log.info("not deregistered: %r", error)
        await self._client.close()

    # ---- attempts ----

    def _begin(self, source: Source, claim: Any) -> None:
        attempt = Attempt(claim, self._codec, self._outbox.send, self.clock, source.judges)
        if self._stopping.is_set():  # it came after the worker was stopped
            work = self._report(attempt, {"op": "release"})
        else:
            source.busy += 1
            self._heartbeats.add(attempt, claim["lease"]["heartbeat_ms"])
            work = self._work(source, attempt, claim)
        task = self._loop.create_task(work)
        self._running[task] = attempt
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        attempt = self._running.pop(task)
        self._heartbeats.remove(attempt)
        if not task.cancelled() and task.exception() is not None:
            log.error("job %s: not reported", attempt.job["id"], exc_info=task.exception())

    async def settle(self) -> int:
        """For tests, in place of `run`: works off all that can be claimed now, and returns when
        nothing is left. Gives how many attempts that were. Leases are not renewed meanwhile."""
        attempts = 0
        if self._resource is not None:
            await self.register()
        while True:
            before = attempts
            for source in self._sources:
                for claim in await source.claim(source.concurrency, wait_ms=0):
                    attempts += 1
                    self._begin(source, claim)
            if attempts == before:
                return attempts
            await asyncio.wait(self._running)

    # ---- one job ----

    async def _work(self, source: Source, attempt: Attempt, claim: Any) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            await self._complete_maps(attempt, claim)
            job = source.handlers[attempt.job["kind"]]
            with tracing.attempt(job.kind, claim):
                result = await self._call(job, attempt)
        except KeyboardInterrupt:
            raise
        except BaseException as caught:  # Suspend and CancelledError among them
            error = caught
        finally:
            self._handlers.pop(attempt, None)
            source.busy -= 1
            source.wake()
        op = outcome(attempt, result, error, is_draining=self._draining)
        _log_failure(attempt, op, error)
        if op is None:
            return
        if op["op"] == "release":
            attempt.lose()  # a thread may still run
        source.reports += 1
        try:
            await self._report(attempt, op)
        finally:
            source.reports -= 1
            source.wake()

    async def _complete_maps(self, attempt: Attempt, claim: Any) -> None:
        """Reads what did not fit into the claim."""
        after = claim.get("effects_next")
        while after is not None:
            page = await self._client.effects(attempt.token, after)
            attempt.effects.update(page.get("effects") or {})
            attempt.waits.update(page.get("waits") or {})
            after = page.get("effects_next")

    async def _call(self, job: Job, attempt: Attempt) -> Any:
        arguments: list[Any] = []
        if job.payload is not inspect.Parameter.empty:
            given = attempt.to_judge if attempt.is_judge else attempt.job.get("payload")
            try:
                arguments.append(self._codec.decode(given, job.payload))
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
            log.warning("job %s (%s), attempt %d failed: %s was refused: %s", attempt.job["id"],
                        attempt.job["kind"], attempt.number, op["op"], error)
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


def outcome(attempt: Attempt, result: Any, error: BaseException | None, *,
            is_draining: bool = False) -> dict[str, Any] | None:
    """What to report of a handler that has returned or raised; None: the lease is over."""
    state, closed_by = attempt.state, attempt.error
    if state in (State.LOST, State.ASKED):
        return None
    if state is State.CHANGED:
        return _dead_letter(attempt, closed_by)
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
        return (_dead_letter(attempt, error) if isinstance(error, ReplayMismatch)
                else _failure(error))
    try:
        if attempt.is_judge and isinstance(result, str):
            result = Verdict(result)
        if isinstance(result, Verdict) and attempt.step is not None:
            return {"op": "verdict", "id": attempt.job["id"], "step": attempt.step["id"],
                    **result.fields(attempt.codec.encode)}
        if attempt.is_judge:
            raise UsageError(f"a judge returns a Verdict or a decision, not {result!r:.80}")
        return {"op": "complete", "result": attempt.codec.encode(result)}
    except (CodecError, UsageError) as unfit:
        return _failure(unfit)


def _log_failure(attempt: Attempt, op: dict[str, Any] | None, error: BaseException | None) -> None:
    job = attempt.job
    if op is None:
        log.warning("job %s (%s), attempt %d: %s", job["id"], job["kind"], attempt.number,
                    attempt.error)
    elif op["op"] in ("fail", "abandon"):
        message = op["message"] if op["op"] == "abandon" else op["error"]["message"]
        log.warning("job %s (%s), attempt %d failed: %s", job["id"], job["kind"], attempt.number,
                    message, exc_info=None if isinstance(error, (Retry, Suspend)) else error)


def _failure(error: BaseException) -> dict[str, Any]:
    fields = error_fields(error)
    if isinstance(error, Permanent):
        fields["class"] = "validation" if isinstance(error, Validation) else "permanent"
    elif isinstance(error, ResourceFailed):
        fields["class"] = "resource"
    elif isinstance(error, Suspend):
        fields["message"] = "Suspend of another job"
    op: dict[str, Any] = {"op": "fail", "error": fields}
    if isinstance(error, Retry) and error.after is not None:
        op["retry_after_ms"] = to_ms(error.after)
    return op


def _dead_letter(attempt: Attempt, error: BaseException | None) -> dict[str, Any]:
    if attempt.step is not None:  # a step cannot be a dead letter: it fails
        return {"op": "fail", "error": {"class": "permanent", "type": "ReplayMismatch",
                                        "message": f"ReplayMismatch: {error}"}}
    return {"op": "abandon", "reason_code": "policy_violation", "stage": "exec",
            "message": f"ReplayMismatch: {error}"}
