"""Holds what clients were told against what the store has kept, for the tests that make trouble.

`check_history` reads the facts of a load (tests/server/load.c) and the feed of a server, once all is
settled, and raises what does not fit. test_history.py damages histories, and sees it raised:

  nothing    some submit, some claim and some completion was acknowledged: of a day on which nothing
             happened nothing can be said
  present    what was acknowledged is there, as it was said
  absent     what was refused is not, and nothing is there that nobody asked for
  once       what nobody could say is there once or not at all; nothing is completed twice
  versions   the events of a job are 1 to n
  tokens     the attempt rises by one with every lease
  owner      no lease begins before the last one has ended, no attempt was given to two or to
             another than the claim that it was leased to, and none that is in no history
  lease      whoever writes with a token does so under the lease of that token, before its end; one
             that was forged writes nothing
  reaped     a lease is taken away at its end, and not before
  order      what began after something else was acknowledged stands behind it in the feed
  counts     the store counts as many jobs of each status as there are
  ends       everything has ended
  failures   no call has failed in a way that is never to be seen
  verify     `pawl verify --all` finds nothing

A claim that was refused has leased nothing, one that was answered what it was given, one that nobody
could say of as much as it asked for at most. Leases that were given back, since their answer was
lost, do not count: whoever sends the same claim again gets others.

When a lease ends, its own event says, and after that each of its heartbeats, which are kept beside
the history, but not those in a file that only renew it. What is not written down is grace: whoever
had not seen the store for BREAK_MS gives every lease one heartbeat more. So a write after the end
is right when its worker was not heard of for that long, and no break lasts longer than a test has
patience. Servers are not started anew while there are leases, or they would give grace for that.
"""
import collections
import datetime
import os

from trouble import Load, PATIENCE_S, all_jobs, check, until, verify_all

BREAK_MS = 5000  # as in src/engine/engine_private.h
AWAY_MS = PATIENCE_S * 1000
LEASE_ENDS = {"job_requeued", "job_completed", "job_failed", "job_cancelled", "job_dead_lettered",
              "job_waiting", "wait_completed"}
CLAIM_MAX = 2  # as in load.c


class Call:
    """A call of a client: when, and what it was told."""

    def __init__(self, begin, end, how):
        self.begin, self.end, self.how = int(begin), int(end), how


