#!/usr/bin/env python3
"""Writes docs/reference/python.md from the docstrings of the package.

usage: make_reference.py [--check]     with --check it only says whether the page is up to date
"""
from __future__ import annotations

import enum
import inspect
import pathlib
import re
import sys
import typing
from types import ModuleType
from typing import Any, Iterator

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "reference" / "python.md"
sys.path.insert(0, str(HERE))

import pawl  # noqa: E402
import pawl.testing  # noqa: E402

MADE = "<!-- Written by `make reference` from the docstrings of sdk/python/pawl. -->"
ABOUT = """Every public name of the package `pawl`. The manual is \
[sdk/python/README.md](../../sdk/python/README.md), the verbs of the client are those of \
[HTTP](http.md). Arguments after `*` are given by name."""
# What the package exports, in the order in which a reader meets it.
PARTS = {
    "Application": ["Pawl", "SyncPawl", "JobFunction", "Handle", "SyncHandle"],
    "Durable functions": ["Context", "SyncContext", "Effect", "Deferred", "Answer",
                          "idempotency_key"],
    "Plans": ["Plan", "Step", "Verdict"],
    "Values": ["Codec", "JsonCodec"],
    "Clients": ["AsyncClient", "Client"],
}


def text_of(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").replace("\n", " ").strip()


def signature_of(name: str, thing: Any) -> str:
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return name
    text = re.sub(r"^\((self|cls)(, )?", "(", text).replace("'", "")
    text = re.sub(r"<class ([\w.]+\.)?(\w+)>", r"\2", text.replace("typing.Any", "Any"))
    return name + text.replace("pawl.", "")


def members_of(cls: type) -> Iterator[str]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("pawl"):
            found.update(vars(base))
    for name, member in found.items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {text_of(member) or 'as the job has it.'}"
        elif isinstance(member, (classmethod, staticmethod)) or inspect.isfunction(member):
            function = getattr(cls, name)
            head = "await " if inspect.iscoroutinefunction(function) else ""
            about = text_of(function)
            yield f"- `{head}{signature_of(name, function)}`" + (f": {about}" if about else "")


def entry(name: str, thing: Any) -> str:
    if not inspect.isclass(thing):
        return f"### `{signature_of(name, thing)}`\n\n{text_of(thing)}"
    is_made = "__init__" in vars(thing) and not issubclass(thing, enum.Enum)
    head = signature_of(name, thing).partition(" -> ")[0] if is_made else name
    if typing.is_typeddict(thing):
        fields = ", ".join(f"`{field}`" for field in thing.__annotations__)
        return f"### `{name}`\n\n{text_of(thing)} Fields: {fields}."
    return "\n\n".join(filter(None, [f"### `{head}`", text_of(thing),
                                     "\n".join(members_of(thing))]))


def errors() -> str:
    lines = ["| error | is a | means |", "|---|---|---|"]
    for name in pawl.__all__:
        thing = getattr(pawl, name)
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            bases = ", ".join(f"`{base.__name__}`" for base in thing.__bases__)
            lines.append(f"| `{name}` | {bases} | {text_of(thing)} |")
    return "\n".join(lines)


def module(thing: ModuleType) -> str:
    parts = [text_of(thing).partition("   ")[0]]
    for name, each in vars(thing).items():
        is_own = getattr(each, "__module__", "") == thing.__name__ and not name.startswith("_")
        if is_own and (inspect.isclass(each) or inspect.isfunction(each)):
            parts.append(entry(name, each))
    return "\n\n".join(parts)


def page() -> str:
    parts = ["# Python API", MADE, ABOUT]
    for title, names in PARTS.items():
        parts += [f"## {title}", *(entry(name, getattr(pawl, name)) for name in names)]
    types = [name for name in pawl.__all__ if typing.is_typeddict(getattr(pawl, name))]
    parts += ["## Shapes", *(entry(name, getattr(pawl, name)) for name in types)]
    parts += ["## Errors", errors(), "## pawl.testing", module(pawl.testing)]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    made = page()
    assert " at 0x" not in made, "a default value has no name, and another text in every run"
    missing = [name for name in pawl.__all__ if not name.startswith("_")
               and f"`{name}" not in made and name != "InDoubt"]
    assert not missing, f"the page does not have {missing}"
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
            print("docs/reference/python.md is out of date; run: make reference")
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
