"""HTTP/1.1 as far as a Pawl server speaks it: connection pools, one for asyncio and one for
threads, and the rules for repeating a request.

Reads, PUTs and DELETEs may be repeated, and so may a POST, which carries an Idempotency-Key. So a
lost connection, a 429 and a 503 are tried again, with backoff and jitter, until the timeout of the
request is over. The one exception is a PATCH that expects a version. What the server refuses is
never repeated.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from typing import Any, AsyncIterator, Iterator, Mapping

from .errors import ApiError, ConnectionLost, RequestTimeout, TryLater, api_error
from .version import VERSION

DEFAULT_URL = "http://127.0.0.1:7295"
_BACKOFF_FIRST_S, _BACKOFF_MOST_S = 0.05, 2.0
_IDLE_CONNECTIONS_MOST = 16
_READ_SIZE = 65536
JOB_ENDS = frozenset({"job_completed", "job_failed", "job_cancelled", "job_dead_lettered"})


def path_of(*parts: str) -> str:
    """A path below /v1, each part percent-encoded."""
    return "/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where the server is, and who asks."""

    host: str
    port: int
    token: str | None
    tls: ssl.SSLContext | None
    prefix: str = ""

    @classmethod
    def of(cls, url: str | None, token: str | None) -> Endpoint:
        """From arguments, else PAWL_STORE, PAWL_TOKEN and PAWL_CA_FILE."""
        url = url or os.environ.get("PAWL_STORE") or DEFAULT_URL
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f'cannot reach a server at "{url}"; valid: http://HOST:PORT')
        tls = None
        if parts.scheme == "https":
            tls = ssl.create_default_context(cafile=os.environ.get("PAWL_CA_FILE"))
        token = token or os.environ.get("PAWL_TOKEN")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ValueError("the token contains a line break or other non-printable text")
        return cls(parts.hostname, parts.port or (443 if tls else 80), token, tls,
                   parts.path.rstrip("/"))


@dataclasses.dataclass(frozen=True)
class Request:
    """One request. `body` is JSON in bytes."""

    method: str
    path: str
    body: bytes | None = None
    timeout_s: float = 30.0
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None,
           timeout_s: float = 30.0) -> Request:
        """Encodes body and query, and gives what is not idempotent a key of its own. None in a
        query is left out, True and False are words, and lists are joined by commas."""
        if query:
            words = {name: _word(value) for name, value in query.items() if value is not None}
            path += "?" + urllib.parse.urlencode(words) if words else ""
        headers = {"Idempotency-Key": uuid.uuid4().hex} if method == "POST" else {}
        return cls(method, path, None if body is None else to_bytes(body), timeout_s, headers)

    @property
    def is_repeatable(self) -> bool:
        return self.method != "PATCH" or b'"expected_version"' not in (self.body or b"")

    def head(self, endpoint: Endpoint) -> bytes:
        lines = [f"{self.method} {endpoint.prefix}{self.path} HTTP/1.1",
                 f"Host: {endpoint.host}:{endpoint.port}", f"User-Agent: pawl-python/{VERSION}"]
        if endpoint.token:
            lines.append(f"Authorization: Bearer {endpoint.token}")
        if self.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        elif self.method in ("POST", "PUT", "PATCH"):
            lines.append("Content-Length: 0")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (self.body or b"")


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


# json.dumps with options makes an encoder for every call.
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_bytes(value: Any) -> bytes:
    """JSON in bytes."""
    return _encoder.encode(value).encode()


