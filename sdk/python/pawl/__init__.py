"""Durable functions, jobs and workers on a Pawl server.

    from pawl import Context, Pawl

    app = Pawl()

    @app.job("refund", max_attempts=5)
    async def refund(ctx: Context, order: Order) -> Receipt:
        charge = await ctx.effect("pay", pay, order, in_doubt="ask")
        return Receipt(refunded=True, charge=charge)

    handle = await app.submit(refund, Order(7), key="order-7")
    print(await handle.result(timeout=60))

This module is the public API; README.md is the manual.
"""

from .app import Handle, JobFunction, Pawl, SyncHandle, SyncPawl
from .client import AsyncClient
from .codec import Codec, JsonCodec
from .durable import Answer, Context, Deferred, Effect, SyncContext, idempotency_key
from .errors import (ApiError, BadRequest, BatchRefused, Cancelled, CodecError, ConcurrentWait,
                     Conflict, ConnectionLost, DuplicateKey, EffectFailed, FeedReset, Forbidden,
                     IdempotencyMismatch, InvalidTransition, JobCancelled, JobDeadLettered,
                     JobFailed, NotDone, NotFound, PawlError, PayloadTooLarge, Permanent,
                     RateLimited, ReplayMismatch, RequestTimeout, ResourceFailed, Retry, StaleLease,
                     Suspend, SuspendSwallowed, Unauthorized, Unavailable, UnknownField,
                     Unprocessable, UsageError, Validation, VersionMismatch, WaitTimeout,
                     WrongCorrelationKey)
from .plans import Plan, Step, Verdict
from .sync_client import Client
from .types import Event, InDoubt, Job, Question, RetryPolicy
from .version import VERSION as __version__

__all__ = [
    "Answer", "ApiError", "AsyncClient", "BadRequest", "BatchRefused", "Cancelled", "Client",
    "Codec", "CodecError", "ConcurrentWait", "Conflict", "ConnectionLost", "Context", "Deferred",
    "DuplicateKey", "Effect", "EffectFailed", "Event", "FeedReset", "Forbidden", "Handle",
    "IdempotencyMismatch", "InDoubt", "InvalidTransition", "Job", "JobCancelled", "JobDeadLettered",
    "JobFailed", "JobFunction", "JsonCodec", "NotDone", "NotFound", "Pawl", "PawlError",
    "PayloadTooLarge", "Permanent", "Plan", "Question", "RateLimited", "ReplayMismatch",
    "RequestTimeout", "ResourceFailed", "Retry", "RetryPolicy", "StaleLease", "Step", "Suspend",
    "SuspendSwallowed", "SyncContext", "SyncHandle", "SyncPawl", "Unauthorized", "Unavailable",
    "UnknownField", "Unprocessable", "UsageError", "Validation", "Verdict", "VersionMismatch",
    "WaitTimeout", "WrongCorrelationKey", "__version__", "idempotency_key",
]
