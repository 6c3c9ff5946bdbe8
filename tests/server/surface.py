"""The whole surface of a server: a request for every operation, with jobs in the states that they
need, and /openapi.json to hold requests and answers against.

Tests get the build directory and the source directory as arguments.
"""
import collections
import http.client
import json
import os
import re
import subprocess
import threading

import jsonschema

from trouble import PAWL, PATIENCE_S, check, start

ADMIN = "an-admin-token-of-more-than-16-bytes"


def text_of(body):
    """A text is sent as it is."""
    return body if body is None or isinstance(body, str) else json.dumps(body)


class Server:
    """A server that nobody gets into without a token."""

    def __init__(self, store="memory:", *more):
        self.process = start(PAWL, "serve", "--store", store, "--listen", "0.0.0.0:0", *more,
                             stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "PAWL_TOKEN": ADMIN})
        port = None
        for line in self.process.stderr:
            found = re.search(r"on port (\d+)", line)
            if found:
                port = int(found.group(1))
                break
        check(port, "the server has not come up")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def ask(self, token, method, path, body=None, **more):
        headers = {"Accept": "application/json", **more}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        self.connection.request(method, path, text_of(body), headers)
        reply = self.connection.getresponse()
        text = reply.read()
        kind = reply.getheader("Content-Type", "")
        return reply.status, json.loads(text) if "json" in kind else text.decode()

    def do(self, method, path, body=None):
        """As the admin; it must go well."""
        status, answer = self.ask(ADMIN, method, path, body)
        check(status < 300, method, path, body, status, answer)
        return answer

    def end(self):
        self.process.terminate()
        check(self.process.wait(PATIENCE_S) == 0, "it has not ended well")


class Stage:
    """Jobs in all the states that operations need, in a queue."""

    def __init__(self, server, queue):
        self.server, self.queue, self.number = server, queue, 0
        self.id = None  # of the job that was made last
        self.resource = None

    def submit(self, **more):
        job = self.server.do("POST", "/v1/jobs", {"kind": "k", "queue": self.queue, **more})
        self.id = job["id"]
        return job

    def lease(self, **more):
        """Somebody works on a new job."""
        kind = f"kind-{id(self)}-{self.fresh()}"
        self.submit(kind=kind)
        claim = self.server.do("POST", "/v1/claims", {"worker_id": "w", "kinds": [kind],
                                                      "wait_ms": 0, **more})
        return claim["claims"][0]["lease"]["token"]

    def fresh(self):
        self.number += 1
        return f"{self.queue}{self.number}"

    def dead(self):
        self.submit()
        self.server.do("POST", f"/v1/jobs/{self.id}/dead-letter", {"reason_code": "timeout"})

    def waiting(self):
        token = self.lease()
        self.server.do("POST", f"/v1/leases/{token}/wait",
                       {"type": "signal", "correlation_key": "c"})

    def step_lease(self, judge=False, step="s"):
        """Somebody works on a step of a new job, or judges it."""
        skill = self.fresh()
        self.resource = "r-" + skill
        self.submit(plan={"steps": [{"id": step, "kind": "k", "critic": True,
                                     "capabilities": [skill]}]})
        self.server.do("PUT", f"/v1/resources/{self.resource}", {
            "capabilities": [skill], "labels": {"of": f"{self.queue}-resource"}, "slots": 1,
            "ttl_ms": 60000, "queues": [self.queue]})
        claim = {"worker_id": "w", "queues": [self.queue], "capabilities": [skill], "wait_ms": 0}
        found = self.server.do("POST", "/v1/steps/claims",
                               {**claim, "resource_id": self.resource})["claims"][0]
        token = found["lease"]["token"]
        if judge:
            self.server.do("POST", f"/v1/leases/{token}/complete", {"result": 1})
            claims = self.server.do("POST", "/v1/steps/claims",
                                    {**claim, "judge": True, "max": 1000})["claims"]
            token = next(c["lease"]["token"] for c in claims if c["job_id"] == self.id)
        return token

    def asking(self):
        token = self.step_lease(judge=True)
        self.server.do("POST", f"/v1/jobs/{self.id}/steps/s/verdict",
                       {"decision": "needs_user", "token": token,
                        "question": {"prompt": "so?", "choices": ["yes", "no"]}})

    def asking_job(self):
        self.server.do("POST", f"/v1/leases/{self.lease()}/wait",
                       {"type": "human", "correlation_key": "c", "prompt": "so?",
                        "choices": ["yes", "no"], "timeout_ms": 60000, "default_answer": "no"})


