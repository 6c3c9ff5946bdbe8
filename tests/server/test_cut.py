#!/usr/bin/env python3
"""Connections that are cut in the middle of requests and of answers: nothing that was acknowledged
is lost, nothing is submitted twice, and no lease stays with nobody.

usage: test_cut.py BUILD_DIRECTORY SOURCE_DIRECTORY

Until 150 connections were cut on each store; TORTURE=1: 10,000.
"""
import random
import socket
import struct
import threading

from trouble import (Load, Server, TORTURE, check_load, fresh_postgres, fresh_sqlite, run,
                     settle, until)

CUTS = 10000 if TORTURE else 150
# Leases are for 60 s: work that nobody does cannot be done by then.
SOON_S = 10


class Cutter:
    """Stands between clients and a server, and cuts each connection after some bytes in one of the
    two directions, with or without a word."""

    def __init__(self, port):
        self.to = port
        self.chance = random.Random(11)
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            pair = Pair(self, client, socket.create_connection(("127.0.0.1", self.to)))
            for there, back in ((0, 1), (1, 0)):
                threading.Thread(target=pair.pump, args=(there, back), daemon=True).start()


class Pair:
    def __init__(self, cutter, client, server):
        self.cutter = cutter
        self.ends = [client, server]
        self.closed = False
        self.lock = threading.Lock()
        self.rude = cutter.chance.random() < 0.5
        # How many bytes from the client, and from the server, may pass.
        self.left = [1 << 60, 1 << 60]
        self.left[cutter.chance.randrange(2)] = cutter.chance.randrange(4000)

    def pump(self, source, sink):
        try:
            while data := self.ends[source].recv(65536):
                allowed = data[:self.left[source]]
                self.ends[sink].sendall(allowed)
                self.left[source] -= len(allowed)
                if len(allowed) < len(data):
                    self.cutter.cuts += 1
                    break
        except OSError:
            pass
        with self.lock:
            if self.closed:
                return
            self.closed = True
        for end in self.ends:
            try:
                if self.rude:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


def cut_over_and_over(store):
    server = Server(store)
    cutter = Cutter(server.port)
    load = Load(cutter.url, name=store[:3], submitters=6, workers=8)
    until("the last cut", lambda: cutter.cuts >= CUTS, 3600)
    load.stop()
    settle(server, load, SOON_S)
    said = check_load(server, load, attempts_max=50)
    until("the end of cut connections", lambda: server.connections() == 0, 10, 0.1,
          server.connections)
    server.end()
    return f"{cutter.cuts} cuts, {said}"


def cut_connections_lose_and_repeat_nothing_in_memory():
    return cut_over_and_over("memory:")


def cut_connections_lose_and_repeat_nothing_on_sqlite():
    return cut_over_and_over(fresh_sqlite())


def cut_connections_lose_and_repeat_nothing_on_postgres():
    return cut_over_and_over(fresh_postgres())


run(cut_connections_lose_and_repeat_nothing_in_memory,
    cut_connections_lose_and_repeat_nothing_on_sqlite,
    cut_connections_lose_and_repeat_nothing_on_postgres)
