#!/usr/bin/env python3
"""The figures of a server as those see them who use them: promtool and a real Prometheus.

usage: test_prometheus.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

PAWL = os.path.join(sys.argv[1], "pawl")
MONITORING = os.path.join(sys.argv[2], "monitoring")
PATIENCE_S = 20
TOKEN = "a-token-of-the-first-hour-0123456789"


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def call(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


class Server:
    """A server with a token, on memory."""

    def __init__(self):
        self.process = subprocess.Popen(
            [PAWL, "serve", "--store", "memory:", "--listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "PAWL_TOKEN": TOKEN})
        for line in self.process.stderr:
            found = re.search(r"on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                return
        raise AssertionError("the server did not start")

    def ask(self, method, path, body=None):
        status, text = call(self.port, method, path, body)
        check(status in (200, 201), f"{method} {path}: {status} {text}")
        return json.loads(text) if text[:1] == "{" else text

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        self.process.stderr.close()


def work(server):
    """Three jobs with a name that asks for trouble, one of them done; and a plan."""
    kind = 'say "hi" \\ {é}'
    for _ in range(3):
        server.ask("POST", "/v1/jobs", {"kind": kind, "queue": "mail"})
    claim = server.ask("POST", "/v1/claims", {"worker_id": "w1", "wait_ms": 0})["claims"][0]
    server.ask("POST", f"/v1/leases/{claim['lease']['token']}/complete", {})
    server.ask("PUT", "/v1/resources/r1", {"capabilities": ["net"]})
    server.ask("POST", "/v1/jobs", {"kind": "crew", "plan": {"steps": [
        {"id": "fetch", "kind": "http", "capabilities": ["net"]}]}})
    claim = server.ask("POST", "/v1/steps/claims",
                       {"worker_id": "w1", "resource_id": "r1", "wait_ms": 0})["claims"][0]
    server.ask("POST", f"/v1/leases/{claim['lease']['token']}/complete", {"result": 1})
    return kind


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    check(done.returncode == 0 and not done.stderr.strip(),
          f"promtool {arguments}: {done.stdout}{done.stderr}")


def the_page_passes_promtool(server):
    promtool("check", "metrics", text=server.ask("GET", "/metrics"))


def the_rules_and_the_sample_pass_promtool():
    promtool("check", "rules", os.path.join(MONITORING, "prometheus-alerts.yml"))
    promtool("check", "config", os.path.join(MONITORING, "prometheus.yml"))


def alert(name, at, series, labels=None):
    """A rule test: these series, and whether the alert is there at that time."""
    expected = "" if labels is None else f"""
          - exp_labels: {json.dumps(labels)}"""
    lines = "".join(f"""
      - series: '{text}'
        values: '{values}'""" for text, values in series)
    return f"""
  - interval: 1m
    input_series:{lines}
    alert_rule_test:
      - alertname: {name}
        eval_time: {at}
        exp_alerts: {'[]' if labels is None else ''}{expected}
