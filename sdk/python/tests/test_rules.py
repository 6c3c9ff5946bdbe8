#!/usr/bin/env python3
"""The rules of durable functions, one by one, against a server.

usage: test_rules.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
import threading
import uuid
from typing import Any, Awaitable, Callable

from case import Suite, check, raises, trouble, until, working
from pawl import (Answer, Cancelled, ConcurrentWait, Context, DuplicateKey, EffectFailed,
                  JobCancelled, JobDeadLettered, JobFailed, NotDone, Pawl, Permanent, Retry,
                  StaleLease, Suspend, SyncContext, UsageError, Validation, WaitTimeout,
                  idempotency_key)
from pawl.http import AsyncTransport, Request

suite = Suite()
server = trouble.Server("memory:")
SOON: Any = {"initial_ms": 0, "jitter": "none"}


def app_of() -> Pawl:
    return Pawl(server.url)


async def outcome(app: Pawl, job: Any, payload: Any = None, **options: Any) -> Any:
    """The result of a job, or the error that it ended with."""
    async with working(app):
        handle = await app.submit(job, payload, **options)
        try:
            return await handle.result(timeout=30)
        except JobFailed as error:
            return error


async def events_of(app: Pawl, id: str) -> list[str]:
    return [event["type"] async for event in app.client.events(id)]


class Calls:
    """Counts the calls of functions that effects run."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def named(self, name: str, value: Any = None) -> Any:
        async def function(*_: Any) -> Any:
            self.made.append(name)
            return name if value is None else value

        return function

    def failing(self, name: str, *errors: BaseException) -> Any:
        """Raises these, one a call, and then returns."""
        left = list(errors)

        async def function() -> str:
            self.made.append(name)
            if left:
                raise left.pop(0)
            return name

        return function


# ---- keys ---------------------------------------------------------------------------------------


@suite.case
async def a_key_that_is_used_twice_in_a_run_is_refused() -> None:
    app, calls = app_of(), Calls()

    @app.job("twice")
    async def twice(ctx: Context) -> str:
        await ctx.effect("a", calls.named("a"))
        try:
            await ctx.effect("a", calls.named("a"))
        except DuplicateKey:
            return "refused"
        return "accepted"

    check(await outcome(app, twice) == "refused" and calls.made == ["a"], calls.made)


@suite.case
async def a_duplicate_key_fails_the_job_for_good() -> None:
    app = app_of()

    @app.job("twice.failed")
    async def twice(ctx: Context) -> None:
        await ctx.sleep("1ms", key="a")
        await ctx.wait("a")

    error = await outcome(app, twice)
    check(error.error["type"] == "DuplicateKey" and error.error["class"] == "permanent", error)


@suite.case
async def keys_of_the_package_are_reserved() -> None:
    app = app_of()

    @app.job("reserved")
    async def reserved(ctx: Context) -> list[str]:
        return [raises(UsageError, lambda: ctx.effect(key, print)).__class__.__name__
                for key in ("pawl:now:1", "")]

    check(await outcome(app, reserved) == ["UsageError"] * 2)


@suite.case
async def keys_that_the_server_would_refuse_fail_the_job_for_good() -> None:
    app, calls = app_of(), Calls()

    @app.job("rules.bad_key")
    async def bad_key(ctx: Context, key: str) -> None:
        await ctx.effect(key, calls.named("call"))

    for key in ("k" * 129, "\u00fc" * 65, "a\nb", "a\x7f"):
        error = await outcome(app, bad_key, key)
        check(error.error["type"] == "UsageError" and error.job["attempt"] == 1, key, error)
    check(calls.made == [], calls.made)
    check(await outcome(app, bad_key, "\u00fc" * 64) is None)


@suite.case
async def a_sleep_of_zero_ends_at_once() -> None:
    app = app_of()

    @app.job("rules.no_sleep")
    async def no_sleep(ctx: Context) -> str:
        await ctx.sleep(0)
        await ctx.sleep("0.2ms")
        return "awake"

    check(await outcome(app, no_sleep) == "awake")


