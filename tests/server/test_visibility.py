#!/usr/bin/env python3
"""What a response shows: every operation of /openapi.json x sets of scopes x jobs of a queue that
the token is for and of another. No response contains what the token could not read otherwise, and
no refusal does.

usage: test_visibility.py BUILD_DIRECTORY SOURCE_DIRECTORY

Every text that a job brings is a secret with the name of its queue in it. The list of operations is
the document's, so that a new route must be entered in surface.py.
"""
import collections
import http.client
import itertools
import json
import re
import uuid

from surface import ADMIN, ANYTHING, OPERATIONS, OUTLINE, READ, Document, Server, Stage
from trouble import PATIENCE_S, check, run

OWN, FOREIGN = "own", "foreign"
SCOPES = (["read"], ["answer"], ["submit"], ["work"], ["submit", "work"], ["read", "submit"], ["admin"])

ERROR = {"status", "title", "detail", "code", "index"}

# Operations that name a job by its id, or by the token of a lease on it; or a resource.
NAMES_JOB = re.compile(r"/v1/(jobs|leases)/([0-9a-f][0-9a-f.-]{30,})")
NAMES_RESOURCE = re.compile(r"/v1/resources/([^/]+)")


class SecretStage(Stage):
    """Its jobs are full of secrets."""

    def secret(self, what):
        return f"secret-{self.queue}-{what}"

    def submit(self, **more):
        spec = {"payload": {"text": self.secret("payload")}, "goal": self.secret("goal"),
                "agent_id": self.secret("agent"), "correlation_id": self.secret("correlation"),
                "labels": {"tenant": self.secret("label")}, **more}
        if "kind" in spec:
            spec["kind"] = self.secret(spec["kind"])
        for step in spec.get("plan", {}).get("steps", []):
            if "wait" not in step:
                step["payload"] = self.secret("step")
        return super().submit(**spec)

    def lease(self, **more):
        kind = f"kind-{self.fresh()}"
        self.submit(kind=kind, retry={"max_attempts": 3, "initial_ms": 0})
        claim = {"worker_id": self.secret("worker"), "kinds": [self.secret(kind)], "wait_ms": 0}
        token = self.server.do("POST", "/v1/claims", claim)["claims"][0]["lease"]["token"]
        self.server.do("POST", f"/v1/leases/{token}/fail",
                       {"error": {"message": self.secret("error")}})
        claims = self.server.do("POST", "/v1/claims", {**claim, **more, "wait_ms": 5000})
        token = claims["claims"][0]["lease"]["token"]
        if more.get("start", True):
            self.server.do("POST", f"/v1/leases/{token}/heartbeat",
                           {"progress": self.secret("progress"), "cursor": self.secret("cursor")})
        return token

    def waiting(self):
        token = self.lease()
        self.server.do("POST", f"/v1/leases/{token}/wait",
                       {"type": "signal", "correlation_key": "c", "prompt": self.secret("prompt")})

    def ask(self, wait, **more):
        """A new job waits: under a key, with a prompt and with choices that are secrets."""
        self.server.do("POST", f"/v1/leases/{self.lease()}/wait", {
            "type": wait, "correlation_key": self.secret("key"), "prompt": self.secret("prompt"),
            "choices": ["yes", self.secret("choice")], **more})

    def ask_of_step(self):
        token = self.step_lease(judge=True)
        self.server.do("POST", f"/v1/jobs/{self.id}/steps/s/verdict",
                       {"decision": "needs_user", "token": token,
                        "question": {"prompt": self.secret("prompt"),
                                     "choices": ["yes", self.secret("choice")]}})

    def effect_left_open(self):
        token = self.lease()
        self.server.do("POST", f"/v1/leases/{token}/effects/{self.secret('effect')}/begin", {})
        self.server.do("POST", f"/v1/leases/{token}/release", {})

    def plan_with_question(self):
        self.submit(plan={"steps": [{"id": self.secret("ask"), "wait": {"type": "human"}}]})


# ---- requests that are refused, for what is in the job ----

def refused_on_job(what, body, state, **more):
    def make(stage):
        state(stage, **more)
        return "POST", f"/v1/jobs/{stage.id}{what}", body
    return make