@dataclasses.dataclass
class Head:
    """The first part of a response."""

    status: int
    headers: dict[str, str]

    @classmethod
    def of(cls, text: bytes) -> Head:
        lines = text.decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines[1:] if line)
        try:
            status = int(lines[0].split(" ", 2)[1])
        except (IndexError, ValueError) as error:
            raise ConnectionLost(f"not an HTTP response: {lines[0]:.80}") from error
        return cls(status, {name.lower(): value.strip() for name, _, value in fields})

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "")

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", "0"))

    @property
    def keeps_open(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"


def result_of(head: Head, body: bytes) -> Any:
    """The JSON of a response; text where it is none. Raises ApiError when it says no."""
    is_json = "json" in head.headers.get("content-type", "")
    value: Any = json.loads(body) if is_json and body else body.decode("utf-8", "replace")
    if head.status < 400:
        return value
    if isinstance(value, dict) and "retry-after" in head.headers:
        value["retry_after_s"] = head.headers["retry-after"]
    raise api_error(head.status, value)


class Backoff:
    """When to try a request again: what to wait, and when to give up."""

    def __init__(self, timeout_s: float, is_repeatable: bool = True) -> None:
        self._end = time.monotonic() + timeout_s
        self._step_s = _BACKOFF_FIRST_S
        self._is_repeatable = is_repeatable

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    def next_s(self, error: Exception) -> float:
        """How long to wait before the request is sent again. Raises the error when it is not worth
        repeating or the time is over."""
        if not self._is_repeatable or not isinstance(error, (ConnectionLost, TryLater)):
            raise error
        wait_s = self._step_s * random.uniform(0.5, 1.0)
        if isinstance(error, TryLater):
            wait_s = max(wait_s, error.retry_after_s)
        if wait_s >= self.left_s:
            raise error
        self._step_s = min(self._step_s * 2, _BACKOFF_MOST_S)
        return wait_s


# ---- server-sent events -------------------------------------------------------------------------


class EventParser:
    """Lines of a stream to (id, type, data)."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._type, self._data = "", list[str]()

    def feed(self, line: str) -> tuple[str | None, str, str] | None:
        if line:
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "id":
                self.id = value
            elif name == "event":
                self._type = value
            elif name == "data":
                self._data.append(value)
            return None
        event = (self.id, self._type, "\n".join(self._data)) if self._data else None
        self._type, self._data = "", []
        return event


# ---- asyncio ------------------------------------------------------------------------------------


class _AsyncConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> Head:
        self.writer.write(data)
        await self.writer.drain()
        return Head.of(await self.reader.readuntil(b"\r\n\r\n"))

    async def body(self, head: Head) -> bytes:
        if head.is_chunked:
            return b"".join([chunk async for chunk in self.chunks()])
        return await self.reader.readexactly(head.length)

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int((await self.reader.readline()).split(b";")[0] or b"0", 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()

    def close(self) -> None:
        if not self.loop.is_closed():
            self.writer.close()


class AsyncTransport:
    """A pool of connections for asyncio. Belongs to no event loop: connections of a loop that has
    ended are left behind."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[_AsyncConnection] = []

    async def request(self, request: Request) -> Any:
        """Sends a request, again where that is safe, and gives the JSON of the response."""
        backoff = Backoff(request.timeout_s, request.is_repeatable)
        while True:
            try:
                return await asyncio.wait_for(self._once(request), backoff.left_s)
            except asyncio.TimeoutError:
                raise RequestTimeout(_no_response(request)) from None
            except (ConnectionLost, ApiError) as error:
                await asyncio.sleep(backoff.next_s(error))

    async def _once(self, request: Request) -> Any:
        connection = await self._connect()
        try:
            head = await connection.send(request.head(self.endpoint))
            body = await connection.body(head)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            connection.close()
            raise ConnectionLost(f"{request.method} {request.path}: {error}") from error
        except BaseException:
            connection.close()
            raise
        if head.keeps_open and len(self._idle) < _IDLE_CONNECTIONS_MOST:
            self._idle.append(connection)
        else:
            connection.close()
        return result_of(head, body)

    async def _connect(self) -> _AsyncConnection:
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is loop and not connection.reader.at_eof():
                return connection
            connection.close()
        where = self.endpoint
        try:
            return _AsyncConnection(*await asyncio.open_connection(
                where.host, where.port, ssl=where.tls))
        except OSError as error:
            raise ConnectionLost(f"cannot reach {where.host}:{where.port}: {error}") from error

    async def stream(self, request: Request) -> AsyncIterator[tuple[str | None, str, str]]:
        """Server-sent events of one connection, until it ends: (id, type, data)."""
        connection = await self._connect()
        try:
            head = await connection.send(request.head(self.endpoint))
            if head.status >= 400 or not head.is_chunked:
                result_of(head, await connection.body(head))
                raise ConnectionLost(f"{request.path} is not a stream")
            parser, rest = EventParser(), b""
            async for chunk in connection.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = parser.feed(line.decode().rstrip("\r"))
                    if event:
                        yield event
        except (OSError, EOFError, ValueError) as error:
            raise ConnectionLost(f"{request.path}: {error}") from error
        finally:
            connection.close()

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


# ---- threads ------------------------------------------------------------------------------------


class _Connection:
    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        plain = socket.create_connection((endpoint.host, endpoint.port), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain
        if endpoint.tls is not None:
            self.socket = endpoint.tls.wrap_socket(plain, server_hostname=endpoint.host)
        self.file = self.socket.makefile("rb", _READ_SIZE)

    def send(self, data: bytes) -> Head:
        self.socket.sendall(data)
        lines = []
        while (line := self.file.readline(_READ_SIZE)) not in (b"\r\n", b""):
            lines.append(line)
        if not lines:
            raise EOFError("the server closed the connection")
        return Head.of(b"".join(lines))

    def body(self, head: Head) -> bytes:
        if head.is_chunked:
            return b"".join(self.chunks())
        return self._exactly(head.length)

    def chunks(self) -> Iterator[bytes]:
        while size := int(self.file.readline().split(b";")[0] or b"0", 16):
            yield self._exactly(size + 2)[:-2]
        self.file.readline()

    def _exactly(self, size: int) -> bytes:
        data: bytes = self.file.read(size)
        if len(data) < size:
            raise EOFError("the server closed the connection")
        return data

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Transport:
    """A pool of connections for threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    def request(self, request: Request) -> Any:
        """Sends a request, again where that is safe, and gives the JSON of the response."""
        backoff = Backoff(request.timeout_s, request.is_repeatable)
        while True:
            try:
                return self._once(request, max(backoff.left_s, 0.001))
            except (ConnectionLost, ApiError) as error:
                time.sleep(backoff.next_s(error))

    def _once(self, request: Request, timeout_s: float) -> Any:
        connection = self._connect(timeout_s)
        try:
            head = connection.send(request.head(self.endpoint))
            body = connection.body(head)
        except TimeoutError:
            connection.close()
            raise RequestTimeout(_no_response(request)) from None
        except (OSError, EOFError, ValueError) as error:
            connection.close()
            raise ConnectionLost(f"{request.method} {request.path}: {error}") from error
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if head.keeps_open and len(self._idle) < _IDLE_CONNECTIONS_MOST:
                self._idle.append(connection)
            else:
                connection.close()
        return result_of(head, body)

    def _connect(self, timeout_s: float | None) -> _Connection:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            connection.socket.settimeout(timeout_s)
            return connection
        where = self.endpoint
        try:
            return _Connection(where, 30.0 if timeout_s is None else timeout_s)
        except OSError as error:
            raise ConnectionLost(f"cannot reach {where.host}:{where.port}: {error}") from error

    def stream(self, request: Request) -> Iterator[tuple[str | None, str, str]]:
        """Server-sent events of one connection, until it ends: (id, type, data)."""
        connection = self._connect(60.0)  # a comment comes every 15 seconds
        try:
            head = connection.send(request.head(self.endpoint))
            if head.status >= 400 or not head.is_chunked:
                result_of(head, connection.body(head))
                raise ConnectionLost(f"{request.path} is not a stream")
            parser, rest = EventParser(), b""
            for chunk in connection.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = parser.feed(line.decode().rstrip("\r"))
                    if event:
                        yield event
        except (OSError, EOFError, ValueError) as error:
            raise ConnectionLost(f"{request.path}: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.pop().close()


def _no_response(request: Request) -> str:
    return f"{request.method} {request.path}: no response within {request.timeout_s:g} s"
