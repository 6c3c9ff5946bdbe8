"""The whole surface of a server: a request for every operation, with jobs in the states that they
need, and /openapi.json to hold requests and answers against.

Tests get the build directory and the source directory as arguments.
"""
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

    def __init__(self, store="memory:"):
        self.process = start(PAWL, "serve", "--store", store, "--listen", "0.0.0.0:0",
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


REQUESTS = {
    "submit": lambda stage, _: ("POST", "/v1/jobs", {"kind": "k", "queue": stage.queue}),
    "submit_many": lambda stage, _: ("POST", "/v1/jobs", {"jobs": [{"kind": "k", "queue": stage.queue}]}),
    "list": always("GET", "/v1/jobs?queue=QUEUE&limit=3&include=payload,result"),
    "bulk": lambda stage, _: ("POST", "/v1/jobs/bulk", {
        "action": "cancel", "filter": {"queue": stage.queue}, "limit": 1}),
    "get": on_job("GET", "", None),
    "events": on_job("GET", "/events", None),
    "append": make_append,
    "cancel": on_job("POST", "/cancel", {}),
    "signal": on_job("POST", "/signal", {"correlation_key": "c"}, Stage.waiting),
    "requeue": on_job("POST", "/requeue", {"reason": "r"}, Stage.dead),
    "run_now": on_job("POST", "/run", {}),
    "dead_letter": on_job("POST", "/dead-letter", {"reason_code": "timeout"}),
    "redact": on_job("POST", "/redact", {}, Stage.dead),
    "verify": on_job("GET", "/verify", None),
    "explain": on_job("GET", "/explain", None),
    "export": on_job("GET", "/export", None),
    "plan": on_job("POST", "/plan", {"steps": [{"id": "a", "kind": "never"}]}),
    "plan_diff": on_job("GET", "/plan/diff", None, Stage.step_lease),
    "steps": on_job("GET", "/steps", None, Stage.step_lease),
    "verdict": make_verdict,
    "answer": on_job("POST", "/steps/s/answer", {"answer": "yes", "by": "me"}, Stage.asking),
    "answer_job": on_job("POST", "/answer", {"answer": "no", "by": "me", "comment": "c"},
                         Stage.asking_job),
    "inbox": always("GET", "/v1/inbox?limit=500"),
    "claim": lambda stage, _: (stage.submit() and None) or (
        "POST", "/v1/claims", {"worker_id": "w", "queues": [stage.queue], "kinds": ["k"],
                               "wait_ms": 0, "history": True}),
    "claim_steps": lambda stage, _: (
        "POST", "/v1/steps/claims", {"worker_id": "w", "queues": [stage.queue], "judge": True,
                                     "wait_ms": 0}),
    "start": on_lease("start", {}, start=False),
    "heartbeat": on_lease("heartbeat", {"progress": 1}),
    "complete": on_lease("complete", {"result": 1}),
    "fail": on_lease("fail", {"error": {"message": "no"}}),
    "wait": on_lease("wait", {"type": "signal", "correlation_key": "c"}),
    "release": on_lease("release", {}),
    "cancelled": make_cancelled,
    "abandon": on_lease("dead-letter", {"reason_code": "timeout"}),
    "effect_begin": on_lease("effects/e/begin", {"input": 1}),
    "effect_commit": make_effect_commit,
    "effect_abort": make_effect_abort,
    "effects": lambda stage, _: ("GET", f"/v1/leases/{stage.lease()}/effects", None),
    "batch": make_batch,
    "resources": always("GET", "/v1/resources"),
    "resource_put": make_again,
    "resource_get": on_resource("GET"),
    "resource_delete": on_resource("DELETE"),
    "dead_letters": always("GET", "/v1/dead-letters?queue=QUEUE&limit=2"),
    "dead_letter_groups": always("GET", "/v1/dead-letters/groups?queue=QUEUE"),
    "redrive": lambda stage, _: ("POST", "/v1/dead-letters/redrive", {"queue": stage.queue,
                                                                      "limit": 1}),
    "drop": lambda stage, _: ("POST", "/v1/dead-letters/drop", {"queue": stage.queue, "limit": 1}),
    "queues": always("GET", "/v1/queues"),
    "pause": always("POST", "/v1/queues/QUEUE/pause", {}),
    "resume": always("POST", "/v1/queues/QUEUE/resume", {}),
    "kinds": always("GET", "/v1/kinds"),
    "kind_patch": always("PATCH", "/v1/kinds/other", {"timeout_ms": 1000}),
    "kind_set": always("PUT", "/v1/kinds/other", {"timeout_ms": 1000}),
    "kind_get": always("GET", "/v1/kinds/other"),
    "workers": always("GET", "/v1/workers"),
    "worker_put": make_worker,
    "worker_delete": make_no_worker,
    "stats": always("GET", "/v1/stats"),
    "feed": always("GET", "/v1/feed?limit=1000"),
    "token_create": always("POST", "/v1/tokens", {"name": "t", "scopes": ["read"]}),
    "token_list": always("GET", "/v1/tokens"),
    "token_revoke": make_revoke,
    "import": make_import,
    "backup": always("POST", "/v1/backup", {"path": "/nowhere"}),
    "doctor": always("GET", "/v1/doctor"),
    "page_root": always("GET", "/"),
    "page_session": always("GET", "/session"),
    "page_sign_in": always("POST", "/session"),
    "page_sign_out": always("DELETE", "/session"),
    "page_health": always("GET", "/healthz"),
    "page_ready": always("GET", "/readyz"),
    "page_metrics": always("GET", "/metrics"),
    "page_openapi": always("GET", "/openapi.json"),
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
