"""Durable functions: the context that a handler gets, and the attempt behind it.

A handler is ordinary code. On every claim it runs from its first line. A call on the context whose
outcome is recorded returns that at once, from the maps that the claim carries; the first call that
has no record does something, records it, and goes on. So between calls on the context the function
must be deterministic.

    running --begin answered in_doubt--> asked      the server has ended the lease; nothing is sent
       |---- wait, sleep, ask ---------> suspended  the wait is sent when the handler has ended
       |---- an effect stays open -----> broken     the attempt fails; the next applies the policy
       |---- other input under a key --> changed    the job becomes a dead letter
       '---- the lease is lost --------> lost       nothing is sent

Only `running` lets a call through. Every other state has an error, which each later call on the
context raises again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import dataclasses
import datetime
import enum
import inspect
import random as random_numbers
import re
import threading
import time
import traceback
import uuid as uuids
import warnings
import weakref
from typing import (Any, Awaitable, Callable, Coroutine, Generator, Generic, Sequence,
                    TypeVar, Union, cast, overload)

from .codec import Codec, result_annotation
from .durations import Duration, to_ms
from .errors import (Cancelled, ConcurrentWait, DuplicateKey, EffectFailed, NotDone,
                     PayloadTooLarge, ReplayMismatch, StaleLease, Suspend, UsageError, WaitTimeout)
from .threads import Threads
from .types import InDoubt, Job, RetryPolicy

T = TypeVar("T")
Send = Callable[..., Awaitable["list[Any]"]]

RESERVED = "pawl:"
_KEY_BYTES_MOST = 128  # docs/reference/limits.md: names
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_idempotency_key: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "pawl_idempotency_key", default=None)
_in_gather: contextvars.ContextVar[bool] = contextvars.ContextVar("pawl_in_gather", default=False)


def idempotency_key() -> str:
    """Inside an effect's function: the key to give to services that take one. It is the same in
    every attempt."""
    key = _idempotency_key.get()
    if key is None:
        raise UsageError("there is an idempotency key inside an effect's function only")
    return key


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """What a person said. It equals its value: `answer == "yes"`. It is neither true nor false, so
    that a "no" is never taken for approval."""

    value: Any
    by: str | None = None
    comment: str | None = None
    timed_out: bool = False

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Answer):
            return dataclasses.astuple(self) == dataclasses.astuple(other)
        return bool(self.value == other)

    def __bool__(self) -> bool:
        raise TypeError('an answer is neither true nor false; compare it: answer == "yes"')


class State(enum.Enum):
    RUNNING = "running"
    ASKED = "asked"
    SUSPENDED = "suspended"
    BROKEN = "broken"
    CHANGED = "changed"
    LOST = "lost"


@dataclasses.dataclass(slots=True)
class EffectCall(Generic[T]):
    """One call of an effect: what to run, and what its failures mean."""

    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    fingerprint: str
    returns: Any
    is_async: bool
    in_doubt: InDoubt | None
    not_done: tuple[type[BaseException], ...]
    record: tuple[type[BaseException], ...]
    retry: RetryPolicy
    interruptible: bool
    failures: int = 0
    begun: bool = False


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)) or inspect.iscoroutinefunction(
        getattr(function, "func", None))


# What is known of an effect's function, as long as there is one: a closure is made in every run.
_known_functions: weakref.WeakKeyDictionary[Callable[..., Any], tuple[Any, bool]] = (
    weakref.WeakKeyDictionary())


def _about(function: Callable[..., Any]) -> tuple[Any, bool]:
    """The annotation of a function's result, and whether it is async."""
    if not inspect.isfunction(function):
        return result_annotation(function), _is_async(function)
    known = _known_functions.get(function)
    if known is None:
        known = _known_functions[function] = result_annotation(function), _is_async(function)
    return known


