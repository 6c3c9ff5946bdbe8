"""Heartbeats, from a thread of their own with a connection of its own: an event loop that is busy,
or a handler that never awaits, does not lose its lease.

One request renews every lease that is due soon. What the server says (the lease has ended, the job
is to be cancelled) is set on the attempt at once, for handlers that poll `ctx.cancelled`, and told
to the worker.
"""

from __future__ import annotations

import datetime
import logging
import threading
import time
from typing import Any, Callable

from .durable import Attempt
from .errors import ApiError, PawlError
from .http import to_bytes
from .sync_client import Client

log = logging.getLogger("pawl.worker")

_REQUEST_TIMEOUT_S = 5.0
_PAUSE_AFTER_ERROR_S = 0.5


class Heartbeats:
    """The leases of a worker. `on_news(attempt)` is called, in this thread, when one is lost or its
    job is to be cancelled. `renew` is called every `renew_s` (the worker's registration)."""

    def __init__(self, client: Client, on_news: Callable[[Attempt], None],
                 renew: Callable[[Client], None], renew_s: float) -> None:
        self._client, self._on_news = client, on_news
        self._renew, self._renew_s = renew, renew_s
        self._due: dict[Attempt, tuple[float, float]] = {}  # attempt: when, interval
        self._wake = threading.Condition()
        self._next = 0.0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="pawl-heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, attempt: Attempt, heartbeat_ms: int) -> None:
        due = time.monotonic() + heartbeat_ms / 1000
        with self._wake:
            self._due[attempt] = (due, heartbeat_ms / 1000)
            if due < self._next:
                self._wake.notify()

    def remove(self, attempt: Attempt) -> None:
        with self._wake:
            self._due.pop(attempt, None)

    def stop(self) -> None:
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        renew_at = time.monotonic() + self._renew_s
        while True:
            with self._wake:
                now = time.monotonic()
                self._next = min([due for due, _ in self._due.values()] + [renew_at])
                if not self._stopped and self._next > now:
                    self._wake.wait(self._next - now)
                if self._stopped:
                    return
                now = time.monotonic()
                # Those that are due within a quarter of their interval go along.
                beats = [attempt for attempt, (due, every) in self._due.items()
                         if due - every / 4 <= now] if self._next <= now else []
            try:
                if beats:
                    self._beat(beats)
                if renew_at <= now:
                    renew_at = now + self._renew_s
                    self._renew(self._client)
            except PawlError as error:
                log.warning("heartbeat: %s", error)
                time.sleep(_PAUSE_AFTER_ERROR_S)  # they stay due

    def _beat(self, attempts: list[Attempt]) -> None:
        ops = [{"op": "heartbeat", "token": attempt.token} for attempt in attempts]
        results = self._client.send_ops(to_bytes({"ops": ops}), timeout=_REQUEST_TIMEOUT_S)
        now = time.monotonic()
        for attempt, result in zip(attempts, results):
            self._heard(attempt, result["status"], result["body"], now)

    def _heard(self, attempt: Attempt, status: int, body: Any, now: float) -> None:
        with self._wake:
            if attempt not in self._due:
                return  # it has ended meanwhile
            every = self._due[attempt][1]
            # A lease that cannot be prolonged (its attempt times out) is looked at when it ends.
            left_s = _seconds_until(body["expires_at"]) if status == 200 else every
            self._due[attempt] = (now + min(every, max(left_s, 0.0) + 0.02), every)
        if status == 409:
            attempt.lose()
        elif status != 200:
            log.warning("heartbeat: %s", ApiError(status, body))
            return
        elif not body["cancel_requested"] or attempt.cancel_requested:
            return
        attempt.cancel_requested = True
        self._on_news(attempt)


def _seconds_until(at: str) -> float:
    moment = datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
    return (moment - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
