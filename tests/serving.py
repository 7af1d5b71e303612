"""Real servers for tests: on a socket of 127.0.0.1 with a port that the system chooses.

`serving(...)` runs one in a thread of the test, `server_process(...)` runs the program. Both end
with their block, whatever happened in it, and fail if they let out a secret that was planted.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from tests.canaries import PLANTED, Canaries, arguments_of, children_of, planted

from omnigraph.server.app import create_app
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
    maintains: bool = False,
) -> Iterator[LiveServer]:
    """Serve graphs by id; `tokens` gives the token of each actor, without it the server is open.

    `queries` gives the folder with the stored queries of a graph. With `maintains` it does what is
    due on the graphs, too.
    """
    settings = planted(settings or Settings())
    canaries = Canaries([*(tokens or {}).values(), *PLANTED.values()])
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
        ServeRequest(
            source=source,
            settings=replace(settings, server=server_settings),
            maintains=maintains,
        )
    )
    listener = listen("127.0.0.1:0")
    server = http_server(runtime)
    server.config.app = canaries.watching(create_app(runtime))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    with canaries.hearing_logs():
        try:
            yield LiveServer(url=f"http://127.0.0.1:{listener.getsockname()[1]}", runtime=runtime)
        finally:
            server.stop()
            thread.join()
            canaries.search("the metrics", runtime.metrics.render())
            runtime.close()
    log = server_settings.audit_log
    if log is not None and Path(log).is_file():
        canaries.search("the audit log", Path(log).read_bytes())
    canaries.require_none()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """The program, which listens."""

    url: str
    process: subprocess.Popen[str]
    canaries: Canaries

    def workers(self) -> list[int]:
        """The processes that answer, without the one that looks after what they share."""
        children = children_of(self.process.pid)
        return [pid for pid in children if b"spawn_main" in arguments_of(pid)]

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end: its exit code, and what it wrote after the line that it listens."""
        output, log = self.process.communicate(timeout=120)
        self.canaries.search("the output of a server", output)
        self.canaries.search("the log of a server", log)
        return self.process.returncode, output, log

    def end(self) -> tuple[int, str, str]:
        """Ask it to stop: its exit code, and what it wrote after the line that it listens."""
        self.canaries.search_arguments(self.process.pid)
        self.process.terminate()
        return self.ended()


@contextlib.contextmanager
def server_process(*arguments: str | Path, **environ: str) -> Iterator[ServerProcess]:
    """Run `omnigraph-server` with these arguments, on a port that the system chooses."""
    inherited = {name: value for name, value in os.environ.items() if "OMNIGRAPH" not in name}
    given = PLANTED | environ
    tokens = json.loads(environ.get("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON", "{}"))
    canaries = Canaries([*tokens.values(), *(given[name] for name in PLANTED)])
    process = subprocess.Popen(
        [Path(sys.executable).with_name("omnigraph-server"), *arguments, "--bind", "127.0.0.1:0"],
        env=inherited | given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate()[1])
        url = f"http://{line.strip().removeprefix(LISTEN_LINE)}"
        server = ServerProcess(url=url, process=process, canaries=canaries)
        yield server
        if process.poll() is None:
            canaries.search_arguments(process.pid)
            process.kill()
            server.ended()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    canaries.require_none()


def _tokens_json(tokens: Mapping[str, str] | None) -> Secret | None:
    if tokens is None:
        return None
    return Secret(json.dumps(dict(tokens)))
