"""Every verb of the HTTP API, for threads. Made from client.py by make_sync.py."""

from __future__ import annotations

import json
import time
from typing import Any, Iterator, Mapping, Sequence, cast

from .errors import ConnectionLost, TryLater, api_error
from .http import JOB_ENDS, Backoff, Endpoint, Request, Transport, path_of
from .types import Claim, Event, Job, Question

_STREAM_PATIENCE_S = 60.0


class Client:
    """A server. Connections are pooled; requests are repeated where that is safe, until `timeout`
    seconds are over. Raises ApiError by `code`, ConnectionLost and RequestTimeout."""

    def __init__(self, url: str | None = None, token: str | None = None, *,
                 timeout: float = 30.0, transport: Transport | None = None) -> None:
        self.transport = transport or Transport(Endpoint.of(url, token))
        self.timeout = timeout

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections."""
        self.transport.close()

    def request(self, method: str, path: str, body: Any = None, *,
                      query: Mapping[str, Any] | None = None, wait_ms: int = 0) -> Any:
        """Any request: for routes that have no method here. `wait_ms` is added to the timeout."""
        if method in ("POST", "PUT", "PATCH") and body is None:
            body = {}
        timeout_s = self.timeout + wait_ms / 1000
        return self.transport.request(
            Request.of(method, path, body, query=query, timeout_s=timeout_s))

    def _pages(self, path: str, name: str, **query: Any) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = self.request("GET", path, query={**query, "cursor": cursor})
            for item in page[name]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    # ---- jobs ----

    def submit(self, kind: str, payload: Any = None, **options: Any) -> Job:
        """A new job, or with `duplicate` the one that has the `idempotency_key` already."""
        spec = {"kind": kind, "payload": payload, **options}
        return cast(Job, self.request("POST", "/v1/jobs", spec))

    def submit_many(self, jobs: Sequence[Mapping[str, Any]]) -> list[Job]:
        """All of the jobs, or none."""
        response = self.request("POST", "/v1/jobs", {"jobs": list(jobs)})
        return cast("list[Job]", response["jobs"])

    def job(self, id: str, *, wait_ms: int = 0) -> Job:
        """A job; with `wait_ms` (up to 55,000) as soon as it has ended."""
        query = {"wait_ms": wait_ms} if wait_ms else None
        return cast(Job, self.request("GET", path_of("jobs", id), query=query,
                                            wait_ms=wait_ms))

    def jobs(self, **filters: Any) -> Iterator[Job]:
        """Jobs, newest first: status, kind, queue, label, search, include, …"""
        for job in self._pages("/v1/jobs", "jobs", **filters):
            yield job

    def bulk(self, action: str, filter: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Requeues or cancels all jobs of a filter: `matched`, `done`, `refused`."""
        body = {"action": action, "filter": filter, **options}
        return cast("dict[str, Any]", self.request("POST", "/v1/jobs/bulk", body))

    def _steer(self, id: str, verb: str, options: Mapping[str, Any]) -> Any:
        return self.request("POST", path_of("jobs", id, verb), dict(options))

    def cancel(self, id: str, **options: Any) -> Job:
        """mode (soft, hard), reason, grace_ms."""
        return cast(Job, self._steer(id, "cancel", options))

    def signal(self, id: str, correlation_key: str, payload: Any = None,
                     **options: Any) -> dict[str, Any]:
        """What a job waits for, or will: `signal` is delivered, stored or repeated."""
        return cast("dict[str, Any]", self._steer(
            id, "signal", {"correlation_key": correlation_key, "payload": payload, **options}))

    def answer(self, id: str, answer: Any, *, step: str | None = None,
                     **options: Any) -> dict[str, Any]:
        """A person's answer to a job or step that asks: by, comment, result, correlation_key."""
        parts = ("jobs", id, "answer") if step is None else ("jobs", id, "steps", step, "answer")
        return cast("dict[str, Any]", self.request(
            "POST", path_of(*parts), {"answer": answer, **options}))

    def requeue(self, id: str, **options: Any) -> Job:
        """reason, fresh (forget effects and waits)."""
        return cast(Job, self._steer(id, "requeue", options))

    def run_now(self, id: str, **options: Any) -> Job:
        """A job that is scheduled for later, or waits for a retry, runs now."""
        return cast(Job, self._steer(id, "run", options))

    def dead_letter(self, id: str, reason_code: str, **options: Any) -> Job:
        """Makes a dead letter of a job that no worker holds."""
        return cast(Job, self._steer(id, "dead-letter",
                                           {"reason_code": reason_code, **options}))

    def redact(self, id: str) -> Job:
        """Erases payloads, and keeps their digests."""
        return cast(Job, self._steer(id, "redact", {}))

    def verify(self, id: str) -> dict[str, Any]:
        """Whether the history is right: ok, violations."""
        return cast("dict[str, Any]", self.request("GET", path_of("jobs", id, "verify")))

    def explain(self, id: str) -> dict[str, Any]:
        """Why a job is where it is: summary, reasons, moves."""
        return cast("dict[str, Any]", self.request("GET", path_of("jobs", id, "explain")))

    def export(self, id: str) -> dict[str, Any]:
        """A job with its history, for `import_jobs`."""
        return cast("dict[str, Any]", self.request("GET", path_of("jobs", id, "export")))

    def import_jobs(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Jobs that were exported."""
        return cast("dict[str, Any]", self.request(
            "POST", "/v1/import", {"jobs": list(jobs)}))

    # ---- events ----

    def events(self, id: str, *, after: int = 0, **filters: Any) -> Iterator[Event]:
        """The history of a job as it is now, page by page."""
        for event in self._pages(path_of("jobs", id, "events"), "events",
                                       after=after or None, **filters):
            yield event

    def append_events(self, id: str, events: Sequence[Mapping[str, Any]],
                            **options: Any) -> int:
        """Events of your own (expected_version, token); gives the new version."""
        body = {"events": list(events), **options}
        response = self.request("POST", path_of("jobs", id, "events"), body)
        return int(response["version"])

    def follow(self, id: str, *, after: int | str | None = None,
                     **filters: Any) -> Iterator[Event]:
        """A job's events as they come, until one of them ends the job. Connects again by itself
        and goes on where it was."""
        for event in self._stream(path_of("jobs", id, "events"), after, filters):
            yield event
            if event["type"] in JOB_ENDS:
                return

    def feed(self, *, after: str | None = None, **filters: Any) -> Iterator[Event]:
        """Events of all jobs as they come, for ever; `event["position"]` is what `after` takes,
        "now" leaves out all that was. Raises FeedReset after a failover that lost events."""
        for event in self._stream("/v1/feed", after, filters):
            yield event

    def _stream(self, path: str, after: int | str | None,
                      filters: Mapping[str, Any]) -> Iterator[Event]:
        last_id: str | None = None
        backoff = Backoff(_STREAM_PATIENCE_S)
        while True:
            query = {**filters, "after": after if last_id is None else None}
            plain = Request.of("GET", path, query=query)
            headers = {"Accept": "text/event-stream"}
            if last_id is not None:
                headers["Last-Event-ID"] = last_id
            try:
                for id, type, data in self.transport.stream(
                        Request("GET", plain.path, headers=headers)):
                    if type == "feed_reset":
                        raise api_error(410, json.loads(data))
                    last_id, backoff = id, Backoff(_STREAM_PATIENCE_S)
                    yield json.loads(data)
                error: Exception = ConnectionLost(f"{path}: the stream has ended")
            except (ConnectionLost, TryLater) as lost:
                error = lost
            time.sleep(backoff.next_s(error))

    # ---- plans and steps ----

    def plan(self, id: str, steps: Sequence[Mapping[str, Any]], **options: Any) -> Job:
        """A plan for a job, or a new version of it."""
        return cast(Job, self._steer(id, "plan", {"steps": list(steps), **options}))

    def plan_diff(self, id: str, **versions: Any) -> dict[str, Any]:
        """What changed between two versions of a plan (from, to)."""
        return cast("dict[str, Any]", self.request(
            "GET", path_of("jobs", id, "plan", "diff"), query=versions))

    def steps(self, id: str) -> Iterator[dict[str, Any]]:
        """The steps of a job, with their histories."""
        for step in self._pages(path_of("jobs", id, "steps"), "steps"):
            yield step

    def verdict(self, id: str, step: str, decision: str, **options: Any) -> dict[str, Any]:
        """Judges a step: accept, retry, switch_resource, replan, needs_user."""
        return cast("dict[str, Any]", self.request(
            "POST", path_of("jobs", id, "steps", step, "verdict"),
            {"decision": decision, **options}))

    def inbox(self, **filters: Any) -> Iterator[Question]:
        """Open questions; of one `assignee`, if given."""
        for question in self._pages("/v1/inbox", "questions", **filters):
            yield question

    # ---- work ----

    def claim(self, worker_id: str, *, wait_ms: int = 0, **options: Any) -> list[Claim]:
        """Jobs to work on: queues, kinds, max, lease_ttl_ms, …"""
        body = {"worker_id": worker_id, "wait_ms": wait_ms, **options}
        response = self.request("POST", "/v1/claims", body, wait_ms=wait_ms)
        return cast("list[Claim]", response["claims"])

    def claim_steps(self, worker_id: str, *, wait_ms: int = 0,
                          **options: Any) -> list[dict[str, Any]]:
        """Steps to work on: as `claim`, with resource_id and judge."""
        body = {"worker_id": worker_id, "wait_ms": wait_ms, **options}
        response = self.request("POST", "/v1/steps/claims", body, wait_ms=wait_ms)
        return cast("list[dict[str, Any]]", response["claims"])

    def lease(self, token: str, verb: str, **fields: Any) -> dict[str, Any]:
        """What becomes of a lease: start, heartbeat, complete, fail, wait, release, cancelled,
        dead-letter."""
        return cast("dict[str, Any]", self.request(
            "POST", path_of("leases", token, verb), fields))

    def effect(self, token: str, key: str, verb: str, **fields: Any) -> dict[str, Any]:
        """begin, commit or abort of an effect."""
        return cast("dict[str, Any]", self.request(
            "POST", path_of("leases", token, "effects", key, verb), fields))

    def effects(self, token: str, after: str) -> dict[str, Any]:
        """Effects and waits that did not fit into a claim."""
        return cast("dict[str, Any]", self.request(
            "GET", path_of("leases", token, "effects"), query={"after": after}))

    def ops(self, ops: Sequence[Mapping[str, Any]], *,
                  atomic: bool = False) -> list[dict[str, Any]]:
        """Many operations in one commit: `status` and `body` of each."""
        response = self.request("POST", "/v1/ops", {"ops": list(ops), "atomic": atomic})
        return cast("list[dict[str, Any]]", response["results"])

    def send_ops(self, body: bytes, *, timeout: float) -> list[dict[str, Any]]:
        """As `ops`, with a body that is encoded already."""
        request = Request.of("POST", "/v1/ops", timeout_s=timeout)
        response = self.transport.request(
            Request("POST", request.path, body, timeout, request.headers))
        return cast("list[dict[str, Any]]", response["results"])

    # ---- resources, workers ----

    def resources(self) -> Iterator[dict[str, Any]]:
        """Where steps run."""
        for resource in self._pages("/v1/resources", "resources"):
            yield resource

    def put_resource(self, id: str, **fields: Any) -> dict[str, Any]:
        """capabilities, labels, slots, ttl_ms, …"""
        return cast("dict[str, Any]", self.request("PUT", path_of("resources", id), fields))

    def resource(self, id: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self.request("GET", path_of("resources", id)))

    def delete_resource(self, id: str) -> None:
        self.request("DELETE", path_of("resources", id))

    def workers(self) -> Iterator[dict[str, Any]]:
        """Workers that are registered or hold leases."""
        for worker in self._pages("/v1/workers", "workers"):
            yield worker

    def put_worker(self, id: str, **fields: Any) -> dict[str, Any]:
        """kinds, queues, slots, labels, ttl_ms."""
        return cast("dict[str, Any]", self.request("PUT", path_of("workers", id), fields))

    def delete_worker(self, id: str) -> None:
        self.request("DELETE", path_of("workers", id))

    # ---- dead letters, queues, kinds ----

    def dead_letters(self, **filters: Any) -> Iterator[Job]:
        """kind, queue, reason_code, group."""
        for job in self._pages("/v1/dead-letters", "jobs", **filters):
            yield job

    def dead_letter_groups(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """How many by kind, reason and error."""
        for group in self._pages("/v1/dead-letters/groups", "groups", **filters):
            yield group

    def redrive(self, **filters: Any) -> dict[str, Any]:
        """id, or kind, queue, reason_code, group; dry_run, fresh, rate_per_s."""
        return cast("dict[str, Any]", self.request(
            "POST", "/v1/dead-letters/redrive", filters))

    def drop(self, **filters: Any) -> dict[str, Any]:
        """As `redrive`: these dead letters are deleted."""
        return cast("dict[str, Any]", self.request(
            "POST", "/v1/dead-letters/drop", filters))

    def queues(self) -> Iterator[dict[str, Any]]:
        """Queues: depth, oldest, by status."""
        for queue in self._pages("/v1/queues", "queues"):
            yield queue

    def pause(self, queue: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self.request(
            "POST", path_of("queues", queue, "pause")))

    def resume(self, queue: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self.request(
            "POST", path_of("queues", queue, "resume")))

    def kinds(self) -> Iterator[dict[str, Any]]:
        """Kinds that have settings."""
        for kind in self._pages("/v1/kinds", "kinds"):
            yield kind

    def kind(self, kind: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self.request("GET", path_of("kinds", kind)))

    def put_kind(self, kind: str, **settings: Any) -> dict[str, Any]:
        """Replaces all settings of a kind."""
        return cast("dict[str, Any]", self.request("PUT", path_of("kinds", kind), settings))

    def patch_kind(self, kind: str, **settings: Any) -> dict[str, Any]:
        """Changes the settings that it names; None removes one."""
        return cast("dict[str, Any]", self.request("PATCH", path_of("kinds", kind), settings))

    def kind_versions(self, kind: str) -> dict[str, Any]:
        """How many live jobs are pinned to which code version."""
        return cast("dict[str, Any]", self.request(
            "GET", path_of("kinds", kind, "versions")))

    # ---- the server ----

    def clock(self) -> dict[str, Any]:
        """The time of a server with a manual clock: now, next_due."""
        return cast("dict[str, Any]", self.request("GET", "/v1/clock"))

    def advance_clock(self, *, ms: int | None = None, to: str | None = None,
                            to_next: bool = False) -> dict[str, Any]:
        """Moves a manual clock by `ms`, to a time, or to where something is due next: now, fired,
        next_due."""
        move = {"ms": ms, "to": to, "to_next": to_next or None}
        body = {name: value for name, value in move.items() if value is not None}
        return cast("dict[str, Any]", self.request(
            "POST", "/v1/clock/advance", body, wait_ms=55_000))

    def stats(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.request("GET", "/v1/stats"))

    def doctor(self) -> dict[str, Any]:
        """Whether all is well."""
        return cast("dict[str, Any]", self.request("GET", "/v1/doctor"))

    def create_token(self, name: str, scopes: Sequence[str],
                           **options: Any) -> dict[str, Any]:
        """An access token, which is shown this once: queues, ttl_ms."""
        return cast("dict[str, Any]", self.request(
            "POST", "/v1/tokens", {"name": name, "scopes": list(scopes), **options}))

    def tokens(self) -> Iterator[dict[str, Any]]:
        for token in self._pages("/v1/tokens", "tokens"):
            yield token

    def revoke_token(self, id: str) -> None:
        self.request("DELETE", path_of("tokens", id))

    def backup(self, path: str) -> dict[str, Any]:
        """A copy of a SQLite store."""
        return cast("dict[str, Any]", self.request("POST", "/v1/backup", {"path": path}))

    def is_ready(self) -> bool:
        """Whether a write would succeed now."""
        try:
            self.transport.request(Request("GET", "/readyz", timeout_s=6.0))
        except (ConnectionLost, TryLater):
            return False
        return True
