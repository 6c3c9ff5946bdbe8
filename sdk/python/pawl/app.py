"""The application: job functions, submits, and the worker that runs them.

`Pawl` is for asyncio; `app.sync` has the same verbs for ordinary code. Nothing is global: two
applications in one process do not know of each other.
"""

from __future__ import annotations

import asyncio
import datetime
import inspect
import json
import os
import time
from typing import (Any, AsyncIterator, Awaitable, Callable, Generic, Iterator, Mapping, Sequence,
                    TypeVar, Union, cast, overload)

from . import tracing
from .client import AsyncClient
from .codec import Codec, JsonCodec, hints_of, result_annotation
from .durable import Context, SyncContext
from .durations import Duration, to_ms
from .errors import JobCancelled, JobDeadLettered, JobFailed
from .http import AsyncTransport, Endpoint, Transport
from .plans import Plan
from .sync_client import Client
from .terminal import SHOW_EVERY_MS, Progress
from .types import Event, InDoubt, Job as JobFields, RetryPolicy
from .worker import Handlers, Job, Worker

In = TypeVar("In")
Out = TypeVar("Out")
_POLL_MS = 20_000


class JobFunction(Job, Generic[In, Out]):
    """A handler with its kind and defaults. Calling it calls the handler, as a test might."""

    def __init__(self, kind: str, handler: Callable[..., Any],
                 defaults: Mapping[str, Any]) -> None:
        parameters = list(inspect.signature(handler).parameters.values())
        if not 1 <= len(parameters) <= 2:
            raise TypeError(f"{handler.__qualname__} takes a context and at most one payload,"
                            f" not {len(parameters)} parameters")
        payload: Any = inspect.Parameter.empty
        if len(parameters) == 2:
            payload = hints_of(handler).get(parameters[1].name, Any)
        super().__init__(kind, handler, payload)
        self.result = result_annotation(handler)
        self.defaults = defaults
        self.__name__ = handler.__name__
        self.__doc__ = handler.__doc__

    def __call__(self, *args: Any) -> Any:
        return self.handler(*args)


def _outcome(job: JobFields) -> Any:
    """The result of a job that has ended."""
    errors = {"failed": JobFailed, "cancelled": JobCancelled, "dead_lettered": JobDeadLettered}
    if job["status"] in errors:
        raise errors[job["status"]](job)
    return job.get("result")


def _has_ended(job: JobFields) -> bool:
    return job["status"] in ("completed", "failed", "cancelled", "dead_lettered")


class Handle(Generic[Out]):
    """A job that was submitted."""

    def __init__(self, client: AsyncClient, codec: Codec, id: str, returns: Any = Any) -> None:
        self.id = id
        self._client, self._codec, self._returns = client, codec, returns

    async def job(self) -> JobFields:
        """The job as it is now."""
        return await self._client.job(self.id)

    async def status(self) -> str:
        return (await self.job())["status"]

    async def result(self, timeout: float | None = None, *, show: bool = False) -> Out:
        """Waits until the job has ended, and gives its result. Raises JobFailed, JobCancelled,
        JobDeadLettered; TimeoutError after `timeout` seconds. With `show` a terminal shows the
        job's progress meanwhile."""
        progress = Progress() if show else None
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left_ms = _POLL_MS if end is None else int((end - time.monotonic()) * 1000)
            most_ms = SHOW_EVERY_MS if progress is not None else _POLL_MS
            job = await self._client.job(self.id, wait_ms=max(0, min(left_ms, most_ms)))
            if progress is not None:
                progress.clear() if _has_ended(job) else progress.show(job)
            if _has_ended(job):
                return cast(Out, self._codec.decode(_outcome(job), self._returns))
            if left_ms <= 0:
                raise TimeoutError(f"job {self.id} is {job['status']} after {timeout} s")

    async def cancel(self, *, hard: bool = False, reason: str | None = None) -> None:
        """Asks the worker to stop, or with `hard` ends the job at once."""
        await self._client.cancel(self.id, **_cancel(hard, reason))

    async def signal(self, key: str, payload: Any = None, *, signal_id: str | None = None,
                     early: bool = True) -> None:
        """What the job waits for, or will wait for."""
        await self._client.signal(self.id, key, self._codec.encode(payload),
                                  **_signal(signal_id, early))

    async def answer(self, answer: Any, *, by: str | None = None, comment: str | None = None,
                     **options: Any) -> None:
        """A person's answer to the question that is open."""
        await self._client.answer(self.id, answer, **_given(by=by, comment=comment), **options)

    async def events(self) -> AsyncIterator[Event]:
        """The history, and then what comes, until the job has ended."""
        async for event in self._client.follow(self.id):
            yield event


