#!/usr/bin/env python3
"""Every response that the tests of the HTTP server have seen is as /openapi.json says.

usage: test_recorded.py BUILD_DIRECTORY SOURCE_DIRECTORY RECORDS

RECORDS is a directory with what record.c has written: lines of method, url, status and body. Each
must be documented (route, status), valid by its schema, and without a member that the schema does
not name. scripts/run-tests runs this when all other tests have ended.
"""
import collections
import json
import pathlib
import re
import sys

import jsonschema

from surface import Server
from trouble import check, run

RECORDS = pathlib.Path(sys.argv[3])
SHOWN_MAX = 40


def closed(schema, inside_all_of=False):
    """A copy of the schema in which objects with named members have no others. A part of an allOf
    is left open: the whole says what there may be."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {}
    for key, value in schema.items():
        if key == "allOf":
            copy[key] = [closed(part, True) for part in value]
        elif key in ("properties", "patternProperties"):
            copy[key] = {name: closed(part) for name, part in value.items()}
        elif key in ("examples", "enum", "required", "const", "default"):
            copy[key] = value
        else:
            copy[key] = closed(value)
    if not inside_all_of and "additionalProperties" not in schema and (
            "properties" in schema or "allOf" in schema):
        copy["unevaluatedProperties"] = False
    return copy


class Routes:
    def __init__(self, document):
        self.components = document["components"]
        self.open = {name for schema in self.schemas(document) for name in self.extended(schema)}
        schemas = {name: closed(schema, name in self.open)
                   for name, schema in self.components["schemas"].items()}
        self.store = {**self.components, "schemas": schemas}
        self.routes = []
        for path, operations in document["paths"].items():
            pattern = re.compile("".join(
                "[^/]+" if part.startswith("{") else re.escape(part)
                for part in re.split(r"(\{[^}]+\})", path)) + "$")
            self.routes += [(method.upper(), path.count("{"), pattern, operation)
                            for method, operation in operations.items()]
        # A path that is spelled out goes before one with a name in it.
        self.routes.sort(key=lambda route: route[1])
        self.validators = {}

    @staticmethod
    def schemas(document):
        def walk(value):
            if isinstance(value, dict):
                yield value
                for part in value.values():
                    yield from walk(part)
            elif isinstance(value, list):
                for part in value:
                    yield from walk(part)
        return walk(document)

    @staticmethod
    def extended(schema):
        """Names of the schemas to which this one adds members."""
        for part in schema.get("allOf", []) if isinstance(schema.get("allOf"), list) else []:
            if "$ref" in part:
                yield part["$ref"].split("/")[-1]

    def find(self, method, url, body):
        path = url.split("?")[0]
        if path == "/v1/batch":
            path = "/v1/ops"  # by its older name
        if method == "POST" and path == "/v1/jobs" and "jobs" in body:
            path += "#many"
        method = "GET" if method == "HEAD" else method
        for known, _, pattern, operation in self.routes:
            if known == method and pattern.match(path):
                return operation
        return None

    def problems(self, record):
        operation = self.find(record["method"], record["url"], record["body"])
        if operation is None:
            # Nothing is promised of what is not there but that it says so.
            if record["status"] not in (400, 401, 403, 404, 405, 413, 429, 503):
                yield "undocumented route"
            schema = {"$ref": "#/components/schemas/Problem"}
            key = "Problem"
        else:
            name = operation["operationId"]
            part = operation["responses"].get(str(record["status"]))
            if part is None:
                yield f"{name}: undocumented status {record['status']}"
                return
            if "$ref" in part:
                part = self.components["responses"][part["$ref"].split("/")[-1]]
            if "content" not in part:
                yield f"{name} {record['status']}: undocumented body"
                return
            schema = next(iter(part["content"].values()))["schema"]
            key = (name, record["status"])
        if key not in self.validators:
            schema = closed(schema) if "$ref" not in schema else schema
            # A schema that others extend is closed where it is used by itself.
            if "$ref" in schema and schema["$ref"].split("/")[-1] in self.open:
                schema = {"allOf": [schema], "unevaluatedProperties": False}
            self.validators[key] = jsonschema.Draft202012Validator(
                {**schema, "components": self.store})
        for problem in self.validators[key].iter_errors(record["body"]):
            best = jsonschema.exceptions.best_match([problem])
            where = "/".join(re.sub(r"^\d+$", "#", str(step)) for step in best.absolute_path)
            yield f"{key}: {where or 'body'}: {best.message[-300:]}"


def every_recorded_response_is_as_documented():
    server = Server()
    routes = Routes(server.do("GET", "/openapi.json"))
    server.end()
    seen = 0
    operations = set()
    found = collections.OrderedDict()
    for path in sorted(RECORDS.glob("**/*.jsonl")):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                seen += 1
                operation = routes.find(record["method"], record["url"], record["body"])
                if operation is not None and record["status"] < 300:
                    operations.add(operation["operationId"])
                for problem in routes.problems(record):
                    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "#", problem)
                    found.setdefault(text, (problem, path.name, line.strip()[:600]))
    print(f"{seen} shapes of responses, {len(operations)} operations that succeeded")
    for problem, name, line in list(found.values())[:SHOWN_MAX]:
        print(f"FAIL {problem}\n  in {name}: {line}")
    check(seen > 0, "nothing was recorded")
    check(not found, f"{len(found)} kinds of responses differ from /openapi.json")


run(every_recorded_response_is_as_documented)
