#!/usr/bin/env python3
"""A primary fails over to a standby that has not got all, is put back to an earlier state, or comes
back without fencing, under servers that go on: what they remember is not carried over, and no
acknowledged job lands where nobody looks.

usage: test_failover.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import http.client
import os
import shutil
import subprocess
import threading

from cluster import BIN, Cluster, run_as_postgres
from trouble import PATIENCE_S, Server, check, psql, run, until, verify_all


def submit(server, queue, kind="k"):
    """A job that was acknowledged; while the database changes, after as many tries as it takes."""
    def tried():
        status, job = server.call("POST", "/v1/jobs", {"kind": kind, "queue": queue})
        return job["id"] if status == 201 else None
    return until(f"a job in {queue}", tried, pause_s=0.1)


def claim(server, *queues):
    status, answer = server.call("POST", "/v1/claims", {"worker_id": "w", "queues": list(queues),
                                                        "max": 10})
    check(status == 200, answer)
    return [claim["job"]["id"] for claim in answer["claims"]]


def claim_all(server, count, *queues):
    """So many jobs, as they come."""
    found = []

    def enough():
        found.extend(claim(server, *queues))
        return len(found) >= count

    until(f"{count} jobs of {queues}", enough, 20, 0.1, lambda: found)
    return found


def jobs_on(node, database):
    return int(node.say("SELECT count(*) FROM pawl.jobs", database))


def a_failover_that_lost_a_lane_strands_no_job_and_crosses_no_queue():
    cluster = Cluster()
    url = cluster.database("lanes")
    servers = [Server(url), Server(url)]
    submit(servers[0], "first")
    cluster.cut()
    # The lane of q1 gets a number that the new primary has never heard of.
    submit(servers[0], "q1")
    cluster.fail_over()
    # It gives that number to q2, or to nobody.
    foreign = submit(servers[1], "q2")
    own = submit(servers[0], "q1")
    check(claim_all(servers[1], 1, "q2") == [foreign], "a claim of q2 got a job of q1")
    check(claim_all(servers[1], 1, "q1") == [own], "a job of q1 was not found")
    stranded = submit(servers[0], "q1")
    check(claim_all(servers[1], 1, "q1") == [stranded], "a job of q1 was not found")
    # What an older server has left behind, the doctor finds and puts right.
    stranded = submit(servers[0], "q1")
    cluster.primary.say("UPDATE pawl.ready SET lane = 7000 WHERE job_id = "
                        f"'{stranded}'", "lanes")
    check(claim(servers[1], "q1") == [], "work in a lane that does not exist was found")
    status, answer = servers[1].call("GET", "/v1/doctor")
    said = [found["detail"] for found in answer["checks"] if found["name"] == "lanes"]
    check(status == 200 and "1 jobs or steps were in lanes that do not exist" in said[0], answer)
    check(claim_all(servers[1], 1, "q1") == [stranded], "a job of q1 was not found")
    for server in servers:
        verify_all(server)
        server.end()
    cluster.end()


def a_restore_under_a_running_server_strands_no_job():
    cluster = Cluster()
    url = cluster.database("restored")
    servers = [Server(url), Server(url)]
    submit(servers[0], "first")
    dump = subprocess.run([BIN + "/pg_dump", "-Fc", "-d", cluster.primary.url("restored")],
                          stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True).stdout
    submit(servers[0], "q1")  # in a lane that the dump does not have
    subprocess.run([BIN + "/pg_restore", "--clean", "-d", cluster.primary.url("restored")],
                   input=dump, timeout=PATIENCE_S, check=True)
    foreign = submit(servers[1], "q2")
    own = submit(servers[0], "q1")
    check(claim_all(servers[1], 1, "q2") == [foreign], "a claim of q2 got a job of q1")
    check(claim_all(servers[1], 1, "q1") == [own], "a job of q1 was not found")
    for server in servers:
        server.end()
    cluster.end()


def files_that_are_put_back_under_a_running_server_strand_no_job():
    cluster = Cluster()
    url = cluster.database("files")
    node = cluster.primary
    servers = [Server(url), Server(url)]
    submit(servers[0], "first")
    node.stop()
    copy = node.data + ".copy"
    run_as_postgres("cp", "-a", node.data, copy)
    node.start()
    lost = [submit(servers[0], "q1") for _ in range(10)]  # in a lane that the copy does not have
    until("lost events in the feed", lambda: set(read_feed(servers[0], "0-0")[0]) >= set(lost))
    _, gone = read_feed(servers[0], "0-0")
    node.crash()
    shutil.rmtree(node.data)
    os.rename(copy, node.data)
    node.start()  # the same cluster and timeline, whose log ends earlier
    foreign = submit(servers[1], "q2")
    own = submit(servers[0], "q1")
    check(claim_all(servers[1], 1, "q2") == [foreign], "a claim of q2 got a job of q1")
    check(claim_all(servers[1], 1, "q1") == [own], "a job of q1 was not found")
    # So many more that the places of what was lost are others' now.
    until("as many transactions", lambda: submit(servers[0], "q3") and
          int(psql(node.url("files"), "SELECT pg_current_xact_id()")) > int(gone.split("-")[0]) + 10)
    status, answer = feed(servers[0], after=gone)
    check(status == 410 and answer["code"] == "feed_reset", status, answer)
    for server in servers:
        verify_all(server)
        server.end()
    cluster.end()


def a_server_never_writes_to_two_primaries():
    cluster = Cluster()
    url = cluster.database("split")
    old, new = cluster.primary, cluster.standby
    before = Server(url)
    kept = [submit(before, "q") for _ in range(3)]
    cluster.catch_up()
    cluster.fail_over()
    kept += [submit(before, "q") for _ in range(3)]
    # Nobody has fenced it, and it is the first that the URL names.
    old.start()
    stale = jobs_on(old, "split")
    psql(new.url("split"), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
         " WHERE pid <> pg_backend_pid() AND application_name = 'pawl'")
    # One server has seen the new primary, the other has not.
    after = Server(url)
    for i in range(20):
        kept.append(submit(before if i % 2 == 0 else after, "q"))
        if i == 10:
            psql(new.url("split"), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE pid <> pg_backend_pid() AND application_name = 'pawl'")
    check(jobs_on(old, "split") == stale, "jobs were written to the old primary")
    check(jobs_on(new, "split") == len(kept), jobs_on(new, "split"), len(kept))
    check(before.is_ready() and after.is_ready(), "not ready, though the new primary is there")

    # With nothing left but the old one there is no database, and it is said why.
    new.crash()
    until("the end of readiness", lambda: not before.is_ready(), pause_s=0.1)
    status, answer = before.call("POST", "/v1/jobs", {"kind": "k"})
    check(status == 503, status, answer)
    check(jobs_on(old, "split") == stale, "jobs were written to the old primary")
    until("a line in the log", lambda: any("primary_refused" in line for line in before.lines),
          why=lambda: before.lines[-5:])
    before.kill()
    after.kill()
    cluster.end()


def a_server_that_knows_only_an_old_primary_learns_it_there():
    cluster = Cluster()
    url = cluster.database("noted")
    old = cluster.primary
    # These two know of one host each; only the third can know of both.
    alone = Server(old.url("noted"))
    submit(alone, "q")
    cluster.catch_up()
    cluster.promote()  # while the old one runs on, with its servers
    both = Server(url)
    kept = submit(both, "q")
    check(int(cluster.primary.say(f"SELECT count(*) FROM pawl.jobs WHERE id = '{kept}'", "noted"))
          == 1, "the server with both hosts is at the old primary")
    until("the end of readiness", lambda: not alone.is_ready(), pause_s=0.1)
    stale = jobs_on(old, "noted")
    status, answer = alone.call("POST", "/v1/jobs", {"kind": "k"})
    check(status == 503 and jobs_on(old, "noted") == stale, status, answer)
    check("timeline" in answer["detail"], answer)
    alone.kill()
    both.end()
    cluster.end()


def a_promotion_beside_a_primary_that_lives_on_is_noticed():
    cluster = Cluster()
    url = cluster.database("alive")
    old = cluster.primary
    server = Server(url)
    submit(server, "q")
    cluster.catch_up()
    cluster.promote()

    def moved():
        job = submit(server, "q")
        return cluster.primary.say(f"SELECT count(*) FROM pawl.jobs WHERE id = '{job}'",
                                   "alive") == "1"

    until("jobs on the new primary", moved, pause_s=0.2)
    stale = jobs_on(old, "alive")
    for _ in range(5):
        check(moved(), "the server went back")
    check(jobs_on(old, "alive") == stale, "jobs were written to the old primary")
    server.end()
    cluster.end()


def feed(server, **query):
    """A page; connections that broke in a failover are found one by one."""
    def page():
        status, answer = server.call("GET", "/v1/feed?" + "&".join(
            f"{key}={value}" for key, value in {"limit": 1000, **query}.items()))
        return (status, answer) if status != 503 else None
    return until("a page of the feed", page, pause_s=0.05)


def read_feed(server, after):
    """All events behind a position, once there are some, and the position behind them."""
    def page():
        status, answer = feed(server, after=after)
        check(status == 200, answer)
        return answer if answer["events"] else None
    found = until("events in the feed", page, pause_s=0.05)
    return [event["job_id"] for event in found["events"]], found["next"]


class Stream(threading.Thread):
    """Reads the feed as it comes, up to the end of the stream."""

    def __init__(self, server, after):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self.connection.request("GET", "/v1/feed", headers={"Accept": "text/event-stream",
                                                            "Last-Event-ID": after})
        self.reply = self.connection.getresponse()
        self.lines = []
        if self.reply.status == 200:
            self.start()

    def run(self):
        for line in self.reply:
            self.lines.append(line.decode().rstrip("\n"))


def a_follower_whose_events_were_lost_is_told_where_to_go_on():
    cluster = Cluster()
    server = Server(cluster.database("feed"))
    first = submit(server, "q")
    jobs, kept = read_feed(server, "0-0")
    check(jobs == [first], jobs)
    # A failover that loses nothing lets everybody go on.
    cluster.catch_up()
    cluster.fail_over()
    second = submit(server, "q")
    jobs, kept = read_feed(server, kept)
    check(jobs == [second], jobs)
    cluster.follow()
    cluster.cut()
    lost = [submit(server, "q") for _ in range(10)]
    until("lost events in the feed", lambda: read_feed(server, kept)[0] == lost)
    _, gone = read_feed(server, kept)
    stream = Stream(server, gone)
    cluster.fail_over()
    # Fewer than were lost: they get places before the one that the follower has reached.
    third = submit(server, "q")
    status, answer = feed(server, after=gone)
    check(status == 410 and answer["code"] == "feed_reset", status, answer)
    check(read_feed(server, answer["cursor"])[0][-1:] == [third], answer)
    check(not set(lost) & set(read_feed(server, answer["cursor"])[0]), "lost events are there")
    # Whoever was before what was lost sees nothing of it.
    check(read_feed(server, kept)[0] == [third], kept)
    # A position of an older Pawl, without its timeline, is not taken for another one either.
    status, answer = feed(server, after=gone.rsplit("-", 1)[0])
    check(status == 410, status, answer)
    # A stream that is open ends with where to go on, a new one is refused like a page.
    stream.join(PATIENCE_S)
    reset = stream.lines.index("event: feed_reset")
    check(read_feed(server, stream.lines[reset + 1].removeprefix("id: "))[0][-1:] == [third],
          stream.lines)
    refused = until("a refusal", lambda: [status for status in [Stream(server, gone).reply.status]
                                          if status != 503])
    check(refused == [410], "a stream goes on over what was lost", refused)
    check(feed(server, after="now")[0] == 200, "there is no now")
    server.end()
    cluster.end()


run(a_failover_that_lost_a_lane_strands_no_job_and_crosses_no_queue,
    a_restore_under_a_running_server_strands_no_job,
    files_that_are_put_back_under_a_running_server_strand_no_job,
    a_server_never_writes_to_two_primaries,
    a_server_that_knows_only_an_old_primary_learns_it_there,
    a_promotion_beside_a_primary_that_lives_on_is_noticed,
    a_follower_whose_events_were_lost_is_told_where_to_go_on)
