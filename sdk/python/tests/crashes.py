#!/usr/bin/env python3
"""Random crash schedules: a durable program whose workers are killed one after the other, at a
request or at any moment. Each effect happens once, whatever is killed when, and the result is that
of a life without crashes. `make sdk-crashes N=1000`.

usage: crashes.py BUILD_DIRECTORY SOURCE_DIRECTORY [COUNT [SEED]]
"""
from __future__ import annotations

import asyncio
import random
import sys
import threading
from typing import Any, Iterator

from case import check
from conformance import AT_A_TIME, Life, World, cases, on_stores

COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 20
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 32)


def schedule(dice: random.Random) -> Iterator[Any]:
    """How each worker dies: one to four of them, the next one lives."""
    for _ in range(dice.randint(1, 4)):
        if dice.random() < 0.5:
            yield (dice.randint(1, 18), dice.choice(["before", "after"]))
        else:
            yield lambda worker, s=dice.uniform(0, 0.15): threading.Timer(s, worker.kill).start()


async def crash(world: World, count: int, seed: int) -> str:
    (case,) = [each for each in cases() if each.get("kill")]
    kills = 0
    for first in range(0, count, AT_A_TIME):
        batch = range(first, min(first + AT_A_TIME, count))
        lives = [Life(world, case, schedule(random.Random(seed + number))) for number in batch]
        await asyncio.gather(*(life.live() for life in lives))
        kills += sum(life.killed for life in lives)
    check(kills > count // 2, "there were only", kills, "kills")
    return f"{count} schedules from seed {seed}, {kills} kills, each effect once"


if __name__ == "__main__":
    print(f"seed {SEED}", flush=True)
    on_stores(lambda world: asyncio.run(crash(world, COUNT, SEED)))