@suite.case
async def a_timeout_of_zero_ends_a_wait_at_once() -> None:
    app = app_of()

    @app.job("rules.no_wait")
    async def no_wait(ctx: Context) -> bool:
        answer = await ctx.ask("ask", "Now?", timeout=0, default="later")
        try:
            await ctx.wait("wait", 0)
        except WaitTimeout:
            return answer == "later" and answer.timed_out
        return False

    check(await outcome(app, no_wait) is True)


@suite.case
async def a_result_that_is_too_large_fails_the_job_and_is_not_computed_again() -> None:
    app, calls = app_of(), Calls()

    @app.job("rules.large", in_doubt="retry")
    async def large(ctx: Context, size: int) -> None:
        await ctx.effect("large", calls.named("call", "x" * size))

    for size in (2 << 20, 9 << 20):  # refused by the server; not sent at all
        calls.made.clear()
        error = await outcome(app, large, size)
        check("cannot be recorded" in str(error) and error.job["attempt"] == 1, error)
        check(calls.made == ["call"], calls.made)


@suite.case
async def keyless_calls_count_up_and_are_recorded() -> None:
    app = app_of()
    seen: list[Any] = []

    @app.job("keyless")
    async def keyless(ctx: Context) -> bool:
        values = [await ctx.now(), await ctx.now(), await ctx.random(), await ctx.uuid()]
        seen.append(values)
        await ctx.sleep("1ms")
        await ctx.sleep("1ms")
        return isinstance(values[0], datetime.datetime) and isinstance(values[3], uuid.UUID)

    check(await outcome(app, keyless) is True)
    check(len(seen) == 3 and seen[0] == seen[1] == seen[2], seen)
    check(seen[0][0].tzinfo is not None and seen[0][0] <= seen[0][1], seen[0])


@suite.case
async def keyless_calls_are_refused_inside_gather() -> None:
    app = app_of()

    @app.job("keyless.gather")
    async def keyless(ctx: Context) -> list[str]:
        found = []
        calls: list[Callable[[], Awaitable[Any]]] = [
            ctx.now, ctx.random, ctx.uuid, lambda: ctx.sleep("1s")]
        for call in calls:
            try:
                await ctx.gather(call())
            except ConcurrentWait as error:
                found.append(str(error).split(" ")[0])
        await ctx.gather(ctx.now("a"), ctx.now("b"))
        return found

    check(await outcome(app, keyless) == ["now", "random", "uuid", "sleep"])


# ---- effects and replay -------------------------------------------------------------------------


@suite.case
async def an_effect_is_recorded_when_it_returns() -> None:
    app, calls = app_of(), Calls()
    seen: list[str] = []

    @app.job("recorded")
    async def recorded(ctx: Context) -> None:
        await ctx.effect("a", calls.named("a"))
        seen.extend(await events_of(app, ctx.job_id))

    await outcome(app, recorded)
    check(seen[-2:] == ["tool_called", "tool_returned"], seen)


class Counting(AsyncTransport):
    """Counts operations under a lease."""

    ops = 0

    async def request(self, request: Request) -> Any:
        if request.path == "/v1/ops":
            Counting.ops += len(json.loads(request.body or b"{}")["ops"])
        return await super().request(request)


@suite.case
async def a_replay_calls_nothing_and_asks_the_server_nothing() -> None:
    app, calls = Pawl(server.url, transport=Counting), Calls()
    sent: list[int] = []

    @app.job("replay")
    async def replay(ctx: Context) -> list[str]:
        before = Counting.ops
        found = [await ctx.effect(key, calls.named(key)) for key in ("a", "b", "c")]
        await ctx.now()
        sent.append(Counting.ops - before)
        await ctx.sleep("1ms")
        return found

    check(await outcome(app, replay) == ["a", "b", "c"])
    check(sent == [8, 0] and calls.made == ["a", "b", "c"], sent, calls.made)


@suite.case
async def values_pass_the_codec_on_the_first_run_too() -> None:
    app = app_of()
    seen: list[Any] = []

    @dataclasses.dataclass
    class Price:
        cents: int
        at: datetime.datetime

    async def typed() -> Price:
        return Price(1, datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc))

    async def untyped():  # type: ignore[no-untyped-def]
        return (1, Price(2, datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)))

    @app.job("first.run")
    async def first(ctx: Context) -> None:
        seen.append((await ctx.effect("typed", typed), await ctx.effect("untyped", untyped)))
        await ctx.sleep("1ms")

    Price.__module__ = __name__
    globals()["Price"] = Price
    await outcome(app, first)
    check(seen[0] == seen[1], seen)
    check(isinstance(seen[0][0], Price) and isinstance(seen[0][1], list), seen)


