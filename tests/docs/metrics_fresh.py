#!/usr/bin/env python3
"""docs/reference/metrics.md, the alerts and the dashboard in monitoring/ agree with
src/server/metrics.def.

usage: metrics_fresh.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import json
import os
import re
import subprocess
import sys

SOURCE = sys.argv[2]
# Labels that Prometheus adds.
ADDED = {"instance", "job", "le"}


def complain(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def metrics():
    """Name -> (type, labels)."""
    found = re.findall(r'METRIC\(\w+, (\w+), "([^"]*)", "([^"]*)"', read("src/server/metrics.def"))
    return {name: (kind, set(labels.split(",")) - {""}) for kind, name, labels in found}


def series(known):
    """Every name that can be asked for -> its labels."""
    for name, (kind, labels) in known.items():
        if kind == "HISTOGRAM":
            for part in ("_bucket", "_sum", "_count"):
                yield name + part, labels
        else:
            yield name, labels


def check_expression(text, there, where):
    """Names, and the labels in the braces behind them."""
    for name, matchers in re.findall(r"\b((?:pawl|process)_\w+)\s*(?:\{([^}]*)\})?", text):
        if name not in there:
            complain(f"{where}: there is no metric {name}: {text}")
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            if label not in there[name] | ADDED:
                complain(f"{where}: {name} has no label {label}: {text}")
    named = set().union(*(there[name] for name in re.findall(r"\b((?:pawl|process)_\w+)", text)))
    for labels in re.findall(r"\bby \(([^)]*)\)", text):
        for label in re.findall(r"\w+", labels):
            if label not in named | ADDED:
                complain(f"{where}: no metric of it has the label {label}: {text}")


def main():
    printed = subprocess.run([os.path.join(SOURCE, "scripts/metrics")], capture_output=True,
                             text=True, check=True).stdout
    if printed != read("docs/reference/metrics.md"):
        complain("docs/reference/metrics.md is out of date; run: make metrics")

    there = dict(series(metrics()))
    there["up"] = set()
    alerts = re.findall(r"^ +expr: (.*)$", read("monitoring/prometheus-alerts.yml"), re.M)
    if len(alerts) < 6:
        complain(f"only {len(alerts)} alerts were found")
    for text in alerts:
        check_expression(text, there, "monitoring/prometheus-alerts.yml")

    board = json.loads(read("monitoring/grafana-dashboard.json"))
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    if len({panel["id"] for panel in board["panels"]}) != len(board["panels"]):
        complain("two panels have the same id")
    for panel in panels:
        if not panel["targets"]:
            complain(f"the panel {panel['title']} shows nothing")
        for target in panel["targets"]:
            check_expression(target["expr"], there, f"the panel {panel['title']}")
    shown = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    for name in ("pawl_step_state_transitions_total", "pawl_step_duration_seconds_bucket",
                 "pawl_step_retries_total", "pawl_steps_by_state", "pawl_queue_jobs"):
        if name not in shown:
            complain(f"no panel shows {name}")


main()
