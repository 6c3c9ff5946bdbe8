#!/usr/bin/env python3
"""Jobs a second of one Python worker, beside Celery and RQ in the same run.

All are measured in turns, so that a machine that is busy with something else slows all of them; a
line is the median of its turns, and the ratio that of the ratios within a turn. Jobs are submitted
before the clock starts. Celery and RQ use a Redis that writes nothing to the disk; Pawl's commits
wait for the disk.

usage: compare.py PAWL [TURNS [JOBS]]     scripts/bench-python installs what it needs
"""
from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Iterator

import redis

HERE = pathlib.Path(__file__).resolve().parent
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.005
REDIS_PORT, PAWL_PORT = 17913, 17914


def cpu_s(*pids: int) -> float:
    """CPU time of processes and of those that they started."""
    wanted, total = set(pids), 0
    stats = dict(_stats())
    for pid, (parent, ticks) in stats.items():
        if pid in wanted or parent in wanted or stats.get(parent, (0, 0))[0] in wanted:
            total += ticks
    return total / TICKS_A_SECOND


def _stats() -> Iterator[tuple[int, tuple[int, int]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = pathlib.Path(f"/proc/{entry}/stat").read_text(encoding="utf-8")
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            # Those of children that have ended count too: RQ forks for every job.
            yield int(entry), (int(fields[1]), sum(map(int, fields[11:15])))


class Figures:
    """Jobs a second, and CPU microseconds a job: of the worker, and of server and worker."""

    def __init__(self, jobs: int, seconds: float, worker_s: float, server_s: float) -> None:
        self.rate = jobs / seconds
        self.worker_us = worker_s / jobs * 1e6
        self.all_us = (worker_s + server_s) / jobs * 1e6


class Pawl:
    def __init__(self, binary: str, place: str) -> None:
        self.url = f"http://127.0.0.1:{PAWL_PORT}"
        self._server = subprocess.Popen(
            [binary, "serve", "--store", f"sqlite:{place}/bench.db", "--listen",
             f"127.0.0.1:{PAWL_PORT}"], stderr=subprocess.PIPE, text=True)
        assert self._server.stderr is not None
        for line in self._server.stderr:
            if "server_started" in line:
                return
        raise RuntimeError("the server has not started")

    def measure(self, jobs: int, effects: int) -> Figures:
        before = cpu_s(self._server.pid)
        done = subprocess.run(
            [sys.executable, str(HERE / "noop.py"), self.url, str(jobs), "64", str(effects)],
            check=True, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)})
        found = json.loads(done.stdout)
        # The server's CPU includes the submits, which are not in the time.
        server_s = cpu_s(self._server.pid) - before
        return Figures(jobs, jobs / found["jobs_per_s"], found["cpu_us_per_job"] * jobs / 1e6,
                       server_s)

    def end(self) -> None:
        self._server.terminate()
        self._server.wait()


class Redis:
    """A Redis, and the workers on it."""

    def __init__(self, place: str) -> None:
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(REDIS_PORT), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", place], stdout=subprocess.DEVNULL)
        self.url = f"redis://127.0.0.1:{REDIS_PORT}/0"
        self.client: Any = redis.Redis(port=REDIS_PORT)
        self._env = {**os.environ, "BENCH_REDIS": self.url, "PYTHONPATH": str(HERE)}
        while True:
            try:
                self.client.ping()
                return
            except redis.ConnectionError:
                time.sleep(LOOK_S)

    def celery(self, jobs: int, pool: str, concurrency: int, prefetch: int) -> Figures:
        self.client.flushall()
        subprocess.run([sys.executable, "-c", (
            "from celery_app import app, noop\n"
            "with app.producer_or_acquire() as producer:\n"
            f"    for _ in range({jobs}): noop.apply_async(producer=producer)")],
            check=True, env=self._env)
        return self._timed(
            jobs, lambda: int(self.client.llen("celery")) + int(self.client.hlen("unacked")),
            [sys.executable, "-W", "ignore", "-m", "celery", "-A", "celery_app", "worker", "-P",
             pool, "-c", str(concurrency), "-l", "ERROR", "--without-gossip", "--without-mingle",
             "--without-heartbeat"], {**self._env, "BENCH_PREFETCH": str(prefetch)})

    def rq(self, jobs: int) -> Figures:
        self.client.flushall()
        subprocess.run([sys.executable, "-c", (
            "import redis, rq, rq_app\n"
            f"queue = rq.Queue(connection=redis.Redis(port={REDIS_PORT}))\n"
            f"for _ in range({jobs}): queue.enqueue(rq_app.noop, result_ttl=0)")],
            check=True, env=self._env)
        return self._timed(
            jobs, lambda: int(self.client.llen("rq:queue:default")),
            [sys.executable, "-m", "rq.cli", "worker", "-q", "-u", self.url], self._env)

    def _timed(self, jobs: int, left: Callable[[], int], command: list[str],
               env: dict[str, str]) -> Figures:
        """From the first job that has been acknowledged to the last."""
        worker = subprocess.Popen(command, env=env, cwd=HERE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            while (first := left()) == jobs:
                if worker.poll() is not None:
                    raise RuntimeError(f"{' '.join(command)} has ended")
                time.sleep(LOOK_S)
            began, before = time.perf_counter(), cpu_s(worker.pid)
            server_before = cpu_s(self._process.pid)
            while left() > 0:
                time.sleep(LOOK_S)
            seconds = time.perf_counter() - began
            return Figures(first, seconds, cpu_s(worker.pid) - before,
                           cpu_s(self._process.pid) - server_before)
        finally:
            worker.terminate()
            worker.wait()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def main(binary: str, turns: int = 5, jobs: int = 20_000) -> None:
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as place:
        pawl, peers = Pawl(binary, place), Redis(place)
        few = jobs // 4
        systems: dict[str, Callable[[], Figures]] = {
            "Pawl": lambda: pawl.measure(jobs, 0),
            "Celery, prefork 2": lambda: peers.celery(few, "prefork", 2, 64),
            "Celery, threads 64": lambda: peers.celery(few, "threads", 64, 4),
            "Celery, gevent 64": lambda: peers.celery(few, "gevent", 64, 4),
            "RQ": lambda: peers.rq(max(few // 20, 20)),
            "Pawl, two effects a job": lambda: pawl.measure(jobs // 2, 2),
        }
        found: dict[str, list[Figures]] = {name: [] for name in systems}
        try:
            for turn in range(turns):
                for name, measure in systems.items():
                    found[name].append(measure())
                print(f"turn {turn + 1} of {turns}: " + ", ".join(
                    f"{name} {figures[-1].rate:,.0f}/s" for name, figures in found.items()),
                    file=sys.stderr)
        finally:
            pawl.end()
            peers.end()
    print(table(found, turns))


def table(found: dict[str, list[Figures]], turns: int) -> str:
    best = [max(found[name][turn].rate for name in found if name.startswith("Celery"))
            for turn in range(turns)]
    lines = ["| one worker process | jobs/s | × the best Celery of the turn (least – most) "
             "| CPU µs a job, worker | with its server |", "|---|---|---|---|---|"]
    for name, figures in found.items():
        ratios = [each.rate / of for each, of in zip(figures, best)]
        median = {field: statistics.median(getattr(each, field) for each in figures)
                  for field in ("rate", "worker_us", "all_us")}
        lines.append(f"| {name} | {median['rate']:,.0f} | {statistics.median(ratios):.1f} "
                     f"({min(ratios):.1f} – {max(ratios):.1f}) | {median['worker_us']:,.0f} "
                     f"| {median['all_us']:,.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
