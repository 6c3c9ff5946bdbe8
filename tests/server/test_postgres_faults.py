#!/usr/bin/env python3
"""PostgreSQL fails in every way that it knows, under two servers and their clients, and afterwards
what clients were told is held against what is stored (history.py).

usage: test_postgres_faults.py BUILD_DIRECTORY SOURCE_DIRECTORY

10 faults; TORTURE=1: 200; without PgBouncer 8 and 160. One load is patient, and none of its calls may fail; the other gives up
after a second, so that of some calls nobody can say what became of them.

The disk is a small tmpfs with the tables on it, which only root can make; without one it is not
filled, and another fault takes its place. Without PgBouncer there are no faults through it. Both are
said.
"""
import atexit
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

from history import all_go_on, settle_all
from trouble import (Load, PATIENCE_S, Postgres, Server, TORTURE, check, free_port, place, psql,
                     run, start, until)

POOLER = "/usr/sbin/pgbouncer"
HASTY_MS = 1000
LEASE_MS = 1500
DISK_MIB = 512
chance = random.Random(5)


# ---- between server and database ----------------------------------------------------------------


class CommitProxy:
    """Passes everything on, until it is told to cut a connection before, at or after the COMMIT of a
    batch: it never arrives; it arrives when the client is gone; its answer is lost."""

    def __init__(self, port):
        self.to = port
        self.mode = None
        self.met = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                client.close()
                continue
            wire = Wire(self, client, server)
            threading.Thread(target=wire.from_client, daemon=True).start()
            threading.Thread(target=wire.from_server, daemon=True).start()

    def take_mode(self):
        with self.lock:
            mode, self.mode = self.mode, None
            return mode

    def cut_at(self, mode):
        met = self.met
        with self.lock:
            self.mode = mode
        until("a COMMIT to cut at", lambda: self.met > met)