@suite.case
async def arguments_that_cannot_be_encoded_are_a_type_error_before_anything_runs() -> None:
    app, calls = app_of(), Calls()

    @app.job("unencodable")
    async def unencodable(ctx: Context) -> str:
        raises(TypeError, lambda: ctx.effect("a", calls.named("a"), object()))
        raises(TypeError, lambda: ctx.effect("b", calls.named("b"), float("nan")))
        return "refused"

    check(await outcome(app, unencodable) == "refused" and calls.made == [])


@suite.case
async def a_changed_input_is_a_replay_mismatch_and_a_dead_letter() -> None:
    app, calls = app_of(), Calls()
    version = 1

    @app.job("changed")
    async def changed(ctx: Context) -> str:
        found = await ctx.effect("charge", calls.named("charge"), {"cents": version})
        await ctx.wait("go")
        return str(found)

    async with working(app):
        handle = await app.submit(changed)
        await until("the wait", lambda: _is(handle, "waiting"))
        version = 2
        await handle.signal("go")
        try:
            await handle.result(timeout=30)
            check(False, "it was not refused")
        except JobDeadLettered as error:
            letter = error.job["dead_letter"]
            check(letter["reason_code"] == "policy_violation", letter)
            message = letter["last_error"]["message"]
            codec = app.codec
            for part in ('"charge"', codec.fingerprint([{"cents": 1}]),
                         codec.fingerprint([{"cents": 2}])):
                check(part in message, part, message)
        # Rolled back and redriven it keeps its results.
        version = 1
        await app.client.redrive(id=handle.id)
        check(await handle.result(timeout=30) == "charge")
    check(calls.made == ["charge"], calls.made)


async def _is(handle: Any, status: str) -> bool:
    return bool(await handle.status() == status)


@suite.case
async def an_effect_may_be_a_plain_function_in_a_thread() -> None:
    app = app_of()

    def where() -> str:
        return threading.current_thread().name

    @app.job("plain")
    async def plain(ctx: Context) -> str:
        return await ctx.effect("a", where)

    check(await outcome(app, plain) == "pawl-handler")


@suite.case
async def an_effect_has_one_idempotency_key_in_every_attempt() -> None:
    app = app_of()
    seen: list[str] = []

    async def call() -> None:
        seen.append(idempotency_key())
        raise NotDone("busy")

    @app.job("idempotent", max_attempts=3, retry=SOON)
    async def idempotent(ctx: Context) -> str:
        if ctx.attempt == 3:
            return "done"
        try:
            await ctx.effect("pay", call)
        finally:
            check(ctx.idempotency_key("pay") == seen[-1])
        return ""

    check(await outcome(app, idempotent) == "done")
    check(len(seen) == 2 and seen[0] == seen[1] and seen[0].endswith("/pay"), seen)


@suite.case
async def the_context_cannot_be_called_inside_an_effect() -> None:
    app = app_of()

    @app.job("nested")
    async def nested(ctx: Context) -> str:
        async def inner() -> str:
            return type(raises(UsageError, lambda: ctx.effect("b", print))).__name__

        return await ctx.effect("a", inner)

    check(await outcome(app, nested) == "UsageError")


# ---- exceptions ---------------------------------------------------------------------------------


@suite.case
async def not_done_aborts_the_effect_and_is_raised() -> None:
    app, calls = app_of(), Calls()
    call = calls.failing("a", NotDone("busy"), ConnectionRefusedError())

    @app.job("not.done", retry=SOON, in_doubt="fail")
    async def not_done(ctx: Context) -> str:
        return str(await ctx.effect("a", call, not_done=(ConnectionRefusedError,)))

    async with working(app):
        handle = await app.submit(not_done)
        check(await handle.result(timeout=30) == "a")
        types = await events_of(app, handle.id)
    check(types.count("tool_aborted") == 2 and len(calls.made) == 3, types)


