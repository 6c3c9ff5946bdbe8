"""Values in and out of JSON, by annotation.

Every payload, argument, result and signal passes a codec, on the first run too: a function gets
`decode(encode(value))` even when it computed the value itself, so that a replay never sees another
type. Encoded values are plain JSON (times in ISO 8601, decimals as strings, bytes in base64), which
other languages read without this package.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import hashlib
import inspect
import json
import math
import types
import typing
import uuid
from typing import Any, Callable, Literal, Protocol, Union

from .errors import CodecError


class Codec(Protocol):
    """What an application needs of a codec. `JsonCodec` is the default; a codec of your own may
    wrap it, to encrypt or compress (then `fingerprint` should be an HMAC of the plain value)."""

    def encode(self, value: Any) -> Any:
        """JSON values (None, bool, int, float, str, list, dict) for a value, sharing nothing with
        it. Raises CodecError."""
        ...

    def decode(self, value: Any, annotation: Any) -> Any:
        """The value of JSON values, as the annotation says. Raises CodecError."""
        ...

    def fingerprint(self, value: Any) -> str:
        """64 hex digits that are equal for equal inputs. `value` is not encoded."""
        ...


class JsonCodec:
    """Encodes None, bool, int, float, str, bytes, date, time, datetime, timedelta, Decimal, UUID,
    Enum, dataclasses, named tuples, pydantic models, and lists, tuples, sets and dictionaries of
    these; and types that were given to `register`."""

    def __init__(self) -> None:
        self._own: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}

    def register(self, kind: type, encode: Callable[[Any], Any],
                 decode: Callable[[Any], Any]) -> None:
        """Teaches the codec a type: `encode` gives something that it can encode already."""
        self._own[kind] = (encode, decode)

    def encode(self, value: Any) -> Any:
        """JSON values for a value. Raises CodecError for what it cannot encode, NaN and infinity
        included."""
        own = self._own.get(type(value))
        if own is not None:
            return self.encode(own[0](value))
        if isinstance(value, enum.Enum):
            return self.encode(value.value)
        if value is None or isinstance(value, (bool, str, int)):
            return _plain(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise CodecError(f"{value} has no JSON form")
            return float(value)
        if isinstance(value, dict):
            return {self._key(key): self.encode(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.encode(item) for item in value]
        if isinstance(value, (set, frozenset)):
            return sorted((self.encode(item) for item in value), key=canonical)
        for kind, write in _WRITERS.items():
            if isinstance(value, kind):
                return write(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: self.encode(getattr(value, field.name))
                    for field in dataclasses.fields(value)}
        if hasattr(value, "model_dump_json"):  # pydantic 2
            return json.loads(getattr(value, "model_dump_json")())
        if hasattr(value, "parse_obj") and hasattr(value, "json"):  # pydantic 1
            return json.loads(getattr(value, "json")())
        raise CodecError(f"cannot encode a value of type {type(value).__qualname__}: {value!r:.80}")

    def _key(self, key: Any) -> str:
        encoded = self.encode(key)
        if isinstance(encoded, bool) or not isinstance(encoded, (str, int)):
            raise CodecError(f"cannot encode {key!r:.80} as the key of an object")
        return str(encoded)

    def decode(self, value: Any, annotation: Any) -> Any:
        """The value, as the annotation says; plain JSON values for Any and for no annotation.
        Raises CodecError where the value does not fit."""
        try:
            return self._decode(value, annotation)
        except CodecError:
            raise
        except (TypeError, ValueError, KeyError, decimal.InvalidOperation) as error:
            name = getattr(annotation, "__qualname__", annotation)
            raise CodecError(f"cannot decode {value!r:.80} as {name}: {error}") from error

    def _decode(self, value: Any, annotation: Any) -> Any:
        if annotation in (Any, None, inspect.Parameter.empty, object) or isinstance(
                annotation, typing.TypeVar):
            return value
        if isinstance(annotation, type) and annotation in self._own:
            return self._own[annotation][1](value)
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._decode_generic(value, origin, annotation)
        if hasattr(annotation, "__supertype__"):  # NewType
            return self._decode(value, annotation.__supertype__)
        if not isinstance(annotation, type):
            raise CodecError(f"cannot decode as {annotation}")
        if annotation in (bool, int, float, str, type(None), list, dict):
            return _exactly(value, annotation)
        reader = _READERS.get(annotation)
        if reader is not None:
            return reader(value)
        if dataclasses.is_dataclass(annotation):
            return self._fields(value, annotation)
        if hasattr(annotation, "model_validate_json"):  # pydantic 2
            return annotation.model_validate_json(json.dumps(value))
        if hasattr(annotation, "parse_obj"):  # pydantic 1
            return annotation.parse_obj(value)
        if issubclass(annotation, enum.Enum):
            return annotation(value)
        if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):  # NamedTuple
            return self._items(value, annotation)
        if typing.is_typeddict(annotation):
            hints = hints_of(annotation)
            return {key: self._decode(item, hints.get(key, Any))
                    for key, item in _exactly(value, dict).items()}
        if annotation in (tuple, set, frozenset):
            collect: Any = annotation
            return collect(_exactly(value, list))
        raise CodecError(f"cannot decode as {annotation.__qualname__}")

    def _decode_generic(self, value: Any, origin: Any, annotation: Any) -> Any:
        arguments = typing.get_args(annotation)
        if origin is Union or origin is types.UnionType:
            return self._decode_union(value, arguments)
        if origin is Literal:
            if value not in arguments:
                raise CodecError(f"{value!r:.80} is none of {', '.join(map(repr, arguments))}")
            return value
        if origin is typing.Annotated or origin in (typing.ClassVar, typing.Final):
            return self._decode(value, arguments[0])
        if origin is tuple:
            items = _exactly(value, list)
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return tuple(self._decode(item, arguments[0]) for item in items)
            if len(items) != len(arguments):
                raise CodecError(f"expected {len(arguments)} items, found {len(items)}")
            return tuple(self._decode(item, kind) for item, kind in zip(items, arguments))
        if issubclass(origin, collections.abc.Mapping):
            return {self._decode_key(key, arguments[0]): self._decode(item, arguments[1])
                    for key, item in _exactly(value, dict).items()}
        if issubclass(origin, collections.abc.Iterable):
            decoded = [self._decode(item, arguments[0]) for item in _exactly(value, list)]
            return origin(decoded) if origin in (set, frozenset) else decoded
        raise CodecError(f"cannot decode as {annotation}")

    def _decode_key(self, key: str, annotation: Any) -> Any:
        return int(key) if annotation is int else self._decode(key, annotation)

    def _decode_union(self, value: Any, members: tuple[Any, ...]) -> Any:
        problems = []
        for member in members:
            try:
                return self.decode(value, member)
            except CodecError as error:
                problems.append(str(error))
        raise CodecError("; ".join(problems))

    def _fields(self, value: Any, annotation: Any) -> Any:
        hints = hints_of(annotation)
        found = _exactly(value, dict)
        known = {field.name: field for field in dataclasses.fields(annotation)}
        unknown = sorted(found.keys() - known.keys())
        if unknown:
            raise CodecError(f"{annotation.__qualname__} has no field {', '.join(unknown)}")
        made = annotation(**{name: self._decode(item, hints.get(name, Any))
                             for name, item in found.items() if known[name].init})
        for name, item in found.items():
            if not known[name].init:
                object.__setattr__(made, name, self._decode(item, hints.get(name, Any)))
        return made

    def _items(self, value: Any, annotation: Any) -> Any:
        hints = hints_of(annotation)
        return annotation(*(self._decode(item, hints.get(name, Any)) for name, item in
                            zip(annotation._fields, _exactly(value, list))))

    def fingerprint(self, value: Any) -> str:
        """SHA-256 of the canonical JSON of the encoded value."""
        return hashlib.sha256(canonical(self.encode(value)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    # Subclasses of str and int would survive the first run and not a replay.
    if value is None or isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else _utf8(str(value))


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CodecError(f"text that is not Unicode: {error}") from error
    return text


_WRITERS: dict[type, Callable[[Any], Any]] = {
    bytes: lambda value: base64.b64encode(value).decode(),
    bytearray: lambda value: base64.b64encode(value).decode(),
    datetime.datetime: lambda value: value.isoformat(),
    datetime.date: lambda value: value.isoformat(),
    datetime.time: lambda value: value.isoformat(),
    datetime.timedelta: lambda value: value.total_seconds(),
    decimal.Decimal: str,
    uuid.UUID: str,
}
def _from_text(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: read(_exactly(value, str))


_READERS: dict[type, Callable[[Any], Any]] = {
    bytes: _from_text(lambda text: base64.b64decode(text, validate=True)),
    bytearray: _from_text(lambda text: bytearray(base64.b64decode(text, validate=True))),
    # Before 3.11 fromisoformat does not read the Z of other languages.
    datetime.datetime: _from_text(lambda text: datetime.datetime.fromisoformat(
        text[:-1] + "+00:00" if text.endswith("Z") else text)),
    datetime.date: _from_text(datetime.date.fromisoformat),
    datetime.time: _from_text(datetime.time.fromisoformat),
    datetime.timedelta: lambda value: datetime.timedelta(seconds=_exactly(value, float)),
    decimal.Decimal: _from_text(decimal.Decimal),
    uuid.UUID: _from_text(uuid.UUID),
}


def _exactly(value: Any, kind: type) -> Any:
    """The value if it is of this JSON type. An int will do for a float; a bool is no int."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, bool) and kind is not bool or not isinstance(value, kind):
        raise CodecError(f"expected {kind.__name__}, found {value!r:.80}")
    return value


