#!/usr/bin/env python3
"""Who may do what: every operation of /openapi.json x every scope x jobs of a queue that the token
is for and of another. And every answer on the way has the form that the document says.

usage: test_auth_matrix.py BUILD_DIRECTORY SOURCE_DIRECTORY

The list of operations is the document's, so that a new route must be entered in surface.py.
"""
import json

from surface import NOBODY, OPERATIONS, Document, Server, Stage
from trouble import check, run

SCOPES = ("read", "submit", "work", "answer", "admin")
OWN, FOREIGN = "own", "foreign"

# What the holder of a lease says.
OF_LEASE = {"start", "heartbeat", "complete", "fail", "wait", "release", "cancelled", "abandon",
            "effect_begin", "effect_commit", "effect_abort", "effects"}
# Where all is well but for the store, which is in memory, and the clock, which is the system's.
NOT_DONE = {"backup": 400, "clock": 404, "clock_advance": 404}


def checked(server, document, name, token, stage, scope):
    """Makes a request and looks at what came; and that what is refused has changed nothing."""
    method, path, body = OPERATIONS[name].request(stage, scope)
    before = server.do("GET", f"/v1/jobs/{stage.id}")["version"]
    status, answer = server.ask(token, method, path, body)
    if body is not None:
        document.check(name, "request", body)
    document.check(name, status, answer)
    if name == "batch" and status == 200:
        status = answer["results"][0]["status"]
    if status in (401, 403, 404, 409):
        check(server.do("GET", f"/v1/jobs/{stage.id}")["version"] == before, name, "has changed it")
    return status, answer


# What names a queue itself is told that the token is not for it; what names a job of another queue,
# a lease on one, or a resource, finds nothing, as if there were none. A name for a resource that is
# taken cannot be given away a second time.
NAMES_QUEUE = {"submit", "submit_many", "list", "bulk", "claim", "claim_steps", "dead_letters",
               "dead_letter_groups", "redrive", "drop", "pause", "resume", "import",
               "resource_put", "worker_put"}


def expected(name, scope, limited, queue):
    rule = OPERATIONS[name]
    if rule.scopes is NOBODY:
        return 200
    may = scope in rule.scopes or scope == "admin"
    if limited and rule.about == "all":
        may = False
    if may and limited and rule.about == "job" and queue == FOREIGN:
        if name == "batch":  # of a heartbeat, an answer to a job, a submit: see make_batch
            return {"work": 409, "answer": 404}.get(scope, 403)
        if name in NAMES_QUEUE:
            return 403
        return 404 if name not in OF_LEASE else 409
    return 200 if may else 403


def create_tokens(server):
    tokens = {}
    for scope in SCOPES:
        for limited in (True, False):
            wanted = {"name": f"{scope}-{limited}", "scopes": [scope]}
            if limited:
                wanted["queues"] = [OWN]
            tokens[scope, limited] = server.do("POST", "/v1/tokens", wanted)["token"]
    return tokens


def the_list_of_operations_is_complete(document):
    check(set(document.operations) == set(OPERATIONS), "operations are missing or too many:",
          set(document.operations) ^ set(OPERATIONS))


def every_operation_is_open_to_whom_it_should_be():
    server = Server()
    document = Document(server)
    the_list_of_operations_is_complete(document)
    tokens = create_tokens(server)
    server.do("PUT", "/v1/kinds/other", {"timeout_ms": 1000})
    stages = {queue: Stage(server, queue) for queue in (OWN, FOREIGN)}
    for stage in stages.values():
        stage.submit()
    asked = 0
    for name, rule in OPERATIONS.items():
        for queue, stage in stages.items():
            status, answer = checked(server, document, name, None, stage, None)
            want = {200, 204} if rule.scopes is NOBODY else {401}
            check(status in want, name, "without a token:", status)
            for (scope, limited), token in tokens.items():
                status, answer = checked(server, document, name, token, stage, scope)
                want = expected(name, scope, limited, queue)
                got = 200 if status in (200, 201, 204, NOT_DONE.get(name)) else status
                check(got == want, name, "with", scope, "for", OWN if limited else "all",
                      "on", queue, "gives", status, "and not", want, answer)
                asked += 1
            if name == "pause":
                server.do("POST", f"/v1/queues/{queue}/resume", {})
    server.end()
    return f"{len(OPERATIONS)} operations, {asked} requests with a token"


def a_token_for_some_queues_sees_nothing_of_others():
    server = Server()
    tokens = create_tokens(server)
    own, foreign = Stage(server, OWN), Stage(server, FOREIGN)
    for stage in (own, foreign):
        stage.asking()
        stage.dead()
    job = foreign.submit()
    token = tokens["read", True]
    for path in ("/v1/jobs?limit=500", "/v1/inbox?limit=500", "/v1/dead-letters", "/v1/queues",
                 "/v1/feed?limit=1000"):
        status, answer = server.ask(token, "GET", path)
        text = json.dumps(answer)
        check(status == 200 and OWN in text, path, answer)
        check(FOREIGN not in text and job["id"] not in text, path, "shows", text)
    seen = server.ask(token, "GET", "/v1/stats")[1]["jobs"]
    check(sum(seen.values()) == 2, "stats count", seen)

    # A claim that names no queue takes what it may, and nothing else.
    claims = server.ask(tokens["work", True], "POST", "/v1/claims",
                        {"worker_id": "w", "max": 100, "wait_ms": 0})[1]["claims"]
    check(all(claim["job"]["queue"] == OWN for claim in claims), claims)

    # What a request says of a job does not matter, only where the job is.
    lease = foreign.lease()
    for body in ({"ops": [{"op": "complete", "token": lease}]},
                 {"ops": [{"op": "heartbeat", "token": lease}]}):
        answer = server.ask(tokens["work", True], "POST", "/v1/batch", body)[1]
        check(answer["results"][0]["status"] == 409, answer)
    answer = server.ask(tokens["submit", True], "POST", "/v1/batch",
                        {"ops": [{"op": "cancel", "id": foreign.id},
                                 {"op": "pause", "queue": OWN},
                                 {"op": "complete", "token": lease}]})[1]
    check([result["status"] for result in answer["results"]] == [404, 403, 403], answer)

    # Without the token of a lease, some things take an admin.
    for what, body in (("events", {"expected_version": 1, "events": [{"type": "mine.x"}]}),):
        job = own.submit()
        status, answer = server.ask(tokens["work", True], "POST", f"/v1/jobs/{job['id']}/{what}",
                                    body)
        check(status == 403, what, status, answer)
        status, answer = server.ask(tokens["admin", True], "POST", f"/v1/jobs/{job['id']}/{what}",
                                    body)
        check(status == 200, what, status, answer)
    server.end()


run(every_operation_is_open_to_whom_it_should_be, a_token_for_some_queues_sees_nothing_of_others)
