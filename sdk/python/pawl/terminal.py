"""How far a job is, in one line of a terminal."""

from __future__ import annotations

import json
import shutil
import sys

from .types import Job

SHOW_EVERY_MS = 500


class Progress:
    """A line on standard error that is written again and again; nothing where it is no terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()

    def show(self, job: Job) -> None:
        if not self._is_shown:
            return
        progress = job["progress"]
        text = "" if progress is None else json.dumps(progress, ensure_ascii=False)
        line = f"{job['kind']} {job['id']}: {job['status']} {text}"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{line[:width]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
