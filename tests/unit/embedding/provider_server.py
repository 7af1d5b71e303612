"""A real HTTP server that plays the embedding providers, well or badly, on the loopback interface.

The vector of a text follows from the text alone and does not have length 1, so that a test sees
both the order of the rows and that they were normalised.
"""

import json
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from omnigraph.clock import ManualClock, SystemClock
from omnigraph.embedding import CheckedEmbedder, open_embedder
from omnigraph.ids import seeded_ids
from omnigraph.settings import EmbeddingSettings, Secret

KEY = "sk-key-that-nobody-may-see"
KEYS = {
    "openai-compatible": EmbeddingSettings(openrouter_api_key=Secret(KEY)),
    "openai": EmbeddingSettings(openai_api_key=Secret(KEY)),
    "gemini": EmbeddingSettings(gemini_api_key=Secret(KEY)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]  # Any: JSON

    @property
    def texts(self) -> list[str]:
        if "input" in self.body:
            return list(self.body["input"])
        return [each["content"]["parts"][0]["text"] for each in self.parts]

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The requests inside a Gemini request."""
        return list(self.body["requests"]) if "requests" in self.body else [self.body]

    @property
    def dimension(self) -> int:
        if "dimensions" in self.body:
            return int(self.body["dimensions"])
        return int(self.parts[0]["outputDimensionality"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How to answer one request; without a body with good vectors."""

    status: int = 200
    reason: str = "a reason"
    headers: dict[str, str] = field(default_factory=dict)
    body: Callable[[Seen], bytes] | None = None
    waits: bool = False
    """Answer only when the server stops."""
    drips: bool = False
    """Send the head, then a byte now and then."""
    cuts: bool = False
    """Send half of the body and hang up."""


GOOD = Answer()


def rows_for(texts: Sequence[str], dimension: int) -> list[list[float]]:
    """The vectors that the server gives, not of length 1."""
    return [[float(ord(text[at % len(text)]) + at) for at in range(dimension)] for text in texts]


def unit_rows(texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
    """What the client makes of them."""
    rows = np.array(rows_for(texts, dimension), dtype=np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit: npt.NDArray[np.float32] = (rows / lengths).astype(np.float32)
    return unit


def good_body(seen: Seen) -> bytes:
    """A good answer in the words of the provider whose path was asked."""
    rows = rows_for(seen.texts, seen.dimension)
    if seen.path.endswith(":embedContent"):
        return json.dumps({"embedding": {"values": rows[0]}}).encode()
    if seen.path.endswith(":batchEmbedContents"):
        return json.dumps({"embeddings": [{"values": row} for row in rows]}).encode()
    data = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
    return json.dumps({"object": "list", "data": data}).encode()


def openai_body(change: Callable[[list[dict[str, Any]]], object]) -> Answer:
    """A good answer of an OpenAI provider whose list of vectors was changed first."""

    def body(seen: Seen) -> bytes:
        answer = json.loads(good_body(seen))
        return json.dumps({"data": change(answer["data"])}).encode()

    return Answer(body=body)


class ProviderServer(ThreadingHTTPServer):
    """Answers as the script says, then well, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[Seen] = []
        self.script: list[Answer] = []
        self.connections = 0
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/base"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - inherited
        """A client that hung up is no error of the server; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ProviderServer

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(path=self.path, headers=headers, body=json.loads(data))
        with self.server.lock:
            self.server.seen.append(seen)
            answer = self.server.script.pop(0) if self.server.script else GOOD
        self._answer(answer, (answer.body or good_body)(seen))

    def _answer(self, answer: Answer, body: bytes) -> None:
        if answer.waits:
            self.server.stopping.wait()
        self.send_response(answer.status, answer.reason)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if answer.drips:
            self._drip(body)
        elif answer.cuts:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def _drip(self, body: bytes) -> None:
        for at in range(len(body)):
            self.wfile.write(body[at : at + 1])
            if self.server.stopping.wait(0.02):
                self.close_connection = True
                return

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Opener:
    """Opens embedders that ask one server; pauses move the clock instead of waiting."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = ManualClock(now_us=1_794_765_848_000_000)
        self.pauses: list[float] = []
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def open(
        self,
        provider: str = "openai",
        *,
        is_real_time: bool = False,
        **settings: str | int | Secret | None,
    ) -> CheckedEmbedder:
        # Any: each value has the type of its own field.
        fields: dict[str, Any] = {"provider": provider, "base_url": self.url, **settings}
        return self._opened.enter_context(
            open_embedder(
                replace(KEYS.get(provider, EmbeddingSettings()), **fields),
                SystemClock() if is_real_time else self.clock,
                ids=seeded_ids(7, self.clock),
                pause=self._pause,
            )
        )

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(us=round(seconds * 1e6))
