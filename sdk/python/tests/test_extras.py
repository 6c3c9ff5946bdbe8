#!/usr/bin/env python3
"""What is there when something else is: the context of OpenTelemetry, and progress on a terminal.

OpenTelemetry is stood in for by a package with the functions that are used, in processes of their
own.

usage: test_extras.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from __future__ import annotations

import os
import pty
import subprocess
import sys

from case import PATIENCE_S, SDK, check, trouble

server = trouble.Server("memory:")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

PROPAGATE = f"""
import contextvars
current = contextvars.ContextVar("current", default={PARENT!r})
def inject(carrier):
    carrier["traceparent"] = current.get()
def extract(carrier):
    return carrier["traceparent"]
"""
TRACE = """
import contextlib
from opentelemetry.propagate import current
class Tracer:
    @contextlib.contextmanager
    def start_as_current_span(self, name, context=None, attributes=None):
        mark = current.set(context)
        print("span", name, context, attributes, flush=True)
        yield
        current.reset(mark)
def get_tracer(name):
    return Tracer()
"""
PROGRAM = """
import asyncio
from pawl import Context, Pawl
app = Pawl()
@app.job("child")
async def child(ctx: Context) -> None:
    app.stop()
@app.job("parent")
async def parent(ctx: Context) -> None:
    await app.submit(child)
async def main():
    handle = await app.submit(parent)
    await app.run()
    for kind in ("parent", "child"):
        async for job in app.client.jobs(kind=kind):
            print(kind, job["traceparent"])
asyncio.run(main())
"""
SHOWN = """
import asyncio, threading
from pawl import Context, Pawl
app = Pawl()
go = threading.Event()
@app.job("slow")
async def slow(ctx: Context) -> str:
    await ctx.progress({"pages": 7})
    await asyncio.to_thread(go.wait)
    return "done"
class Watched:
    def __init__(self, file): self._file = file
    def isatty(self): return self._file.isatty()
    def flush(self): self._file.flush()
    def write(self, text):
        self._file.write(text)
        if "pages" in text: go.set()
import sys
sys.stderr = Watched(sys.stderr)
async def main():
    task = asyncio.create_task(app.run())
    handle = await app.submit(slow)
    print(await handle.result(timeout=60, show=True))
    app.stop()
    await task
go.set() if not sys.stderr.isatty() else None
asyncio.run(main())
"""


def env(*path: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([SDK, *path]), "PAWL_STORE": server.url}


def run(program: str, *path: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], env=env(*path), text=True,
                          capture_output=True, timeout=PATIENCE_S)
    check(done.returncode == 0, done.stderr)
    return done.stdout + done.stderr


def a_submit_passes_its_trace_on_and_an_attempt_is_a_span_of_it() -> None:
    place = os.path.join(trouble.place, "with_otel")
    os.makedirs(f"{place}/opentelemetry")
    for name, text in (("__init__", ""), ("propagate", PROPAGATE), ("trace", TRACE)):
        with open(f"{place}/opentelemetry/{name}.py", "w", encoding="utf-8") as file:
            file.write(text)
    lines = run(PROGRAM, place).splitlines()
    spans = [line.split()[:3] for line in lines if line.startswith("span")]
    check([span[1] for span in spans] == ["parent", "child"], lines)
    trace = PARENT.split("-")[1]
    check(all(span[2].split("-")[1] == trace for span in spans), lines)
    (child,) = [line.split()[1] for line in lines if line.startswith("child")]
    # The child's parent is the span of the attempt that submitted it.
    check(child == spans[0][2] and child != PARENT, child, spans)


def without_opentelemetry_nothing_is_sent() -> None:
    lines = run(PROGRAM).splitlines()
    check("child None" in lines and "parent None" in lines, lines)


def a_terminal_shows_the_progress_and_is_left_clean() -> None:
    ours, theirs = pty.openpty()
    program = subprocess.Popen([sys.executable, "-c", SHOWN], env=env(), stderr=theirs,
                               stdout=subprocess.PIPE, text=True)
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:
        pass  # a terminal whose other side is closed
    out, _ = program.communicate(timeout=PATIENCE_S)
    check(program.returncode == 0 and out == "done\n", out, seen)
    check(b'running {"pages": 7}' in seen and seen.endswith(b"\r\x1b[K"), seen)


def nothing_is_written_where_there_is_no_terminal() -> None:
    check(run(SHOWN) == "done\n")


if __name__ == "__main__":
    trouble.run(a_submit_passes_its_trace_on_and_an_attempt_is_a_span_of_it,
                without_opentelemetry_nothing_is_sent,
                a_terminal_shows_the_progress_and_is_left_clean,
                nothing_is_written_where_there_is_no_terminal)
