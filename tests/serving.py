"""Real servers for tests: on a socket of 127.0.0.1 with a port that the system chooses.

`serving(...)` runs one in a thread of the test, `server_process(...)` runs the program. Both end
with their block, whatever happened in it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from omnigraph.server.boot import GraphSource
from omnigraph.server.listeners import LISTEN_LINE
from omnigraph.server.main import ServeRequest, http_server, listen, open_runtime
from omnigraph.settings import Secret, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.access import AccessPolicy
    from omnigraph.server.runtime import ServerRuntime

TOKEN = "token-of-alice"  # noqa: S105 - a token of tests
ACTOR = "alice"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveServer:
    """A server that listens."""

    url: str
    runtime: ServerRuntime

    def client(self, token: str | None = None) -> httpx.Client:
        """A client of it; without a token it sends none."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)


@contextlib.contextmanager
def serving(
    graphs: Mapping[str, Path | str],
    *,
    tokens: Mapping[str, str] | None = None,
    policies: Mapping[str, AccessPolicy] | None = None,
    server_policy: AccessPolicy | None = None,
    queries: Mapping[str, Path] | None = None,
    settings: Settings | None = None,
) -> Iterator[LiveServer]:
    """Serve graphs by id; `tokens` gives the token of each actor, without it the server is open.

    `queries` gives the folder with the stored queries of a graph.
    """
    settings = settings or Settings()
    given = _tokens_json(tokens)
    server_settings = replace(
        settings.server, bearer_tokens_json=given, unauthenticated=given is None
    )
    source = GraphSource(
        uris={graph_id: str(path) for graph_id, path in graphs.items()},
        policies=policies or {},
        server_policy=server_policy,
        queries={graph_id: [str(folder)] for graph_id, folder in (queries or {}).items()},
    )
    runtime = open_runtime(
        ServeRequest(source=source, settings=replace(settings, server=server_settings))
    )
    listener = listen("127.0.0.1:0")
    server = http_server(runtime)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield LiveServer(url=f"http://127.0.0.1:{listener.getsockname()[1]}", runtime=runtime)
    finally:
        server.stop()
        thread.join()
        runtime.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """The program, which listens."""

    url: str
    process: subprocess.Popen[str]

    def end(self) -> tuple[int, str, str]:
        """Ask it to stop: its exit code, and what it wrote after the line that it listens."""
        self.process.terminate()
        output, log = self.process.communicate(timeout=120)
        return self.process.returncode, output, log


@contextlib.contextmanager
def server_process(*arguments: str | Path, **environ: str) -> Iterator[ServerProcess]:
    """Run `omnigraph-server` with these arguments, on a port that the system chooses."""
    inherited = {name: value for name, value in os.environ.items() if "OMNIGRAPH" not in name}
    process = subprocess.Popen(
        [Path(sys.executable).with_name("omnigraph-server"), *arguments, "--bind", "127.0.0.1:0"],
        env=inherited | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate()[1])
        yield ServerProcess(url=f"http://{line.strip().removeprefix(LISTEN_LINE)}", process=process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _tokens_json(tokens: Mapping[str, str] | None) -> Secret | None:
    if tokens is None:
        return None
    import json

    return Secret(json.dumps(dict(tokens)))
