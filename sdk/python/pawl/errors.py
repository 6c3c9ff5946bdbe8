"""Every error of the package.

Three families: what a server refuses (`ApiError` by `code`), what a durable function raises to say
what shall become of its job (`Permanent`, `Retry`, `Validation`, `NotDone`), and what a caller of
`handle.result()` meets (`JobFailed`).
"""

from __future__ import annotations

import asyncio
from typing import Any, Mapping

from .durations import Duration


class PawlError(Exception):
    """Base of all errors of the package."""


class ConnectionLost(PawlError, ConnectionError):
    """The server could not be reached, or closed the connection before it responded."""


class RequestTimeout(PawlError, TimeoutError):
    """The server did not respond within the timeout of the request."""


# ---- what a server refuses ----------------------------------------------------------------------


class ApiError(PawlError):
    """A response of the server that says no. `code` is stable; `detail` is for people."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", f"http_{status}"))
        self.detail = str(problem.get("detail", ""))
        super().__init__(f"{self.code}: {self.detail or problem.get('title', status)}")


class BadRequest(ApiError):
    """400: a value is wrong."""


class UnknownField(BadRequest):
    """400: a field that the server does not know."""


class Unauthorized(ApiError):
    """401: no token, or a wrong one."""


class Forbidden(ApiError):
    """403: the token's scopes or queues do not include this."""


class NotFound(ApiError):
    """404."""


class FeedReset(ApiError):
    """410: events after this position were lost in a failover; `cursor` is where to go on."""

    @property
    def cursor(self) -> str:
        return str(self.problem.get("cursor", ""))


class Conflict(ApiError):
    """409: the state does not allow it."""


class StaleLease(Conflict):
    """409: the lease has ended. Nothing that is sent under its token changes anything."""


class VersionMismatch(Conflict):
    """409: somebody else was faster."""


class InvalidTransition(Conflict):
    """409: the job or step is in a state that does not allow this."""


class WrongCorrelationKey(Conflict):
    """409: the job waits for another key."""


class BatchRefused(Conflict):
    """409: an operation of an atomic batch was rejected; `index` says which."""

    @property
    def index(self) -> int:
        return int(self.problem.get("index", -1))


class ReplayMismatch(Conflict):
    """The function does something else than it recorded: its code has changed, or it is not
    deterministic. Worker: the job becomes a dead letter; redriven after a rollback it keeps its
    results."""

    key: str | None = None
    expected: str | None = None
    found: str | None = None

    @classmethod
    def changed(cls, key: str, expected: str, found: str) -> ReplayMismatch:
        """The effect `key` was recorded with the fingerprint `expected` and now has `found`."""
        error = cls(409, {
            "code": "replay_mismatch",
            "detail": f'effect "{key}" was recorded with another input:'
                      f" expected {expected}, found {found}"})
        error.key, error.expected, error.found = key, expected, found
        return error


class PayloadTooLarge(ApiError):
    """413."""


class Unprocessable(ApiError):
    """422: a plan that cannot run."""


class IdempotencyMismatch(Unprocessable):
    """422: a known key with another body, kind or payload."""


class TryLater(ApiError):
    """429 and 503. Requests are repeated by themselves until their timeout is over."""

    @property
    def retry_after_s(self) -> float:
        return float(self.problem.get("retry_after_s", 0))


class RateLimited(TryLater):
    """429: the token asks too often."""


class Unavailable(TryLater):
    """503: the server or its store cannot serve now."""


_BY_CODE: dict[str, type[ApiError]] = {
    "bad_request": BadRequest,
    "unknown_field": UnknownField,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "feed_reset": FeedReset,
    "stale_lease": StaleLease,
    "version_mismatch": VersionMismatch,
    "invalid_transition": InvalidTransition,
    "wrong_correlation_key": WrongCorrelationKey,
    "replay_mismatch": ReplayMismatch,
    "batch_refused": BatchRefused,
    "payload_too_large": PayloadTooLarge,
    "unprocessable_plan": Unprocessable,
    "idempotency_mismatch": IdempotencyMismatch,
    "rate_limited": RateLimited,
    "unavailable": Unavailable,
    "no_memory": Unavailable,
}
_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict,
    413: PayloadTooLarge, 422: Unprocessable, 429: RateLimited, 503: Unavailable,
}


def api_error(status: int, problem: Any) -> ApiError:
    """The error for a response, by its code. A code that this package does not know is an
    `ApiError` of its status."""
    fields = problem if isinstance(problem, dict) else {}
    by_status = _BY_STATUS.get(status, ApiError)
    return _BY_CODE.get(str(fields.get("code")), by_status)(status, fields)


# ---- what becomes of a job ----------------------------------------------------------------------


class Permanent(PawlError):
    """Raised by a handler: the job fails, and is not retried."""


class Validation(Permanent):
    """Raised by a handler: the payload is wrong. The job fails, and is not retried."""


class Retry(PawlError):
    """Raised by a handler: the attempt fails and the job is retried, `after` a time if given."""

    def __init__(self, message: str = "retry", *, after: Duration | None = None) -> None:
        super().__init__(message)
        self.after = after


class ResourceFailed(PawlError):
    """Raised by a step's handler: the resource does not work. The step moves to another one."""


class NotDone(PawlError):
    """Raised by an effect's function: it certainly did not happen. The effect is aborted, and may
    be begun again."""


class EffectFailed(Permanent):
    """A failure that was recorded as the outcome of an effect: raised now and on every replay, so
    that uncaught it fails the job for good."""

    def __init__(self, key: str, error: Mapping[str, Any]) -> None:
        super().__init__(f'effect "{key}" failed: {error.get("message", "")}')
        self.key = key
        self.error = error
        self.type = error.get("type")


class WaitTimeout(Permanent, TimeoutError):
    """`ctx.wait` ended by its timeout. Uncaught it fails the job for good, since every replay would
    meet it again."""


class CodecError(Permanent, TypeError):
    """A value that the codec cannot encode, or cannot decode as the annotation says."""


class UsageError(Permanent):
    """A durable function breaks a rule of durable functions."""


class DuplicateKey(UsageError):
    """A key was used twice in one run."""


class ConcurrentWait(UsageError):
    """A wait, or a call without a key, inside `gather`."""


class SuspendSwallowed(UsageError):
    """A handler caught `Suspend` and went on."""


class Suspend(BaseException):
    """Unwinds a handler whose job waits. Let it pass: the wait begins when the handler has ended,
    and a later attempt runs the function again."""


class Cancelled(asyncio.CancelledError):
    """The job shall be cancelled. Raised once, by the next call on the context; effects that clean
    up may follow."""


# ---- what came of a job -------------------------------------------------------------------------


class JobFailed(PawlError):
    """`handle.result()`: the job ended without a result. `job` is the job, `error` its error."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = job
        self.error: Mapping[str, Any] = job.get("error") or {}
        why = self.error.get("message") or job.get("status")
        super().__init__(f"job {job.get('id')} is {job.get('status')}: {why}")


class JobCancelled(JobFailed):
    """The job was cancelled."""


class JobDeadLettered(JobFailed):
    """The job is a dead letter: `job["dead_letter"]` says why."""
