#!/usr/bin/env python3
"""The checker of histories (history.py) is checked: of a small history that is right it says
nothing, and of each that was damaged it says which rule is broken.

usage: test_history.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import collections

from history import BREAK_MS, Told, check_told
from trouble import check, run


LEASE_MS = 1500
BEAT_MS = 750


def time_text(at_ms):
    return f"2026-01-01T00:{at_ms // 60000:02}:{at_ms // 1000 % 60:02}.{at_ms % 1000:03}Z"


class History:
    """Three jobs, the second of which was claimed twice, and whose second lease was renewed, as was
    that of the third; a submit that was refused, one that nobody could say of and was done, and a
    completion of the lease that had ended, which was refused. A claim that was refused, one that
    nobody could say of and had the third job for a moment, and a forged token."""

    def __init__(self):
        self.lines = [
            "T a 10 20 ok", "S ja a", "T b 30 40 ok", "S jb b", "T bad 41 42 refused",
            "T open 43 99 unknown",
            "K w1 50 60 ok", "R ja 1", "G ja 1 w1 50 60 ok",
            "K w2 61 70 ok", "R jb 1", "G jb 1 w2 61 70 ok", "K w3 62 68 refused",
            "K w4 63 98 unknown", "K w5 71 79 ok", "R jo 2", "G jo 2 w5 71 79 ok",
            "X ja 1 78 79 refused", "C ja 1 80 90 ok",
            "K w6 91 100 ok", "R jb 2", "G jb 2 w6 91 100 ok", "C jb 2 101 110 ok",
            "C jb 1 111 120 refused", "C jo 2 121 130 unknown"]
        self.jobs = {job: {"id": job, "kind": "library", "status": "completed",
                           "payload": {"name": name}}
                     for job, name in (("ja", "a"), ("jb", "b"), ("jo", "open"))}
        self.feed = []
        for at, job, kind, cause, attempt, worker in (
                (100, "ja", "job_created", "submit", 0, None),
                (110, "jb", "job_created", "submit", 0, None),
                (120, "jo", "job_created", "submit", 0, None),
                (200, "ja", "job_leased", "claim", 1, "w1"),
                (210, "jb", "job_leased", "claim", 1, "w2"),
                (212, "jo", "job_leased", "claim", 1, "w4"),
                (215, "jo", "job_requeued", "release#1", 0, None),
                (220, "jo", "job_leased", "claim", 2, "w5"),
                (300, "ja", "job_completed", "complete#1", 0, None),
                (1715, "jb", "job_requeued", "expire", 0, None),
                (1800, "jb", "job_leased", "claim", 2, "w6"),
                (3500, "jb", "job_completed", "complete#2", 0, None),
                (3600, "jo", "job_completed", "complete#2", 0, None)):
            version = 1 + sum(event["job_id"] == job for event in self.feed)
            self.feed.append({"job_id": job, "version": version, "type": kind, "cause": cause,
                              "at": time_text(at), "payload": None})
            if attempt:
                self.feed[-1]["payload"] = {"attempt": attempt, "heartbeat_ms": BEAT_MS,
                                            "expires_at": time_text(at + LEASE_MS),
                                            "worker_id": worker}
        self.event("jb", "job_requeued")["payload"] = {"last_lease_expires_at": time_text(1710)}
        self.beats = collections.defaultdict(list)
        for at, job, attempt in ((1500, "jo", 2), (2500, "jb", 2), (2800, "jo", 2)):
            self.beat(at, job, attempt)
        self.counted = collections.Counter(completed=3)

    def beat(self, at, job, attempt):
        self.beats[job].append({
            "job_id": job, "version": 0, "type": "job_lease_renewed", "at": time_text(at),
            "cause": f"heartbeat#{attempt}", "payload": {"expires_at": time_text(at + LEASE_MS)}})

    def check(self):
        check_told(Told(self.lines), self.jobs, self.feed, self.counted, self.beats)

    def at(self, job, kind):
        """Where the last event of that kind is."""
        return max(i for i, event in enumerate(self.feed)
                   if event["job_id"] == job and event["type"] == kind)

    def event(self, job, kind):
        return self.feed[self.at(job, kind)]

    def line(self, old, new):
        self.lines[self.lines.index(old)] = new

    def forget(self, job):
        """As if nobody had ever submitted it."""
        del self.jobs[job]
        self.feed = [event for event in self.feed if event["job_id"] != job]
        self.counted["completed"] -= 1

    def number(self):
        """Versions as they should be."""
        seen = collections.Counter()
        for event in self.feed:
            seen[event["job_id"]] += 1
            event["version"] = seen[event["job_id"]]


def lose_a_job(history):
    history.forget("ja")


def lose_it_in_the_list(history):
    del history.jobs["ja"]


def give_it_another_id(history):
    history.line("S ja a", "S jx a")


def lose_its_history(history):
    history.feed = [event for event in history.feed if event["job_id"] != "jo"]
    history.lines = [line for line in history.lines if " jo " not in line]


def add_a_twin(history, job):
    history.feed += [dict(event, job_id="jt") for event in history.feed if event["job_id"] == job]
    history.beats["jt"] = history.beats[job]
    history.jobs["jt"] = dict(history.jobs[job], id="jt")
    history.counted["completed"] += 1


def do_what_was_acknowledged_twice(history):
    add_a_twin(history, "ja")


def do_a_submit_twice(history):
    add_a_twin(history, "jo")


def do_what_was_refused(history):
    history.line("T open 43 99 unknown", "T open 43 99 refused")


def do_what_nobody_asked_for(history):
    history.lines.remove("T open 43 99 unknown")


def leave_out_a_version(history):
    del history.feed[history.at("jb", "job_requeued")]


def give_a_number_twice(history):
    history.event("jb", "job_leased")["payload"]["attempt"] = 1


def lease_it_twice(history):
    del history.feed[history.at("jb", "job_requeued")]
    history.number()


def give_it_to_two(history):
    history.lines.append("R jb 2")


def give_what_is_not_leased(history):
    history.lines.append("R ja 2")


def complete_under_no_lease(history):
    end = history.at("jb", "job_completed")
    history.feed.insert(end, dict(history.feed[end], type="job_requeued"))
    history.number()


def complete_it_twice(history):
    end = history.at("jb", "job_completed")
    history.feed.insert(end, dict(history.feed[end]))
    history.number()


def complete_it_in_two_attempts(history):
    history.event("jb", "job_requeued").update(
        type="job_completed", cause="complete#1", at=time_text(1700))


def complete_without_a_token(history):
    history.event("jb", "job_completed")["cause"] = "submit"


def complete_by_another(history):
    history.line("C jb 2 101 110 ok", "C jb 2 101 110 unknown")
    history.line("C jb 1 111 120 refused", "C jb 1 111 120 ok")


def complete_what_was_refused(history):
    history.line("C jb 2 101 110 ok", "C jb 2 101 110 refused")


def complete_with_the_token_of_another(history):
    history.event("jb", "job_completed")["cause"] = "complete#1"


def write_when_the_lease_is_gone(history):
    done = history.event("jb", "job_completed")
    history.feed.append(dict(done, type="custom", cause="append#2", version=done["version"] + 1))


def complete_at_the_end_of_the_lease(history):
    history.beat(4200, "jo", 2)
    history.event("jo", "job_completed")["at"] = time_text(4200 + LEASE_MS)


def complete_an_hour_late(history):
    history.event("jo", "job_completed")["at"] = "2026-01-01T01:00:00.000Z"


def complete_without_the_heartbeat(history):
    del history.beats["jb"]


def renew_what_has_ended(history):
    history.beats["jb"][0]["at"] = time_text(1800 + LEASE_MS)


def reap_ten_minutes_early(history):
    lease = next(event for event in history.feed if event["payload"] and event["job_id"] == "jb")
    lease["payload"]["expires_at"] = time_text(1715 + 600000)


def reap_what_was_renewed(history):
    history.event("jb", "job_requeued")["payload"]["last_lease_expires_at"] = time_text(1716)


def reap_in_spite_of_a_heartbeat(history):
    history.beat(1000, "jb", 1)


def reap_it_twice(history):
    end = history.at("jb", "job_requeued")
    history.feed.insert(end, history.feed[end].copy())
    history.number()


def claim_what_is_in_no_history(history):
    history.lines.append("G ja 2 w1 131 140 ok")


def give_it_to_another_than_asked(history):
    history.line("G ja 1 w1 50 60 ok", "G ja 1 w5 50 60 ok")


def lease_what_was_refused(history):
    history.line("K w4 63 98 unknown", "K w4 63 98 refused")


def lease_what_nobody_asked_for(history):
    history.lines.remove("K w4 63 98 unknown")


def lease_more_than_was_asked_for(history):
    for job in ("ja", "jb", "jo"):
        history.event(job, "job_leased")["payload"]["worker_id"] = "w4"
    history.lines = [line for line in history.lines if not line.startswith("G")]
    history.lines.append("G jb 1 w2 61 70 ok")


def lease_and_not_tell(history):
    history.lines = [line for line in history.lines if line != "G jo 2 w5 71 79 ok"]


def take_a_forged_token(history):
    history.line("X ja 1 78 79 refused", "X ja 1 78 79 ok")


def complete_with_a_forged_token(history):
    history.event("ja", "job_completed")["payload"] = {"result": False}


def do_nothing(history):
    history.lines, history.jobs, history.feed = [], {}, []
    history.counted.clear()


def acknowledge_none_of(fact, history):
    history.lines = [line.replace(" ok", " unknown") if line.startswith(fact) else line
                     for line in history.lines]


def acknowledge_no_submit(history):
    acknowledge_none_of("T", history)


def acknowledge_no_claim(history):
    acknowledge_none_of("G", history)


def acknowledge_no_completion(history):
    acknowledge_none_of("C", history)


def swap(history, first, second):
    i, k = history.at(*first), history.at(*second)
    history.feed[i], history.feed[k] = history.feed[k], history.feed[i]


def create_out_of_order(history):
    swap(history, ("ja", "job_created"), ("jb", "job_created"))


def lease_out_of_order(history):
    lease = history.feed.pop(history.at("ja", "job_leased"))
    history.feed.insert(history.at("ja", "job_completed"), lease)


def complete_out_of_order(history):
    done = history.feed.pop(history.at("ja", "job_completed"))
    history.feed.append(done)


def count_wrong(history):
    history.counted["queued"] = 1


def leave_it_undone(history):
    del history.feed[history.at("jo", "job_completed")]


def fail_in_another_way(history):
    history.lines.append("F submit 7 something else")


DAMAGES = {
    lose_a_job: "present:", lose_it_in_the_list: "present:", give_it_another_id: "present:",
    lose_its_history: "present:", do_what_was_acknowledged_twice: "present:",
    do_a_submit_twice: "once:", do_what_was_refused: "absent:",
    do_what_nobody_asked_for: "absent:", leave_out_a_version: "versions:",
    give_a_number_twice: "tokens:", lease_it_twice: "owner:", give_it_to_two: "owner:",
    give_what_is_not_leased: "owner:", complete_under_no_lease: "lease:",
    complete_it_twice: "lease:", complete_it_in_two_attempts: "once:",
    complete_without_a_token: "lease:", complete_by_another: "present:",
    complete_what_was_refused: "absent:", create_out_of_order: "order:",
    lease_out_of_order: "order:", complete_out_of_order: "order:", count_wrong: "counts:",
    leave_it_undone: "ends:", fail_in_another_way: "failures:",
    complete_with_the_token_of_another: "lease:", write_when_the_lease_is_gone: "lease:",
    complete_at_the_end_of_the_lease: "lease:", complete_an_hour_late: "lease:",
    complete_without_the_heartbeat: "lease:", renew_what_has_ended: "lease:",
    reap_ten_minutes_early: "reaped:", reap_what_was_renewed: "reaped:",
    reap_in_spite_of_a_heartbeat: "reaped:", reap_it_twice: "reaped:",
    claim_what_is_in_no_history: "present:", give_it_to_another_than_asked: "owner:",
    lease_what_was_refused: "absent:", lease_what_nobody_asked_for: "absent:",
    lease_more_than_was_asked_for: "once:", lease_and_not_tell: "absent:",
    take_a_forged_token: "lease:", complete_with_a_forged_token: "lease:", do_nothing: "nothing:",
    acknowledge_no_submit: "nothing:", acknowledge_no_claim: "nothing:",
    acknowledge_no_completion: "nothing:",
}


def a_history_that_is_right_passes():
    History().check()


def each_damage_is_named():
    for damage, rule in DAMAGES.items():
        history = History()
        damage(history)
        try:
            history.check()
        except AssertionError as said:
            check(str(said).startswith(rule), damage.__name__, "should break", rule, "but", said)
        else:
            raise AssertionError(f"{damage.__name__} was not seen")
    return f"{len(DAMAGES)} damages"


def what_nobody_could_say_may_be_absent():
    history = History()
    history.forget("jo")
    history.lines = [line for line in history.lines if " jo " not in line]
    history.check()


def a_completion_in_the_grace_after_a_break_passes():
    history = History()
    history.event("jo", "job_completed")["at"] = time_text(2800 + BREAK_MS + 1)
    history.check()


run(a_history_that_is_right_passes, each_damage_is_named, what_nobody_could_say_may_be_absent,
    a_completion_in_the_grace_after_a_break_passes)