class Attempt:
    """One run of a handler: what earlier attempts recorded, and what becomes of this one. It is
    shared by the context, the worker and the heartbeats; flags are set by any thread, all that is
    sent goes through the worker's event loop."""

    def __init__(self, claim: Any, codec: Codec, send: Send,
                 clock: Callable[[], datetime.datetime], is_judge: bool = False) -> None:
        self.step: dict[str, Any] | None = claim.get("step")
        self.job: Job = claim["job"] if self.step is None else _job_of_step(claim)
        self.inputs: dict[str, Any] = claim.get("inputs") or {}
        self.is_judge = is_judge
        self.to_judge = self.step["result"] if self.step is not None else None
        self.token: str = claim["lease"]["token"]
        self.number: int = claim["lease"]["attempt"]
        self.effects: dict[str, dict[str, Any]] = claim.get("effects") or {}
        self.waits: dict[str, dict[str, Any]] = claim.get("waits") or {}
        self.codec = codec
        self.state = State.RUNNING
        self.error: BaseException | None = None
        self.wait: dict[str, Any] | None = None
        self.cancel_requested = bool(self.job.get("cancel_requested"))
        self.cancel_delivered = False
        self.running_effects = 0
        self.idempotency_keys: dict[str, str] = {}
        self._keys: set[str] = set()
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()
        self._send = send
        self.clock = clock

    # ---- states ----

    def close(self, state: State, error: BaseException) -> BaseException:
        """Ends the attempt in a state, unless it has ended; a lost lease outweighs all others.
        Gives the error for the caller to raise."""
        if self.state is State.RUNNING or state is State.LOST:
            self.state, self.error = state, error
        return error

    def lose(self) -> None:
        """The lease is no longer this attempt's."""
        self.close(State.LOST, StaleLease(409, {
            "code": "stale_lease", "detail": f"the lease of attempt {self.number} has ended"}))

    def check(self) -> None:
        """What every call on the context does first."""
        if self.error is not None:
            raise self.error
        if _idempotency_key.get() is not None:
            raise UsageError("an effect's function cannot call the context; return first")
        if self.cancel_requested and not self.cancel_delivered:
            self.cancel_delivered = True
            raise Cancelled("the job is to be cancelled")

    def use(self, key: str) -> str:
        """Takes a key for this run."""
        if (not key or key.startswith(RESERVED) or _CONTROL.search(key)
                or len(key.encode(errors="surrogatepass")) > _KEY_BYTES_MOST):
            raise UsageError(f'the key {key!r:.160} cannot be used: keys have 1 to'
                             f' {_KEY_BYTES_MOST} bytes, no control characters, and do not begin'
                             f' with "{RESERVED}"')
        return self._take(key)

    def count(self, name: str, key: str | None) -> str:
        """The key that was given, or the next one of calls without a key."""
        if key is not None:
            return self.use(key)
        if _in_gather.get():
            raise ConcurrentWait(f"{name} inside gather needs a key: calls have no order there")
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._take(f"{RESERVED}{name}:{self._counts[name]}")

    def _take(self, key: str) -> str:
        with self._lock:
            if key in self._keys:
                raise DuplicateKey(f'the key "{key}" was used before in this run')
            self._keys.add(key)
        return key

    async def send(self, *ops: dict[str, Any]) -> list[Any]:
        """Sends operations under the lease, in one commit, and gives their responses."""
        try:
            for op in ops:
                op["token"] = self.token
            return await self._send(*ops)
        except StaleLease:
            self.lose()
            raise
        except ReplayMismatch as error:
            self.close(State.CHANGED, error)
            raise

    # ---- effects ----

    def call(self, key: str, function: Callable[..., Any], arguments: tuple[Any, ...], *,
             in_doubt: InDoubt | None, not_done: tuple[type[BaseException], ...],
             record: tuple[type[BaseException], ...], retry: int | RetryPolicy,
             interruptible: bool, returns: Any) -> EffectCall[Any]:
        """Checks a call of an effect before anything runs. Raises DuplicateKey, and CodecError (a
        TypeError) for arguments that cannot be encoded."""
        self.check()
        fingerprint = self.codec.fingerprint(list(arguments))
        annotation, is_async = _about(function)
        policy: RetryPolicy = {"max_attempts": retry} if isinstance(retry, int) else retry
        return EffectCall(
            self.use(key), function, arguments, fingerprint,
            annotation if returns is None else returns, is_async, in_doubt,
            not_done, record, policy, interruptible)

    def is_open(self, key: str) -> bool:
        """Whether an earlier attempt began the effect and left it open."""
        return self.effects.get(key, {}).get("status") == "open"

    def is_recorded(self, call: EffectCall[Any]) -> bool:
        """Whether the outcome is known. Raises ReplayMismatch for another input."""
        self.check()
        known = self.effects.get(call.key)
        if known is None:
            return False
        if known["input_hash"] != call.fingerprint:
            raise self.close(State.CHANGED, ReplayMismatch.changed(
                call.key, known["input_hash"], call.fingerprint))
        return bool(known["status"] == "recorded")

    def recorded(self, call: EffectCall[T]) -> T:
        """The recorded outcome."""
        known = self.effects[call.key]
        if known.get("error") is not None:
            raise EffectFailed(call.key, known["error"])
        return cast(T, self.codec.decode(known.get("result"), call.returns))

    async def begin(self, call: EffectCall[Any]) -> bool:
        """Begins an effect. False: its outcome is recorded after all. Raises Suspend when it is in
        doubt: the server has ended the lease then."""
        op = {"op": "effect_begin", "key": call.key, "fingerprint": call.fingerprint}
        if call.in_doubt is not None:
            op["in_doubt"] = call.in_doubt
        (body,) = await self.send(op)
        if body["status"] == "in_doubt":
            raise self.close(State.ASKED, Suspend(f'effect "{call.key}" is in doubt'))
        self.idempotency_keys[call.key] = body["idempotency_key"]
        if body["status"] == "recorded":
            self.effects[call.key] = {**body, "input_hash": call.fingerprint}
            return False
        call.begun = True
        return True

    def executing(self, call: EffectCall[Any], change: int) -> None:
        """Before an effect (1) and after it (-1): cancellation does not interrupt it."""
        if not call.interruptible:
            with self._lock:
                self.running_effects += change

    async def commit(self, call: EffectCall[T], value: Any) -> T:
        """Records the value, and gives it as a replay will."""
        try:
            encoded = self.codec.encode(value)
            decoded = self.codec.decode(encoded, call.returns)
        except Exception as error:
            self.close(State.BROKEN, error)  # it happened, and cannot be recorded
            raise
        try:
            await self.send({"op": "effect_commit", "key": call.key, "result": encoded})
        except PayloadTooLarge as error:  # in every attempt: a retry would only find it in doubt
            raise self.close(State.BROKEN, UsageError(
                f'the result of effect "{call.key}" cannot be recorded: {error.detail}; keep it'
                " elsewhere, and return where it is")) from error
        return cast(T, decoded)

    async def failed(self, call: EffectCall[Any], error: BaseException) -> float:
        """What a failure of the effect's function means. Gives the seconds until it is tried again;
        raises the error, or EffectFailed, when it is not."""
        if self.error is not None and self.state in (State.LOST, State.ASKED):
            raise self.error from error
        call.failures += 1
        if isinstance(error, call.record):
            fields = error_fields(error)
            await self.send({"op": "effect_commit", "key": call.key, "error": fields})
            raise EffectFailed(call.key, fields) from error
        policy = call.in_doubt or self.job.get("in_doubt")
        if not isinstance(error, (NotDone, *call.not_done)) and policy != "retry":
            self.close(State.BROKEN, error)
            raise error
        await self.send({"op": "effect_abort", "key": call.key, "error": error_fields(error)})
        if call.failures >= call.retry.get("max_attempts", 1) or not isinstance(error, Exception):
            raise error
        return delay_s(call.retry, call.failures)

    # ---- records and waits ----

    async def record(self, name: str, key: str | None, make: Callable[[], T], kind: Any) -> T:
        """A value that is made once."""
        self.check()
        key = self.count(name, key)
        known = self.effects.get(key)
        if known is None or known["status"] != "recorded":
            value = self.codec.encode(make())
            begin = {"op": "effect_begin", "key": key, "in_doubt": "retry",
                     "fingerprint": self.codec.fingerprint([name])}
            await self.send(begin, {"op": "effect_commit", "key": key, "result": value})
        else:
            value = known["result"]
        return cast(T, self.codec.decode(value, kind))

    def wait_for(self, name: str, key: str | None, fields: dict[str, Any]) -> dict[str, Any]:
        """How a wait ended. Suspends the attempt when it has not."""
        self.check()
        if self.step is not None:
            raise UsageError(f"{name} in a step: let another step of the plan wait or ask, or"
                             " return Verdict(\"needs_user\")")
        if _in_gather.get() or self.running_effects:
            raise ConcurrentWait(f"{name} while effects run: a wait ends the attempt")
        key = self.count(name, key)
        if key in self.waits:
            return self.waits[key]
        self.wait = {"op": "wait", "correlation_key": key, **fields}
        raise self.close(State.SUSPENDED, Suspend(f'the job waits for "{key}"'))


