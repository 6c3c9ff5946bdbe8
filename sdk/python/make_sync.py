#!/usr/bin/env python3
"""Writes pawl/sync_client.py from pawl/client.py: the same verbs, without await.

usage: make_sync.py [--check]     with --check it only says whether the file is as it should be
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent / "pawl"
WORDS = [
    (r"async def", "def"), (r"async for", "for"), (r"await asyncio\.sleep", "time.sleep"),
    (r"await ", ""), (r"__aenter__", "__enter__"), (r"__aexit__", "__exit__"),
    (r"AsyncClient", "Client"), (r"AsyncTransport", "Transport"), (r"AsyncIterator", "Iterator"),
    (r"^import asyncio\nimport json\n", "import json\nimport time\n"),
]


def main() -> int:
    text = (HERE / "client.py").read_text(encoding="utf-8")
    body = text[text.index('"""', 3) + 3:]
    for pattern, word in WORDS:
        body = re.sub(pattern, word, body, flags=re.MULTILINE)
    body = body.replace("JOB_ENDS, Transport, Backoff, Endpoint, Request, path_of",
                        "JOB_ENDS, Backoff, Endpoint, Request, Transport, path_of")
    about = '"""Every verb of the HTTP API, for threads. Made from client.py by make_sync.py."""'
    made = about + body
    target = HERE / "sync_client.py"
    if sys.argv[1:] == ["--check"]:
        if target.read_text(encoding="utf-8") != made:
            print("sync_client.py is not made from client.py; run sdk/python/make_sync.py")
            return 1
        return 0
    target.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