def another_submit(stage, **more):
    """A job has the key already, of another kind."""
    key = stage.fresh()
    stage.submit(kind="taken", idempotency_key=key)
    return {"kind": "k", "queue": stage.queue, "idempotency_key": key, **more}


def another_payload(stage):
    key = stage.fresh()
    stage.submit(idempotency_key=key)
    return "POST", "/v1/jobs", {"kind": "k", "queue": stage.queue, "idempotency_key": key,
                                "payload": "zz"}


def refused_ops(atomic, state, op, **more):
    def make(stage):
        state(stage, **more)
        return "POST", "/v1/ops", {"atomic": atomic, "ops": [{**op, "id": stage.id}]}
    return make


def submit_in_ops(atomic):
    return lambda stage: ("POST", "/v1/ops", {
        "atomic": atomic, "ops": [{"op": "submit", **another_submit(stage)}]})


def forged_token(stage):
    """The right job, step and attempt, and another secret."""
    token = stage.step_lease(step=stage.secret("id"))
    forged = token[:-32] + "0" * 32
    return "POST", f"/v1/leases/{forged}/heartbeat", {}


# `shows` is the secret that those who may read it find in the detail; None: there is none in it.
Refusal = collections.namedtuple("Refusal", "name status shows make")
ASK, LEASE_JOB, ASK_OF_STEP = SecretStage.ask, SecretStage.lease, SecretStage.ask_of_step
NO_CHOICE = {"op": "answer_job", "answer": "zz"}
REFUSALS = {
    "a signal that is not a choice": Refusal("signal", 400, "choice", lambda stage: (
        ASK(stage, "signal") or ("POST", f"/v1/jobs/{stage.id}/signal",
                                 {"correlation_key": stage.secret("key"), "payload": "zz"}))),
    "a signal to a person that is not a choice": Refusal("signal", 400, "choice", refused_on_job(
        "/signal", {"correlation_key": "c", "payload": "zz"}, ASK, wait="human",
        correlation_key="c")),
    "a signal under another key": Refusal("signal", 409, "key", refused_on_job(
        "/signal", {"correlation_key": "zz"}, ASK, wait="signal")),
    "an answer that is not a choice": Refusal("answer_job", 400, "choice", refused_on_job(
        "/answer", {"answer": "zz"}, ASK, wait="human")),
    "an answer under another key": Refusal("answer_job", 409, "key", refused_on_job(
        "/answer", {"answer": "yes", "correlation_key": "zz"}, ASK, wait="human")),
    "an answer to an older question": Refusal("answer_job", 409, "kind", refused_on_job(
        "/answer", {"answer": "yes", "attempt": 77}, ASK, wait="human")),
    "an answer to a job that asks no person": Refusal("answer_job", 409, None, refused_on_job(
        "/answer", {"answer": "yes"}, ASK, wait="signal")),
    "an answer to a job that runs": Refusal("answer_job", 409, None, refused_on_job(
        "/answer", {"answer": "yes"}, LEASE_JOB)),
    "an answer to a step that is not a choice": Refusal("answer", 400, "choice", refused_on_job(
        "/steps/s/answer", {"answer": "zz"}, ASK_OF_STEP)),
    "an answer to an older question of a step": Refusal("answer", 409, None, refused_on_job(
        "/steps/s/answer", {"answer": "yes", "attempt": 77}, ASK_OF_STEP)),
    "an answer to a step that asks nothing": Refusal("answer", 409, None, refused_on_job(
        "/steps/s/answer", {"answer": "yes"}, Stage.step_lease)),
    "a submit under the key of another kind": Refusal("submit", 422, "taken", lambda stage: (
        "POST", "/v1/jobs", another_submit(stage))),
    "a submit under the key of another payload": Refusal("submit", 422, None, another_payload),
    "many submits, one under a key of another": Refusal("submit_many", 422, "taken", lambda stage: (
        "POST", "/v1/jobs", {"jobs": [{"kind": "k", "queue": stage.queue},
                                      another_submit(stage)]})),
    "a submit of a batch": Refusal("batch", 422, "taken", submit_in_ops(False)),
    "a submit of an atomic batch": Refusal("batch", 422, "taken", submit_in_ops(True)),
    "an answer of a batch": Refusal("batch", 400, "choice", refused_ops(
        False, ASK, NO_CHOICE, wait="human")),
    "an answer of an atomic batch": Refusal("batch", 400, "choice", refused_ops(
        True, ASK, NO_CHOICE, wait="human")),
    "a plan while an effect is open": Refusal("plan", 409, "effect", refused_on_job(
        "/plan", {"steps": [{"id": "a", "kind": "never"}]}, SecretStage.effect_left_open)),
    "a plan that would end a question": Refusal("plan", 403, "ask", refused_on_job(
        "/plan", {"steps": [{"id": "a", "kind": "never"}]}, SecretStage.plan_with_question)),
    "a lease with another secret": Refusal("heartbeat", 409, "id", forged_token),
}


