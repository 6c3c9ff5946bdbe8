#!/usr/bin/env python3
"""Step workers, resources and judges.

usage: test_steps.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

from typing import Any

from case import PATIENCE_S, Suite, check, raises, trouble, until, working
from pawl import Context, Handle, JobFailed, Pawl, Plan, ResourceFailed, SyncContext, Verdict
from pawl import testing

suite = Suite()
server = trouble.Server("memory:")


async def steps_of(app: Pawl, handle: Handle[Any]) -> dict[str, Any]:
    return {step["id"]: step async for step in app.client.steps(handle.id)}


@suite.case
async def a_plan_is_worked_off_and_results_are_inputs() -> None:
    app = Pawl(server.url)
    called: list[str] = []

    async def load(name: str) -> int:
        called.append(name)
        return len(name)

    @app.step("load")
    async def loads(ctx: Context, name: str) -> int:
        check(ctx.step == name and ctx.kind == "load", ctx.step)
        return await ctx.effect("load", load, name)

    @app.step("add")
    def adds(ctx: SyncContext) -> int:
        return sum(ctx.inputs.values())

    plan = Plan()
    loaded = [plan.step(name, kind="load", payload=name) for name in ("a", "bb", "ccc")]
    plan.step("sum", kind="add", after=loaded)
    async with working(app, worker_id="adder", resource={"labels": {"zone": "eu"}}):
        handle = await app.submit("sum", plan=plan)
        await handle.result(timeout=PATIENCE_S)
        resource = await app.client.resource("adder")
        check(resource["labels"] == {"zone": "eu"} and resource["slots"] == 16, resource)
    steps = await steps_of(app, handle)
    check(steps["sum"]["result"] == 6 and sorted(called) == ["a", "bb", "ccc"], steps, called)


@suite.case
async def a_step_goes_to_a_resource_that_can_run_it_and_leaves_one_that_fails() -> None:
    plan = Plan()
    plan.step("train", kind="train", capabilities=["gpu"], retry={"initial_ms": 0})
    ran: list[str] = []

    def worker(name: str, is_broken: bool) -> Pawl:
        app = Pawl(server.url)

        @app.step("train")
        async def train(ctx: Context) -> str:
            ran.append(name)
            if is_broken:
                raise ResourceFailed("out of memory")
            return name

        return app

    cpu, broken, gpu = worker("cpu", False), worker("broken", True), worker("gpu", False)
    async with working(cpu, resource={"id": "cpu"}):
        async with working(broken, resource={"id": "broken", "capabilities": ["gpu"]}):
            handle = await cpu.submit("training", plan=plan)
            await until("the failure", lambda: _switched(cpu, handle))
        async with working(gpu, resource={"id": "gpu", "capabilities": ["gpu"]}):
            await handle.result(timeout=PATIENCE_S)
    steps = await steps_of(cpu, handle)
    check(steps["train"]["result"] == "gpu" and ran == ["broken", "gpu"], steps, ran)
    check("broken" in steps["train"]["avoid"], steps)


async def _switched(app: Pawl, handle: Handle[Any]) -> bool:
    return bool((await steps_of(app, handle))["train"]["state"] == "switching_resource")


@suite.case
async def a_judge_sees_the_result_and_may_have_it_made_again() -> None:
    app = Pawl(server.url)
    drafts: list[int] = []

    @app.step("draft")
    async def draft(ctx: Context) -> int:
        drafts.append(len(drafts))
        return drafts[-1]

    @app.judge("draft")
    async def judge(ctx: Context, quality: int) -> Verdict | str:
        return "accept" if quality > 0 else Verdict("retry", "too short")

    plan = Plan()
    plan.step("text", kind="draft", critic=True, retry={"initial_ms": 0})
    async with working(app):
        handle = await app.submit("book", plan=plan)
        await handle.result(timeout=PATIENCE_S)
    steps = await steps_of(app, handle)
    check(drafts == [0, 1] and steps["text"]["result"] == 1, drafts, steps)


@suite.case
async def a_step_asks_a_person_and_runs_again_with_the_answer() -> None:
    app = Pawl()

    @app.step("paint")
    async def paint(ctx: Context) -> Verdict | str:
        if ctx.answer is None:
            return Verdict("needs_user", question={"prompt": "Which?", "choices": ["red", "blue"]})
        return f"{ctx.answer.value} by {ctx.answer.by}"

    plan = Plan()
    plan.step("wall", kind="paint")
    async with testing.start(app, binary=str(trouble.PAWL)) as env:
        handle = await app.submit("house", plan=plan)
        await env.settle()
        (question,) = [each async for each in app.client.inbox()]
        check(question["step"] == "wall" and question["choices"] == ["red", "blue"], question)
        await app.client.answer(handle.id, "red", step="wall", by="ada")
        await env.settle()
        await handle.result(timeout=PATIENCE_S)
        check((await steps_of(app, handle))["wall"]["result"] == "red by ada")


@suite.case
async def a_step_that_waits_fails_and_says_what_to_do() -> None:
    app = Pawl()

    @app.step("nap")
    async def nap(ctx: Context) -> None:
        await ctx.sleep("1d")

    plan = Plan()
    plan.step("nap", kind="nap")
    async with testing.start(app, binary=str(trouble.PAWL)) as env:
        handle = await app.submit("day", plan=plan)
        await env.settle()
        try:
            await handle.result(timeout=PATIENCE_S)
            raise AssertionError("it has slept")
        except JobFailed:
            error = (await steps_of(app, handle))["nap"]["error"]
            check("let another step of the plan wait" in error["message"], error)


@suite.plain
def a_kind_has_one_function() -> None:
    app = Pawl()

    @app.step("once")
    async def once(ctx: Context) -> None:
        return None

    error = raises(ValueError, lambda: app.step("once")(once.handler))
    check('"once"' in str(error), error)


suite.run()
