#!/usr/bin/env python3
"""Values survive the codec with their types, and equal inputs have equal fingerprints in every
language: sdk/conformance/values.json.

usage: test_codec.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import os
import typing
import uuid
from types import GenericAlias
from typing import Any, Literal, NamedTuple, NewType, Optional, Union

from case import SOURCE, check, raises, trouble
from pawl import CodecError, JsonCodec
from pawl.codec import canonical, result_annotation
from pawl.durations import Duration, to_ms

UTC = datetime.timezone.utc
codec = JsonCodec()


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    when: datetime.date


class Options(typing.TypedDict, total=False):
    due: datetime.date


@dataclasses.dataclass(frozen=True)
class Line:
    sku: str
    price: decimal.Decimal
    tags: frozenset[str] = frozenset()


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    lines: list[Line]
    colour: Colour
    by_number: dict[int, Line]
    photo: Optional[bytes] = None
    parent: Optional["Order"] = None


UserId = NewType("UserId", int)
NOON = datetime.datetime(2026, 11, 18, 12, 0, 0, 123456, UTC)
LINE = Line("a", decimal.Decimal("1.10"), frozenset({"x", "y"}))
ORDER = Order(uuid.UUID(int=7), NOON, [LINE], Colour.RED, {3: LINE}, b"\0\xff")

VALUES: list[tuple[Any, Any]] = [
    (None, type(None)), (True, bool), (1, int), (2**80, int), (1.5, float), ("é\n", str),
    (b"\0\xff", bytes), (NOON, datetime.datetime), (NOON.date(), datetime.date),
    (NOON.time(), datetime.time), (datetime.timedelta(seconds=1.5), datetime.timedelta),
    (decimal.Decimal("1.10"), decimal.Decimal), (uuid.UUID(int=7), uuid.UUID),
    (Colour.RED, Colour), (Level.HIGH, Level), (Point(1, NOON.date()), Point),
    ({"due": NOON.date()}, Options), (UserId(7), UserId),
    ([LINE], list[Line]), ((1, "a"), tuple[int, str]), ((1, 2), tuple[int, ...]),
    ({1, 2}, set[int]), ({"a": LINE}, dict[str, Line]), ({3: "x"}, dict[int, str]),
    (NOON, Optional[datetime.datetime]), (None, Optional[datetime.datetime]),
    (3, Union[str, int]), ("x", Literal["x", "y"]), (ORDER, Order),
    (dataclasses.replace(ORDER, parent=ORDER), Order),
]


def values_come_back_with_their_types() -> None:
    for value, annotation in VALUES:
        text = json.dumps(codec.encode(value))
        found = codec.decode(json.loads(text), annotation)
        check(found == value and type(found) is type(value), annotation, value, found)


def what_is_not_annotated_is_plain_json() -> None:
    check(codec.decode(codec.encode((1, NOON)), Any) == [1, NOON.isoformat()])


def a_value_that_has_no_json_form_is_refused() -> None:
    for value in (math.nan, math.inf, object(), {1.5: 2}, {True: 1}, "\ud800", [lambda: 1]):
        error = raises(CodecError, lambda: codec.encode(value))
        check(isinstance(error, TypeError), value)


def a_value_that_does_not_fit_its_annotation_is_refused() -> None:
    for value, annotation in ((1, str), (True, int), ("x", Colour), ({"sku": "a"}, Line),
                              ({"sku": "a", "price": "1", "more": 2}, Line), ([1], tuple[int, str]),
                              ("z", Literal["x"]), ("?", bytes), ("now", datetime.datetime),
                              ({}, list[int]), ("x", Union[int, float])):
        raises(CodecError, lambda: codec.decode(value, annotation))


def encoded_values_share_nothing_with_the_original() -> None:
    inner = [1]
    encoded = codec.encode({"a": inner})
    inner.append(2)
    check(encoded == {"a": [1]})


def a_type_can_be_registered() -> None:
    own = JsonCodec()
    own.register(complex, lambda value: [value.real, value.imag], lambda value: complex(*value))
    check(own.decode(own.encode([1j]), list[complex]) == [1j])


def pydantic_models_work_where_pydantic_is_installed() -> str:
    try:
        import pydantic
    except ImportError:
        return "pydantic is not installed"

    # Made at run time: the file is type-checked where pydantic is not installed, too.
    model: Any = pydantic.create_model("Item", name=(str, ...), due=(datetime.date, ...))
    item = model(name="a", due=NOON.date())
    check(codec.decode(codec.encode([item]), GenericAlias(list, (model,))) == [item])
    raises(CodecError, lambda: codec.decode({"name": "a"}, model))
    return ""


def fingerprints_are_those_of_every_language() -> None:
    path = os.path.join(SOURCE, "sdk", "conformance", "values.json")
    with open(path, encoding="utf-8") as file:
        cases = json.load(file)["canonical"]
    check(len(cases) > 20, "too few")
    for each in cases:
        check(canonical(each["value"]) == each["text"], each, canonical(each["value"]))
        check(codec.fingerprint(each["value"]) == each["fingerprint"], each)
        check(json.loads(each["text"]) == each["value"], each)


def annotations_of_functions_are_found() -> None:
    async def coroutine() -> int:
        return 1

    class Callable_:
        def __call__(self) -> str:
            return ""

    check(result_annotation(coroutine) is int)
    check(result_annotation(Callable_()) is str)
    check(result_annotation(lambda: 1) is Any)


def durations_are_read_as_people_write_them() -> None:
    cases: list[tuple[Duration, int]] = [
        ("500ms", 500), ("10m", 600_000), ("1h30m", 5_400_000), ("30d", 2_592_000_000),
        (1.5, 1500), (datetime.timedelta(minutes=1), 60_000), ("0.5s", 500)]
    for duration, ms in cases:
        check(to_ms(duration) == ms, duration)
    refused: list[Duration] = ["", "10", "m", "10 m", "-1s", "1x", -1]
    for wrong in refused:
        raises(ValueError, lambda: to_ms(wrong))


trouble.run(
    values_come_back_with_their_types,
    what_is_not_annotated_is_plain_json,
    a_value_that_has_no_json_form_is_refused,
    a_value_that_does_not_fit_its_annotation_is_refused,
    encoded_values_share_nothing_with_the_original,
    a_type_can_be_registered,
    pydantic_models_work_where_pydantic_is_installed,
    fingerprints_are_those_of_every_language,
    annotations_of_functions_are_found,
    durations_are_read_as_people_write_them)
