"""Durations as people write them: 1.5 (seconds), timedelta, "500ms", "10m", "1h30m", "30d"."""

from __future__ import annotations

import datetime
import re
from typing import Union

Duration = Union[int, float, str, datetime.timedelta]

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def to_ms(duration: Duration) -> int:
    """Milliseconds of a duration. Raises ValueError for text that is not one, and below zero."""
    if isinstance(duration, datetime.timedelta):
        ms = duration.total_seconds() * 1000
    elif isinstance(duration, str):
        parts = _PART.findall(duration)
        if not parts or "".join(number + unit for number, unit in parts) != duration:
            raise ValueError(f'unknown duration "{duration}"; valid: "500ms", "1h30m", "30d"')
        ms = sum(float(number) * _UNIT_MS[unit] for number, unit in parts)
    else:
        ms = duration * 1000
    if not 0 <= ms < 2**53:
        raise ValueError(f"a duration cannot be {duration!r}: valid are 0 and more")
    return round(ms)