class Told:
    """All that clients were told, and when. Calls are by what they were about; several when it was
    asked for more than once."""

    def __init__(self, lines, cli_lines=()):
        self.submits = collections.defaultdict(list)  # by name
        self.asked = collections.defaultdict(list)  # claims, by worker
        self.claims = collections.defaultdict(list)  # what they got, by job and attempt
        self.given = {}  # the worker of each of those
        self.completes = collections.defaultdict(list)  # by job and attempt
        self.forged = collections.defaultdict(list)  # completions, by job and attempt
        self.named = []  # jobs, with the names that they were acknowledged by
        self.runs = collections.Counter()  # attempts that were given to somebody
        self.failures = []
        for line in [*lines, *cli_lines]:
            fact, *words = line.split()
            if fact == "T":
                self.submits[words[0]].append(Call(*words[1:]))
            elif fact == "K":
                self.asked[words[0]].append(Call(*words[1:]))
            elif fact == "G":
                self.claims[words[0], int(words[1])].append(Call(*words[3:]))
                self.given[words[0], int(words[1])] = words[2]
            elif fact in ("C", "X"):
                calls = self.completes if fact == "C" else self.forged
                calls[words[0], int(words[1])].append(Call(*words[2:]))
            elif fact == "S":
                self.named.append((words[0], words[1]))
            elif fact == "R":
                self.runs[words[0], int(words[1])] += 1
            elif fact == "F":
                self.failures.append(line)

    def how(self):
        """How many calls came to what."""
        return collections.Counter(
            call.how for calls in (self.submits, self.asked, self.completes, self.forged)
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


def by_job(events):
    found = collections.defaultdict(list)
    for event in events:
        found[event["job_id"]].append(event)
    return found


def read_beats(server, histories):
    """Heartbeats by job, of those that have outlived what a lease was given for. In a file those
    that only renew a lease are not kept: None."""
    if not server.store.startswith("postgres"):
        return {job: None for job in histories}
    beats = {}
    for job, events in histories.items():
        ends = [time_ms(event["payload"]["expires_at"]) for event in events
                if event["type"] == "job_leased"]
        if ends and time_ms(events[-1]["at"]) >= min(ends):
            status, page = server.call("GET", f"/v1/jobs/{job}/events?telemetry=true&limit=1000")
            check(status == 200, page)
            beats[job] = page["events"]
    return beats


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


def time_ms(text):
    when = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(when.timestamp() * 1000)


def cause_of(event):
    """What was asked for, and the attempt whose token was shown; None: without one."""
    verb, _, attempt = (event["cause"] or "").partition("#")
    return verb, int(attempt) if attempt.isdigit() else None


class Lease:
    """From the event that it begins with and its heartbeats."""

    def __init__(self, begin, beats):
        terms = begin["payload"]
        self.job, self.attempt = begin["job_id"], terms["attempt"]
        self.heartbeat_ms = terms["heartbeat_ms"]
        self.heard_at, self.ends_at = time_ms(begin["at"]), time_ms(terms["expires_at"])
        self.is_known = beats is not None
        for beat in beats or ():
            if cause_of(beat)[1] == self.attempt:
                self.check_write(beat)
                self.heard_at = time_ms(beat["at"])
                self.ends_at = max(self.ends_at, time_ms(beat["payload"]["expires_at"]))

    def check_write(self, event):
        at = time_ms(event["at"])
        in_grace = (at - self.heard_at > BREAK_MS and
                    at < self.ends_at + AWAY_MS + self.heartbeat_ms)
        check(at < self.ends_at or in_grace or not self.is_known, "lease: written", at - self.ends_at,
              "ms after its end:", self.job, event)

    def check_end(self, event):
        """Of one that was taken away."""
        said = (event["payload"] or {}).get("last_lease_expires_at")
        ends_at = max(self.ends_at, time_ms(said) if said else 0)
        at = time_ms(event["at"])
        check(at >= ends_at, "reaped:", ends_at - at, "ms before its end:", self.job, event)


def check_job(job, events, beats=()):
    """Its own history, with its heartbeats; gives the attempt that completed it."""
    attempt, lease, done_by = 0, None, None
    for number, event in enumerate(events, 1):
        check(event["version"] == number, "versions:", job, "has", event["version"], "at", number)
        kind, (verb, shown) = event["type"], cause_of(event)
        if kind == "job_leased":
            check(lease is None, "owner: a lease begins in another:", job, event)
            check(event["payload"]["attempt"] == attempt + 1, "tokens:", job, attempt, event)
            attempt, lease = attempt + 1, Lease(event, beats)
        elif verb == "expire":
            check(lease is not None, "reaped: there was none:", job, event)
            lease.check_end(event)
        elif shown is not None or kind == "job_completed":
            check(lease is not None and shown == attempt, "lease: written under another or none:",
                  job, event)
            lease.check_write(event)
        if kind == "job_completed":
            check(done_by is None, "once: completed again:", job, event)
            check((event["payload"] or {}).get("result") is not False,
                  "lease: completed with a forged token:", job, event)
            done_by = attempt
        if kind in LEASE_ENDS:
            lease = None
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


class Leases:
    """All that are in histories: whose they were, and which were given back."""

    def __init__(self, histories):
        self.workers, self.given_back = {}, set()
        for job, events in histories.items():
            for event in events:
                verb, shown = cause_of(event)
                if event["type"] == "job_leased":
                    terms = event["payload"]
                    self.workers[job, terms["attempt"]] = terms["worker_id"]
                elif verb == "release":
                    self.given_back.add((job, shown))


def check_given(told, leases):
    """What was given to somebody is in a history, and was given to nobody else."""
    leased = leases.workers.keys()
    check(told.runs.keys() <= leased, "owner: given, and in no history:",
          list(told.runs.keys() - leased)[:5])
    twice = [run for run, count in told.runs.items() if count > 1]
    check(not twice, "owner: given to two:", twice[:5])
    for claim, worker in told.given.items():
        check(claim in leased, "present: claim of", *claim, "was acknowledged, and is in no history")
        check(leases.workers[claim] == worker, "owner: given to", worker, "and leased to",
              leases.workers[claim], *claim)


def check_asked(told, leases, jobs):
    """What was leased is what was asked for, by those who log their claims."""
    kept = collections.defaultdict(set)
    for lease, worker in leases.workers.items():
        if jobs[lease[0]]["kind"] == "library":
            check(worker in told.asked, "absent: nobody has asked for the lease of", *lease, worker)
            check(any(call.how != "refused" for call in told.asked[worker]), "absent: claim of",
                  worker, "was refused, and has leased", *lease)
            if lease not in leases.given_back:
                kept[worker].add(lease)
    for worker, mine in kept.items():
        check(len(mine) <= CLAIM_MAX, "once: claim of", worker, "has leased", sorted(mine))
        if any(call.how == "ok" for call in told.asked[worker]):
            check(mine <= told.claims.keys(), "absent: claim of", worker, "was not told of",
                  sorted(mine - told.claims.keys()))


def check_told(told, jobs, feed, counted, beats):
    """Holds what clients were told against jobs by id, all events, counts by status, and heartbeats
    by job."""
    for what in ("submits", "claims", "completes"):
        check(any(call.how == "ok" for tries in getattr(told, what).values() for call in tries),
              "nothing: none of the", what, "was acknowledged")
    histories = by_job(feed)
    check(histories.keys() == jobs.keys(), "present:", len(histories), "jobs in the feed,",
          len(jobs), "in the list")
    check_submits(jobs, told.submits)
    for job, name in told.named:
        check(job in jobs and jobs[job]["payload"]["name"] == name, "present:", name,
              "was acknowledged as", job)
    done_by = {job: check_job(job, events, beats.get(job, ()))
               for job, events in histories.items()}
    leases = Leases(histories)
    check_given(told, leases)
    check_asked(told, leases, jobs)
    for shown, tries in told.forged.items():
        check(all(call.how != "ok" for call in tries), "lease: a forged token was taken:", *shown)
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
    check_told(told, jobs, feed, count_jobs(server), read_beats(server, by_job(feed)))
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
