#!/usr/bin/env python3
"""What the documents show of a terminal is what a terminal shows.

usage: console.py BUILD SOURCE [DOCUMENT...] [--print | --update]

Runs every ```console block of README.md and docs/**/*.md as it is written: the blocks of a document
one after the other, in an empty directory, on a terminal of 120 columns. Lines that start with "$ "
are typed, with those behind them that start with "> "; the others must come back. Ids, times and
durations differ from run to run: an id stands for the one that was printed in its place, and the
others only have to be there. A line "..." stands for any number of lines. --print prints the
commands with what really came; --update writes what really came into the documents, where it
differs from what they say, with the document's own ids.
"""
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
LOOSE = [
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r"\b\d+ ?(ms|s|min|m|h|d)\b( \d+ ?(ms|s|min|m|h|d)\b)*( ago)?"), "SPAN"),
    (re.compile(r"\bnow\b"), "SPAN"),
    (re.compile(r"\bin SPAN"), "SPAN"),
    (re.compile(r"\b[0-9a-f]{32,64}\b"), "HASH"),
    (re.compile(r"\b[\w.-]+-\d+-[0-9a-f]{8}\b"), "WORKER"),
    (re.compile(r"\S*…"), "CUT"),  # where depends on how long names are
    (re.compile(r"[ \t]+"), " "),
]
TIMEOUT_S = 60


def normal(line):
    for pattern, replacement in LOOSE:
        line = pattern.sub(replacement, line)
    return line.strip()


def on_terminal(command, directory, environment):
    """Runs one command line with a terminal, and returns what the terminal showed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    child = subprocess.Popen(["sh", "-c", command], cwd=directory, env=environment, stdin=slave,
                             stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown = b""
    watchdog = threading.Timer(TIMEOUT_S, lambda: os.killpg(child.pid, signal.SIGKILL))
    watchdog.start()
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    child.wait()
    watchdog.cancel()
    os.close(master)
    text = shown.decode("utf-8", "replace").replace("\r\n", "\n")
    return re.sub(r"[^\n]*\r|\x1b\[K", "", text).splitlines()  # what was written over is not seen


def blocks(text):
    """The console blocks, as lists of (command, expected lines)."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        steps = []
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line.startswith("> ") and steps and not steps[-1][1]:
                steps[-1] = (steps[-1][0] + "\n" + line[2:], [])
            elif steps:
                steps[-1][1].append(line)
        yield block, steps


def matches(expected, shown):
    """Line by line; "..." stands for any number of lines."""
    if not expected:
        return not shown
    if expected[0] == "...":
        return any(matches(expected[1:], shown[i:]) for i in range(len(shown) + 1))
    return bool(shown) and expected[0] == shown[0] and matches(expected[1:], shown[1:])


class Session:
    """One document: its directory, what was exported, and which id stands for which."""

    def __init__(self, build, directory):
        self.directory = directory
        self.prelude = ""
        self.ids = {}
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PAWL_")}
        self.environment.update(PATH=f"{build}:{os.environ['PATH']}", TERM="dumb", NO_COLOR="1",
                                HOME=str(directory), USER="ada")

    def type(self, command):
        real = UUID.sub(lambda m: self.ids.get(m.group(), m.group()), command)
        if re.match(r"(export|cd) ", command):
            self.prelude += real + "\n"
            return []
        return on_terminal(self.prelude + real, self.directory, self.environment)

    def learn(self, expected, shown):
        """An id of the document stands for the one in the same place."""
        said = UUID.findall("\n".join(expected))
        came = UUID.findall("\n".join(shown))
        for document, real in zip(said, came):
            self.ids.setdefault(document, real)

    def check(self, expected, shown):
        self.learn(expected, shown)
        wanted = [normal(UUID.sub(lambda m: self.ids.get(m.group(), m.group()), line))
                  for line in expected]
        return matches(wanted, [normal(line) for line in shown])


    def told(self, shown):
        """What was shown, with the ids of the document."""
        known = {real: document for document, real in self.ids.items()}
        return [UUID.sub(lambda m: known.get(m.group(), m.group()), line) for line in shown]


def run(document, build, how):
    text = updated = document.read_text(encoding="utf-8")
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        session = Session(build, directory)
        for block, steps in blocks(text):
            fresh = block
            for command, expected in steps:
                shown = session.type(command)
                if how == "--print":
                    session.learn(expected, shown)
                    print("$ " + command, *shown, sep="\n")
                elif not session.check(expected, shown):
                    if how == "--update":
                        typed = "$ " + command.replace("\n", "\n> ") + "\n"
                        was = typed + "".join(line + "\n" for line in expected)
                        came = typed + "".join(line + "\n" for line in session.told(shown))
                        fresh = fresh.replace(was, came, 1)
                        continue
                    failures += 1
                    print(f"FAIL {document.name}: $ {command}\n  expected:", *expected,
                          "  came:", *shown, sep="\n    ")
            updated = updated.replace(block, fresh, 1)
    if updated != text:
        document.write_text(updated, encoding="utf-8")
    return failures


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    how = next((word for word in sys.argv if word in ("--print", "--update")), None)
    build, source = (pathlib.Path(word).resolve() for word in words[:2])
    documents = [pathlib.Path(word) for word in words[2:]]
    if not documents:
        documents = [source / "README.md", *sorted((source / "docs").rglob("*.md"))]
    ran = [run(document, build, how) for document in documents]
    if not any(list(blocks(document.read_text(encoding="utf-8"))) for document in documents):
        print("no document has a console block")
        return 1
    return 1 if any(ran) else 0


if __name__ == "__main__":
    sys.exit(main())
