#!/usr/bin/env python3
"""The checker of histories (history.py) is checked: of a small history that is right it says
nothing, and of each that was damaged it says which rule is broken.

usage: test_history.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import collections

from history import Told, check_told
from trouble import check, run


class History:
    """Two jobs, the second of which was claimed twice; a submit that was refused, one that nobody
    could say of and was done, and a completion of the lease that had ended, which was refused."""

    def __init__(self):
        self.lines = [
            "T a 10 20 ok", "S ja a", "T b 30 40 ok", "S jb b", "T bad 41 42 refused",
            "T open 43 99 unknown",
            "R ja 1", "G ja 1 50 60 ok", "R jb 1", "G jb 1 61 70 ok", "R jo 1", "G jo 1 71 79 ok",
            "C ja 1 80 90 ok", "R jb 2", "G jb 2 91 100 ok", "C jb 2 101 110 ok",
            "C jb 1 111 120 refused", "C jo 1 121 130 unknown"]
        self.jobs = {job: {"id": job, "status": "completed", "payload": {"name": name}}
                     for job, name in (("ja", "a"), ("jb", "b"), ("jo", "open"))}
        self.feed = []
        for job, kind, attempt in (
                ("ja", "job_created", 0), ("jb", "job_created", 0), ("jo", "job_created", 0),
                ("ja", "job_leased", 1), ("jb", "job_leased", 1), ("jo", "job_leased", 1),
                ("ja", "job_completed", 0), ("jb", "job_requeued", 0), ("jb", "job_leased", 2),
                ("jb", "job_completed", 0), ("jo", "job_completed", 0)):
            version = 1 + sum(event["job_id"] == job for event in self.feed)
            self.feed.append({"job_id": job, "version": version, "type": kind,
                              "payload": {"attempt": attempt} if attempt else {}})
        self.counted = collections.Counter(completed=3)

    def check(self):
        check_told(Told(self.lines), self.jobs, self.feed, self.counted)

    def at(self, job, kind):
        """Where the last event of that kind is."""
        return max(i for i, event in enumerate(self.feed)
                   if event["job_id"] == job and event["type"] == kind)

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


def do_a_submit_twice(history):
    twin = [dict(event, job_id="jt") for event in history.feed if event["job_id"] == "jo"]
    history.feed += twin
    history.jobs["jt"] = dict(history.jobs["jo"], id="jt")
    history.counted["completed"] += 1


def do_what_was_refused(history):
    history.line("T open 43 99 unknown", "T open 43 99 refused")


def do_what_nobody_asked_for(history):
    history.lines.remove("T open 43 99 unknown")


def leave_out_a_version(history):
    del history.feed[history.at("jb", "job_requeued")]


def give_a_number_twice(history):
    history.feed[history.at("jb", "job_leased")]["payload"]["attempt"] = 1


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


def complete_by_another(history):
    history.line("C jb 2 101 110 ok", "C jb 2 101 110 unknown")
    history.line("C jb 1 111 120 refused", "C jb 1 111 120 ok")


def complete_what_was_refused(history):
    history.line("C jb 2 101 110 ok", "C jb 2 101 110 refused")


def swap(history, first, second):
    i, k = history.at(*first), history.at(*second)
    history.feed[i], history.feed[k] = history.feed[k], history.feed[i]


def create_out_of_order(history):
    swap(history, ("ja", "job_created"), ("jb", "job_created"))


def lease_out_of_order(history):
    swap(history, ("ja", "job_leased"), ("jo", "job_leased"))


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
    do_a_submit_twice: "once:", do_what_was_refused: "absent:",
    do_what_nobody_asked_for: "absent:", leave_out_a_version: "versions:",
    give_a_number_twice: "tokens:", lease_it_twice: "owner:", give_it_to_two: "owner:",
    give_what_is_not_leased: "owner:", complete_under_no_lease: "lease:",
    complete_it_twice: "lease:", complete_by_another: "present:",
    complete_what_was_refused: "absent:", create_out_of_order: "order:",
    lease_out_of_order: "order:", complete_out_of_order: "order:", count_wrong: "counts:",
    leave_it_undone: "ends:", fail_in_another_way: "failures:",
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


run(a_history_that_is_right_passes, each_damage_is_named, what_nobody_could_say_may_be_absent)