def _job_of_step(claim: Any) -> Job:
    """A step's claim as that of a job, for all that they have in common."""
    step = claim["step"]
    return cast(Job, {"id": claim["job_id"], "kind": step["kind"], "payload": step["payload"],
                      "correlation_id": claim["correlation_id"]})


def error_fields(error: BaseException) -> dict[str, Any]:
    """An error as requests have it."""
    fields: dict[str, Any] = {"message": (str(error) or type(error).__name__)[:16_000],
                              "type": type(error).__name__[:128]}
    if error.__traceback__ is not None:
        fields["stack"] = "".join(traceback.format_exception(error))[-16_000:]
    return fields


def delay_s(policy: RetryPolicy, failures: int) -> float:
    """How long to wait before the next try, as the server computes it for jobs."""
    initial_ms, factor = policy.get("initial_ms", 500), policy.get("factor", 2.0)
    strategy = policy.get("strategy", "exponential")
    if strategy == "exponential":
        ms = initial_ms * factor ** min(failures - 1, 64)
    else:
        ms = initial_ms * (failures if strategy == "linear" else 1)
    ms = min(ms, policy.get("max_ms", 3_600_000))
    floor = {"none": 1.0, "equal": 0.5, "full": 0.0}[policy.get("jitter", "equal")]
    return ms / 1000 * random_numbers.uniform(floor, 1.0)


