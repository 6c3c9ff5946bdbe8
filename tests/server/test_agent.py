#!/usr/bin/env python3
"""An agent of 7 effects and 4 waits, over plain HTTP. It replays what its claim carries, commits
effects together with what follows them, and needs 14 requests; before it had both it needed 24. It
is killed before and after each of these requests, in a life of its own each, and no life repeats an
effect.

usage: test_agent.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import http.client
import threading
import time

from trouble import PATIENCE_S, Server, ask, check, fresh_postgres, fresh_sqlite, run

REQUESTS_MOST = 14
LEASE_MS = 2000

# Effects of one row are called side by side; then comes the wait. The last row ends the job.
ROWS = [
    (["plan"], {"type": "human", "correlation_key": "approve", "prompt": "Go on?"}),
    (["search a", "search b", "search c", "search/d"],
     {"type": "timer", "correlation_key": "cool down", "delay_ms": 10}),
    (["draft"], {"type": "webhook", "correlation_key": "review"}),
    ([], {"type": "human", "correlation_key": "sign off"}),
    (["send"], None),
]
EFFECTS = [key for keys, _ in ROWS for key in keys]


class Killed(Exception):
    """The agent is no more."""


class Suspended(Exception):
    """The lease is over: the job waits, asks, or was given to somebody else."""


class Agent:
    """One that works on one job until it is done or killed. What it does to the world is in the
    ledger, which outlives it."""

    def __init__(self, port, queue, ledger, lease_ms, kill_before=None, kill_after=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self.queue, self.ledger, self.lease_ms = queue, ledger, lease_ms
        self.kill_before, self.kill_after = kill_before, kill_after
        self.requests = 0
        self.token = None

    def post(self, path, body):
        self.requests += 1
        if self.requests == self.kill_before:
            raise Killed
        status, answer = ask(self.connection, "POST", path, body)
        if self.requests == self.kill_after:
            raise Killed  # it was carried out, and nobody heard
        return status, answer

    def ops(self, verb, requests):
        """One request: as it is when there is one operation, else in a batch."""
        if len(requests) == 1:
            key, body = requests[0]
            path = f"/v1/leases/{self.token}/effects/{key.replace('/', '%2F').replace(' ', '%20')}"
            answers = [self.post(f"{path}/{verb}", body)]
        else:
            status, answer = self.post("/v1/batch", {"ops": [
                {"op": f"effect_{verb}", "token": self.token, "key": key, **body}
                for key, body in requests]})
            check(status == 200, status, answer)
            answers = [(one["status"], one["body"]) for one in answer["results"]]
        if any(status == 409 and answer["code"] == "stale_lease" for status, answer in answers):
            raise Suspended
        check(all(status == 200 for status, _ in answers), verb, requests, answers)
        return [answer for _, answer in answers]

    def begin(self, keys, results):
        """Begins effects, executes those that shall be, and returns them."""
        begun = self.ops("begin", [(key, {"input": {"of": key}, "in_doubt": "ask"})
                                   for key in keys])
        if any(answer["status"] == "in_doubt" for answer in begun):
            raise Suspended
        execute = [key for key, answer in zip(keys, begun) if answer["status"] == "execute"]
        results.update((key, answer["result"]) for key, answer in zip(keys, begun)
                       if answer["status"] == "recorded")
        for key in execute:
            self.ledger[key] = self.ledger.get(key, 0) + 1
            results[key] = f"did {key}"
        return execute

    def row(self, keys, known, then, results):
        """The effects of a row, and what follows them."""
        results.update((key, known[key]["result"]) for key in keys
                       if known.get(key, {}).get("status") == "recorded")
        left = [key for key in keys if key not in results]
        execute = []
        for key in [key for key in left if known.get(key, {}).get("status") == "open"]:
            execute += self.begin([key], results)  # any of them may be in doubt
        rest = [key for key in left if key not in execute and key not in results]
        if rest:
            execute += self.begin(rest, results)
        if not execute:
            verb, body = next(iter(then.items()))
            status, answer = self.post(f"/v1/leases/{self.token}/{verb}", body)
            if status == 409 and answer["code"] == "stale_lease":
                raise Suspended
            check(status == 200, verb, body, status, answer)
            return
        commits = [(key, {"result": results[key]}) for key in execute]
        commits[-1][1]["then"] = then
        self.ops("commit", commits)

    def work(self):
        """One attempt, from its claim to its wait or its end."""
        status, answer = self.post("/v1/claims", {
            "worker_id": "agent", "queues": [self.queue], "wait_ms": 5000,
            "lease_ttl_ms": self.lease_ms})
        check(status == 200, answer)
        for claim in answer["claims"]:
            self.token = claim["lease"]["token"]
            results = {}
            for keys, wait in ROWS:
                if wait is not None and wait["correlation_key"] in claim["waits"]:
                    for key in keys:
                        results[key] = claim["effects"][key]["result"]
                    continue
                then = ({"wait": wait} if wait is not None
                        else {"complete": {"result": sorted([*results, *keys])}})
                self.row(keys, claim["effects"], then, results)
                return


class Life:
    """One job from its submit to its end, with a person who answers what is asked."""

    def __init__(self, port, number, lease_ms):
        self.port, self.queue, self.lease_ms = port, f"q{number}", lease_ms
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self.ledger, self.requests = {}, 0
        status, job = ask(self.connection, "POST", "/v1/jobs", {
            "kind": "agent", "queue": self.queue, "in_doubt": "fail",
            "retry": {"max_attempts": 20, "initial_ms": 0}})
        check(status == 201, job)
        self.id = job["id"]

    def get(self, path=""):
        status, answer = ask(self.connection, "GET", f"/v1/jobs/{self.id}{path}")
        check(status == 200, answer)
        return answer

    def answer(self, wait):
        """What a person or a system outside says. Who is asked about an effect looks whether it has
        happened."""
        payload = {"said": wait["correlation_key"]}
        if wait.get("effect"):
            done = self.ledger.get(wait["effect"], 0) > 0
            payload = ({"decision": "done", "result": f"did {wait['effect']}"} if done
                       else {"decision": "retry"})
        status, answer = ask(self.connection, "POST", f"/v1/jobs/{self.id}/signal", {
            "correlation_key": wait["correlation_key"], "payload": payload})
        check(status in (200, 202), wait, status, answer)

    def live(self, kill_before=None, kill_after=None):
        """Agents, one after the other, of which the first is killed; and the person."""
        agent = Agent(self.port, self.queue, self.ledger, self.lease_ms, kill_before, kill_after)
        end = time.monotonic() + PATIENCE_S
        while True:
            job = self.get()
            if job["status"] == "completed":
                break
            check(job["status"] not in ("failed", "dead_lettered"), job)
            check(time.monotonic() < end, "the agent has not come to an end", job)
            if job["wait"] and job["wait"]["type"] != "timer":
                self.answer(job["wait"])
            try:
                agent.work()
            except Suspended:
                pass
            except Killed:
                self.requests += agent.requests
                agent = Agent(self.port, self.queue, self.ledger, self.lease_ms)
        self.requests += agent.requests
        check(job["result"] == sorted(EFFECTS), job)
        check(self.ledger == {key: 1 for key in EFFECTS}, kill_before, kill_after, self.ledger)
        report = self.get("/verify")
        check(report["ok"], report)


def on_every_store(test):
    for store in ("memory:", fresh_sqlite(), fresh_postgres()):
        server = Server(store)
        test(server)
        server.end()


def count_requests(server):
    life = Life(server.port, 0, 60000)
    life.live()
    return life.requests


def an_agent_of_7_effects_and_4_waits_needs_14_requests():
    check(len(EFFECTS) == 7 and sum(wait is not None for _, wait in ROWS) == 4, "another agent")

    def test(server):
        requests = count_requests(server)
        check(requests <= REQUESTS_MOST, "it needs", requests)

    on_every_store(test)


def kill_everywhere(server):
    """Before: nothing of the request arrived, and what was executed until then is not known. After:
    it was carried out, and the answer was lost."""
    faults, lives = [], []

    def one(number, **kill):
        try:
            Life(server.port, number, LEASE_MS).live(**kill)
        except Exception as fault:  # pylint: disable=broad-except
            faults.append((kill, repr(fault)))

    for at in range(1, count_requests(server) + 1):
        lives.append(threading.Thread(target=one, args=(2 * at - 1,), kwargs={"kill_before": at}))
        lives.append(threading.Thread(target=one, args=(2 * at,), kwargs={"kill_after": at}))
    for life in lives:
        life.start()
    for life in lives:
        life.join()
    check(not faults, *faults)
    check(len(lives) == 2 * REQUESTS_MOST, len(lives))


def killed_at_every_request_an_agent_repeats_no_effect():
    on_every_store(kill_everywhere)


run(an_agent_of_7_effects_and_4_waits_needs_14_requests,
    killed_at_every_request_an_agent_repeats_no_effect)
