#!/usr/bin/env python3
"""A server that is replaced by the next version while clients submit and work: on PostgreSQL the
new one starts before the old one is told to end; on SQLite, and where the address stays the same,
after it has ended. Nobody has to help, nothing is lost, and no job is done twice.

usage: test_replace.py BUILD_DIRECTORY SOURCE_DIRECTORY

3 times on each store; TORTURE=1: 50.
"""
import socket
import threading

from trouble import (Load, Server, TORTURE, check_load, fresh_postgres, fresh_sqlite, run, settle)

TIMES = 50 if TORTURE else 3


class Front:
    """An address that stays, as of a load balancer: connections go to the server of the day."""

    def __init__(self, port):
        self.to = port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.to))
        except OSError:
            client.close()
            return
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        pump(server, client)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def a_server_on_postgres_is_replaced_without_a_gap():
    store = fresh_postgres()
    server = Server(store)
    front = Front(server.port)
    load = Load(front.url, name="gapless")
    for _ in range(TIMES):
        load.goes_on(40)
        following = Server(store)
        front.to = following.port
        server.end()
        server = following
    load.goes_on(40)
    settle(server, load)
    said = check_load(server, load)
    server.end()
    return f"{TIMES} times, {said}"


def replace_in_place(store, name):
    server = Server(store)
    load = Load(server.url, name=name)
    for _ in range(TIMES):
        load.goes_on(40)
        server.end()
        server = Server(store, server.port)
    load.goes_on(40)
    settle(server, load)
    said = check_load(server, load)
    server.end()
    return f"{TIMES} times, {said}"


def a_server_on_sqlite_is_replaced_in_place():
    return replace_in_place(fresh_sqlite(), "sqlite")


def a_server_on_postgres_is_replaced_in_place():
    return replace_in_place(fresh_postgres(), "postgres")


run(a_server_on_postgres_is_replaced_without_a_gap, a_server_on_sqlite_is_replaced_in_place,
    a_server_on_postgres_is_replaced_in_place)
