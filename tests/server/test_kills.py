#!/usr/bin/env python3
"""A server that is killed with kill -9 while clients submit and work, and started again: nothing
that was acknowledged is lost, nothing is done twice, and clients go on without help.

usage: test_kills.py BUILD_DIRECTORY SOURCE_DIRECTORY

10 kills on each store; TORTURE=1: 100.
"""
import random

from trouble import (Load, Server, TORTURE, check_load, fresh_postgres, fresh_sqlite, run, settle)
import time

KILLS = 100 if TORTURE else 10


def kill_over_and_over(store):
    chance = random.Random(7)
    server = Server(store)
    load = Load(server.url, name=store[:3])
    for _ in range(KILLS):
        load.goes_on(40)
        time.sleep(chance.random() * 0.1)
        server.kill()
        time.sleep(chance.random() * 0.3)
        server = Server(store, server.port)
    load.goes_on(40)
    settle(server, load)
    said = check_load(server, load)
    server.end()
    return f"{KILLS} kills, {said}"


def kill_9_of_a_server_loses_nothing_on_sqlite():
    return kill_over_and_over(fresh_sqlite())


def kill_9_of_a_server_loses_nothing_on_postgres():
    return kill_over_and_over(fresh_postgres())


run(kill_9_of_a_server_loses_nothing_on_sqlite, kill_9_of_a_server_loses_nothing_on_postgres)
