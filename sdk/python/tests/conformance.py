"""Runs conformance cases: servers, workers as processes, and a person who answers."""
from __future__ import annotations

import asyncio
import collections
import itertools
import json
import multiprocessing
import os
import signal
from typing import Any, Callable, Iterator

from case import PATIENCE_S, SDK, SOURCE, check, trouble
from conformance_worker import Ledger, main
from pawl import AsyncClient

# A worker that is killed has a short lease, which others wait for. One that learns something from
# its heartbeats has one that a slow machine does not lose.
KILLED_LEASE, TOLD_LEASE, LEASE = "600ms", "2s", "20s"
AT_A_TIME = 10

os.environ["PYTHONPATH"] = os.pathsep.join([SDK, os.path.join(SDK, "tests")])
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["conformance_worker"])
numbers = itertools.count(1)


def cases() -> list[dict[str, Any]]:
    path = os.path.join(SOURCE, "sdk", "conformance", "cases.json")
    with open(path, encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)["cases"]
    return found


class World:
    """A server on a store, which can be killed and started again."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.server = trouble.Server(store)
        self.url: str = self.server.url
        self.port: Any = self.server.port

    def restart(self) -> None:
        self.server.kill()
        self.server = trouble.Server(self.store, self.port)

    def end(self) -> None:
        self.server.end()


class Life:
    """One job from its submit to its end. `kills` says how each worker but the last one dies:
    (request, side), or a function that is called with the process."""

    def __init__(self, world: World, case: dict[str, Any], kills: Iterator[Any]) -> None:
        self.world, self.case, self._kills = world, case, kills
        self.kind = f"case.{next(numbers)}"
        self.ledger_path = os.path.join(trouble.place, f"{self.kind}.ledger")
        self.ledger = Ledger(self.ledger_path)
        self.workers: list[Any] = []
        self.killed = 0
        self._client = AsyncClient(world.url, timeout=PATIENCE_S)
        self._left = list(case.get("outside", []))
        self._id = ""

    async def live(self) -> None:
        job = await self._client.submit(self.kind, self.case["program"], in_doubt="fail",
                                        retry={"max_attempts": 50, "initial_ms": 0})
        self._id = job["id"]
        await self._outside(job)
        self._start()
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while job["status"] not in ("completed", "failed", "cancelled", "dead_lettered"):
            check(asyncio.get_running_loop().time() < end, "it has not ended:", job,
                  self.ledger.lines())
            if not self.workers[-1].is_alive():
                check(self.workers[-1].exitcode == -signal.SIGKILL, self.workers[-1].exitcode)
                self.killed += 1
                self._start()
            job = await self._client.job(self._id)
            await self._person(job)
            await self._outside(job)
            await asyncio.sleep(0.01)
        await self._check(await self._client.job(self._id))
        await self._client.close()

    def _start(self) -> None:
        kill = next(self._kills, None)
        by_request = kill if isinstance(kill, tuple) else ()
        is_told = any(action["do"] in ("cancel", "freeze") for action in self._left)
        lease = KILLED_LEASE if kill is not None else TOLD_LEASE if is_told else LEASE
        worker = processes.Process(target=main, daemon=True, args=(
            self.world.url, self.kind, self.ledger_path, lease, *by_request))
        worker.start()
        self.workers.append(worker)
        if callable(kill):
            kill(worker)

    # ---- what happens around it ----

    async def _outside(self, job: Any) -> None:
        while self._left and self._is_time(self._left[0], job):
            action = self._left.pop(0)
            await getattr(self, f"_{action['do']}")(action)

    def _is_time(self, action: dict[str, Any], job: Any) -> bool:
        if action["when"] == "submitted":
            return True
        if action["when"] == "blocked":
            return "blocked" in self.ledger.lines()
        wait = job["wait"]
        return wait is not None and wait["correlation_key"] == action["key"]

    async def _signal(self, action: dict[str, Any]) -> None:
        await self._client.signal(self._id, action["key"], action["payload"], early=True)

    async def _answer(self, action: dict[str, Any]) -> None:
        await self._client.answer(self._id, action["answer"], by=action["by"],
                                  comment=action["comment"])

    async def _cancel(self, _: dict[str, Any]) -> None:
        await self._client.cancel(self._id)

    async def _freeze(self, _: dict[str, Any]) -> None:
        frozen = self.workers[-1]
        os.kill(frozen.pid, signal.SIGSTOP)
        self._start()
        while (await self._client.job(self._id, wait_ms=1000))["status"] != "completed":
            pass
        os.kill(frozen.pid, signal.SIGCONT)

    async def _terminate(self, _: dict[str, Any]) -> None:
        self.workers[-1].terminate()
        await asyncio.to_thread(self.workers[-1].join, PATIENCE_S)
        check(self.workers[-1].exitcode == 0, self.workers[-1].exitcode)
        self._start()

    async def _restart(self, _: dict[str, Any]) -> None:
        self.world.restart()  # in this thread: a server ends with the one that started it

    async def _person(self, job: Any) -> None:
        """Who is asked about an effect looks whether it has happened."""
        wait = job["wait"]
        if wait is None or not wait.get("effect"):
            return
        (value,) = [step["value"] for step in _effects(self.case["program"]["steps"])
                    if step["key"] == wait["effect"]]
        if wait["effect"] in self.ledger.lines():
            await self._client.answer(self._id, "done", result=value)
        else:
            await self._client.answer(self._id, "retry")

    # ---- what came of it ----

    async def _check(self, job: Any) -> None:
        expect = self.case["expect"]
        facts = (self.case["name"], job, self.ledger.lines())
        for worker in self.workers:
            if worker.is_alive():
                worker.terminate()
        for worker in self.workers:
            await asyncio.to_thread(worker.join, PATIENCE_S)
            # SIGTERM also ends a worker that has only just been started.
            check(worker.exitcode in (0, -signal.SIGKILL, -signal.SIGTERM), worker.exitcode, *facts)
        check(job["status"] == expect["status"], *facts)
        check("result" not in expect or job["result"] == expect["result"], *facts)
        for name in ("attempt", "failures"):
            check(name not in expect or job[name] == expect[name], name, *facts)
        if "dead_letter" in expect:
            check(job["dead_letter"]["reason_code"] == expect["dead_letter"], *facts)
        check(dict(collections.Counter(self.ledger.lines())) == expect["ledger"], *facts)
        check((await self._client.verify(self._id))["ok"], *facts)


def _effects(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        if step["do"] == "effect":
            yield step
        yield from _effects(step.get("effects", []))


async def killed_everywhere(world: World, case: dict[str, Any], sides: tuple[str, ...]) -> int:
    """One life for each request (or await) and each side of it, until a worker was not killed any
    more. Gives the number of lives in which one was."""
    killed, at_a_time = 0, AT_A_TIME // len(sides)
    for first in itertools.count(1, at_a_time):
        lives = [Life(world, case, iter([(number, side)]))
                 for number in range(first, first + at_a_time) for side in sides]
        await asyncio.gather(*(life.live() for life in lives))
        killed += sum(life.killed > 0 for life in lives)
        if any(life.killed == 0 for life in lives):
            return killed
    raise AssertionError("there is no end")


async def run_case(world: World, case: dict[str, Any]) -> int:
    """Runs a case. Gives the number of kills."""
    kills = {"every_request": ("before", "after"), "every_await": ("await",)}
    if "kill" in case:
        return sum([await killed_everywhere(world, case, kills[each]) for each in case["kill"]])
    await Life(world, case, iter(())).live()
    return 0


def on_stores(test: Callable[[World], Any]) -> None:
    for store in (trouble.fresh_sqlite(), trouble.fresh_postgres()):
        world = World(store)
        print(f"{store.partition(':')[0]}: {test(world)}", flush=True)
        world.end()
