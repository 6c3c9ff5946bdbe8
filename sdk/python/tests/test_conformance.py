#!/usr/bin/env python3
"""The conformance cases of sdk/conformance, on SQLite and PostgreSQL.

usage: test_conformance.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import asyncio
import time

from case import check, trouble
from conformance import World, cases, on_stores, run_case

KILLS_LEAST = 40


def every_case_holds_on_every_store() -> None:
    async def run(world: World) -> str:
        kills = 0
        for case in cases():
            begun = time.monotonic()
            kills += await run_case(world, case)
            print(f"  {case['name']} ({time.monotonic() - begun:.1f} s)", flush=True)
        check(kills >= KILLS_LEAST, "workers were killed only", kills, "times")
        return f"{len(cases())} cases, {kills} kills"

    on_stores(lambda world: asyncio.run(run(world)))


if __name__ == "__main__":
    trouble.run(every_case_holds_on_every_store)
