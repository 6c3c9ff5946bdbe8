#!/usr/bin/env python3
"""Workers and servers are killed (kill -9) in the middle of plans: every plan ends all the same, and
the result of each step is accepted once.

usage: test_plan_kills.py BUILD_DIRECTORY SOURCE_DIRECTORY

5 cycles on each store that outlives a server; TORTURE=1: 200. In each cycle plans come in, a worker
is killed and another one starts, the server is killed and started again.
"""
import collections
import http.client
import json
import os
import signal
import sys
import time

from trouble import (PATIENCE_S, Server, TORTURE, all_jobs, ask, check, fresh_postgres,
                     fresh_sqlite, free_port, place, run, start, until, verify_all)

CYCLES = 200 if TORTURE else 5
PLANS = 4  # in each cycle
WORKERS = 3
LEASE_MS = 400
WIDTH = 4

# A fan, then a chain; the last step says how far everything has come.
STEPS = ([{"id": "first"}] +
         [{"id": f"part{i}", "deps": ["first"]} for i in range(WIDTH)] +
         [{"id": "join", "deps": [f"part{i}" for i in range(WIDTH)]},
          {"id": "check", "deps": ["join"], "critic": True},
          {"id": "last", "deps": ["check"]}])
PLAN = {"steps": [{**step, "kind": "work", "retry": {"max_attempts": 50, "initial_ms": 10}}
                  for step in STEPS]}


class Line:
    """A connection to a server that may be away for a while."""

    def __init__(self, port):
        self.port = port
        self.connection = None

    def ask(self, method, path, body):
        while True:
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                status, answer = ask(self.connection, method, path, body)
                if status not in (429, 503):
                    return status, answer
            except (OSError, http.client.HTTPException):
                pass
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            time.sleep(0.01)


def work(port, name, log):
    """One worker, as a process of its own: claims steps, completes them, and judges."""
    line = Line(port)
    resource = {"slots": 2, "ttl_ms": 60000, "rest": {"failures": 0}}
    with open(log, "a", encoding="utf-8") as facts:
        while True:
            claim = {"worker_id": name, "lease_ttl_ms": LEASE_MS, "wait_ms": 100}
            line.ask("PUT", f"/v1/resources/{name}", resource)
            status, answer = line.ask("POST", "/v1/steps/claims", {**claim, "resource_id": name})
            for found in answer.get("claims", []):
                finish(line, name, facts, found)
            status, answer = line.ask("POST", "/v1/steps/claims",
                                      {**claim, "judge": True, "wait_ms": 0})
            for found in answer.get("claims", []):
                job, step = found["job_id"], found["step"]["id"]
                line.ask("POST", f"/v1/jobs/{job}/steps/{step}/verdict",
                         {"decision": "accept", "reason": "good", "token": found["lease"]["token"]})


def finish(line, name, facts, claim):
    job, step, attempt = claim["job_id"], claim["step"]["id"], claim["lease"]["attempt"]
    needs = sorted(claim["step"]["deps"] or [])
    facts.write(f"R {job} {step} {attempt} {int(sorted(claim['inputs']) == needs)}\n")
    facts.flush()
    result = {"by": name, "attempt": attempt}
    time.sleep(0.025)
    status, answer = line.ask("POST", f"/v1/leases/{claim['lease']['token']}/complete",
                              {"result": result})
    check(status in (200, 409), status, answer)
    if status == 200:
        facts.write(f"D {job} {step} {json.dumps(result)}\n")
        facts.flush()


class Crew:
    """Workers as processes. None has the name of one before it, so that none is avoided."""

    def __init__(self, port, log):
        self.port, self.log, self.made, self.workers = port, log, 0, []
        for _ in range(WORKERS):
            self.hire()

    def hire(self):
        self.made += 1
        self.workers.append(start(sys.executable, __file__, *sys.argv[1:3], str(self.port),
                                  f"w{self.made}", self.log))

    def kill_one(self):
        worker = self.workers.pop(0)
        worker.kill()
        check(worker.wait(PATIENCE_S) == -signal.SIGKILL, "a worker has ended by itself")
        self.hire()

    def end(self):
        for worker in self.workers:
            check(worker.poll() is None, "a worker has ended by itself:", worker.returncode)
            worker.kill()
            worker.wait(PATIENCE_S)


def facts_of(log, fact):
    with open(log, encoding="utf-8") as lines:
        return [line.split(" ", 3)[1:] for line in lines if line.startswith(fact + " ")]


def check_plans(server, log, count):
    """Everything has ended well, and what the workers were told is so."""
    jobs = {job["id"]: job for job in all_jobs(server)}
    check(len(jobs) == count, len(jobs), "jobs, submitted were", count)
    done = collections.defaultdict(list)
    for job, step, result in facts_of(log, "D"):
        done[job, step].append(json.loads(result))
    wrong = [fact for fact in facts_of(log, "R") if not fact[2].endswith("1\n")]
    check(not wrong, "steps without their inputs:", wrong[:5])
    runs = collections.Counter((job, step, rest) for job, step, rest in facts_of(log, "R"))
    check(max(runs.values()) == 1, "an attempt was given to two:", runs.most_common(3))
    for job in jobs.values():
        check(job["status"] == "completed", job)
        for step in server.call("GET", f"/v1/jobs/{job['id']}/steps")[1]["steps"]:
            ends = [event for event in step["history"] if event["type"] == "step_succeeded"]
            check(step["state"] == "succeeded" and len(ends) == 1, step)
            told = done[job["id"], step["id"]]
            check(len(told) <= 1, "two results were accepted:", told, step)
            check(told in ([], [step["result"]]), "another result was accepted:", told, step)
    return len(runs) - count * len(STEPS)


def kill_in(store, name):
    port, log = free_port(), os.path.join(place, f"{name}.log")
    with open(log, "x", encoding="utf-8"):
        pass
    server = Server(store, port)
    crew = Crew(port, log)
    line = Line(port)
    for cycle in range(CYCLES):
        for plan in range(PLANS):
            status, answer = line.ask("POST", "/v1/jobs", {
                "kind": "crew", "idempotency_key": f"{cycle}.{plan}", "plan": PLAN})
            check(status in (200, 201), answer)
        until("some work", lambda begun=len(facts_of(log, "D")):
              len(facts_of(log, "D")) > begun + WIDTH)
        crew.kill_one()
        until("some work", lambda begun=len(facts_of(log, "D")):
              len(facts_of(log, "D")) > begun)
        server.kill()
        server = Server(store, port)

    def left():
        return [job for job in all_jobs(server) if job["status"] not in ("completed", "failed")]

    until("the end of all plans", lambda: not left(), pause_s=0.1, why=left)
    crew.end()
    again = check_plans(server, log, CYCLES * PLANS)
    verify_all(server)
    server.end()
    return (f"{CYCLES} cycles, {CYCLES * PLANS} plans of {len(STEPS)} steps, "
            f"{again} attempts were lost and made again")


def plans_outlive_kills_on_sqlite():
    return kill_in(fresh_sqlite(), "sqlite")


def plans_outlive_kills_on_postgres():
    return kill_in(fresh_postgres(), "postgres")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        work(int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        run(plans_outlive_kills_on_sqlite, plans_outlive_kills_on_postgres)
