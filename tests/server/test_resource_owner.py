#!/usr/bin/env python3
"""Resources belong to the queues of the token that registered them: over HTTP, by workers of the
command line, on every store.

usage: test_resource_owner.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import json
import os
import subprocess

from surface import ADMIN, Server
from trouble import PATIENCE_S, PAWL, check, fresh_postgres, fresh_sqlite, run

STORES = (lambda: "memory:", fresh_sqlite, fresh_postgres)
LIVES = {"slots": 4, "ttl_ms": 600000}


class Tenants:
    """Tokens of a server: q1's and q2's workers, one of both, and one of all queues."""

    def __init__(self, store):
        self.server = Server(store)
        self.tokens = {"admin": ADMIN}
        for name, queues in (("q1", ["q1"]), ("q2", ["q2"]), ("both", ["q1", "q2"]), ("all", None)):
            wanted = {"name": name, "scopes": ["work", "read", "submit"]}
            if queues:
                wanted["queues"] = queues
            self.tokens[name] = self.server.do("POST", "/v1/tokens", wanted)["token"]

    def ask(self, who, method, path, body=None):
        return self.server.ask(self.tokens[who], method, path, body)

    def put(self, who, name, **more):
        return self.ask(who, "PUT", f"/v1/resources/{name}", {**LIVES, **more})

    def plan(self, queue):
        return self.server.do("POST", "/v1/jobs", {"kind": "k", "queue": queue, "plan": {
            "steps": [{"id": "s", "kind": "k"}]}})["id"]

    def claim(self, who, name):
        status, answer = self.ask(who, "POST", "/v1/steps/claims",
                                  {"worker_id": "w", "resource_id": name, "max": 9, "wait_ms": 0})
        return status, [claim["job_id"] for claim in answer.get("claims", [])]

    def seen(self, who):
        return {each["id"] for each in self.ask(who, "GET", "/v1/resources")[1]["resources"]}

    def work(self, who, name, *more, queue="q1"):
        port = self.server.connection.port
        return subprocess.run(
            [PAWL, "work", "--store", f"http://127.0.0.1:{port}", "--resource", name, "--kind", "k",
             "--queue", queue, "--drain", *more, "--", "true"],
            env={**os.environ, "PAWL_TOKEN": self.tokens[who]}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def status(self, job):
        return self.server.do("GET", f"/v1/jobs/{job}")["status"]


def on_every_store(test):
    for store in STORES:
        tenants = Tenants(store())
        test(tenants)
        tenants.server.end()


# What each caller gets: for a resource of q1, one of all queues, and one that is shared.
EXPECTED = {
    ("GET", "q1"): {"of q1": 200, "of all": 404, "shared": 200},
    ("GET", "q2"): {"of q1": 404, "of all": 404, "shared": 200},
    ("GET", "both"): {"of q1": 200, "of all": 404, "shared": 200},
    ("GET", "all"): {"of q1": 200, "of all": 200, "shared": 200},
    ("GET", "admin"): {"of q1": 200, "of all": 200, "shared": 200},
    ("CLAIM", "q1"): {"of q1": 200, "of all": 404, "shared": 200},
    ("CLAIM", "q2"): {"of q1": 404, "of all": 404, "shared": 200},
    ("CLAIM", "both"): {"of q1": 200, "of all": 404, "shared": 200},
    ("CLAIM", "all"): {"of q1": 200, "of all": 200, "shared": 200},
    ("CLAIM", "admin"): {"of q1": 200, "of all": 200, "shared": 200},
    ("PUT", "q1"): {"of q1": 200, "of all": 403, "shared": 403},
    ("PUT", "q2"): {"of q1": 403, "of all": 403, "shared": 403},
    ("PUT", "both"): {"of q1": 200, "of all": 403, "shared": 403},
    ("PUT", "all"): {"of q1": 200, "of all": 200, "shared": 200},
    ("PUT", "admin"): {"of q1": 200, "of all": 200, "shared": 200},
    ("SHARE", "q1"): {"of q1": 403, "of all": 403, "shared": 403},
    ("SHARE", "q2"): {"of q1": 403, "of all": 403, "shared": 403},
    ("SHARE", "both"): {"of q1": 403, "of all": 403, "shared": 403},
    ("SHARE", "all"): {"of q1": 403, "of all": 403, "shared": 200},
    ("SHARE", "admin"): {"of q1": 200, "of all": 200, "shared": 200},
    ("DELETE", "q1"): {"of q1": 200, "of all": 404, "shared": 403},
    ("DELETE", "q2"): {"of q1": 404, "of all": 404, "shared": 403},
    ("DELETE", "both"): {"of q1": 200, "of all": 404, "shared": 403},
    ("DELETE", "all"): {"of q1": 200, "of all": 200, "shared": 200},
    ("DELETE", "admin"): {"of q1": 200, "of all": 200, "shared": 200},
}


def register(tenants, name, whose):
    who, more = {"of q1": ("q1", {}), "of all": ("all", {}),
                 "shared": ("admin", {"shared": True})}[whose]
    status, answer = tenants.put(who, name, **more)
    check(status == 200, name, whose, status, answer)
    check(answer["shared"] == (whose == "shared"), answer)
    check(answer["queues"] == (["q1"] if whose == "of q1" else []), answer)


def walk(tenants):
    number = 0
    for (verb, who), statuses in EXPECTED.items():
        for whose, want in statuses.items():
            number += 1
            name = f"r{number}"
            register(tenants, name, whose)
            path = f"/v1/resources/{name}"
            before = tenants.server.do("GET", path)
            if verb == "CLAIM":
                status = tenants.claim(who, name)[0]
            elif verb == "PUT":
                status = tenants.put(who, name, slots=5)[0]
            elif verb == "SHARE":
                status = tenants.put(who, name, shared=True)[0]
            else:
                status = tenants.ask(who, verb, path)[0]
            check(status == want, verb, "by", who, "of one", whose, "gives", status, "not", want)
            check((name in tenants.seen(who)) == (want == 200 and verb != "DELETE" or
                                                  EXPECTED["GET", who][whose] == 200 and
                                                  want != 200), verb, who, whose)
            if want != 200:
                check(tenants.server.do("GET", path) == before, verb, who, "has changed it")
    check(number == 75, number)


def every_verb_on_a_resource_is_for_whom_it_should_be():
    on_every_store(walk)


def attack(tenants):
    """What a worker of q2 could do to the steps of q1, in 0.1.0."""
    job = tenants.plan("q1")
    tenants.put("q1", "gpu", capabilities=["gpu"], labels={"zone": "secret"})
    status, claims = tenants.claim("q1", "gpu")
    check(status == 200 and claims == [job], status, claims)
    before = tenants.server.do("GET", "/v1/resources/gpu")
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"slots": 1, "ttl_ms": 1000})):
        status, answer = tenants.ask("q2", method, "/v1/resources/gpu", body)
        check(status == (403 if method == "PUT" else 404), method, status, answer)
        check("secret" not in json.dumps(answer) and "q1" not in json.dumps(answer), answer)
    check(tenants.claim("q2", "gpu") == (404, []), "it was claimed on")
    check(tenants.seen("q2") == set() and tenants.seen("q1") == {"gpu"}, "the list")
    check(tenants.server.do("GET", "/v1/resources/gpu") == before, "it was changed")
    check(tenants.status(job) == "running", tenants.status(job))

    # Nor does an operator's token put steps of another queue there.
    other = tenants.plan("q2")
    check(tenants.claim("all", "gpu") == (200, []), "steps of q2 are on a resource of q1")
    check(tenants.claim("both", "gpu") == (200, []), "steps of q2 are on a resource of q1")
    tenants.put("q2", "mine")
    check(tenants.claim("q2", "mine") == (200, [other]), "its own step")


def a_token_of_another_queue_cannot_harm_the_steps_on_a_resource():
    on_every_store(attack)


def use_workers(tenants):
    # A worker registers its resource for the queues of its token, and takes it away.
    job = tenants.plan("q1")
    done = tenants.work("q1", "desk")
    check(done.returncode == 0 and tenants.status(job) == "completed", done)
    check(tenants.seen("admin") == set(), tenants.seen("admin"))

    # Another's is refused, and left alone.
    tenants.put("q1", "desk")
    job = tenants.plan("q2")
    done = tenants.work("q2", "desk", queue="q2")
    check(done.returncode == 1 and "taken" in done.stderr, done)
    check(tenants.seen("q1") == {"desk"} and tenants.status(job) != "completed", done)

    # One that is shared is used as it is, and is there afterwards.
    status, before = tenants.put("admin", "pool", shared=True, capabilities=["gpu"])
    check(status == 200, before)
    done = tenants.work("q2", "pool", queue="q2")
    check(done.returncode == 0 and tenants.status(job) == "completed", done)
    check(tenants.server.do("GET", "/v1/resources/pool") == before, before)

    # To share one takes an admin.
    done = tenants.work("all", "mine", "--shared")
    check(done.returncode == 1 and "admin" in done.stderr, done)
    done = tenants.work("admin", "mine", "--shared")
    check(done.returncode == 0, done)


def a_worker_uses_its_own_resource_or_one_that_is_shared():
    on_every_store(use_workers)


run(every_verb_on_a_resource_is_for_whom_it_should_be,
    a_token_of_another_queue_cannot_harm_the_steps_on_a_resource,
    a_worker_uses_its_own_resource_or_one_that_is_shared)