class Wire:
    """A connection, whose messages it can tell apart."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.started = self.in_batch = self.deaf = False
        self.held = None
        self.statements = {}  # by their names

    def cut(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def messages(self, data):
        """Whole messages of the client, and what is left."""
        while True:
            head = 1 if self.started else 0
            if len(data) < head + 4:
                return data
            size = head + struct.unpack_from("!i", data, head)[0]
            if len(data) < size:
                return data
            message, data = data[:size], data[size:]
            if not self.started:
                self.started = struct.unpack_from("!i", message, 4)[0] == 3 << 16
            yield message

    def from_client(self):
        kept = b""
        try:
            while data := self.client.recv(65536):
                kept += data
                reader = self.messages(kept)
                while True:
                    try:
                        message = next(reader)
                    except StopIteration as end:
                        kept = end.value
                        break
                    if not self.pass_on(message):
                        return
        except OSError:
            pass
        self.cut()

    def statement_of(self, message):
        """What is to be carried out, of a message that binds a statement; it may have a name."""
        words = message[5:].split(b"\0", 2)
        if message[:1] == b"P":
            self.statements[words[0]] = words[1]
        return self.statements.get(words[1]) if message[:1] == b"B" else None

    def pass_on(self, message):
        """False when the connection has ended with it."""
        if self.held is not None:
            return self.hold(message)
        statement = self.statement_of(message)
        is_commit = statement == b"COMMIT"
        mode = self.proxy.take_mode() if is_commit and self.in_batch and self.proxy.mode else None
        if statement is not None:
            self.in_batch = (self.in_batch or b"INTO pawl.batch_rows" in statement) and not is_commit
        if mode == "before":
            self.cut()
        elif mode == "at":
            return self.hold(message)
        else:
            self.deaf = mode == "after"
            self.server.sendall(message)
        self.proxy.met += mode is not None
        return mode != "before"

    def hold(self, message):
        """Keeps the COMMIT up to its Sync; then the client is gone, and it goes on its way."""
        self.held = (self.held or b"") + message
        if message[:1] != b"S":
            return True
        self.deaf = True
        self.client.shutdown(socket.SHUT_RDWR)
        until("the question what became of it", is_asked)
        self.server.sendall(self.held)
        self.proxy.met += 1
        return False

    def from_server(self):
        try:
            while data := self.server.recv(65536):
                if self.deaf and b"Z\0\0\0\5" in data:
                    break
                if self.held is None:
                    self.client.sendall(data)
        except OSError:
            pass
        self.cut()


class Pooler:
    """PgBouncer in transaction mode."""

    def __init__(self, port):
        self.port = free_port()
        self.home = os.path.join(place, "pooler")
        os.mkdir(self.home)
        self.file = os.path.join(self.home, "pgbouncer.ini")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(f"[databases]\n* = host=127.0.0.1 port={port} user=postgres\n[pgbouncer]\n"
                       f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
                       "auth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n"
                       "max_client_conn = 200\nserver_login_retry = 1\n")
        os.chmod(place, 0o755)
        self.start()

    def start(self):
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        self.process = start(POOLER, "-q", *user, self.file, stderr=subprocess.DEVNULL)
        until("the pooler", self.answers)

    def answers(self):
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self):
        self.process.kill()
        check(self.process.wait(PATIENCE_S) == -signal.SIGKILL, "the pooler has ended by itself")


# ---- the database ------------------------------------------------------------------------------


class Disk:
    """A small file system with the tables on it."""

    def __init__(self):
        self.home = os.path.join(place, "disk")
        os.mkdir(self.home)
        os.chmod(place, 0o755)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=777", "pawl",
                               self.home], capture_output=True, check=False)
        self.exists = done.returncode == 0
        atexit.register(self.end)
        self.tables = os.path.join(self.home, "tables")
        if self.exists:
            os.mkdir(self.tables)
            shutil.chown(self.tables, "postgres")

    def fill(self):
        block = bytes(1 << 20)
        with open(os.path.join(self.home, "filler"), "wb", buffering=0) as filler:
            try:
                while filler.write(block) == len(block):
                    pass
            except OSError:
                pass

    def free(self):
        os.unlink(os.path.join(self.home, "filler"))

    def end(self):
        if self.exists:
            subprocess.run(["umount", "-l", self.home], check=True)
        self.exists = False


def as_postgres(*command):
    if os.getuid() == 0:
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, cwd="/", timeout=PATIENCE_S, check=False)
    check(done.returncode == 0, command, done.stderr)


class Node:
    """A PostgreSQL that can be made a standby of another, and promoted."""

    def __init__(self, bin_directory, data, port):
        self.bin, self.data, self.port = bin_directory, data, port

    def control(self, *words):
        as_postgres(self.bin + "/pg_ctl", "-D", self.data, "-w", *words)

    def follow(self, primary):
        shutil.rmtree(self.data, ignore_errors=True)
        as_postgres(self.bin + "/pg_basebackup", "-h", "127.0.0.1", "-p", str(primary.port), "-U",
                    "postgres", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        self.control("start", "-l", self.data + "/server.log", "-o", f"-p {self.port}")
        primary.say("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.say("SELECT pg_reload_conf()")
        until("the standby", lambda: primary.say(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").strip() == "1")

    def say(self, sql):
        return psql(f"postgres://postgres@127.0.0.1:{self.port}/postgres", sql)

    def crash(self):
        self.control("stop", "-m", "immediate")

    def promote(self):
        self.say("ALTER SYSTEM RESET synchronous_standby_names")  # nobody follows it yet
        self.say("SELECT pg_reload_conf()")
        self.control("promote")


# ---- a site ------------------------------------------------------------------------------------


class Site:
    """Two servers on a database, and their clients."""

    def __init__(self, name, url):
        self.servers = [Server(url), Server(url)]
        self.loads = [
            Load(self.servers[0].url, name=f"{name}p", submitters=2, workers=2, cli_workers=1,
                 pause_ms=60, lease_ms=LEASE_MS),
            Load(self.servers[1].url, name=f"{name}h", submitters=2, workers=2, cli_workers=0,
                 pause_ms=60, patience_ms=HASTY_MS, lease_ms=LEASE_MS)]

    def goes_on(self):
        all_go_on(self.loads)

    def fail(self, faults):
        for name, fault in faults:
            self.goes_on()
            begun = time.monotonic()
            fault()
            took = time.monotonic() - begun
            self.goes_on()
            print(f"# {name}: {took:.1f} s, work after {time.monotonic() - begun - took:.1f} s more",
                  flush=True)

    def end(self):
        _, said = settle_all(self.servers[0], self.loads, self.servers[1])
        for server in self.servers:
            server.end()
        return said


postgres = Postgres()
PORT = int(re.search(r"localhost:(\d+)", postgres.url).group(1))


def database(name, port, options=""):
    psql(postgres.url, f"CREATE DATABASE {name} {options}")
    return f"postgres://postgres@127.0.0.1:{port}/{name}"


def is_asked():
    """Whether somebody asks what became of a COMMIT (src/store/postgres/resolve.c), and waits; after
    a while it may be asked once more."""
    return psql(postgres.url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE 'INSERT INTO pawl.batch_rows AS b (session, batch, fenced)%'").strip() != "0"


def end_backends():
    psql(postgres.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
         " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")


def restart():
    postgres.crash()
    postgres.start_again()


def hold_lock(name):
    psql(f"postgres://postgres@127.0.0.1:{PORT}/{name}",
         "BEGIN; LOCK TABLE pawl.job_rows, pawl.state_rows; SELECT pg_sleep(1.3); COMMIT")


def fill_disk(disk, site):
    """Until somebody has felt it."""
    hasty = site.loads[1]
    felt = hasty.count("S")
    disk.fill()
    psql(postgres.url, "CHECKPOINT")
    begun = time.monotonic()

    def is_felt():
        nonlocal felt, begun
        if hasty.count("S") != felt:
            felt, begun = hasty.count("S"), time.monotonic()
        return time.monotonic() - begun > 0.5

    until("a full disk", is_felt)
    disk.free()


def chosen(kinds, count):
    """Each of them, and then at random."""
    names = list(kinds)
    picked = [names[i] if i < len(names) else chance.choice(names) for i in range(count)]
    return [(name, kinds[name]) for name in picked]


def the_database_fails_under_servers_and_nothing_is_lost():
    proxy = CommitProxy(PORT)
    disk = Disk()
    if disk.exists:
        psql(postgres.url, f"CREATE TABLESPACE small LOCATION '{disk.tables}'")
    else:
        print("the disk is not filled: only root can make a small one")
    site = Site("d", database("direct", proxy.port, "TABLESPACE small" if disk.exists else ""))
    kinds = {
        "ended": end_backends,
        "restarted": restart,
        "before": lambda: proxy.cut_at("before"),
        "at": lambda: proxy.cut_at("at"),
        "after": lambda: proxy.cut_at("after"),
        "locked": lambda: hold_lock("direct"),
    }
    if disk.exists:
        kinds["full"] = lambda: fill_disk(disk, site)
    faults = chosen(kinds, 150 if TORTURE else 7)
    site.fail(faults)
    said = site.end()
    if disk.exists:
        psql(postgres.url, "DROP DATABASE direct WITH (FORCE)")
        psql(postgres.url, "DROP TABLESPACE small")
        disk.end()
    return f"{len(faults)} faults, {proxy.met} at a COMMIT; {said}"


def the_same_through_a_pooler():
    count = 40 if TORTURE else 2
    if not os.access(POOLER, os.X_OK):
        return "skipped: PgBouncer is not installed"
    pooler = Pooler(PORT)
    site = Site("p", database("pooled", pooler.port))

    def pooler_ends():
        pooler.kill()
        pooler.start()

    faults = chosen({"pooler": pooler_ends, "ended": end_backends, "restarted": restart}, count)
    site.fail(faults)
    said = site.end()
    pooler.kill()
    return f"{len(faults)} faults; {said}"


def a_standby_is_promoted_and_nothing_is_lost():
    count = 10 if TORTURE else 1
    spare = os.path.join(place, "standby")
    os.chmod(place, 0o777)
    nodes = [Node(postgres.bin, postgres.data, PORT), Node(postgres.bin, spare, free_port())]
    psql(postgres.url, "CREATE DATABASE followed")
    nodes[1].follow(nodes[0])
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    site = Site("s", f"postgres://postgres@{hosts}/followed?target_session_attrs=read-write")
    for turn in range(count):
        primary, standby = nodes[turn % 2], nodes[(turn + 1) % 2]
        site.goes_on()
        primary.crash()
        standby.promote()
        site.goes_on()
        if turn + 1 < count:
            primary.follow(standby)
    said = site.end()
    for node in nodes:
        if os.path.exists(node.data + "/postmaster.pid"):
            node.crash()
    return f"{count} promoted; {said}"


run(the_database_fails_under_servers_and_nothing_is_lost, the_same_through_a_pooler,
    a_standby_is_promoted_and_nothing_is_lost)
postgres.end()