@suite.case
async def a_recorded_failure_is_raised_now_and_on_every_replay() -> None:
    app, calls = app_of(), Calls()
    seen: list[str] = []

    @app.job("declined")
    async def declined(ctx: Context) -> str:
        try:
            await ctx.effect("a", calls.failing("a", ValueError("declined")), record=(ValueError,))
        except EffectFailed as error:
            seen.append(f"{error.type}: {error.error['message']}")
        await ctx.sleep("1ms")
        return "done"

    check(await outcome(app, declined) == "done")
    check(seen == ["ValueError: declined"] * 2 and calls.made == ["a"], seen, calls.made)


@suite.case
async def with_in_doubt_retry_any_failure_aborts() -> None:
    app, calls = app_of(), Calls()
    call = calls.failing("a", RuntimeError("lost"))

    @app.job("doubt.retry", retry=SOON)
    async def doubt(ctx: Context) -> str:
        return str(await ctx.effect("a", call, in_doubt="retry"))

    async with working(app):
        handle = await app.submit(doubt)
        check(await handle.result(timeout=30) == "a" and len(calls.made) == 2)
        check("tool_aborted" in await events_of(app, handle.id))


@suite.case
async def with_in_doubt_fail_the_effect_stays_open_and_the_next_attempt_fails_the_job() -> None:
    app, calls = app_of(), Calls()
    call = calls.failing("a", RuntimeError("lost"))

    @app.job("doubt.fail", retry=SOON)
    async def doubt(ctx: Context) -> str:
        try:
            await ctx.effect("a", call, in_doubt="fail")
        except RuntimeError:
            pass
        try:
            return str(await ctx.effect("b", calls.named("b")))
        except RuntimeError:
            return "swallowed"

    error = await outcome(app, doubt)
    check(isinstance(error, JobFailed) and "in doubt" in str(error), error)
    check(calls.made == ["a"], calls.made)


@suite.case
async def with_in_doubt_ask_a_person_decides() -> None:
    app, calls = app_of(), Calls()
    call = calls.failing("a", RuntimeError("lost"))

    @app.job("doubt.ask", retry=SOON)
    async def doubt(ctx: Context) -> str:
        return str(await ctx.effect("a", call, in_doubt="ask"))

    async with working(app):
        handle = await app.submit(doubt)
        await until("the question", lambda: _is(handle, "waiting"))
        await handle.answer("done", result="by hand")
        check(await handle.result(timeout=30) == "by hand" and calls.made == ["a"])


@suite.case
async def retry_repeats_an_aborted_effect_within_the_attempt() -> None:
    app, calls = app_of(), Calls()
    call = calls.failing("a", NotDone("1"), NotDone("2"))

    @app.job("effect.retry", max_attempts=1)
    async def retried(ctx: Context) -> int:
        await ctx.effect("a", call, retry={"max_attempts": 3, "initial_ms": 1})
        return ctx.attempt

    check(await outcome(app, retried) == 1 and len(calls.made) == 3)


