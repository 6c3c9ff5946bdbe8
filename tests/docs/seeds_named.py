#!/usr/bin/env python3
"""Every test that docs/internals/seeds.md names exists, and each requirement has one or a decision.

usage: seeds_named.py BUILD_DIRECTORY SOURCE_DIRECTORY [TABLE]

A reference is `program`: `case`, `case`. A case is a function of that name in the program, or a
comment "# --- case ---" in a script; * stands for a program that is one case, or all of them.
"""
import os
import re
import sys

SOURCE = sys.argv[2]
TABLE = sys.argv[3] if len(sys.argv) > 3 else os.path.join(SOURCE, "docs", "internals", "seeds.md")
REFERENCE = re.compile(r"`([a-z]+/[A-Za-z0-9_.]+)`: (`[^`]+`(?:, `[^`]+`)*)")
ROWS_MIN = 100


def text_of(*names):
    with open(os.path.join(SOURCE, *names), encoding="utf-8") as file:
        return file.read()


def has_case(program, case, text):
    if case == "*":
        return True
    if program.endswith(".sh"):
        return f"# --- {case} ---" in text
    if program.endswith(".py"):
        return re.search(rf"^def {re.escape(case)}\(", text, re.M) is not None
    # Defined, and in the list of the program.
    defined = re.search(rf"^static void {re.escape(case)}\(void \*\*state\)", text, re.M)
    return defined is not None and len(re.findall(rf"\b{re.escape(case)}\b", text)) > 1


def problems_of(row, programs):
    found = REFERENCE.findall(row)
    if not found and "settled:" not in row:
        yield "names neither a test nor a decision"
    for program, cases in found:
        path = program if "." in program else program + ".c"
        # Helpers are listed with their ending, test programs without.
        if f"'{program}'" not in programs and f"'{path}'" not in programs:
            yield f"{program} is not run by the tests"
            continue
        text = text_of("tests", *path.split("/"))
        for case in re.findall(r"`([^`]+)`", cases):
            if not has_case(program, case, text):
                yield f"{program} has no case {case}"


def sees_what_is_wrong(programs):
    """A check that passes everything would pass this table too."""
    wrong = ("nothing", "`core/test_machine`: `no_such_case`", "`core/test_nothing`: `*`",
             "`cli/test_work.sh`: `no such case`", "`server/test_serve.py`: `no_such_case`")
    return all(list(problems_of(row, programs)) for row in wrong)


def main():
    programs = text_of("tests", "meson.build")
    rows = 0
    failed = not sees_what_is_wrong(programs)
    if failed:
        print("a name that does not exist is not seen")
    with open(TABLE, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            cells = line.strip().strip("|").split(" | ")
            if not line.startswith("|") or len(cells) != 3 or line.startswith(("|---", "| requirement")):
                continue
            rows += 1
            for problem in problems_of(cells[2], programs):
                failed = True
                print(f"{TABLE}:{number}: {problem}")
    if rows < ROWS_MIN:
        failed = True
        print(f"{TABLE}: {rows} rows; there were at least {ROWS_MIN}")
    sys.exit(failed)


main()
