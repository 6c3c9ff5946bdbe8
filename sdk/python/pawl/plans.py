"""Plans built in code: steps, and what each waits for.

    plan = Plan()
    fetch = plan.step("fetch", kind="http.get", payload={"url": url})
    plan.step("parse", kind="parse", after=[fetch])
    handle = await app.submit("report", plan=plan)
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence, Union

from .durations import Duration, to_ms
from .types import RetryPolicy


@dataclasses.dataclass
class Verdict:
    """What a judge returns, and what a step's handler may return in place of a result. `decision`:
    accept, retry, switch_resource, replan or needs_user. `result` takes the place of the step's own
    with accept; `question` (prompt, choices, assignee, timeout_ms, default_answer) goes with
    needs_user, and the step runs again with the answer in `ctx.answer`."""

    decision: str
    reason: str | None = None
    result: Any = None
    question: Mapping[str, Any] | None = None

    def fields(self, encode: Callable[[Any], Any]) -> dict[str, Any]:
        """The verdict as requests have it."""
        fields = {"decision": self.decision, "reason": self.reason, "question": self.question,
                  "result": None if self.result is None else encode(self.result)}
        return {name: value for name, value in fields.items() if value is not None}


class Step:
    """A step of a plan: give it to `after` of those that need its result."""

    def __init__(self, id: str, spec: dict[str, Any]) -> None:
        self.id = id
        self.spec = spec

    def __repr__(self) -> str:
        return f"Step({self.id!r})"


class Plan:
    """Steps in the order in which they were added. A step can only name steps that are there
    already, so that a plan has no cycles; the server checks everything else."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}

    def step(self, id: str, *, kind: str | None = None, payload: Any = None,
             after: Sequence[Union[Step, str]] = (), capabilities: Sequence[str] = (),
             selector: str | None = None, avoid: Sequence[str] = (),
             retry: RetryPolicy | None = None, timeout: Duration | None = None,
             critic: bool = False, on_failure: str | None = None,
             wait: Mapping[str, Any] | None = None) -> Step:
        """Adds a step. Raises ValueError for an id that is taken or a step that is not there."""
        if id in self._steps:
            raise ValueError(f'the plan has a step "{id}" already')
        deps = [each.id if isinstance(each, Step) else each for each in after]
        for name in deps:
            if name not in self._steps:
                raise ValueError(f'step "{id}" comes after "{name}", which the plan does not have')
        fields: dict[str, Any] = {
            "kind": kind, "payload": payload, "deps": deps, "capabilities": list(capabilities),
            "selector": selector, "avoid": list(avoid), "retry": retry,
            "timeout_ms": None if timeout is None else to_ms(timeout),
            "critic": critic, "on_failure": on_failure, "wait": wait}
        spec = {"id": id, **{name: value for name, value in fields.items()
                             if value is not None and value != [] and value is not False}}
        self._steps[id] = Step(id, spec)
        return self._steps[id]

    def ask(self, id: str, prompt: str, *, choices: Sequence[str] = (), assignee: str | None = None,
            timeout: Duration | None = None, after: Sequence[Union[Step, str]] = ()) -> Step:
        """Adds a step that asks a person. Its result is the answer."""
        question: dict[str, Any] = {"prompt": prompt}
        if choices:
            question["choices"] = list(choices)
        if assignee is not None:
            question["assignee"] = assignee
        if timeout is not None:
            question["timeout_ms"] = to_ms(timeout)
        return self.step(id, after=after, wait={"type": "human", **question})

    def as_json(self, encode: Callable[[Any], Any] | None = None) -> dict[str, Any]:
        """The plan as requests have it: `{"steps": […]}`. `encode` is for payloads."""
        return {"steps": [{**step.spec, "payload": encode(step.spec["payload"])}
                          if encode is not None and "payload" in step.spec else step.spec
                          for step in self._steps.values()]}