@suite.case
async def handlers_say_what_becomes_of_their_job() -> None:
    app = app_of()
    errors = {"permanent": Permanent("no"), "validation": Validation("bad"),
              "transient": RuntimeError("oops")}

    @app.job("becomes", retry=SOON)
    async def becomes(ctx: Context, name: str) -> None:
        raise errors[name]

    @app.job("retried", max_attempts=2)
    async def retried(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise Retry("later", after="1ms")
        return ctx.attempt

    async with working(app):
        for name in errors:
            handle = await app.submit(becomes, name, max_attempts=1)
            try:
                await handle.result(timeout=30)
                check(False, name)
            except JobFailed as error:
                found = error.error
                check(found["class"] == name and "stack" in found, found)
                check(found["type"] == type(errors[name]).__name__, found)
        check(await (await app.submit(retried)).result(timeout=30) == 2)


# ---- suspension ---------------------------------------------------------------------------------


@suite.case
async def a_handler_that_swallows_suspend_fails_for_good() -> None:
    app = app_of()

    @app.job("swallow.return")
    async def returns(ctx: Context) -> str:
        try:
            await ctx.sleep("1ms")
        except Suspend:
            pass
        return "went on"

    @app.job("swallow.raise")
    async def other(ctx: Context) -> None:
        try:
            await ctx.sleep("1ms")
        except BaseException:
            raise RuntimeError("other") from None

    for job in (returns, other):
        error = await outcome(app, job)
        check(error.error["type"] == "SuspendSwallowed", error.error)
        check(error.error["class"] == "permanent", error.error)
        app = app_of()
        app.jobs[other.kind] = other


@suite.case
async def calls_after_suspend_raise_it_again() -> None:
    app, calls = app_of(), Calls()
    again: list[str] = []

    @app.job("again")
    async def twice(ctx: Context) -> str:
        try:
            await ctx.sleep("1ms")
        except Suspend:
            try:
                await ctx.effect("late", calls.named("late"))
            except Suspend:
                again.append("Suspend")
            raise
        return "done"

    check(await outcome(app, twice) == "done" and again == ["Suspend"] and calls.made == [])


@suite.case
async def a_wait_begins_when_the_handler_has_ended() -> None:
    app = app_of()
    seen: list[str] = []

    @app.job("wait.late")
    async def late(ctx: Context) -> str:
        try:
            return str(await ctx.wait("go"))
        finally:
            seen.append((await app.client.job(ctx.job_id))["status"])

    async with working(app):
        handle = await app.submit(late)
        await until("the wait", lambda: _is(handle, "waiting"))
        await handle.signal("go", "now")
        check(await handle.result(timeout=30) == "now" and seen == ["running", "running"], seen)


@suite.case
async def a_signal_that_comes_early_is_not_lost() -> None:
    app = app_of()

    @app.job("early")
    async def early(ctx: Context) -> Any:
        return [await ctx.wait("one", returns=datetime.date), await ctx.wait("two")]

    handle = await app.submit(early)
    await handle.signal("two", {"n": 2})
    await handle.signal("one", datetime.date(2026, 1, 1))
    async with working(app):
        check(await handle.result(timeout=30) == ["2026-01-01", {"n": 2}])


@suite.case
async def a_wait_that_times_out_raises_the_same_on_every_replay() -> None:
    app = app_of()
    seen: list[int] = []

    @app.job("late.signal")
    async def late(ctx: Context) -> str:
        try:
            await ctx.wait("go", timeout="1ms")
        except WaitTimeout:
            seen.append(ctx.attempt)
        await ctx.sleep("1ms")
        return "done"

    check(await outcome(app, late) == "done" and seen == [2, 3], seen)


@suite.case
async def an_answer_says_who_and_is_never_taken_for_yes() -> None:
    app = app_of()
    seen: list[Answer] = []

    @app.job("ask")
    async def ask(ctx: Context) -> list[Any]:
        answer = await ctx.ask("ok", "Go?", ["yes", "no"], assignee="ops")
        seen.append(answer)
        raises(TypeError, lambda: bool(answer))
        await ctx.sleep("1ms")
        late = await ctx.ask("late", "Still?", timeout="1ms", default="no")
        return [answer == "no", answer != "yes", answer.value, answer.by, answer.comment,
                answer.timed_out, late.value, late.timed_out]

    async with working(app):
        handle = await app.submit(ask)
        await until("the question", lambda: _is(handle, "waiting"))
        await handle.answer("no", by="grace", comment="not today")
        check(await handle.result(timeout=30) ==
              [True, True, "no", "grace", "not today", False, "no", True])
    check(len(seen) == 3 and seen[0] == seen[2], seen)


# ---- gather -------------------------------------------------------------------------------------


@suite.case
async def gather_lets_all_finish_and_raises_the_first_error_in_order() -> None:
    app = app_of()
    finished: list[str] = []

    async def slow_failure() -> None:
        await asyncio.sleep(0.02)
        raise Permanent("first")

    async def fast_failure() -> None:
        raise Permanent("second")

    async def slow() -> None:
        await asyncio.sleep(0.04)
        finished.append("slow")

    @app.job("gather", in_doubt="retry")
    async def gathers(ctx: Context) -> None:
        await ctx.gather(ctx.effect("a", slow_failure), ctx.effect("b", fast_failure),
                         ctx.effect("c", slow))

    error = await outcome(app, gathers)
    check("first" in str(error) and finished == ["slow"], error, finished)


@suite.case
async def gather_begins_open_effects_first_one_by_one() -> None:
    app, calls = app_of(), Calls()

    @app.job("gather.open", retry=SOON)
    async def gathers(ctx: Context) -> list[str]:
        return await ctx.gather(
            ctx.effect("new", calls.named("new")),
            ctx.effect("open", calls.failing(
                "open", *([RuntimeError("lost")] if ctx.attempt == 1 else [])), in_doubt="ask"))

    async with working(app):
        handle = await app.submit(gathers)
        await until("the question", lambda: _is(handle, "waiting"))
        types = [(event["type"], (event["payload"] or {}).get("key"))
                 async for event in app.client.events(handle.id)]
        check(calls.made.count("open") == 1, calls.made)
        await handle.answer("retry")
        check(await handle.result(timeout=30) == ["new", "open"])
    check(calls.made.count("new") == 1 and calls.made.count("open") == 2, calls.made)
    check(("tool_returned", "new") in types, types)  # it was let finish


@suite.case
async def waits_inside_gather_are_refused() -> None:
    app = app_of()

    @app.job("gather.wait")
    async def gathers(ctx: Context) -> list[str]:
        found = []
        waits: list[Callable[[], Awaitable[Any]]] = [
            lambda: ctx.sleep("1s", key="s"), lambda: ctx.wait("w"), lambda: ctx.ask("q", "?")]
        for make in waits:
            try:
                await ctx.gather(make())
            except ConcurrentWait:
                found.append("refused")
        return found

    check(await outcome(app, gathers) == ["refused"] * 3)


@suite.case
async def gather_takes_functions_that_call_effects() -> None:
    app, calls = app_of(), Calls()

    @app.job("gather.functions")
    async def gathers(ctx: Context) -> list[int]:
        async def one(number: int) -> int:
            first = await ctx.effect(f"{number}.a", calls.named("a", number))
            return int(await ctx.effect(f"{number}.b", calls.named("b", first * 10)))

        found = await ctx.gather(*(one(number) for number in (1, 2, 3)))
        await ctx.sleep("1ms")
        return found

    check(await outcome(app, gathers) == [10, 20, 30] and len(calls.made) == 6)


# ---- cancellation -------------------------------------------------------------------------------


async def _cancelled(app: Pawl, job: Any, blocked: asyncio.Event) -> tuple[Any, Any]:
    """Cancels a job while it is blocked, and gives its end and its handle."""
    async with working(app, lease_ttl="2s"):
        handle = await app.submit(job)
        await blocked.wait()
        await handle.cancel()
        try:
            return await handle.result(timeout=30), handle
        except JobFailed as error:
            return error, handle


@suite.case
async def a_handler_that_awaits_is_cancelled() -> None:
    app, blocked = app_of(), asyncio.Event()

    @app.job("cancel.await")
    async def awaits(ctx: Context) -> None:
        blocked.set()
        await asyncio.sleep(3600)

    check(isinstance((await _cancelled(app, awaits, blocked))[0], JobCancelled))


@suite.case
async def cancellation_does_not_interrupt_an_effect_and_cleanup_may_follow() -> None:
    app, calls, blocked = app_of(), Calls(), asyncio.Event()
    seen: list[str] = []

    @app.job("cancel.effect")
    async def cleans(ctx: Context) -> None:
        async def slow() -> str:
            blocked.set()
            while not ctx.cancelled:
                await asyncio.sleep(0.001)
            return "finished"

        seen.append(await ctx.effect("slow", slow))
        try:
            await ctx.effect("never", calls.named("never"))
        except Cancelled:
            await ctx.effect("cleanup", calls.named("cleanup"))
            raise

    error, _ = await _cancelled(app, cleans, blocked)
    check(isinstance(error, JobCancelled) and seen == ["finished"], error, seen)
    check(calls.made == ["cleanup"], calls.made)


@suite.case
async def an_interruptible_effect_is_interrupted() -> None:
    app, blocked = app_of(), asyncio.Event()

    @app.job("cancel.interruptible")
    async def interrupted(ctx: Context) -> None:
        async def slow() -> None:
            blocked.set()
            await asyncio.sleep(3600)

        await ctx.effect("slow", slow, interruptible=True, in_doubt="retry")

    check(isinstance((await _cancelled(app, interrupted, blocked))[0], JobCancelled))


@suite.case
async def a_lost_lease_cancels_at_once_and_reports_nothing() -> None:
    app, calls, blocked = app_of(), Calls(), asyncio.Event()
    seen: list[str] = []

    @app.job("lost")
    async def lost(ctx: Context) -> None:
        async def slow() -> None:
            blocked.set()
            await asyncio.sleep(3600)

        try:
            await ctx.effect("slow", slow)
        except BaseException as error:
            seen.append(type(error).__name__)
            raises(StaleLease, lambda: ctx.effect("late", calls.named("late")))
            raise

    async with working(app, lease_ttl="2s"):
        handle = await app.submit(lost)
        await blocked.wait()
        await handle.cancel(hard=True)
        await until("the end of the handler", lambda: _true(seen))
    check(seen == ["StaleLease"] and calls.made == [], seen)
    check((await events_of(app, handle.id))[-1] == "job_cancelled")


async def _true(value: Any) -> Any:
    return value


@suite.case
async def a_thread_that_lost_its_lease_gets_stale_lease() -> None:
    app, calls = app_of(), Calls()
    blocked, go = threading.Event(), threading.Event()
    seen: list[str] = []

    @app.job("lost.thread")
    def lost(ctx: SyncContext) -> None:
        blocked.set()
        go.wait(30)
        try:
            ctx.effect("late", calls.named("late"))
        except StaleLease:
            seen.append("StaleLease")

    async with working(app, lease_ttl="60s"):
        handle = await app.submit(lost)
        await asyncio.to_thread(blocked.wait, 30)
        await handle.cancel(hard=True)
        go.set()
        await until("the end of the handler", lambda: _true(seen))
    check(seen == ["StaleLease"] and calls.made == [])


@suite.case
async def an_attempt_that_times_out_is_cancelled_at_once() -> None:
    app = app_of()
    ended = asyncio.Event()

    @app.job("timeout", timeout="150ms", max_attempts=1)
    async def timeout(ctx: Context) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with working(app, lease_ttl="2s"):
        handle = await app.submit(timeout)
        await asyncio.wait_for(ended.wait(), 30)
        try:
            await handle.result(timeout=30)
            check(False)
        except JobDeadLettered as error:
            check(error.job["dead_letter"]["reason_code"] == "timeout", error.job)


# ---- threads ------------------------------------------------------------------------------------


@suite.case
async def a_plain_function_is_durable_too() -> None:
    app, calls = app_of(), Calls()
    seen: list[Any] = []

    def plain(name: str) -> str:
        calls.made.append(name)
        return name

    @app.job("sync")
    def sync(ctx: SyncContext, count: int) -> list[Any]:
        moment, number, name = ctx.now(), ctx.random(), ctx.uuid()
        seen.append((moment, number, name))
        both = ctx.gather(ctx.deferred("a", plain, "a"), ctx.deferred("b", plain, "b"))
        ctx.progress({"done": 1}, cursor="here")
        ctx.sleep("1ms")
        answer = ctx.ask("ok", "Go?", ["yes", "no"])
        paid = ctx.effect("pay", calls.named("pay"), count)
        return [*both, answer.value, paid, ctx.wait("go")]

    async with working(app):
        handle = await app.submit(sync, 3)
        await handle.signal("go", 1)
        await until("the question", lambda: _asks(app, handle))
        await handle.answer("yes")
        check(await handle.result(timeout=30) == ["a", "b", "yes", "pay", 1])
        check((await handle.job())["cursor"] == "here")
    check(sorted(calls.made) == ["a", "b", "pay"] and seen[0] == seen[-1], calls.made)


async def _asks(app: Pawl, handle: Any) -> bool:
    wait = (await handle.job())["wait"]
    return wait is not None and wait["type"] == "human"


@suite.case
async def a_plain_function_is_cancelled_by_its_next_call() -> None:
    app, calls = app_of(), Calls()
    blocked = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job("sync.cancel")
    def sync(ctx: SyncContext) -> None:
        loop.call_soon_threadsafe(blocked.set)
        while not ctx.cancelled:
            pass
        try:
            ctx.now()
        except Cancelled:
            ctx.effect("cleanup", calls.named("cleanup"))
            raise

    error, _ = await _cancelled(app, sync, blocked)
    check(isinstance(error, JobCancelled) and calls.made == ["cleanup"], error)


suite.run()