def hints_of(thing: Any) -> dict[str, Any]:
    """Annotations of a class or function; none where they cannot be resolved."""
    # Functions may be closures that are made anew in every run: only classes are worth keeping.
    return _class_hints(thing) if isinstance(thing, type) else _resolve(thing)


def _resolve(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing)
    except (NameError, TypeError, AttributeError):
        return {}


_class_hints = functools.lru_cache(maxsize=1024)(_resolve)


def result_annotation(function: Callable[..., Any]) -> Any:
    """What a function, partial or callable object is annotated to return."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    hint = hints_of(function).get("return", Any)
    if typing.get_origin(hint) in (collections.abc.Awaitable, collections.abc.Coroutine):
        return typing.get_args(hint)[-1]
    return Any if hint is type(None) else hint


def canonical(value: Any) -> str:
    """Canonical JSON (RFC 8785) of JSON values: the same text in every language. Integers beyond
    2^53 keep all of their digits."""
    if isinstance(value, dict):
        keys: list[str] = sorted(value, key=_utf16)
        return "{" + ",".join(f"{_text(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    if isinstance(value, float):
        return _number(value)
    return _text(value)


_text = json.JSONEncoder(ensure_ascii=False).encode


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


def _number(value: float) -> str:
    """A number as ECMAScript writes it."""
    if value == 0:
        return "0"
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "a finite number"
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    point = len(text) + exponent  # digits before the decimal point
    minus = "-" if sign else ""
    if len(stripped) <= point <= 21:
        return minus + stripped.ljust(point, "0")
    if 0 < point <= 21:
        return f"{minus}{stripped[:point]}.{stripped[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{stripped}"
    fraction = f".{stripped[1:]}" if len(stripped) > 1 else ""
    return f"{minus}{stripped[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"
