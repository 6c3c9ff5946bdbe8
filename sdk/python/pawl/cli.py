"""pawl-worker: runs the worker of an application.

    pawl-worker shop.jobs:app --concurrency 32 --queue default
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import sys
from typing import Sequence

from .app import Pawl
from .durations import to_ms
from .errors import PawlError


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 drained, 1 failed, 2 wrong usage, 5 server out of reach."""
    parser = argparse.ArgumentParser(prog="pawl-worker", description="Runs the worker of an"
                                     " application until SIGTERM, then drains it.")
    parser.add_argument("app", help="module:app; the current directory is searched too")
    parser.add_argument("--concurrency", type=int, default=16, metavar="N",
                        help="jobs at a time (default: 16)")
    parser.add_argument("--queue", action="append", default=[], help="only this queue; repeatable")
    parser.add_argument("--kind", action="append", default=[], help="only this kind; repeatable")
    parser.add_argument("--worker-id", help="default: host, process and a random part")
    parser.add_argument("--drain-timeout", default="30s", metavar="D",
                        help="how long handlers may take to end (default: 30s)")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    sys.path.insert(0, os.getcwd())
    try:
        app = load(given.app)
        drain_timeout = to_ms(given.drain_timeout) / 1000
    except ValueError as error:
        parser.error(str(error))
    try:
        asyncio.run(app.run(concurrency=given.concurrency, queues=given.queue, kinds=given.kind,
                            worker_id=given.worker_id, drain_timeout=drain_timeout))
    except PawlError as error:
        print(f"pawl-worker: {error}", file=sys.stderr)
        return 5 if isinstance(error, (ConnectionError, TimeoutError)) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
