#!/usr/bin/env python3
"""A server finds out whether a write would succeed when somebody asks, and leaves the disk alone
while nobody does.

usage: test_readiness.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import os
import tempfile
import time

from trouble import Server, check, run, until

QUIET_S = 3  # longer than a proof is good for


def log_bytes(place):
    """What SQLite's log has; what is in it goes to the database later."""
    return os.path.getsize(place + "/jobs.db-wal")


def files(place):
    """What is there of the store, and when each part was last written."""
    return {name: (os.stat(f"{place}/{name}").st_size, os.stat(f"{place}/{name}").st_mtime_ns)
            for name in os.listdir(place) if not name.endswith((".lock", ".sock", "-shm"))}


def settled(place):
    before = files(place)
    time.sleep(0.5)
    return files(place) == before


def an_idle_server_writes_nothing_until_somebody_asks_whether_it_is_ready():
    with tempfile.TemporaryDirectory() as place:
        server = Server(f"sqlite:{place}/jobs.db")
        until("the end of the start", lambda: settled(place))
        before = files(place)
        time.sleep(QUIET_S)
        check(files(place) == before, "an idle server has written:", before, files(place))
        for _ in range(3):
            check(server.call("GET", "/healthz")[0] == 200, "the server is not well")
        check(files(place) == before, "a question about the process has written")

        check(server.is_ready(), "not ready")
        one = log_bytes(place) - sum(size for name, (size, _) in before.items() if "-wal" in name)
        check(one > 0, "nothing was written to find out")
        # One write serves all who ask within two seconds.
        begun = time.monotonic()
        for _ in range(50):
            check(server.is_ready(), "not ready any more")
        took = time.monotonic() - begun
        more = log_bytes(place) - one
        check(more <= one * (took / 2 + 2), "50 questions wrote", more, "bytes; one:", one)
        server.end()
        return f"{one} bytes to find out"


run(an_idle_server_writes_nothing_until_somebody_asks_whether_it_is_ready)
