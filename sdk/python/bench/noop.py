#!/usr/bin/env python3
"""No-op jobs a second of one worker process: submits them, then works them off.

usage: noop.py URL [JOBS [CONCURRENCY [EFFECTS]]]     effects in each job (default: 0)
"""
import asyncio
import json
import sys
import time

from pawl import Context, Pawl


async def nothing() -> None:
    return None


async def main(url: str, count: int = 20_000, concurrency: int = 64, effects: int = 0) -> None:
    app = Pawl(url)
    done = 0

    @app.job("noop")
    async def noop(ctx: Context) -> None:
        nonlocal done
        for number in range(effects):
            await ctx.effect(f"e{number}", nothing)
        done += 1
        if done == count:
            app.stop()

    for at in range(0, count, 1000):
        await app.client.submit_many([{"kind": "noop"}] * min(1000, count - at))
    began, cpu = time.perf_counter(), time.process_time()
    await app.run(concurrency=concurrency)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(json.dumps({"jobs": count, "concurrency": concurrency, "effects": effects,
                      "jobs_per_s": round(count / seconds),
                      "cpu_us_per_job": round(cpu / count * 1e6)}))


asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
