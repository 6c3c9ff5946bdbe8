#!/usr/bin/env python3
"""The disk of a SQLite store fills up, and its server is killed: what was acknowledged can be read
as it is, and with as much room as the log has the store is whole again.

usage: test_full_disk.py BUILD_DIRECTORY SOURCE_DIRECTORY

On a small file system of its own. Only root can make one; others leave the test out.
"""
import http.client
import os
import subprocess
import tempfile
import threading

from trouble import PATIENCE_S, PAWL, Server, ask, check, run, until

SIZE_MIB = 24
LEFT_KIB = 2 * 1024  # when the server starts


class SmallDisk:
    """A file system with little room, and a file that takes most of it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="pawl-small-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", self.path],
                       check=True)
        self.ballast = self.path + "/ballast"
        self.take(self.free() - LEFT_KIB * 1024)

    def free(self):
        room = os.statvfs(self.path)
        return room.f_bavail * room.f_frsize

    def take(self, size):
        with open(self.ballast, "ab") as ballast:
            ballast.write(b"\0" * size)

    def give_back(self, size):
        os.truncate(self.ballast, os.path.getsize(self.ballast) - size)

    def end(self):
        subprocess.run(["umount", "-l", self.path], check=True)
        os.rmdir(self.path)


def submit_until_full(server):
    """The ids of all jobs that were acknowledged."""
    acknowledged, refused = [], []

    def submit(n):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        while not refused:
            status, job = ask(connection, "POST", "/v1/jobs",
                              {"kind": "mail", "queue": f"q{n}", "payload": "x" * 200})
            if status == 201:
                acknowledged.append(job["id"])
            else:
                refused.append(job)
        connection.close()

    threads = [threading.Thread(target=submit, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    check(refused and refused[0]["status"] == 503, refused)
    return acknowledged


def pawl(store, *words):
    done = subprocess.run([PAWL, *words, "--store", store], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


def check_there(store, acknowledged):
    """Lists can be read, and every job that was acknowledged is there, with a history that holds."""
    code, out, err = pawl(store, "ls", "--json")
    check(code == 0 and out, "ls:", code, err)
    code, out, err = pawl(store, "export", "--all")
    check(code == 0, "export:", code, err)
    gone = [job for job in acknowledged if job not in out]
    check(not gone, len(gone), "of", len(acknowledged), "acknowledged jobs are gone")
    code, out, err = pawl(store, "verify", "--all")
    check(code == 0, "verify:", code, out, err)


def a_store_that_was_killed_on_a_full_disk_can_be_read_and_recovers_in_little_room():
    disk = SmallDisk()
    try:
        store = f"sqlite:{disk.path}/jobs.db"
        server = Server(store)
        acknowledged = submit_until_full(server)
        until("the end of readiness", lambda: not server.is_ready())
        why = server.call("GET", "/readyz")[1]["detail"]
        check("No space" in why or "full" in why, why)
        server.kill()
        disk.take(disk.free())
        log = os.path.getsize(disk.path + "/jobs.db-wal")
        check(log > 0, "there is no log")

        # Nothing can be written: everything can be read.
        check_there(store, acknowledged)
        code, out, err = pawl(store, "doctor")
        check(code == 1 and "full" in out, "doctor:", code, out, err)
        disk.take(disk.free())  # what was moved from the log has made room
        code, out, err = pawl(store, "submit", "mail")
        check(code == 5 and "full" in err, "submit:", code, out, err)

        # As much room as the log has will do.
        disk.give_back(min(log, os.path.getsize(disk.ballast)))
        server = Server(store)
        until("readiness", server.is_ready)
        server.end()
        check_there(store, acknowledged)
        return f"{len(acknowledged)} acknowledged, a log of {log >> 10} KiB"
    finally:
        disk.end()


def main():
    if os.getuid() != 0:
        print("ok # SKIP only root can make a small file system")
        return
    run(a_store_that_was_killed_on_a_full_disk_can_be_read_and_recovers_in_little_room)


main()