# ---- contexts -----------------------------------------------------------------------------------


class _About:
    """What both contexts know without asking anybody."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def job_id(self) -> str:
        return self._attempt.job["id"]

    @property
    def kind(self) -> str:
        return self._attempt.job["kind"]

    @property
    def queue(self) -> str | None:
        """The job's queue; None in a step."""
        return self._attempt.job.get("queue")

    @property
    def labels(self) -> dict[str, str]:
        return self._attempt.job.get("labels") or {}

    @property
    def correlation_id(self) -> str:
        return self._attempt.job["correlation_id"]

    @property
    def step(self) -> str | None:
        """The id of the step that runs, or is judged."""
        return None if self._attempt.step is None else str(self._attempt.step["id"])

    @property
    def inputs(self) -> dict[str, Any]:
        """In a step: the results of the steps that it comes after, by their ids."""
        codec = self._attempt.codec
        return {id: codec.decode(value, Any) for id, value in self._attempt.inputs.items()}

    @property
    def answer(self) -> Answer | None:
        """In a step that asked a person (`Verdict("needs_user")`): the answer."""
        step = self._attempt.step or {}
        if step.get("answer") is None:
            return None
        return Answer(step["answer"], step.get("answered_by"), step.get("answer_comment"))

    @property
    def attempt(self) -> int:
        """Rises with every claim: a fencing number for systems downstream."""
        return self._attempt.number

    @property
    def cancelled(self) -> bool:
        """Whether the job is to be cancelled, or the lease is lost. May be read at any time."""
        return self._attempt.cancel_requested or self._attempt.state is State.LOST

    def idempotency_key(self, key: str) -> str:
        """The key for services downstream of an effect that has begun: the same in every attempt.
        Inside an effect's function `pawl.idempotency_key()` is the same."""
        try:
            return self._attempt.idempotency_keys[key]
        except KeyError:
            raise UsageError(f'the effect "{key}" has not begun in this attempt') from None


def _at_least_1_ms(duration: Duration) -> int:
    return max(1, to_ms(duration))  # the server refuses a delay of 0; a timeout of 0 is none there


