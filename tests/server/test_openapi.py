#!/usr/bin/env python3
"""/openapi.json passes a linter that people use.

usage: test_openapi.py BUILD_DIRECTORY SOURCE_DIRECTORY

What /openapi.json says of requests and answers is held against them by test_auth_matrix.py.
"""
import json
import subprocess
import sys

from surface import Server
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


def every_route_is_in_the_manual():
    server = Server()
    document = server.do("GET", "/openapi.json")
    server.end()
    with open(f"{SOURCE}/docs/http.md", encoding="utf-8") as page:
        text = page.read()
    for path, operations in document["paths"].items():
        for method in operations:
            check(f"`{method.upper()} {path}`" in text, "docs/http.md lacks", method, path)


run(the_document_passes_the_linter, every_operation_is_told_in_words, every_route_is_in_the_manual)