def fields_of(value):
    if isinstance(value, dict):
        return set(value).union(*(fields_of(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(fields_of(each) for each in value))
    return set()


def create_tokens(server):
    tokens = {}
    for scopes, limited in itertools.product(SCOPES, (True, False)):
        wanted = {"name": "+".join(scopes), "scopes": scopes}
        if limited:
            wanted["queues"] = [OWN]
        tokens[tuple(scopes), limited] = server.do("POST", "/v1/tokens", wanted)["token"]
    return tokens


def look(name, scopes, limited, queue, status, answer, request):
    """Holds a response against what the token may read."""
    where = (name, "with", scopes, "for", OWN if limited else "all", "on", queue, status)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    reads = "read" in scopes or "admin" in scopes
    if limited:
        check("secret-foreign" not in text and "foreign-resource" not in text, *where,
              "shows what is in another queue:", text)
    if reads:
        return
    allowed = OPERATIONS[name].shows
    check(allowed is not READ or status == 403, *where, "needs no read:", text)
    if allowed is ANYTHING:
        return
    check("secret-" not in text, *where, "shows", text)
    if not isinstance(answer, str):
        extra = fields_of(answer) - (allowed if status < 300 else ERROR)
        if name == "batch":
            extra -= ERROR | allowed
        check(not extra, *where, "has the fields", extra)
    check(status != 200 or request is None or isinstance(answer, dict), *where)


def as_unknown(server, token, method, path, body, status, answer):
    """What names a job of another queue is answered as what names none at all."""
    resource = NAMES_RESOURCE.search(path)
    if resource and method != "PUT":
        text = json.dumps(server.ask(token, method, "/v1/resources/unknown"))
        given = json.dumps((status, answer))
        check(given.replace(resource.group(1), "unknown") == text, method, path, given, text)
        return 1
    found = NAMES_JOB.search(path)
    if not found:
        return 0
    real = found.group(2)
    job_id = uuid.uuid4()
    fake = str(job_id) if found.group(1) == "jobs" else job_id.hex + real[32:]
    if body is not None and "token" in body:
        body = {**body, "token": job_id.hex + body["token"][32:]}
    unknown = server.ask(token, method, path.replace(real, fake), body)

    def bare(response):
        text = json.dumps(response[1])
        for each in (real, fake, str(job_id), str(uuid.UUID(real.replace("-", "")[:32]))):
            text = text.replace(each, "ID")
        return response[0], text
    check(bare(unknown) == bare((status, answer)), method, path, "gives", status, answer,
          "and for an unknown id", unknown)
    return 1


def no_response_shows_what_the_token_could_not_read():
    server = Server()
    document = Document(server)
    check(set(document.operations) == set(OPERATIONS), "operations are missing or too many:",
          set(document.operations) ^ set(OPERATIONS))
    tokens = create_tokens(server)
    server.do("PUT", "/v1/kinds/other", {"timeout_ms": 1000})
    stages = {queue: SecretStage(server, queue) for queue in (OWN, FOREIGN)}
    for stage in stages.values():
        stage.submit()
    asked = compared = 0
    for name, (queue, stage) in itertools.product(OPERATIONS, stages.items()):
        for (scopes, limited), token in tokens.items():
            method, path, body = OPERATIONS[name].request(stage, scopes[-1])
            status, answer = server.ask(token, method, path, body)
            look(name, scopes, limited, queue, status, answer, body)
            if limited and queue == FOREIGN:
                compared += as_unknown(server, token, method, path, body, status, answer)
            asked += 1
        if name == "pause":
            server.do("POST", f"/v1/queues/{queue}/resume", {})
    check(compared > 100, "only", compared, "were compared")

    # The secrets are really there, for those who may read them.
    stage = stages[OWN]
    stage.lease()
    status, job = server.ask(tokens[("read",), True], "GET", f"/v1/jobs/{stage.id}")
    check(status == 200, job)
    for what in ("payload", "goal", "agent", "correlation", "label", "worker", "error",
                 "progress"):
        check(stage.secret(what) in json.dumps(job), what, "is not shown to a reader:", job)
    server.end()
    return f"{asked} responses, {compared} compared with those for unknown ids"


def status_of(status, answer):
    """Of the one operation, where it came in a batch."""
    if isinstance(answer, dict) and "results" in answer:
        return answer["results"][0]["status"]
    return answer["problem"]["status"] if "problem" in answer else status


def no_refusal_shows_what_the_token_could_not_read():
    server = Server()
    tokens = create_tokens(server)
    asked = 0
    for queue in (OWN, FOREIGN):
        stage = SecretStage(server, queue)
        for what, refusal in REFUSALS.items():
            refused = set()
            for (scopes, limited), token in tokens.items():
                method, path, body = refusal.make(stage)
                status, answer = server.ask(token, method, path, body)
                look(refusal.name, scopes, limited, queue, status, answer, body)
                if limited and queue == FOREIGN:
                    as_unknown(server, token, method, path, body, status, answer)
                elif status_of(status, answer) == refusal.status:
                    refused.add(scopes)
                    shown = refusal.shows and f"secret-{queue}-{refusal.shows}" in str(answer)
                    check(not {"read", "admin"} & set(scopes) or refusal.shows is None or
                          shown or status == 403, what, "is not explained to a reader:", answer)
                asked += 1
            check(any(not {"read", "admin"} & set(scopes) for scopes in refused), what,
                  "was provoked only with", refused)
    server.end()
    return f"{asked} responses"


def a_replay_shows_each_token_what_it_may_see():
    server = Server()
    tokens = create_tokens(server)
    body = {"kind": "k", "queue": OWN, "payload": "secret-own"}
    key = {"Idempotency-Key": "once"}
    whole = server.ask(tokens[("read", "submit"), True], "POST", "/v1/jobs", body, **key)
    check("secret-own" in json.dumps(whole[1]), whole)
    for _ in range(2):
        again = server.ask(tokens[("read", "submit"), True], "POST", "/v1/jobs", body, **key)
        check(again == whole, again)
        brief = server.ask(tokens[("submit",), True], "POST", "/v1/jobs", body, **key)
        check(set(brief[1]) == OUTLINE and brief[1]["id"] != whole[1]["id"], brief)
    server.end()


def read_stream(server, token, path, until):
    """The lines of a stream, up to one with `until` in it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.connection.port,
                                            timeout=PATIENCE_S)
    connection.request("GET", path, headers={"Accept": "text/event-stream",
                                             "Authorization": f"Bearer {token}"})
    reply = connection.getresponse()
    lines = []
    if reply.status == 200:
        while not lines or until not in lines[-1]:
            line = reply.readline().decode()
            check(line, path, "has ended:", lines)
            lines.append(line)
    connection.close()
    return reply.status, "".join(lines)


def a_stream_shows_the_queues_of_its_token():
    server = Server()
    tokens = create_tokens(server)
    own, foreign = SecretStage(server, OWN), SecretStage(server, FOREIGN)
    for stage in (own, foreign, own):
        stage.lease()
    status, text = read_stream(server, tokens[("read",), True], "/v1/feed", own.id)
    check(status == 200 and "secret-own" in text and "foreign" not in text, text)
    for scopes in (("submit",), ("work",), ("submit", "work")):
        for path in ("/v1/feed", f"/v1/jobs/{own.id}/events"):
            status, _ = read_stream(server, tokens[scopes, True], path, own.id)
            check(status == 403, path, "with", scopes, status)
    status, _ = read_stream(server, tokens[("read",), True], f"/v1/jobs/{foreign.id}/events", "x")
    check(status == 404, status)
    status, text = read_stream(server, ADMIN, f"/v1/jobs/{foreign.id}/events", foreign.id)
    check(status == 200, status)
    server.end()


run(no_response_shows_what_the_token_could_not_read,
    no_refusal_shows_what_the_token_could_not_read, a_replay_shows_each_token_what_it_may_see,
    a_stream_shows_the_queues_of_its_token)
