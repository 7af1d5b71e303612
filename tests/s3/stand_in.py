"""An S3 server on the loopback interface, for tests and benchmarks.

`StandIn` serves moto's S3 from a thread of this process and can be told to count, delay, refuse and
fail requests. `stand_in_process` is the same server in a process of its own, for measurements that
must not share an interpreter with it: `python -m tests.s3.stand_in --delay-ms 20` prints its
endpoint as one line and ends when its input closes.

Moto keeps objects per process, so two stand-ins of one process show the same ones: give each test a
prefix of its own (`Endpoint.uri`). Moto checks no signature; `access` stands for what credentials
may do. It never answers 409 to a conditional put, as S3 may while another put is under way.
"""

import argparse
import http.client
import itertools
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import parse_qs
from weakref import WeakSet

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from obstore.store import S3Store
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from obstore.store import RetryConfig, S3Config

BUCKET = "omnigraph"
REGION = "us-east-1"

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a stand-in listens, and how each client is told."""

    url: str

    def environment(self) -> dict[str, str]:
        """The variables from which Lance and obstore configure themselves."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def storage_options(self, **more: str) -> dict[str, str]:
        """The same as options of Lance, which are also the `config` of an obstore `S3Store`."""
        named = {name.lower(): value for name, value in self.environment().items()}
        return named | more

    def uri(self, path: str = "") -> str:
        """The address of a path in the bucket that every stand-in has."""
        return f"s3://{BUCKET}/{path}"

    def store(self, prefix: str | None = None, *, max_retries: int = 0) -> S3Store:
        """The bucket, or a prefix of it, as obstore sees it."""
        config = cast("S3Config", self.storage_options())  # its keys are spelled out there
        retrying: RetryConfig = {"max_retries": max_retries}
        return S3Store(BUCKET, prefix=prefix, config=config, retry_config=retrying)


class Kind(StrEnum):
    """What a request asks for."""

    GET = auto()
    HEAD = auto()
    LIST = auto()
    CREATE = auto()
    PUT = auto()
    COPY = auto()
    UPLOAD = auto()
    DELETE = auto()
    BUCKET = auto()


WRITES = frozenset({Kind.CREATE, Kind.PUT, Kind.COPY, Kind.UPLOAD, Kind.DELETE, Kind.BUCKET})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as the server saw it; `path` begins with the bucket."""

    method: str
    kind: Kind
    path: str
    ranges: str | None = None
    session_token: str | None = None


class Failure(Enum):
    """What happens to a request that is to fail."""

    ERROR = 500
    """Answered 500 and not performed."""
    UNAVAILABLE = 503
    """Answered 503 (`SlowDown`) and not performed."""
    DROPPED = auto()
    """The connection is closed and nothing is performed."""
    LOST_ANSWER = auto()
    """Performed, then answered 500: the acknowledgement is lost."""
    LOST_CONNECTION = auto()
    """Performed, then the connection is closed without an answer."""


class Access(Enum):
    """What the credentials allow; the rest is answered 403."""

    FULL = auto()
    READ_ONLY = auto()
    NONE = auto()


@dataclass(slots=True)
class _Fault:
    failure: Failure
    first: int
    times: int
    kinds: frozenset[Kind]
    seen: int = 0

    def hits(self, kind: Kind) -> bool:
        if kind not in self.kinds:
            return False
        self.seen += 1
        return self.first <= self.seen < self.first + self.times


@dataclass(slots=True)
class Seen:
    """The requests of a stretch of time, in the order of their arrival."""

    requests: list[Request] = field(default_factory=list)

    @property
    def kinds(self) -> Counter[str]:
        """How many there were of each kind."""
        return Counter(request.kind.value for request in self.requests)

    @property
    def methods(self) -> Counter[str]:
        """How many there were of each HTTP method."""
        return Counter(request.method for request in self.requests)

    def __len__(self) -> int:
        return len(self.requests)


class StandIn:
    """A running S3 server; leaving the context stops it and cuts every connection.

    `delay_s`, `access` and `ignores_conditions` may be changed at any time; with the last one a
    conditional put always succeeds, as in stores that know none. Safe to use from several threads.
    """

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.access = Access.FULL
        self.ignores_conditions = False
        self._app: WSGIApplication = create_backend_app("s3")
        self._state = threading.Lock()
        # Moto looks whether a key exists and then stores it, with nothing in between to stop a
        # second request: of 8 conditional puts of one name, two may win. Inside the lock one
        # request is performed at a time, so S3's promise holds.
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()
        self._faults: list[_Fault] = []
        self._watchers: list[Seen] = []
        self._connections: WeakSet[socket.socket] = WeakSet()
        self._server = make_server(
            "127.0.0.1", 0, self._serve, threaded=True, request_handler=_Handler
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", self._server.server_port)
        connection.request("PUT", f"/{BUCKET}")
        connection.getresponse().read()
        connection.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens; the port is the system's choice."""
        return Endpoint(url=f"http://127.0.0.1:{self._server.server_port}")

    def environment(self) -> dict[str, str]:
        """What a child process needs in its environment."""
        return self.endpoint.environment()

    def storage_options(self, **more: str) -> dict[str, str]:
        """What Lance and obstore need as options."""
        return self.endpoint.storage_options(**more)

    def uri(self, path: str = "") -> str:
        """The address of a path in the bucket."""
        return self.endpoint.uri(path)

    def stop(self) -> None:
        """Ends the server: what comes later is refused, what is under way loses its connection."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self._state:
            connections = list(self._connections)
        for connection in connections:
            _cut(connection)

    def forget(self) -> None:
        """Drops all objects of this process and makes every request plain again."""
        self.delay_s, self.access, self.ignores_conditions = 0.0, Access.FULL, False
        with self._state:
            self._faults.clear()
        with self._one_at_a_time:
            backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
            backend.reset()
            backend.create_bucket(BUCKET, REGION)

    def fail(
        self,
        failure: Failure,
        *,
        nth: int = 1,
        times: int = sys.maxsize,
        kinds: Iterable[Kind] = Kind,
    ) -> None:
        """Fails the n-th request of these kinds from now on, and the `times - 1` after it."""
        with self._state:
            self._faults.append(_Fault(failure, nth, times, frozenset(kinds)))

    def heal(self) -> None:
        """Forgets every failure that was asked for."""
        with self._state:
            self._faults.clear()

    @contextmanager
    def watching(self) -> Iterator[Seen]:
        """Collects the requests that arrive meanwhile, refused and failed ones too."""
        seen = Seen()
        with self._state:
            self._watchers.append(seen)
        try:
            yield seen
        finally:
            with self._state:
                # By identity: two watchers that saw the same requests are equal.
                self._watchers = [each for each in self._watchers if each is not seen]

    def _serve(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        # The body is read first, so that a slow sender never holds the lock.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(length))
        connection = cast("socket.socket", environ["werkzeug.socket"])  # what werkzeug puts there
        request = _request(environ)
        if self.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        failure = self._arrived(request, connection)
        if self.delay_s:
            self._stopping.wait(self.delay_s)
        if self._stopping.is_set() or failure is Failure.DROPPED:
            return _drop(connection, start)
        if self._refuses(request.kind):
            return _error(start, 403, "AccessDenied")
        if failure is None:
            return self._perform(environ, start)
        if failure in (Failure.LOST_ANSWER, Failure.LOST_CONNECTION):
            self._perform(environ, _unheard)
        if failure is Failure.LOST_CONNECTION:
            return _drop(connection, start)
        if failure is Failure.UNAVAILABLE:
            return _error(start, 503, "SlowDown")
        return _error(start, 500, "InternalError")

    def _arrived(self, request: Request, connection: socket.socket) -> Failure | None:
        with self._state:
            self._connections.add(connection)
            for watcher in self._watchers:
                watcher.requests.append(request)
            hit = [fault.failure for fault in self._faults if fault.hits(request.kind)]
        return hit[0] if hit else None

    def _refuses(self, kind: Kind) -> bool:
        return self.access is Access.NONE or (self.access is Access.READ_ONLY and kind in WRITES)

    def _perform(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        with self._one_at_a_time:
            answer = self._app(environ, start)
            try:
                return [b"".join(answer)]
            finally:
                close: Callable[[], None] = getattr(answer, "close", lambda: None)
                close()


class _Handler(MotoRequestHandler):
    # Head and body of an answer are two writes; with Nagle's algorithm the second one would wait
    # for the client's delayed acknowledgement, 40 ms on Linux.
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing: the watchers know."""