class SyncHandle(Generic[Out]):
    """As `Handle`, for ordinary code."""

    def __init__(self, client: Client, codec: Codec, id: str, returns: Any = Any) -> None:
        self.id = id
        self._client, self._codec, self._returns = client, codec, returns

    def job(self) -> JobFields:
        """As `Handle.job`."""
        return self._client.job(self.id)

    def status(self) -> str:
        """As `Handle.status`."""
        return self.job()["status"]

    def result(self, timeout: float | None = None, *, show: bool = False) -> Out:
        """As `Handle.result`."""
        progress = Progress() if show else None
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left_ms = _POLL_MS if end is None else int((end - time.monotonic()) * 1000)
            most_ms = SHOW_EVERY_MS if progress is not None else _POLL_MS
            job = self._client.job(self.id, wait_ms=max(0, min(left_ms, most_ms)))
            if progress is not None:
                progress.clear() if _has_ended(job) else progress.show(job)
            if _has_ended(job):
                return cast(Out, self._codec.decode(_outcome(job), self._returns))
            if left_ms <= 0:
                raise TimeoutError(f"job {self.id} is {job['status']} after {timeout} s")

    def cancel(self, *, hard: bool = False, reason: str | None = None) -> None:
        """As `Handle.cancel`."""
        self._client.cancel(self.id, **_cancel(hard, reason))

    def signal(self, key: str, payload: Any = None, *, signal_id: str | None = None,
               early: bool = True) -> None:
        """As `Handle.signal`."""
        self._client.signal(self.id, key, self._codec.encode(payload), **_signal(signal_id, early))

    def answer(self, answer: Any, *, by: str | None = None, comment: str | None = None,
               **options: Any) -> None:
        """As `Handle.answer`."""
        self._client.answer(self.id, answer, **_given(by=by, comment=comment), **options)

    def events(self) -> Iterator[Event]:
        """As `Handle.events`."""
        yield from self._client.follow(self.id)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _cancel(hard: bool, reason: str | None) -> dict[str, Any]:
    return {"mode": "hard" if hard else "soft", **_given(reason=reason)}


def _signal(signal_id: str | None, early: bool) -> dict[str, Any]:
    return {"early": early, **_given(signal_id=signal_id)}