def _question(prompt: str, choices: Sequence[str] | None, assignee: str | None,
              timeout: Duration | None, default: Any) -> dict[str, Any]:
    fields = {"type": "human", "prompt": prompt, "choices": list(choices) if choices else None,
              "assignee": assignee, "default_answer": default,
              "timeout_ms": None if timeout is None else _at_least_1_ms(timeout)}
    return {name: value for name, value in fields.items() if value is not None}


def _answer(ended: dict[str, Any]) -> Answer:
    return Answer(ended.get("payload"), ended.get("by"), ended.get("comment"),
                  ended["outcome"] == "timeout")


def _timer(duration: Duration) -> dict[str, Any]:
    return {"type": "timer", "delay_ms": _at_least_1_ms(duration)}


def _signal(timeout: Duration | None) -> dict[str, Any]:
    return {"type": "signal",
            **({} if timeout is None else {"timeout_ms": _at_least_1_ms(timeout)})}


def _payload(attempt: Attempt, key: str, ended: dict[str, Any], returns: Any) -> Any:
    if ended["outcome"] == "timeout":
        raise WaitTimeout(f'nothing came for "{key}" in time')
    return attempt.codec.decode(ended.get("payload"), returns)


class Effect(Generic[T]):
    """An effect that is run when it is awaited, or given to `gather`."""

    def __init__(self, context: Context, call: EffectCall[T]) -> None:
        self._context, self.call = context, call
        self.started = False

    def __await__(self) -> Generator[Any, None, T]:
        self.started = True
        return self._context.execute(self.call).__await__()

    def __del__(self) -> None:
        if not self.started:
            warnings.warn(f'effect "{self.call.key}" was never awaited', RuntimeWarning)


