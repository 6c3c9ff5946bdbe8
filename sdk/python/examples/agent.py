"""An agent with tools and an approval: a model chooses tools until it has an answer, a person
approves it, and it is published.

    pawl-worker agent:app
    python3 agent.py "why do pawls click?"

The model is a function that needs no network; replace `think` by a call of yours. Each of its
decisions is an effect, so that no token is paid for twice.
"""
from __future__ import annotations

import dataclasses
import os
import sys
from typing import Callable

from pawl import Context, NotDone, Pawl

app = Pawl()
STEPS_MOST = 10


@dataclasses.dataclass
class Decision:
    """What the model wants: a tool, or with `answer` to end."""

    tool: str | None = None
    argument: str = ""
    answer: str | None = None


@dataclasses.dataclass
class Report:
    published: bool
    answer: str
    tools: list[str]


def happened(what: str) -> None:
    with open(os.environ.get("AGENT_LOG", "agent.log"), "a", encoding="utf-8") as log:
        log.write(f"{what}\n")


async def think(question: str, seen: list[str]) -> Decision:
    if not question:
        raise NotDone("the model refused the request")
    happened(f"thought {len(seen)}")
    if len(seen) < 2:
        return Decision(tool=("search", "read")[len(seen)], argument=question)
    return Decision(answer=f"{question} Because of {' and '.join(seen)}.")


def search(argument: str) -> str:
    happened("searched")
    return "ratchets"


def read(argument: str) -> str:
    happened("read")
    return "springs"


async def publish(answer: str) -> str:
    happened("published")
    return f"https://example.org/{len(answer)}"


TOOLS: dict[str, Callable[[str], str]] = {"search": search, "read": read}


@app.job("research", max_attempts=10, retry={"initial_ms": 50})
async def research(ctx: Context, question: str) -> Report:
    seen: list[str] = []
    used: list[str] = []
    decision = Decision()
    for step in range(STEPS_MOST):
        decision = await ctx.effect(f"think {step}", think, question, seen, in_doubt="retry",
                                    retry=3)
        if decision.answer is not None or decision.tool is None:
            break
        used.append(decision.tool)
        tool = TOOLS[decision.tool]
        seen.append(await ctx.effect(f"{decision.tool} {step}", tool, decision.argument,
                                     in_doubt="retry"))
        await ctx.progress({"tools": used})
    answer = decision.answer or "I do not know."
    approval = await ctx.ask("approve", f"Publish this? {answer}", ["yes", "no"])
    if approval != "yes":
        return Report(False, answer, used)
    await ctx.effect("publish", publish, answer, in_doubt="ask")
    return Report(True, answer, used)


if __name__ == "__main__":
    handle = app.sync.submit(research, " ".join(sys.argv[1:]))
    print(f"job {handle.id}: answer its question with: pawl approve {handle.id} --answer yes")
    print(handle.result())
