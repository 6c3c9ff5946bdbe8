#!/usr/bin/env python3
"""/openapi.json passes a linter that people use.

usage: test_openapi.py BUILD_DIRECTORY SOURCE_DIRECTORY

What /openapi.json says of requests is held against them by test_auth_matrix.py, what it says of
responses by test_recorded.py, against all that the tests of the HTTP server have seen.
"""
import json
import subprocess
import sys

from surface import ADMIN, Server
from trouble import BUILD, PATIENCE_S, SOURCE, check, place, run


def the_document_passes_the_linter():
    tools = f"{BUILD}/openapi-lint"
    installed = subprocess.run([f"{SOURCE}/scripts/npm-install", f"{SOURCE}/tests/openapi", tools],
                               timeout=5 * PATIENCE_S, stdout=sys.stdout, stderr=sys.stdout)
    check(installed.returncode == 0, "the linter could not be installed")
    server = Server()
    document = server.do("GET", "/openapi.json")
    server.end()
    with open(f"{place}/openapi.json", "w", encoding="utf-8") as file:
        json.dump(document, file)
    linted = subprocess.run(["node", f"{SOURCE}/tests/openapi/lint.mjs", tools,
                             f"{place}/openapi.json"], timeout=PATIENCE_S, capture_output=True,
                            text=True)
    check(linted.returncode == 0, linted.stdout, linted.stderr)


def every_operation_is_told_in_words():
    server = Server()
    document = server.do("GET", "/openapi.json")
    server.end()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            check(operation["summary"] and operation["tags"], method, path)
            check(operation["responses"], method, path)
            for parameter in operation["parameters"]:
                check("$ref" in parameter or parameter["description"], method, path, parameter)


def a_wait_offers_what_a_worker_may_wait_for():
    server = Server()
    document = server.do("GET", "/openapi.json")
    job = server.do("POST", "/v1/jobs", {"kind": "k"})
    lease = server.do("POST", "/v1/claims", {"worker_id": "w"})["claims"][0]["lease"]
    form = document["paths"]["/v1/leases/{token}/wait"]["post"]["requestBody"]["content"]
    offered = form["application/json"]["schema"]["properties"]["type"]["enum"]
    check(offered == ["webhook", "human", "timer", "signal"], offered)
    for kind in ("steps", "replan"):
        status, problem = server.ask(ADMIN, "POST", f"/v1/leases/{lease['token']}/wait",
                                     {"type": kind, "correlation_key": "x"})
        check(status == 400 and "webhook" in problem["detail"], kind, status, problem)
    check(server.do("GET", f"/v1/jobs/{job['id']}")["status"] == "running")
    server.end()


def every_route_is_in_the_manual():
    server = Server()
    document = server.do("GET", "/openapi.json")
    server.end()
    with open(f"{SOURCE}/docs/reference/http-routes.md", encoding="utf-8") as page:
        text = page.read()
    for path, operations in document["paths"].items():
        for method in operations:
            route = path.split("#")[0]
            check(f"`{method.upper()} {route}`" in text, "docs/reference/http-routes.md lacks", method, path)


run(the_document_passes_the_linter, every_operation_is_told_in_words,
    a_wait_offers_what_a_worker_may_wait_for, every_route_is_in_the_manual)