class Context(_About):
    """What an `async def` handler gets: its durable calls."""

    def __init__(self, attempt: Attempt, threads: Threads) -> None:
        super().__init__(attempt)
        self._threads = threads

    @overload
    def effect(self, key: str, function: Callable[..., Awaitable[T]], *args: Any,
               in_doubt: InDoubt | None = None, not_done: tuple[type[BaseException], ...] = (),
               record: tuple[type[BaseException], ...] = (), retry: int | RetryPolicy = 1,
               interruptible: bool = False, returns: Any = None) -> Effect[T]: ...

    @overload
    def effect(self, key: str, function: Callable[..., T], *args: Any,
               in_doubt: InDoubt | None = None, not_done: tuple[type[BaseException], ...] = (),
               record: tuple[type[BaseException], ...] = (), retry: int | RetryPolicy = 1,
               interruptible: bool = False, returns: Any = None) -> Effect[T]: ...

    def effect(self, key: str, function: Callable[..., Any], *args: Any,
               in_doubt: InDoubt | None = None, not_done: tuple[type[BaseException], ...] = (),
               record: tuple[type[BaseException], ...] = (), retry: int | RetryPolicy = 1,
               interruptible: bool = False, returns: Any = None) -> Effect[Any]:
        """Calls the function once, whatever crashes, and gives what it returned, now and on every
        replay. A `def` function runs in a thread.

        `in_doubt` says what happens when an attempt died between the call and its record: "retry"
        calls again, "ask" asks a person, "fail" fails the job (default: as the job says). Errors of
        the function: NotDone, or a type in `not_done`: it did not happen; the effect is aborted and
        the error raised. A type in `record`: the error is the outcome; EffectFailed now and on
        every replay. Any other: as `in_doubt` says. `retry` tries an aborted effect so many times
        within the attempt. `interruptible` lets a cancellation interrupt the function. `returns` is
        the type of the result where the function has no annotation."""
        return Effect(self, self._attempt.call(
            key, function, args, in_doubt=in_doubt, not_done=not_done, record=record, retry=retry,
            interruptible=interruptible, returns=returns))

    async def execute(self, call: EffectCall[T]) -> T:
        """Runs an effect: what awaiting it does."""
        attempt = self._attempt
        if not call.begun and attempt.is_recorded(call):
            return attempt.recorded(call)
        attempt.executing(call, 1)
        try:
            while call.begun or await attempt.begin(call):
                call.begun = False
                mark = _idempotency_key.set(attempt.idempotency_keys[call.key])
                try:
                    if call.is_async:
                        value = await call.function(*call.arguments)
                    else:
                        value = await self._threads.run(call.function, *call.arguments)
                        if inspect.isawaitable(value):
                            value = await value
                except BaseException as error:
                    _idempotency_key.reset(mark)
                    await asyncio.sleep(await attempt.failed(call, error))
                else:
                    _idempotency_key.reset(mark)
                    return await attempt.commit(call, value)
        finally:
            attempt.executing(call, -1)
        return attempt.recorded(call)

    async def gather(self, *awaitables: Awaitable[T]) -> list[T]:
        """Runs effects, or functions that call effects, side by side. Those that an earlier attempt
        left open begin first, one by one, since each of them may be in doubt. All are let finish;
        then the first error, in the order of the arguments, is raised. Waits are refused."""
        attempt = self._attempt
        try:
            attempt.check()
            for each in awaitables:
                if isinstance(each, Effect) and attempt.is_open(each.call.key):
                    if not attempt.is_recorded(each.call):
                        await attempt.begin(each.call)
        except BaseException:
            for each in awaitables:
                if isinstance(each, Effect):
                    each.started = True
                elif inspect.iscoroutine(each):
                    each.close()
            raise
        mark = _in_gather.set(True)
        try:
            tasks = [asyncio.ensure_future(_coroutine(each)) for each in awaitables]
        finally:
            _in_gather.reset(mark)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return cast("list[T]", results)

    async def sleep(self, duration: Duration, *, key: str | None = None) -> None:
        """Sleeps without a worker, for as long as you like."""
        self._attempt.wait_for("sleep", key, _timer(duration))

    async def wait(self, key: str, timeout: Duration | None = None, *, returns: Any = Any) -> Any:
        """Waits for a signal, and gives its payload. Raises WaitTimeout."""
        ended = self._attempt.wait_for("wait", key, _signal(timeout))
        return _payload(self._attempt, key, ended, returns)

    async def ask(self, key: str, prompt: str, choices: Sequence[str] | None = None, *,
                  assignee: str | None = None, timeout: Duration | None = None,
                  default: Any = None) -> Answer:
        """Asks a person. At the end of `timeout` the `default` counts."""
        return _answer(self._attempt.wait_for(
            "ask", key, _question(prompt, choices, assignee, timeout, default)))

    async def progress(self, value: Any, *, cursor: str | None = None) -> None:
        """Shows how far the job is. Not recorded in its history."""
        self._attempt.check()
        fields = {} if cursor is None else {"cursor": cursor}
        await self._attempt.send({"op": "heartbeat",
                                  "progress": self._attempt.codec.encode(value), **fields})

    async def now(self, key: str | None = None) -> datetime.datetime:
        """The time, in UTC: recorded, so that a replay gets the same."""
        return await self._attempt.record("now", key, self._attempt.clock, datetime.datetime)

    async def random(self, key: str | None = None) -> float:
        """A random number from 0 up to 1: recorded."""
        return await self._attempt.record("random", key, random_numbers.random, float)

    async def uuid(self, key: str | None = None) -> uuids.UUID:
        """A random UUID: recorded."""
        return await self._attempt.record("uuid", key, uuids.uuid4, uuids.UUID)


async def _coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable


class Deferred(Generic[T]):
    """An effect for `SyncContext.gather`."""

    def __init__(self, call: EffectCall[T]) -> None:
        self.call = call


