"""pawl-worker: runs the worker of an application.

    pawl-worker shop.jobs:app --concurrency 32 --queue default
    pawl-worker check shop.jobs:app        replays stored histories against this code
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
from typing import Sequence

from . import replay
from .app import Pawl
from .durations import to_ms
from .errors import PawlError


_LOOK_S = 0.2


def load(name: str) -> Pawl:
    """The application that `module:attribute` names. Raises ValueError."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f'"{name}" does not name an application; valid: module:app')
    try:
        app = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot load {name}: {error}") from error
    if not isinstance(app, Pawl):
        raise ValueError(f"{name} is a {type(app).__name__}, not a Pawl application")
    return app


def _sources() -> dict[str, float]:
    """When the Python files below the current directory were changed."""
    found: dict[str, float] = {}
    for folder, folders, files in os.walk(os.getcwd()):
        folders[:] = [each for each in folders if not each.startswith((".", "__"))]
        for path in (os.path.join(folder, each) for each in files if each.endswith(".py")):
            with contextlib.suppress(OSError):
                found[path] = os.stat(path).st_mtime_ns
    return found


def _reload(command: Sequence[str]) -> int:
    """Runs the worker in a process of its own, which is drained and started anew when a file
    changes. For development."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while True:
        before = _sources()
        worker = subprocess.Popen([sys.executable, "-m", "pawl.cli", *command])
        while not ended.wait(_LOOK_S) and _sources() == before:
            pass  # one that has failed waits for the file to be mended
        worker.terminate()
        code = worker.wait()
        if ended.is_set():
            return code
        print("pawl-worker: a file has changed, starting anew", file=sys.stderr)


async def _check(app: Pawl, kinds: Sequence[str], status: str, limit: int) -> int:
    """Prints what does not fit. Gives how many jobs that were."""
    handlers = {kind: job for kind, job in app.jobs.items() if not kinds or kind in kinds}
    jobs = calls = problems = 0
    async for each in replay.check(app.client, handlers, app.codec, status=status, limit=limit):
        jobs, calls = jobs + 1, calls + each.calls
        if each.problem is not None:
            problems += 1
            print(f"{each.job['kind']} {each.job['id']}: {each.problem}")
        if sys.stderr.isatty():
            print(f"\r{jobs} jobs", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{jobs} jobs with {calls} recorded calls replayed, {problems} do not fit")
    await app.client.close()
    return problems


def _main_check(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="pawl-worker check", description="Replays the histories"
                                     " of stored jobs against the code that is here. Exits with 1"
                                     " when one does not fit.")
    parser.add_argument("app", help="module:app; the current directory is searched too")
    parser.add_argument("--kind", action="append", default=[], help="only this kind; repeatable")
    parser.add_argument("--status", default=replay.LIVE, metavar="S,S",
                        help=f"jobs in these states (default: {replay.LIVE})")
    parser.add_argument("--limit", type=int, default=1000, metavar="N",
                        help="at most so many jobs of each kind (default: 1000)")
    given = parser.parse_args(arguments)
    app = _load(parser, given.app)
    try:
        return 1 if asyncio.run(_check(app, given.kind, given.status, given.limit)) else 0
    except PawlError as error:
        return _failed(error)


def _load(parser: argparse.ArgumentParser, name: str) -> Pawl:
    sys.path.insert(0, os.getcwd())
    try:
        return load(name)
    except ValueError as error:
        parser.error(str(error))


def _failed(error: PawlError) -> int:
    print(f"pawl-worker: {error}", file=sys.stderr)
    return 5 if isinstance(error, (ConnectionError, TimeoutError)) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 drained, 1 failed, 2 wrong usage, 5 server out of reach."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["check"]:
        return _main_check(arguments[1:])
    parser = argparse.ArgumentParser(prog="pawl-worker", description="Runs the worker of an"
                                     " application until SIGTERM, then drains it.",
                                     epilog="'pawl-worker check module:app' replays stored"
                                     " histories against this code and runs nothing.")
    parser.add_argument("app", help="module:app; the current directory is searched too")
    parser.add_argument("--concurrency", type=int, default=16, metavar="N",
                        help="jobs at a time (default: 16)")
    parser.add_argument("--queue", action="append", default=[], help="only this queue; repeatable")
    parser.add_argument("--kind", action="append", default=[], help="only this kind; repeatable")
    parser.add_argument("--worker-id", help="default: host, process and a random part")
    parser.add_argument("--code-version", metavar="V",
                        help="the version of this code, for jobs that are pinned to one"
                        " (default: PAWL_CODE_VERSION)")
    parser.add_argument("--lease-ttl", metavar="D",
                        help="how long the jobs of a killed worker stay with it (default: as the"
                        " job, its kind or the server says)")
    parser.add_argument("--drain-timeout", default="30s", metavar="D",
                        help="how long handlers may take to end (default: 30s)")
    parser.add_argument("--reload", action="store_true",
                        help="start anew when a Python file below this directory changes")
    given = parser.parse_args(arguments)
    if given.reload:
        return _reload([word for word in arguments if word != "--reload"])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    app = _load(parser, given.app)
    unknown = sorted(set(given.kind) - {*app.jobs, *app.steps, *app.judges})
    if unknown or not (app.jobs or app.steps or app.judges):
        parser.error(f"{given.app} has no function for kind {', '.join(unknown) or 'any'}")
    try:
        drain_timeout = to_ms(given.drain_timeout) / 1000
        lease_ttl_s = None if given.lease_ttl is None else to_ms(given.lease_ttl) / 1000
    except ValueError as error:
        parser.error(str(error))
    try:
        asyncio.run(app.run(concurrency=given.concurrency, queues=given.queue, kinds=given.kind,
                            worker_id=given.worker_id, drain_timeout=drain_timeout,
                            lease_ttl=lease_ttl_s, code_version=given.code_version))
    except PawlError as error:
        return _failed(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
