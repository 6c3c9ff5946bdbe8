"""Threads that are kept for the next call and do not keep the process alive: a handler that cannot
be interrupted must not hold up a worker that has drained."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import queue
import threading
from typing import Any, Callable, TypeVar

T = TypeVar("T")


class Threads:
    """As many threads as there are calls at a time."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[
            tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def start(self, function: Callable[..., T], *args: Any) -> concurrent.futures.Future[T]:
        """Calls the function in a thread, with the context variables of the caller."""
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        context = contextvars.copy_context()
        with self._lock:
            fresh = self._idle == 0
            if not fresh:
                self._idle -= 1
        self._work.put((outcome, lambda: context.run(function, *args)))
        if fresh:
            threading.Thread(target=self._serve, name="pawl-handler", daemon=True).start()
        return outcome

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """As `start`, for asyncio."""
        return await asyncio.wrap_future(self.start(function, *args))

    def _serve(self) -> None:
        while True:
            outcome, call = self._work.get()
            outcome.set_running_or_notify_cancel()  # from here on it cannot be cancelled
            try:
                result = call()
            except BaseException as error:
                self._is_idle()
                outcome.set_exception(error)
            else:
                self._is_idle()
                outcome.set_result(result)

    def _is_idle(self) -> None:
        with self._lock:
            self._idle += 1