class SyncContext(_About):
    """What a `def` handler gets: the same calls, which block. The handler and the functions of its
    effects run in its thread."""

    def __init__(self, attempt: Attempt, threads: Threads, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(attempt)
        self._threads, self._loop = threads, loop

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except concurrent.futures.CancelledError:
            self._attempt.lose()
            self._attempt.check()
            raise
        except RuntimeError:
            if self._loop.is_running():
                raise
            coroutine.close()
            self._attempt.lose()
            self._attempt.check()
            raise

    def effect(self, key: str, function: Callable[..., T], *args: Any,
               in_doubt: InDoubt | None = None, not_done: tuple[type[BaseException], ...] = (),
               record: tuple[type[BaseException], ...] = (), retry: int | RetryPolicy = 1,
               returns: Any = None) -> T:
        """As `Context.effect`."""
        return self._run(self.deferred(
            key, function, *args, in_doubt=in_doubt, not_done=not_done, record=record, retry=retry,
            returns=returns).call)

    def deferred(self, key: str, function: Callable[..., T], *args: Any,
                 in_doubt: InDoubt | None = None, not_done: tuple[type[BaseException], ...] = (),
                 record: tuple[type[BaseException], ...] = (), retry: int | RetryPolicy = 1,
                 returns: Any = None) -> Deferred[T]:
        """An effect that `gather` runs."""
        return Deferred(self._attempt.call(
            key, function, args, in_doubt=in_doubt, not_done=not_done, record=record, retry=retry,
            interruptible=False, returns=returns))

    def _run(self, call: EffectCall[T]) -> T:
        attempt = self._attempt
        if not call.begun and attempt.is_recorded(call):
            return attempt.recorded(call)
        attempt.executing(call, 1)
        try:
            while call.begun or self._on_loop(attempt.begin(call)):
                call.begun = False
                mark = _idempotency_key.set(attempt.idempotency_keys[call.key])
                try:
                    value = call.function(*call.arguments)
                    if inspect.iscoroutine(value):
                        value = self._on_loop(value)
                except BaseException as error:
                    _idempotency_key.reset(mark)
                    time.sleep(self._on_loop(attempt.failed(call, error)))
                else:
                    _idempotency_key.reset(mark)
                    return self._on_loop(attempt.commit(call, value))
        finally:
            attempt.executing(call, -1)
        return attempt.recorded(call)

    def gather(self, *effects: Deferred[T]) -> list[T]:
        """Runs effects side by side, each in a thread, as `Context.gather`."""
        attempt = self._attempt
        attempt.check()
        for each in effects:
            if attempt.is_open(each.call.key) and not attempt.is_recorded(each.call):
                self._on_loop(attempt.begin(each.call))
        outcomes = [self._threads.start(self._run, each.call) for each in effects]
        concurrent.futures.wait(outcomes)
        return [cast(T, outcome.result()) for outcome in outcomes]

    def sleep(self, duration: Duration, *, key: str | None = None) -> None:
        """As `Context.sleep`."""
        self._attempt.wait_for("sleep", key, _timer(duration))

    def wait(self, key: str, timeout: Duration | None = None, *, returns: Any = Any) -> Any:
        """As `Context.wait`."""
        ended = self._attempt.wait_for("wait", key, _signal(timeout))
        return _payload(self._attempt, key, ended, returns)

    def ask(self, key: str, prompt: str, choices: Sequence[str] | None = None, *,
            assignee: str | None = None, timeout: Duration | None = None,
            default: Any = None) -> Answer:
        """As `Context.ask`."""
        return _answer(self._attempt.wait_for(
            "ask", key, _question(prompt, choices, assignee, timeout, default)))

    def progress(self, value: Any, *, cursor: str | None = None) -> None:
        """As `Context.progress`."""
        self._attempt.check()
        fields = {} if cursor is None else {"cursor": cursor}
        self._on_loop(self._attempt.send({
            "op": "heartbeat", "progress": self._attempt.codec.encode(value), **fields}))

    def now(self, key: str | None = None) -> datetime.datetime:
        """As `Context.now`."""
        return self._recorded("now", key, self._attempt.clock, datetime.datetime)

    def random(self, key: str | None = None) -> float:
        """As `Context.random`."""
        return self._recorded("random", key, random_numbers.random, float)

    def uuid(self, key: str | None = None) -> uuids.UUID:
        """As `Context.uuid`."""
        return self._recorded("uuid", key, uuids.uuid4, uuids.UUID)

    def _recorded(self, name: str, key: str | None, make: Callable[[], T], kind: Any) -> T:
        self._attempt.check()  # here, since a CancelledError does not cross threads
        return self._on_loop(self._attempt.record(name, key, make, kind))


AnyContext = Union[Context, SyncContext]