def on_lease(what, body, **more):
    def make(stage, _):
        return "POST", f"/v1/leases/{stage.lease(**more)}/{what}", body
    return make


def on_job(method, what, body, state=Stage.submit):
    def make(stage, _):
        state(stage)
        return method, f"/v1/jobs/{stage.id}{what}", body
    return make


def always(method, path, body=None):
    return lambda stage, scope: (method, path.replace("QUEUE", stage.queue), body)


def make_append(stage, _):
    token = stage.lease()
    return "POST", f"/v1/jobs/{stage.id}/events", {
        "expected_version": 3, "token": token, "events": [{"type": "mine.noted"}]}


def make_verdict(stage, _):
    token = stage.step_lease(judge=True)
    return "POST", f"/v1/jobs/{stage.id}/steps/s/verdict", {"decision": "accept", "token": token}


def make_batch(stage, scope):
    if scope == "work":
        op = {"op": "heartbeat", "token": stage.lease()}
    elif scope == "answer":
        stage.asking_job()
        op = {"op": "answer_job", "id": stage.id, "answer": "no"}
    else:
        op = {"op": "submit", "kind": "k", "queue": stage.queue}
    return "POST", "/v1/ops", {"ops": [op]}


def make_effect_commit(stage, _):
    token = stage.lease()
    stage.server.do("POST", f"/v1/leases/{token}/effects/e/begin", {"input": 1})
    return "POST", f"/v1/leases/{token}/effects/e/commit", {"result": 1}


def make_effect_abort(stage, _):
    token = stage.lease()
    stage.server.do("POST", f"/v1/leases/{token}/effects/e/begin", {"input": 1})
    return "POST", f"/v1/leases/{token}/effects/e/abort", {"error": {"message": "429"}}


def make_cancelled(stage, _):
    token = stage.lease()
    stage.server.do("POST", f"/v1/jobs/{stage.id}/cancel", {"mode": "soft"})
    return "POST", f"/v1/leases/{token}/cancelled", {}


def make_import(stage, _):
    stage.submit()
    return "POST", "/v1/import", {
        "jobs": [stage.server.do("GET", f"/v1/jobs/{stage.id}/export")]}


def on_resource(method):
    def make(stage, _):
        stage.step_lease()
        return method, f"/v1/resources/{stage.resource}", None
    return make


def make_again(stage, _):
    stage.step_lease()
    return "PUT", f"/v1/resources/{stage.resource}", {"slots": 1, "ttl_ms": 60000}


def make_revoke(stage, _):
    token = stage.server.do("POST", "/v1/tokens", {"name": "t", "scopes": ["read"]})
    return "DELETE", f"/v1/tokens/{token['id']}", None


def make_worker(stage, _):
    return "PUT", f"/v1/workers/worker-{stage.queue}", {
        "kinds": ["k"], "queues": [stage.queue], "slots": 2, "code_version": "v1",
        "labels": {"zone": "eu"}, "ttl_ms": 60000}


def make_no_worker(stage, _):
    method, path, body = make_worker(stage, _)
    stage.server.do(method, path, body)
    return "DELETE", path, None


OUTLINE = {"id", "status", "version"}
LEASE = OUTLINE | {"attempt", "step", "state", "repeated"}
EFFECT = {"status", "result", "error", "idempotency_key", "repeated", "id"} | LEASE
WORKER = {"worker_id", "kinds", "queues", "slots", "code_version", "labels", "ttl_ms",
          "registered_at", "registered_until", "zone"}
