#!/usr/bin/env python3
"""PostgreSQL crashes and comes back while servers and clients are at work: readiness says so,
clients go on without help, and nothing that was acknowledged is lost or done twice.

usage: test_postgres_away.py BUILD_DIRECTORY SOURCE_DIRECTORY

Restarted at once 2 times, and away for a while once; TORTURE=1: 30 times and 5.
"""
import time

from trouble import (Load, Postgres, Server, TORTURE, check, check_load, fresh_postgres, run,
                     settle, until)

RESTARTS = 30 if TORTURE else 2
ABSENCES = 5 if TORTURE else 1


def postgres_is_restarted_under_load():
    postgres = Postgres()
    store = fresh_postgres(postgres.url)
    servers = [Server(store), Server(store)]
    check(servers[0].is_ready(), "not ready at first")
    loads = [Load(server.url, name=f"l{i}", submitters=2, workers=2, cli_workers=1)
             for i, server in enumerate(servers)]
    for _ in range(RESTARTS):
        for load in loads:
            load.goes_on(20)
        postgres.crash()
        postgres.start_again()

    took = []
    for _ in range(ABSENCES):
        for load in loads:
            load.goes_on(20)
        postgres.crash()
        begun = time.monotonic()
        until("the end of readiness", lambda: not servers[0].is_ready(), 20, 0.05)
        until("the end of readiness", lambda: not servers[1].is_ready(), 20, 0.05)
        took.append(time.monotonic() - begun)
        check(servers[0].call("GET", "/healthz")[0] == 200, "the server itself is well")
        postgres.start_again()
        begun = time.monotonic()
        for server in servers:
            until("readiness", server.is_ready, 20, 0.05)
        took.append(time.monotonic() - begun)
    for load in loads:
        load.goes_on(20)
    for load in loads:
        load.stop()
    for load in loads:
        settle(servers[0], load)
    said = check_loads(servers, loads)
    for server in servers:
        server.end()
    postgres.end()
    return (f"{RESTARTS + ABSENCES} crashes, {said}; not ready after {max(took[::2]):.1f} s, "
            f"ready again after {max(took[1::2]):.1f} s")


def check_loads(servers, loads):
    """All facts together, as if one had written them."""
    whole = loads[0]
    for other in loads[1:]:
        for name in ("log", "cli_log"):
            with open(getattr(other, name), "rb") as source, \
                    open(getattr(whole, name), "ab") as sink:
                sink.write(source.read())
    return check_load(servers[1], whole)


run(postgres_is_restarted_under_load)
