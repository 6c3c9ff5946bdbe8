"""Shapes of what the server sends: dictionaries, as they come. Fields may be added to them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

InDoubt = Literal["fail", "retry", "ask"]


class RetryPolicy(TypedDict, total=False):
    """A retry policy of a job or step."""

    max_attempts: int
    strategy: Literal["exponential", "linear", "fixed"]
    initial_ms: int
    factor: float
    max_ms: int
    jitter: Literal["none", "equal", "full"]
    on_exhausted: Literal["dead_letter", "fail"]
    on_permanent: Literal["dead_letter", "fail"]


class _Submitted(TypedDict, total=False):
    duplicate: bool  # of a submit only


class Job(_Submitted):
    """A job. A token without `read` sees id, status and version only."""

    id: str
    kind: str
    queue: str
    status: str
    version: int
    attempt: int
    epoch: int
    failures: int
    priority: int
    run_at: str | None
    created_at: str
    updated_at: str
    payload: Any
    result: Any
    error: dict[str, Any] | None
    progress: Any
    cursor: str | None
    lease: dict[str, Any] | None
    wait: dict[str, Any] | None
    dead_letter: dict[str, Any] | None
    cancel_requested: bool
    idempotency_key: str | None
    fingerprint: str | None
    expires_at: str | None
    deadline_at: str | None
    correlation_id: str
    traceparent: str | None
    labels: dict[str, str] | None
    agent_id: str | None
    goal: str | None
    retry: RetryPolicy
    plan: dict[str, Any] | None
    in_doubt: InDoubt | None
    capabilities: list[str] | None
    timeout_ms: int | None
    redacted: bool


class _InFeed(TypedDict, total=False):
    position: str
    kind: str
    queue: str


class Event(_InFeed):
    """An event of a job's history. In the feed it has `kind`, `queue` and `position` too."""

    id: str
    job_id: str
    version: int
    type: str
    at: str
    actor: str | None
    reason: str | None
    correlation_id: str
    trace_id: str
    cause: str | None
    payload: Any
    hash: str | None


class Lease(TypedDict):
    """What a claim gives: all that the worker sends carries the token."""

    token: str
    attempt: int
    expires_at: str
    heartbeat_ms: int
    timeout_ms: int | None


class _Resumed(TypedDict, total=False):
    resume: dict[str, Any]
    effects_next: str
    events: list[Event]


class Claim(_Resumed):
    """A job that was claimed, with everything that earlier attempts recorded."""

    job: Job
    lease: Lease
    traceparent: str
    effects: dict[str, dict[str, Any]]
    waits: dict[str, dict[str, Any]]


class Question(TypedDict):
    """An open question of `inbox`: of a job, or of a step. `effect` names one that is in doubt."""

    id: str
    step: str | None
    attempt: int
    kind: str
    queue: str
    prompt: str | None
    choices: list[str] | None
    assignee: str | None
    correlation_key: str | None
    effect: str | None
    payload: Any