RESOURCE = {"id", "capabilities", "labels", "slots", "used", "draining", "expires_at", "rest",
            "failures", "within_ms", "for_ms", "rests", "rested_until", "queues", "shared",
            "of"}  # a label of those of Stage
READ = None      # it needs the scope read, or admin
ANYTHING = True  # it is about no job, or about the job that the caller has leased
NOBODY = None    # no token is needed: how the server is, and what is there before one has signed in

# Every operation of /openapi.json, which must be entered here:
#   request  makes a request (method, path, body) on a stage, for a scope
#   scopes   what it needs; admin is always enough
#   about    what a token that is for some queues may do with it:
#              job       only jobs of its queues
#              filtered  whatever it asks for, it sees jobs of its queues only
#              all       nothing: it is about all queues
#              free      anything: it is about none
#   shows    the fields that a response may have for a token without the scope read
Operation = collections.namedtuple("Operation", "request scopes about shows")
OPERATIONS = {
    "submit": Operation(
        lambda stage, _: ("POST", "/v1/jobs", {"kind": "k", "queue": stage.queue}),
        {"submit"}, "job", OUTLINE | {"duplicate"}),
    "submit_many": Operation(
        lambda stage, _: ("POST", "/v1/jobs", {"jobs": [{"kind": "k", "queue": stage.queue}]}),
        {"submit"}, "job", OUTLINE | {"duplicate", "jobs"}),
    "list": Operation(
        always("GET", "/v1/jobs?queue=QUEUE&limit=3&include=payload,result"),
        {"read"}, "job", READ),
    "bulk": Operation(
        lambda stage, _: ("POST", "/v1/jobs/bulk", {
            "action": "cancel", "filter": {"queue": stage.queue}, "limit": 1}),
        {"admin"}, "job", READ),
    "get": Operation(
        on_job("GET", "", None),
        {"read", "submit"}, "job", OUTLINE),
    "events": Operation(
        on_job("GET", "/events", None),
        {"read"}, "job", READ),
    "append": Operation(
        make_append,
        {"work"}, "job", {"version"}),
    "cancel": Operation(
        on_job("POST", "/cancel", {}),
        {"submit"}, "job", OUTLINE),
    "signal": Operation(
        on_job("POST", "/signal", {"correlation_key": "c"}, Stage.waiting),
        {"submit", "answer"}, "job", OUTLINE | {"signal", "job"}),
    "requeue": Operation(
        on_job("POST", "/requeue", {"reason": "r"}, Stage.dead),
        {"admin"}, "job", READ),
    "run_now": Operation(
        on_job("POST", "/run", {}),
        {"admin"}, "job", READ),
    "dead_letter": Operation(
        on_job("POST", "/dead-letter", {"reason_code": "timeout"}),
        {"admin"}, "job", READ),
    "redact": Operation(
        on_job("POST", "/redact", {}, Stage.dead),
        {"admin"}, "job", READ),
    "verify": Operation(
        on_job("GET", "/verify", None),
        {"read"}, "job", READ),
    "explain": Operation(
        on_job("GET", "/explain", None),
        {"read"}, "job", READ),
    "export": Operation(
        on_job("GET", "/export", None),
        {"read"}, "job", READ),
    "plan": Operation(
        on_job("POST", "/plan", {"steps": [{"id": "a", "kind": "never"}]}),
        {"submit", "work"}, "job", OUTLINE),
    "plan_diff": Operation(
        on_job("GET", "/plan/diff", None, Stage.step_lease),
        {"read"}, "job", READ),
    "steps": Operation(
        on_job("GET", "/steps", None, Stage.step_lease),
        {"read"}, "job", READ),
    "verdict": Operation(
        make_verdict,
        {"work"}, "job", OUTLINE),
    "answer": Operation(
        on_job("POST", "/steps/s/answer", {"answer": "yes", "by": "me"}, Stage.asking),
        {"answer"}, "job", OUTLINE),
    "answer_job": Operation(
        on_job("POST", "/answer", {"answer": "no", "by": "me", "comment": "c"}, Stage.asking_job),
        {"answer"}, "job", OUTLINE),
    "inbox": Operation(
        always("GET", "/v1/inbox?limit=500"),
        {"read"}, "filtered", READ),
    "claim": Operation(
        lambda stage, _: (stage.submit() and None) or (
            "POST", "/v1/claims", {"worker_id": "w", "queues": [stage.queue], "kinds": ["k"],
                                   "wait_ms": 0, "history": True}),
        {"work"}, "job", ANYTHING),
    "claim_steps": Operation(
        lambda stage, _: ("POST", "/v1/steps/claims", {
            "worker_id": "w", "queues": [stage.queue], "judge": True, "wait_ms": 0}),
        {"work"}, "job", ANYTHING),
    "start": Operation(
        on_lease("start", {}, start=False),
        {"work"}, "job", LEASE | {"expires_at"}),
    "heartbeat": Operation(
        on_lease("heartbeat", {"progress": 1}),
        {"work"}, "job", {"expires_at", "cancel_requested"}),
    "complete": Operation(
        on_lease("complete", {"result": 1}),
        {"work"}, "job", LEASE),
    "fail": Operation(
        on_lease("fail", {"error": {"message": "no"}}),
        {"work"}, "job", LEASE),
    "wait": Operation(
        on_lease("wait", {"type": "signal", "correlation_key": "c"}),
        {"work"}, "job", LEASE),
    "release": Operation(
        on_lease("release", {}),
        {"work"}, "job", LEASE),
    "cancelled": Operation(
        make_cancelled,
        {"work"}, "job", LEASE),
    "abandon": Operation(
        on_lease("dead-letter", {"reason_code": "timeout"}),
        {"work"}, "job", LEASE),
    "effect_begin": Operation(
        on_lease("effects/e/begin", {"input": 1}),
        {"work"}, "job", EFFECT),
    "effect_commit": Operation(
        make_effect_commit,
        {"work"}, "job", EFFECT),
    "effect_abort": Operation(
        make_effect_abort,
        {"work"}, "job", EFFECT),
    "effects": Operation(
        lambda stage, _: ("GET", f"/v1/leases/{stage.lease()}/effects", None),
        {"work"}, "job", ANYTHING),
    "batch": Operation(
        make_batch,
        {"submit", "work", "answer"}, "job",
        OUTLINE | {"results", "body", "problem", "expires_at", "cancel_requested"}),
    "resources": Operation(
        always("GET", "/v1/resources"),
        {"read", "work"}, "filtered", RESOURCE | {"resources", "next_cursor"}),
    "resource_put": Operation(
        make_again,
        {"work"}, "job", RESOURCE),
    "resource_get": Operation(
        on_resource("GET"),
        {"read", "work"}, "job", RESOURCE),
    "resource_delete": Operation(
        on_resource("DELETE"),
        {"work"}, "job", RESOURCE),
    "dead_letters": Operation(
        always("GET", "/v1/dead-letters?queue=QUEUE&limit=2"),
        {"read"}, "job", READ),
    "dead_letter_groups": Operation(
        always("GET", "/v1/dead-letters/groups?queue=QUEUE"),
        {"read"}, "job", READ),
    "redrive": Operation(
        lambda stage, _: ("POST", "/v1/dead-letters/redrive", {"queue": stage.queue, "limit": 1}),
        {"admin"}, "job", READ),
    "drop": Operation(
        lambda stage, _: ("POST", "/v1/dead-letters/drop", {"queue": stage.queue, "limit": 1}),
        {"admin"}, "job", READ),
    "queues": Operation(
        always("GET", "/v1/queues"),
        {"read"}, "filtered", READ),
    "pause": Operation(
        always("POST", "/v1/queues/QUEUE/pause", {}),
        {"admin"}, "job", READ),
    "resume": Operation(
        always("POST", "/v1/queues/QUEUE/resume", {}),
        {"admin"}, "job", READ),
    "kinds": Operation(
        always("GET", "/v1/kinds"),
        {"read"}, "free", READ),
    "kind_patch": Operation(
        always("PATCH", "/v1/kinds/other", {"timeout_ms": 1000}),
        {"admin"}, "all", READ),
    "kind_set": Operation(
        always("PUT", "/v1/kinds/other", {"timeout_ms": 1000}),
        {"admin"}, "all", READ),
    "kind_get": Operation(
        always("GET", "/v1/kinds/other"),
        {"read"}, "free", READ),
    "kind_versions": Operation(
        always("GET", "/v1/kinds/other/versions"),
        {"read"}, "filtered", READ),
    "workers": Operation(
        always("GET", "/v1/workers"),
        {"read"}, "filtered", READ),
    "worker_put": Operation(
        make_worker,
        {"work"}, "job", WORKER),
    "worker_delete": Operation(
        make_no_worker,
        {"work"}, "job", WORKER),
    "stats": Operation(
        always("GET", "/v1/stats"),
        {"read"}, "filtered", READ),
    "feed": Operation(
        always("GET", "/v1/feed?limit=1000"),
        {"read"}, "filtered", READ),
    "token_create": Operation(
        always("POST", "/v1/tokens", {"name": "t", "scopes": ["read"]}),
        {"admin"}, "all", READ),
    "token_list": Operation(
        always("GET", "/v1/tokens"),
        {"admin"}, "all", READ),
    "token_revoke": Operation(
        make_revoke,
        {"admin"}, "all", READ),
    "import": Operation(
        make_import,
        {"admin"}, "job", READ),
    "backup": Operation(
        always("POST", "/v1/backup", {"path": "/nowhere"}),
        {"admin"}, "all", READ),
    "doctor": Operation(
        always("GET", "/v1/doctor"),
        {"admin"}, "all", READ),
    "clock": Operation(
        always("GET", "/v1/clock"),
        {"admin"}, "all", READ),
    "clock_advance": Operation(
        always("POST", "/v1/clock/advance", {"ms": 1}),
        {"admin"}, "all", READ),
    "page_root": Operation(
        always("GET", "/"),
        NOBODY, "free", ANYTHING),
    "page_session": Operation(
        always("GET", "/session"),
        NOBODY, "free", ANYTHING),
    "page_sign_in": Operation(
        always("POST", "/session"),
        {"read", "submit", "work", "answer"}, "free", ANYTHING),
    "page_sign_out": Operation(
        always("DELETE", "/session"),
        NOBODY, "free", ANYTHING),
    "page_health": Operation(
        always("GET", "/healthz"),
        NOBODY, "free", ANYTHING),
    "page_ready": Operation(
        always("GET", "/readyz"),
        NOBODY, "free", ANYTHING),
    "page_metrics": Operation(
        always("GET", "/metrics"),
        {"read"}, "all", READ),
    "page_openapi": Operation(
        always("GET", "/openapi.json"),
        {"read", "submit", "work", "answer"}, "free", ANYTHING),
}


class Document:
    """/openapi.json, and what it says of requests and answers."""

    def __init__(self, server):
        self.whole = server.do("GET", "/openapi.json")
        self.operations = {
            operation["operationId"]: operation
            for path in self.whole["paths"].values() for operation in path.values()}
        self.known = {}

    def validator(self, key, schema):
        if key not in self.known:
            schema = {**schema, "components": self.whole["components"]}
            self.known[key] = jsonschema.Draft202012Validator(schema)
        return self.known[key]

    def check(self, name, what, body):
        if body is None or isinstance(body, str):
            return
        part = self.operations[name]
        part = part["requestBody"] if what == "request" else part["responses"][str(what)]
        if "$ref" in part:
            part = self.whole["components"]["responses"][part["$ref"].split("/")[-1]]
        form = next(iter(part["content"].values()))["schema"]
        for problem in self.validator((name, what), form).iter_errors(body):
            raise AssertionError(f"{name} {what}: {list(problem.absolute_path)} "
                                 f"{problem.message[:300]}")
