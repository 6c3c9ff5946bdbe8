"""Holds what clients were told against what the store has kept, for the tests that make trouble.

`check_history` reads the facts of a load (tests/server/load.c) and the feed of a server, once all is
settled, and raises what does not fit. test_history.py damages histories, and sees it raised:

  present    what was acknowledged is there, as it was said
  absent     what was refused is not, and nothing is there that nobody asked for
  once       what nobody could say is there once or not at all
  versions   the events of a job are 1 to n
  tokens     the attempt rises by one with every lease
  owner      no lease begins before the last one has ended, no attempt was given to two, and none
             that is in no history
  lease      a completion stands under the lease that it was made with
  order      what began after something else was acknowledged stands behind it in the feed
  counts     the store counts as many jobs of each status as there are
  ends       everything has ended
  verify     `pawl verify --all` finds nothing
"""
import collections
import os

from trouble import Load, all_jobs, check, until, verify_all

LEASE_ENDS = {"job_requeued", "job_completed", "job_failed", "job_cancelled", "job_dead_lettered",
              "job_waiting", "wait_completed"}


class Call:
    """A call of a client: when, and what it was told."""

    def __init__(self, begin, end, how):
        self.begin, self.end, self.how = int(begin), int(end), how


class Told:
    """All that clients were told, and when. Calls are by what they were about; several when it was
    asked for more than once."""

    def __init__(self, lines, cli_lines=()):
        self.submits = collections.defaultdict(list)  # by name
        self.claims = collections.defaultdict(list)  # by job and attempt
        self.completes = collections.defaultdict(list)  # by job and attempt
        self.named = []  # jobs, with the names that they were acknowledged by
        self.runs = collections.Counter()  # attempts that were given to somebody
        self.failures = []
        for line in [*lines, *cli_lines]:
            fact, *words = line.split()
            if fact == "T":
                self.submits[words[0]].append(Call(*words[1:]))
            elif fact in ("G", "C"):
                calls = self.claims if fact == "G" else self.completes
                calls[words[0], int(words[1])].append(Call(*words[2:]))
            elif fact == "S":
                self.named.append((words[0], words[1]))
            elif fact == "R":
                self.runs[words[0], int(words[1])] += 1
            elif fact == "F":
                self.failures.append(line)

    def how(self):
        """How many calls came to what."""
        return collections.Counter(call.how for calls in (self.submits, self.claims, self.completes)
                                   for tries in calls.values() for call in tries)


def lines_of(log):
    with open(log, encoding="utf-8") as lines:
        return [line for line in lines.read().splitlines() if line]


def read_feed(server):
    """All events that are stored, in the order of the feed."""
    events, after = [], ""
    while True:
        status, page = server.call("GET", "/v1/feed?limit=1000" +
                                   (f"&after={after}" if after else ""))
        check(status == 200, page)
        if not page["events"]:
            return events
        events += page["events"]
        after = page["next"]


def check_submits(jobs, submits):
    by_name = collections.Counter(job["payload"]["name"] for job in jobs.values())
    for name, tries in submits.items():
        hows = {call.how for call in tries}
        if "ok" in hows:
            check(by_name[name] == 1, "present:", name, "was acknowledged; there are",
                  by_name[name])
        elif "unknown" in hows:
            check(by_name[name] <= 1, "once:", name, "is there", by_name[name], "times")
        else:
            check(by_name[name] == 0, "absent:", name, "was refused")
    strangers = [name for name in by_name if name not in submits]
    check(not strangers, "absent: nobody has asked for", strangers[:5])


def check_job(job, events):
    """Its own history; gives the attempt that completed it."""
    attempt, held, done_by = 0, False, None
    for number, event in enumerate(events, 1):
        check(event["version"] == number, "versions:", job, "has", event["version"], "at", number)
        kind = event["type"]
        if kind == "job_leased":
            check(not held, "owner: a lease begins in another:", job, event)
            check(event["payload"]["attempt"] == attempt + 1, "tokens:", job, attempt, event)
            attempt, held = attempt + 1, True
        elif kind == "job_completed":
            check(held and done_by is None, "lease: completed under none:", job, event)
            done_by = attempt
        if kind in LEASE_ENDS:
            held = False
    check(done_by is not None, "ends:", job, [event["type"] for event in events])
    return done_by


def check_completes(completes, done_by):
    for (job, attempt), tries in completes.items():
        hows = {call.how for call in tries}
        if "ok" in hows:
            check(done_by.get(job) == attempt, "present: completion of", job, attempt,
                  "was acknowledged, completed by", done_by.get(job))
        elif "unknown" not in hows:
            check(done_by.get(job) != attempt, "absent: completion of", job, attempt,
                  "was refused, and is there")