"""


def the_alerts_come_when_they_should(place):
    """Only the labels are compared: promtool wants the annotations too, which are left out."""
    with open(os.path.join(MONITORING, "prometheus-alerts.yml"), encoding="utf-8") as file:
        rules = re.sub(r"\n +annotations:(\n +(summary|description): .*)+", "", file.read())
    with open(os.path.join(place, "alerts.yml"), "w", encoding="utf-8") as file:
        file.write(rules)
    where = 'instance="a",job="pawl"'
    warning = {"severity": "warning"}
    up = [(f"pawl_store_up{{{where}}}", "1x20")]
    down = [(f"pawl_store_up{{{where}}}", "0x20")]
    old = f'pawl_queue_oldest_age_seconds{{queue="q",state="queued",{where}}}'
    dead = f'pawl_dead_letters_total{{reason_code="timeout",{where}}}'
    idle = [(f"pawl_workers{{{where}}}", "0x20")]
    queued = f'pawl_queue_jobs{{queue="q",state="queued",{where}}}'
    lost = f'pawl_lease_expiries_total{{work="job",{where}}}'
    claims = (f'pawl_claims_total{{work="job",{where}}}', "0+100x40")
    shed = f"pawl_requests_shed_total{{{where}}}"
    tests = [
        alert("PawlStoreDown", "3m", up),
        alert("PawlStoreDown", "3m", down,
              {"severity": "critical", "instance": "a", "job": "pawl"}),
        alert("PawlOldestJobWaitsTooLong", "10m", [(old, "1000x20")], {**warning, "queue": "q"}),
        alert("PawlOldestJobWaitsTooLong", "10m", [(old, "100x20")]),
        alert("PawlDeadLetters", "10m", [(dead, "0x5 2x15")],
              {**warning, "reason_code": "timeout"}),
        alert("PawlDeadLetters", "10m", [(dead, "7x20")]),
        alert("PawlNoWorkers", "15m", [*idle, (queued, "3x20")], warning),
        alert("PawlNoWorkers", "15m", [*idle, (queued, "0x20")]),
        alert("PawlLeasesExpire", "35m", [claims, (lost, "0+10x40")], warning),
        alert("PawlLeasesExpire", "35m", [claims, (lost, "0+1x40")]),
        alert("PawlSheds", "15m", [(shed, "0+5x20")], {**warning, "instance": "a"}),
        alert("PawlSheds", "15m", [(shed, "5x20")]),
    ]
    path = os.path.join(place, "test.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("rule_files: [alerts.yml]\ntests:" + "".join(tests))
    promtool("test", "rules", path)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def query(port, expression):
    """The samples that Prometheus has; [] while it is not up."""
    try:
        status, text = call(port, "GET",
                            "/api/v1/query?query=" + urllib.parse.quote(expression))
    except OSError:
        return []
    return json.loads(text)["data"]["result"] if status == 200 else []


def wait_for(port, expression, value):
    """Asks until the only sample has the value."""
    until = time.monotonic() + PATIENCE_S
    found = None
    while time.monotonic() < until:
        found = query(port, expression)
        if len(found) == 1 and found[0]["value"][1] == value:
            return
        time.sleep(0.05)
    raise AssertionError(f"{expression} is {found} and not {value}")


def prometheus_reads_the_server(server, kind, place):
    port = free_port()
    with open(os.path.join(MONITORING, "prometheus.yml"), encoding="utf-8") as file:
        sample = file.read()
    config = sample.replace("127.0.0.1:7295", f"127.0.0.1:{server.port}")
    config = config.replace("15s", "200ms")
    config = config.replace("    # authorization:", "    authorization:")
    config = config.replace("    #   credentials_file: /etc/prometheus/pawl.token",
                            f"      credentials: {TOKEN}")
    config = config.replace("prometheus-alerts.yml",
                            os.path.join(MONITORING, "prometheus-alerts.yml"))
    check(f"credentials: {TOKEN}" in config and "200ms" in config, config)
    with open(os.path.join(place, "prometheus.yml"), "w", encoding="utf-8") as file:
        file.write(config)
    with open(os.path.join(place, "prometheus.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={place}/prometheus.yml",
             f"--storage.tsdb.path={place}/data", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log)
    try:
        wait_for(port, 'pawl_job_transitions_total{from="none",to="queued"}', "4")
        wait_for(port, 'pawl_queue_jobs{queue="mail",state="queued"}', "2")
        wait_for(port, 'pawl_step_state_transitions_total'
                       '{step_id="fetch",from_state="running",to_state="succeeded"}', "1")
        wait_for(port, 'pawl_step_duration_seconds_count'
                       '{step_id="fetch",capability="net",status="succeeded"}', "1")
        wait_for(port, 'pawl_step_retries_total{step_id="fetch",capability="net"}', "0")
        wait_for(port, 'pawl_steps_by_state{state="succeeded"}', "1")
        wait_for(port, f"pawl_job_wait_seconds_count{{kind={json.dumps(kind)}}}", "1")
        wait_for(port, 'up{job="pawl"}', "1")
        # What happens next is seen next.
        server.ask("POST", "/v1/jobs", {"kind": kind, "queue": "mail"})
        wait_for(port, 'pawl_queue_jobs{queue="mail",state="queued"}', "3")
        _, text = call(port, "GET", "/api/v1/rules")
        rules = [rule for group in json.loads(text)["data"]["groups"] for rule in group["rules"]]
        check(len(rules) > 5, text)
        check(all(rule["health"] in ("ok", "unknown") for rule in rules), text)
    except AssertionError:
        with open(os.path.join(place, "prometheus.log"), encoding="utf-8") as log:
            print(log.read(), file=sys.stderr)
        raise
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def main():
    server = Server()
    try:
        kind = work(server)
        the_page_passes_promtool(server)
        the_rules_and_the_sample_pass_promtool()
        with tempfile.TemporaryDirectory() as place:
            the_alerts_come_when_they_should(place)
        with tempfile.TemporaryDirectory() as place:
            prometheus_reads_the_server(server, kind, place)
    finally:
        server.end()


main()