class _Submits:
    """What a submit sends, for both applications."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    def spec(self, job: Union[JobFunction[Any, Any], str], payload: Any, *, key: str | None,
             plan: Plan | None, delay: Duration | None, run_at: datetime.datetime | None,
             timeout: Duration | None, expires: Duration | None, deadline: Duration | None,
             max_attempts: int | None, retry: RetryPolicy | None,
             options: Mapping[str, Any]) -> dict[str, Any]:
        defaults = {} if isinstance(job, str) else dict(job.defaults)
        policy = {**defaults.pop("retry", {}), **(retry or {}), **_given(max_attempts=max_attempts)}
        fields = _given(
            idempotency_key=key, plan=None if plan is None else plan.as_json(self.codec.encode),
            delay_ms=None if delay is None else to_ms(delay),
            run_at=None if run_at is None else _rfc3339(run_at),
            timeout_ms=None if timeout is None else to_ms(timeout),
            expires_ms=None if expires is None else to_ms(expires),
            deadline_ms=None if deadline is None else to_ms(deadline),
            retry=policy or None, **options)
        # Sealed payloads differ each time: the fingerprint tells whether they are the same.
        if (trace := tracing.traceparent()) is not None:
            fields.setdefault("traceparent", trace)
        if key is not None and getattr(self.codec, "seals", False):
            fields["fingerprint"] = self.codec.fingerprint(payload)
        return {**defaults, "kind": job if isinstance(job, str) else job.kind,
                "payload": self.codec.encode(payload), **fields}

    @staticmethod
    def returns(job: Union[JobFunction[Any, Any], str]) -> Any:
        return Any if isinstance(job, str) else job.result


def _rfc3339(at: datetime.datetime) -> str:
    if at.tzinfo is None:
        raise ValueError("run_at needs a time zone")
    text = at.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


class Pawl:
    """An application on a server: `url` or PAWL_STORE, `token` or PAWL_TOKEN; default:
    http://127.0.0.1:7295."""

    def __init__(self, url: str | None = None, token: str | None = None, *,
                 codec: Codec | None = None, timeout: float = 30.0,
                 transport: Callable[[Endpoint], AsyncTransport] = AsyncTransport) -> None:
        self.codec: Codec = codec or JsonCodec()
        self._timeout, self._transport = timeout, transport
        self.connect(Endpoint.of(url, token))
        self.jobs: dict[str, JobFunction[Any, Any]] = {}
        self.steps: dict[str, JobFunction[Any, Any]] = {}
        self.judges: dict[str, JobFunction[Any, Any]] = {}
        self._submits = _Submits(self.codec)
        self._worker: Worker | None = None

    def connect(self, to: Union[Endpoint, str]) -> None:
        """Points the application at another server. Handles there are stay where they were."""
        self.endpoint = Endpoint.of(to, None) if isinstance(to, str) else to
        self.client = AsyncClient(timeout=self._timeout, transport=self._transport(self.endpoint))
        self.sync = SyncPawl(self, self._timeout)

    async def __aenter__(self) -> Pawl:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    # ---- job functions ----

    def job(self, kind: str, *, max_attempts: int | None = None, retry: RetryPolicy | None = None,
            in_doubt: InDoubt | None = None, queue: str | None = None,
            timeout: Duration | None = None, **options: Any) -> _Decorator:
        """Makes a function the handler of a kind. What is said here is the default of submits:
        max_attempts, retry, in_doubt, queue, timeout (of an attempt), and every other field of a
        job."""
        policy = {**(retry or {}), **_given(max_attempts=max_attempts)}
        return _Decorator(self.jobs, kind, _given(
            retry=policy or None, in_doubt=in_doubt, queue=queue,
            timeout_ms=None if timeout is None else to_ms(timeout), **options))

    def step(self, kind: str) -> _Decorator:
        """Makes a function the handler of steps of a kind, in plans. It gets the step's payload;
        `ctx.inputs` has the results of the steps before it. Effects work as in jobs; waits are
        steps of their own. `run` registers the worker as a resource then."""
        return _Decorator(self.steps, kind, {})

    def judge(self, kind: str) -> _Decorator:
        """Makes a function the critic of steps of a kind (`critic=True`). It gets the result that
        is held, and returns a decision or a `Verdict`."""
        return _Decorator(self.judges, kind, {})

    # ---- submits ----

    @overload
    async def submit(self, job: JobFunction[In, Out], payload: In = ..., *, key: str | None = None,
                     plan: Plan | None = None, delay: Duration | None = None,
                     run_at: datetime.datetime | None = None, timeout: Duration | None = None,
                     expires: Duration | None = None, deadline: Duration | None = None,
                     max_attempts: int | None = None, retry: RetryPolicy | None = None,
                     **options: Any) -> Handle[Out]: ...

    @overload
    async def submit(self, job: str, payload: Any = ..., *, key: str | None = None,
                     plan: Plan | None = None, delay: Duration | None = None,
                     run_at: datetime.datetime | None = None, timeout: Duration | None = None,
                     expires: Duration | None = None, deadline: Duration | None = None,
                     max_attempts: int | None = None, retry: RetryPolicy | None = None,
                     **options: Any) -> Handle[Any]: ...

    async def submit(self, job: Union[JobFunction[Any, Any], str], payload: Any = None, *,
                     key: str | None = None, plan: Plan | None = None,
                     delay: Duration | None = None, run_at: datetime.datetime | None = None,
                     timeout: Duration | None = None, expires: Duration | None = None,
                     deadline: Duration | None = None, max_attempts: int | None = None,
                     retry: RetryPolicy | None = None, **options: Any) -> Handle[Any]:
        """Submits a job, by its function or by its kind; defaults of its decorator (max_attempts)
        apply to a submit by function only. `key` is its idempotency_key: submitted again it is the
        same job. Options are the fields of a job: queue, priority, labels, in_doubt, …"""
        spec = self._submits.spec(
            job, payload, key=key, plan=plan, delay=delay, run_at=run_at, timeout=timeout,
            expires=expires, deadline=deadline, max_attempts=max_attempts, retry=retry,
            options=options)
        made = await self.client.request("POST", "/v1/jobs", spec)
        return self.handle(made["id"], self._submits.returns(job))

    def handle(self, id: str, returns: Any = Any) -> Handle[Any]:
        """The handle of a job that is known by its id."""
        return Handle(self.client, self.codec, id, returns)

    # ---- work ----

    async def run(self, *, concurrency: int = 16, queues: Sequence[str] = (),
                  kinds: Sequence[str] = (), worker_id: str | None = None,
                  drain_timeout: float = 30.0, lease_ttl: Duration | None = None,
                  code_version: str | None = None, resource: Mapping[str, Any] | None = None,
                  handle_signals: bool = True) -> None:
        """Works on jobs until `stop`, SIGTERM or SIGINT; then drains. Default: all queues that the
        token may take, and all kinds that have a job function. `code_version` (default:
        PAWL_CODE_VERSION) says which version of the code this is: of jobs that are pinned to a
        version, the worker gets those of its own. With step functions the worker is a resource:
        `resource` says its id (default: the worker's), capabilities and labels."""
        self._worker = self.worker(
            concurrency=concurrency, queues=queues, kinds=kinds, worker_id=worker_id,
            drain_timeout=drain_timeout, lease_ttl=lease_ttl, code_version=code_version,
            resource=resource)
        try:
            await self._worker.run(handle_signals=handle_signals)
        finally:
            self._worker = None

    def worker(self, *, concurrency: int = 16, queues: Sequence[str] = (),
               kinds: Sequence[str] = (), worker_id: str | None = None,
               drain_timeout: float = 30.0, lease_ttl: Duration | None = None,
               code_version: str | None = None,
               resource: Mapping[str, Any] | None = None) -> Worker:
        """The worker that `run` runs, for tests that drive it themselves (`pawl.testing`)."""
        return Worker(
            self.client, Client(transport=Transport(self.endpoint)),
            Handlers(self.jobs, self.steps, self.judges), self.codec, resource=resource or {},
            concurrency=concurrency, queues=queues, kinds=kinds, worker_id=worker_id,
            drain_timeout=drain_timeout,
            lease_ttl_ms=None if lease_ttl is None else to_ms(lease_ttl),
            code_version=code_version or os.environ.get("PAWL_CODE_VERSION"))

    def stop(self) -> None:
        """Ends `run`, after its handlers. Safe from any thread."""
        if self._worker is not None:
            self._worker.stop()


