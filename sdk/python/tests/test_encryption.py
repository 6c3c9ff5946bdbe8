#!/usr/bin/env python3
"""The codec that encrypts: the server sees no plain value, keys rotate, changed values are refused.

usage: test_encryption.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

from case import PATIENCE_S, SDK, Suite, check, raises, trouble
from pawl import CodecError, Context, Pawl
from pawl import testing

suite = Suite()
try:
    from pawl.encryption import EncryptingCodec
except ImportError:  # without cryptography there is no such codec
    print("ok 1 # SKIP cryptography is not installed")
    sys.exit(0)

OLD, NEW, PRINT = b"o" * 32, b"n" * 32, b"f" * 32


@dataclasses.dataclass
class Patient:
    name: str
    age: int


@suite.plain
def values_come_back_and_keys_rotate() -> None:
    old = EncryptingCodec({"2025": OLD}, "2025", PRINT)
    both = EncryptingCodec({"2025": OLD, "2026": NEW}, "2026", PRINT)
    sealed = old.encode(Patient("ada", 36))
    check("ada" not in json.dumps(sealed) and sealed["key"] == "2025", sealed)
    check(both.decode(sealed, Patient) == Patient("ada", 36))
    check(both.encode(1)["key"] == "2026" and both.encode(1) != both.encode(1))
    check(old.fingerprint([1]) == both.fingerprint([1]) != old.fingerprint([2]))
    raises(CodecError, lambda: old.decode(both.encode(1), int))
    sealed["pawl:sealed"] = sealed["pawl:sealed"][:-4] + "AAA="
    raises(CodecError, lambda: old.decode(sealed, Patient))
    check(old.decode("plain", str) == "plain")
    strict = EncryptingCodec({"k": OLD}, "k", PRINT, plain=False)
    raises(CodecError, lambda: strict.decode("x", str))
    raises(ValueError, lambda: EncryptingCodec({"k": OLD}, "other", PRINT))


@suite.case
async def the_server_never_sees_a_plain_value() -> None:
    app = Pawl(codec=EncryptingCodec({"k": OLD}, "k", PRINT))

    async def look_up(patient: Patient) -> Patient:
        return dataclasses.replace(patient, name=patient.name.upper())

    @app.job("treat")
    async def treat(ctx: Context, patient: Patient) -> Patient:
        found = await ctx.effect("look-up", look_up, patient)
        await ctx.sleep("1d")
        told = await ctx.wait("letter", returns=str)
        return dataclasses.replace(found, name=f"{found.name} {told}")

    async with testing.start(app, binary=str(trouble.PAWL)) as env:
        handle = await app.submit(treat, Patient("grace", 40), key="one")
        again = await app.submit(treat, Patient("grace", 40), key="one")
        check(again.id == handle.id, "sealed twice, it is another job")
        await handle.signal("letter", "hopper")
        await env.advance("2d")
        check(await handle.result(timeout=PATIENCE_S) == Patient("GRACE hopper", 40))
        stored = json.dumps(await app.client.export(handle.id)).lower()
        check("grace" not in stored and "hopper" not in stored, stored)


@suite.plain
def pytest_has_the_fixture() -> None:
    test = f"{trouble.place}/test_it.py"
    with open(test, "w", encoding="utf-8") as file:
        file.write('''
from pawl import Context, Pawl
app = Pawl()
@app.job("nap")
async def nap(ctx: Context) -> int:
    await ctx.sleep("30d")
    return ctx.attempt
def test_nap(pawl_env):
    env = pawl_env(app)
    handle = app.sync.submit(nap)
    env.advance("30d")
    assert handle.result(timeout=5) == 2
''')
    python = next((each for each in (sys.executable, "/usr/bin/python3") if subprocess.run(
        [each, "-c", "import pytest"], capture_output=True).returncode == 0), None)
    if python is None:
        print("pytest is not installed: skipped")
        return
    ran = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "pawl.pytest_plugin", "-p", "no:cacheprovider", test],
        env={"PYTHONPATH": SDK, "PAWL_BINARY": str(trouble.PAWL), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=PATIENCE_S)
    check(ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout, ran.stderr)


suite.run()
