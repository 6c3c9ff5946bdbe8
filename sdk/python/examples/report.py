"""A plan built in code: two sources are fetched side by side, a judge looks at what was found, a
person approves, and a report is written.

    pawl-worker report:app
    python3 report.py rain

A plan is for work that several programs or machines share: each step runs on its own, on any worker
that can do it, and its result is an input of the steps after it.
"""
from __future__ import annotations

import os
import sys

from pawl import Context, Pawl, Plan, SyncContext, Verdict

app = Pawl()


def happened(what: str) -> None:
    with open(os.environ.get("REPORT_LOG", "report.log"), "a", encoding="utf-8") as log:
        log.write(f"{what}\n")


async def download(source: str, topic: str) -> list[str]:
    happened(f"downloaded {source}")
    return [f"{source}: {topic} {number}" for number in (1, 2)]


@app.step("report.fetch")
async def fetch(ctx: Context, payload: dict[str, str]) -> list[str]:
    return await ctx.effect("download", download, payload["source"], payload["topic"],
                            in_doubt="retry")


@app.judge("report.fetch")
async def review(ctx: Context, found: list[str]) -> Verdict:
    return Verdict("accept") if found else Verdict("retry", "nothing was found")


@app.step("report.write")
def write(ctx: SyncContext) -> str:
    happened("wrote")
    lines = [line for source in ("news", "papers") for line in ctx.inputs[source]]
    return f"{len(lines)} findings, approved: {ctx.inputs['approve']}"


def plan_for(topic: str) -> Plan:
    plan = Plan()
    sources = [plan.step(source, kind="report.fetch", critic=True,
                         payload={"source": source, "topic": topic})
               for source in ("news", "papers")]
    approve = plan.ask("approve", f"Write the report on {topic}?", choices=["yes", "no"],
                       after=sources)
    plan.step("write", kind="report.write", after=[*sources, approve])
    return plan


if __name__ == "__main__":
    handle = app.sync.submit("report", plan=plan_for(sys.argv[1]))
    print(f"job {handle.id}: pawl approve {handle.id} approve --answer yes")
    handle.result()
    steps = app.sync.client.steps(handle.id)
    print(next(step["result"] for step in steps if step["id"] == "write"))