class _Decorator:
    """Turns a handler into a JobFunction, with the types of its payload and result."""

    def __init__(self, functions: dict[str, JobFunction[Any, Any]], kind: str,
                 defaults: Mapping[str, Any]) -> None:
        self._functions, self._kind, self._defaults = functions, kind, defaults

    @overload
    def __call__(self, handler: Callable[[Context, In], Awaitable[Out]]
                 ) -> JobFunction[In, Out]: ...

    @overload
    def __call__(self, handler: Callable[[Context], Awaitable[Out]]) -> JobFunction[None, Out]: ...

    @overload
    def __call__(self, handler: Callable[[SyncContext, In], Out]) -> JobFunction[In, Out]: ...

    @overload
    def __call__(self, handler: Callable[[SyncContext], Out]) -> JobFunction[None, Out]: ...

    def __call__(self, handler: Callable[..., Any]) -> JobFunction[Any, Any]:
        if self._kind in self._functions:
            raise ValueError(f'the kind "{self._kind}" has a function already')
        function: JobFunction[Any, Any] = JobFunction(self._kind, handler, self._defaults)
        self._functions[self._kind] = function
        return function


class SyncPawl:
    """`app.sync`: the verbs of an application for ordinary code."""

    def __init__(self, app: Pawl, timeout: float) -> None:
        self._app = app
        self._submits = _Submits(app.codec)
        self.client = Client(timeout=timeout, transport=Transport(app.endpoint))

    @overload
    def submit(self, job: JobFunction[In, Out], payload: In = ..., *, key: str | None = None,
               plan: Plan | None = None, delay: Duration | None = None,
               run_at: datetime.datetime | None = None, timeout: Duration | None = None,
               expires: Duration | None = None, deadline: Duration | None = None,
               max_attempts: int | None = None, retry: RetryPolicy | None = None,
               **options: Any) -> SyncHandle[Out]: ...

    @overload
    def submit(self, job: str, payload: Any = ..., *, key: str | None = None,
               plan: Plan | None = None, delay: Duration | None = None,
               run_at: datetime.datetime | None = None, timeout: Duration | None = None,
               expires: Duration | None = None, deadline: Duration | None = None,
               max_attempts: int | None = None, retry: RetryPolicy | None = None,
               **options: Any) -> SyncHandle[Any]: ...

    def submit(self, job: Union[JobFunction[Any, Any], str], payload: Any = None, *,
               key: str | None = None, plan: Plan | None = None, delay: Duration | None = None,
               run_at: datetime.datetime | None = None, timeout: Duration | None = None,
               expires: Duration | None = None, deadline: Duration | None = None,
               max_attempts: int | None = None, retry: RetryPolicy | None = None,
               **options: Any) -> SyncHandle[Any]:
        """As `Pawl.submit`."""
        spec = self._submits.spec(
            job, payload, key=key, plan=plan, delay=delay, run_at=run_at, timeout=timeout,
            expires=expires, deadline=deadline, max_attempts=max_attempts, retry=retry,
            options=options)
        made = self.client.request("POST", "/v1/jobs", spec)
        return self.handle(made["id"], self._submits.returns(job))

    def submit_in(self, cursor: Any, job: Union[JobFunction[Any, Any], str], payload: Any = None,
                  *, key: str | None = None, **options: Any) -> SyncHandle[Any]:
        """Submits a job in a transaction of yours: the job exists when the transaction has
        committed. `cursor` is one of psycopg (2 or 3) or another driver with %s, in the database
        that the server uses. Options are the fields of a job, as there: delay_ms, queue, …"""
        spec = self._submits.spec(
            job, payload, key=key, plan=None, delay=None, run_at=None, timeout=None, expires=None,
            deadline=None, max_attempts=None, retry=None, options=options)
        kind, encoded = spec.pop("kind"), spec.pop("payload")
        cursor.execute("SELECT pawl_submit(%s, %s::json, %s::json)",
                       (kind, json.dumps(encoded), json.dumps(spec)))
        return self.handle(str(cursor.fetchone()[0]), self._submits.returns(job))

    def handle(self, id: str, returns: Any = Any) -> SyncHandle[Any]:
        """As `Pawl.handle`."""
        return SyncHandle(self.client, self._app.codec, id, returns)

    def run(self, **options: Any) -> None:
        """As `Pawl.run`; returns when the worker has drained."""
        asyncio.run(self._app.run(**options))