def check_order(feed, jobs, told):
    """Nothing stands behind what was asked for only after it was acknowledged."""
    latest_begin, holder, attempts = 0, None, {}
    for event in feed:
        job, tries = event["job_id"], []
        if event["type"] == "job_created":
            tries = told.submits.get(jobs[job]["payload"]["name"], [])
        elif event["type"] == "job_leased":
            attempts[job] = event["payload"]["attempt"]
            tries = told.claims.get((job, attempts[job]), [])
        elif event["type"] == "job_completed":
            tries = told.completes.get((job, attempts[job]), [])
        for call in tries:
            check(call.how != "ok" or call.end >= latest_begin, "order:", event["type"], "of", job,
                  "was acknowledged before", holder, "was asked for, and stands behind it")
        if tries and min(call.begin for call in tries) > latest_begin:
            latest_begin = min(call.begin for call in tries)
            holder = f"{event['type']} of {job}"


def check_counts(counted, jobs):
    there = collections.Counter(job["status"] for job in jobs.values())
    check(counted == there, "counts:", dict(counted), "but there are", dict(there))


def check_told(told, jobs, feed, counted):
    """Holds what clients were told against jobs by id, all events, and counts by status."""
    by_job = collections.defaultdict(list)
    for event in feed:
        by_job[event["job_id"]].append(event)
    check(by_job.keys() == jobs.keys(), "present:", len(by_job), "jobs in the feed,", len(jobs),
          "in the list")
    check_submits(jobs, told.submits)
    for job, name in told.named:
        check(job in jobs and jobs[job]["payload"]["name"] == name, "present:", name,
              "was acknowledged as", job)
    done_by = {job: check_job(job, events) for job, events in by_job.items()}
    leased = {(job, event["payload"]["attempt"]) for job, events in by_job.items()
              for event in events if event["type"] == "job_leased"}
    check(told.runs.keys() <= leased, "owner: given, and in no history:",
          list(told.runs.keys() - leased)[:5])
    twice = [run for run, count in told.runs.items() if count > 1]
    check(not twice, "owner: given to two:", twice[:5])
    check_completes(told.completes, done_by)
    check_order(feed, jobs, told)
    check_counts(counted, jobs)
    check(not told.failures, "failures:", told.failures[:3])


def count_jobs(server):
    """By status, as the store counts them."""
    status, answer = server.call("GET", "/v1/queues")
    check(status == 200, answer)
    counted = collections.Counter()
    for queue in answer["queues"]:
        counted.update({key: value for key, value in queue["by_status"].items() if value})
    return counted


def together(loads):
    """All facts as if one had written them, for those who share a store."""
    whole = loads[0]
    for other in loads[1:]:
        for name in ("log", "cli_log"):
            try:
                with open(getattr(other, name), "rb") as source, \
                        open(getattr(whole, name), "ab") as sink:
                    sink.write(source.read())
            except FileNotFoundError:
                pass
    return whole


def check_history(server, load):
    told = Told(lines_of(load.log), lines_of(load.cli_log) if os.path.exists(load.cli_log) else ())
    jobs = {job["id"]: job for job in all_jobs(server)}
    feed = read_feed(server)
    check_told(told, jobs, feed, count_jobs(server))
    verify_all(server)
    hows = told.how()
    names = {job["payload"]["name"] for job in jobs.values()}
    open_calls = [name for name, tries in told.submits.items()
                  if {call.how for call in tries} == {"unknown"}]
    return hows, (f"{len(jobs)} jobs, {len(feed)} events; calls: {hows['ok']} ok, "
                  f"{hows['refused']} refused, {hows['unknown']} unknown, of which "
                  f"{len(names.intersection(open_calls))} of {len(open_calls)} submits were done")


def all_go_on(loads, jobs=4):
    """Waits until each of them has so many more jobs acknowledged and completed."""
    before = [(load.count("S"), load.count("D")) for load in loads]
    until("work", lambda: all(load.count("S") >= submitted + jobs and load.count("D") >= done + jobs
                              for load, (submitted, done) in zip(loads, before)), pause_s=0.02)


def settle_all(server, loads, other=None):
    """Ends loads that share a store, has what they left behind done by others, and checks it all, as
    `other` tells it if it is given. Gives how many calls came to what, and says it."""
    for load in loads:
        load.stop()
    for load in loads:
        load.end()
    rest = Load(server.url, name=loads[0].name + "-rest", submitters=0, workers=2, cli_workers=1,
                lease_ms=loads[0].lease_ms, **loads[0].settings)

    def left():
        status, answer = server.call(
            "GET", "/v1/jobs?status=queued,leased,running,retrying&limit=3")
        return answer["jobs"] if status == 200 else answer

    until("the end of all jobs", lambda: left() == [], pause_s=0.05, why=left)
    rest.end()
    for load in [*loads, rest]:
        load.end_cli()
    return check_history(other or server, together([*loads, rest]))