def _request(environ: "WSGIEnvironment") -> Request:
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"].lstrip("/")
    return Request(
        method=method,
        kind=_kind(method, path, environ),
        path=path,
        ranges=environ.get("HTTP_RANGE"),
        session_token=environ.get("HTTP_X_AMZ_SECURITY_TOKEN"),
    )


def _kind(method: str, path: str, environ: "WSGIEnvironment") -> Kind:
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if "delete" in query:
        return Kind.DELETE
    if {"uploads", "uploadId"} & query.keys():
        return Kind.UPLOAD
    if "/" not in path.rstrip("/"):
        return Kind.LIST if method == "GET" else Kind.BUCKET
    if method == "PUT" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return Kind.COPY
    if method == "PUT" and environ.get("HTTP_IF_NONE_MATCH") == "*":
        return Kind.CREATE
    return Kind(method.lower())


def _error(start: "StartResponse", status: int, code: str) -> list[bytes]:
    body = f"<Error><Code>{code}</Code><Message>the stand-in was told to</Message></Error>".encode()
    reason = http.client.responses[status]
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    start(f"{status} {reason}", headers)
    return [body]


def _drop(connection: socket.socket, start: "StartResponse") -> list[bytes]:
    _cut(connection)
    start("500 Internal Server Error", [])
    return []


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The client was faster.
        return


def _unheard(
    _status: str, _headers: list[tuple[str, str]], _error: object = None, /
) -> Callable[[bytes], object]:
    return lambda _data: None


@contextmanager
def stand_in_process(*, delay_ms: float = 0.0) -> Iterator[Endpoint]:
    """Runs a stand-in in another process for as long as the context lasts."""
    program = [sys.executable, "-m", "tests.s3.stand_in", "--delay-ms", str(delay_ms)]
    with subprocess.Popen(
        program, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        if server.stdin is None or server.stdout is None:
            message = "a pipe was asked for"
            raise RuntimeError(message)
        try:
            yield Endpoint(url=server.stdout.readline().strip())
        finally:
            server.stdin.close()
            server.wait(timeout=30)


def main(arguments: list[str]) -> None:
    """Serves until the input closes."""
    parser = argparse.ArgumentParser(prog="tests.s3.stand_in", description="An S3 stand-in.")
    parser.add_argument("--delay-ms", type=float, default=0.0)
    options = parser.parse_args(arguments)
    with StandIn(delay_s=options.delay_ms / 1000) as server:
        sys.stdout.write(server.endpoint.url + "\n")
        sys.stdout.flush()
        for _ in itertools.takewhile(bool, iter(sys.stdin.readline, None)):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
