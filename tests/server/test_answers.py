#!/usr/bin/env python3
"""People's answers over HTTP, on every store: what a job or a step asks is answered with one of its
choices, or is refused; the worker finds exactly that in its next claim.

usage: test_answers.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
from surface import ADMIN, Server, Stage
from trouble import check, fresh_postgres, fresh_sqlite, run

CHOICES = ["yes", "no"]


def refuses(server, path, body, status, code, *words):
    version = server.do("GET", path.rsplit("/", 1)[0])["version"] if "/steps/" not in path else None
    got, problem = server.ask(ADMIN, "POST", path, body)
    check(got == status and problem["code"] == code, path, body, got, problem)
    for word in words:
        check(word in problem["detail"], word, "is not in", problem)
    if version is not None:
        check(server.do("GET", path.rsplit("/", 1)[0])["version"] == version, "it changed the job")


def asks(stage, **wait):
    token = stage.lease()
    stage.server.do("POST", f"/v1/leases/{token}/wait",
                    {"type": "human", "correlation_key": "refund", "prompt": "Refund?", **wait})
    return f"/v1/jobs/{stage.id}"


def resumed(stage):
    claim = stage.server.do("POST", "/v1/claims", {"worker_id": "w", "queues": [stage.queue]})
    check(len(claim["claims"]) == 1, claim)
    resume = claim["claims"][0]["resume"]
    wait = claim["claims"][0]["waits"]["refund"]
    for name in ("outcome", "payload", "by", "comment"):
        check(wait.get(name) == resume.get(name), name, "is not as it was:", wait, resume)
    return resume


def a_no_never_reads_as_approval(server):
    stage = Stage(server, "choices")
    job = asks(stage, choices=CHOICES)
    for answer in ("maybe", True, {"approved": True, "answer": "no"}, ["no"]):
        refuses(server, job + "/answer", {"answer": answer}, 400, "bad_request", '["yes", "no"]')
    for payload in ({"approved": True, "answer": "no"}, None, "NO"):
        refuses(server, job + "/signal", {"correlation_key": "refund", "payload": payload}, 400,
                "bad_request", '["yes", "no"]')
    server.do("POST", job + "/answer", {"answer": "no", "by": "grace", "comment": "too late"})
    resume = resumed(stage)
    check(resume == {"correlation_key": "refund", "outcome": "signal", "payload": "no",
                     "by": "grace", "comment": "too late"}, resume)
    event = server.do("GET", job + "/events")["events"]
    event = [one for one in event if one["type"] == "wait_completed"][-1]
    check(event["payload"]["by"] == "grace" and event["payload"]["comment"] == "too late", event)
    check(event["actor"] not in (None, "grace"), "the actor is not the authenticated one", event)
    check(server.do("GET", job + "/verify")["ok"], "the history does not hold")


def without_choices_any_answer_is_taken(server):
    stage = Stage(server, "free")
    job = asks(stage)
    for body, words in (({}, "answer"), ({"answer": None}, "answer"), ({"answer": 1, "by": 7}, "by"),
                        ({"answer": 1, "comment": []}, "comment"),
                        ({"answer": 1, "result": 2}, "result"),
                        ({"answer": 1, "decision": 1}, "decision")):
        refuses(server, job + "/answer", body, 400, "bad_request", words)
    refuses(server, job + "/answer", {"answer": 1, "approved": True}, 400, "unknown_field",
            "approved")
    refuses(server, job + "/answer", {"answer": 1, "correlation_key": "other"}, 409,
            "wrong_correlation_key", "refund", "other")
    refuses(server, job + "/answer", {"answer": 1, "attempt": 9}, 409, "version_mismatch", "9")
    answer = {"answer": {"approved": False}, "by": "ada"}
    server.do("POST", job + "/answer", answer)
    server.do("POST", job + "/answer", answer)  # its response was lost
    check(resumed(stage)["payload"] == {"approved": False}, "another answer reached the worker")
    refuses(server, job + "/answer", {"answer": 2}, 409, "invalid_transition", "running")


def a_job_is_asked_in_context(server):
    stage = Stage(server, "context")
    stage.submit(goal="refund ada", labels={"customer": "c17"}, correlation_id="order-7",
                 agent_id="desk", payload={"cents": 250})
    claim = server.do("POST", "/v1/claims", {"worker_id": "w", "queues": ["context"]})["claims"][0]
    server.do("POST", f"/v1/leases/{claim['lease']['token']}/wait",
              {"type": "human", "correlation_key": "k", "prompt": "?", "timeout_ms": 3600000,
               "choices": CHOICES, "default_answer": "no"})
    asked = [one for one in server.do("GET", "/v1/inbox")["questions"] if one["id"] == stage.id][0]
    check(asked["goal"] == "refund ada" and asked["labels"] == {"customer": "c17"}, asked)
    check(asked["correlation_id"] == "order-7" and asked["agent_id"] == "desk", asked)
    check(asked["payload"] == {"cents": 250} and asked["payload_left_out"] is False, asked)
    check(asked["default_answer"] == "no", asked)


def a_default_answer_counts_when_the_time_is_over(server):
    stage = Stage(server, "timeout")
    asks(stage, choices=CHOICES, timeout_ms=1, default_answer="no")
    claim = server.do("POST", "/v1/claims",
                      {"worker_id": "w", "queues": ["timeout"], "wait_ms": 20000})["claims"][0]
    check(claim["resume"] == {"correlation_key": "refund", "outcome": "timeout", "payload": "no"},
          claim["resume"])
    token = claim["lease"]["token"]
    status, problem = server.ask(ADMIN, "POST", f"/v1/leases/{token}/wait",
                                 {"type": "human", "correlation_key": "k", "choices": CHOICES,
                                  "default_answer": "maybe"})
    check(status == 400 and "maybe" in problem["detail"], problem)


def done_comes_with_its_result(server):
    stage = Stage(server, "doubt")
    stage.submit(in_doubt="ask")
    for end in (True, False):
        claim = server.do("POST", "/v1/claims", {"worker_id": "w", "queues": ["doubt"]})
        token = claim["claims"][0]["lease"]["token"]
        if end:
            server.do("POST", f"/v1/leases/{token}/effects/pay/begin", {})
            server.do("POST", f"/v1/leases/{token}/release", {})
    begun = server.do("POST", f"/v1/leases/{token}/effects/pay/begin", {})
    check(begun["status"] == "in_doubt", begun)
    job = f"/v1/jobs/{stage.id}"
    refuses(server, job + "/answer", {"answer": "done"}, 400, "bad_request", "result is required")
    refuses(server, job + "/signal", {"correlation_key": "pay", "payload": "done"}, 400,
            "bad_request", "result is required")
    refuses(server, job + "/answer", {"answer": "retry", "result": 1}, 400, "bad_request", "retry")
    refuses(server, job + "/answer", {"answer": "yes"}, 400, "bad_request", "retry, done or fail")
    server.do("POST", job + "/answer", {"answer": "done", "result": {"receipt": 17}, "by": "ada"})
    claim = server.do("POST", "/v1/claims", {"worker_id": "w", "queues": ["doubt"]})["claims"][0]
    again = server.do("POST", f"/v1/leases/{claim['lease']['token']}/effects/pay/begin", {})
    check(again["status"] == "recorded" and again["result"] == {"receipt": 17}, again)
    check(server.do("GET", job + "/verify")["ok"], "the history does not hold")


def steps_are_answered_alike(server):
    stage = Stage(server, "steps")
    stage.asking()
    path = f"/v1/jobs/{stage.id}/steps/s/answer"
    refuses(server, path, {"answer": {"approved": True}}, 400, "bad_request", '["yes", "no"]')
    refuses(server, f"/v1/jobs/{stage.id}/answer", {"answer": "yes"}, 409, "invalid_transition",
            "steps")
    server.do("POST", path, {"answer": "no", "by": "bob", "comment": "not today"})
    step = server.do("GET", f"/v1/jobs/{stage.id}/steps")["steps"][0]
    check(step["answer"] == "no" and step["answered_by"] == "bob", step)
    check(step["answer_comment"] == "not today", step)


def on(store):
    def answers():
        server = Server(store())
        for test in (a_no_never_reads_as_approval, without_choices_any_answer_is_taken,
                     a_job_is_asked_in_context, a_default_answer_counts_when_the_time_is_over,
                     done_comes_with_its_result, steps_are_answered_alike):
            test(server)
        server.end()
    return answers


def answers_on_memory():
    on(lambda: "memory:")()


def answers_on_sqlite():
    on(fresh_sqlite)()


def answers_on_postgres():
    on(fresh_postgres)()


run(answers_on_memory, answers_on_sqlite, answers_on_postgres)
