"""The pytest plugin: the fixture `pawl_env`.

    def test_refund(pawl_env):
        env = pawl_env(app)
        handle = app.sync.submit(refund, Order(7))
        env.advance("30d")
        assert handle.result(timeout=1).refunded
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import pytest

from .app import Pawl
from .testing import Sync


@pytest.fixture
def pawl_env() -> Iterator[Callable[..., Sync]]:
    """Starts servers with a manual clock for applications, which end with the test."""
    with contextlib.ExitStack() as stack:
        def start(app: Pawl, **options: Any) -> Sync:
            return stack.enter_context(Sync(app, **options))

        yield start
