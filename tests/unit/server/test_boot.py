"""How a server starts, what it says, what it refuses to start with, and how it ends."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.serving import server_process

from omnigraph.errors import ClusterRefused, OmnigraphError, SettingInvalid, UsageError
from omnigraph.server.auth import read_tokens
from omnigraph.server.boot import (
    GraphSource,
    QuarantinedGraph,
    ServedGraphs,
    parse_assignments,
    parse_graph_options,
)
from omnigraph.server.listeners import address_of, hold_port, listen, share_port
from omnigraph.server.logs import start_server_logging
from omnigraph.server.main import open_runtime
from omnigraph.server.metrics import Metrics, merged
from omnigraph.server.plan import ServeRequest, plan_server
from omnigraph.server.runtime import ServerRuntime
from omnigraph.server.runtime_state import RuntimeState, classify
from omnigraph.server.worker import METRICS
from omnigraph.server.workers import Workers, _Worker
from omnigraph.settings import LogLevel, Secret, ServerSettings, Settings, StorageSettings

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-4b1f-not-to-be-seen"
PEOPLE = "query people() { match { $p: Person } return { $p.name } }"


def test_a_server_says_what_it_serves_and_never_a_token(graph_path: Path) -> None:
    tokens = json.dumps({"alice": CANARY})
    with server_process(
        graph_path,
        "--no-maintenance",
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=tokens,
        OMNIGRAPH_LOG="debug",
        OMNIGRAPH_LOG_FORMAT="json",
    ) as server:
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {CANARY}"}) as me:
            answers = [
                me.post("/graphs/default/query", json={"query": PEOPLE}),
                me.post("/graphs/default/mutate", json={"query": "query q() { delete Person }"}),
                me.get("/metrics"),
                me.get("/graphs/default/schema", headers={"Authorization": f"Bearer x{CANARY}"}),
            ]
        assert [answer.status_code for answer in answers] == [200, 403, 403, 401]
        processes = subprocess.run(
            ["ps", "-ewwo", "args"], capture_output=True, text=True, check=True
        )
        code, output, log = server.end()
    assert (code, output) == (0, "")
    shown = [log, processes.stdout, *(answer.text + str(answer.headers) for answer in answers)]
    assert not [text for text in shown if CANARY in text]
    events = [json.loads(line) for line in log.splitlines()]
    serving = next(event for event in events if event["event"] == "serving")
    assert serving["graphs"] == f"default ({graph_path})"
    assert serving["state"] == "default_deny (no policy: every write will be refused)"
    assert serving["tokens"] == "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON (1 actors)"
    requests = [event for event in events if event["event"] == "request"]
    assert requests[0]["route"] == "/graphs/{graph_id}/query"
    assert requests[0]["actor"] == "alice"
    assert requests[0]["request_id"] == answers[0].headers["X-Request-Id"]


@pytest.mark.extended
def test_workers_share_a_port_and_one_that_dies_is_started_again(graph_path: Path) -> None:
    with server_process(
        graph_path, "--workers", "2", "--unauthenticated", "--metrics-bind", "127.0.0.1:0"
    ) as server:
        first = server.workers()
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        statuses = {_status(f"{server.url}/readyz") for _ in range(50)}
        assert statuses <= {200, None}
        while len(again := server.workers()) < 2 or first[0] in again:
            pass
        assert _status(f"{server.url}/readyz") == 200
        code, output, log = server.end()
    assert (code, output) == (0, "")
    assert "worker died" in log
    assert "Traceback" not in log


@pytest.mark.extended
def test_a_worker_that_never_opens_keeps_a_server_neither_from_answers_nor_from_its_end(
    graph_path: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\ngroups: { all: [alice] }\nrules:\n"
        "  - { id: r, allow: { actors: { group: all }, actions: [read] } }\n"
    )
    with server_process(
        *(graph_path, "--workers", "2", "--policy", policy, "--metrics-bind", "127.0.0.1:0"),
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=json.dumps({"alice": CANARY}),
    ) as server:
        first = server.workers()
        policy.unlink()
        os.mkfifo(policy)  # Whoever reads it waits for somebody to write.
        os.kill(first[0], signal.SIGKILL)
        while len(again := server.workers()) < 2 or first[0] in again:
            pass
        os.kill(first[1], signal.SIGKILL)
        while len(again := server.workers()) < 2 or first[1] in again:
            assert server.process.poll() is None
        code, output, log = server.end()
    assert (code, output) == (0, "")
    assert "Traceback" not in log


def _status(url: str) -> int | None:
    """None: the connection was to the worker that is gone."""
    try:
        return httpx.get(url, timeout=60).status_code
    except httpx.TransportError:
        return None


@pytest.mark.parametrize(
    ("has_tokens", "has_policy", "is_open", "state"),
    [
        (False, False, True, RuntimeState.OPEN),
        (True, False, False, RuntimeState.DEFAULT_DENY),
        (True, False, True, RuntimeState.DEFAULT_DENY),
        (True, True, False, RuntimeState.POLICY_ENABLED),
        (True, True, True, RuntimeState.POLICY_ENABLED),
        (False, False, False, None),
        (False, True, False, None),
        (False, True, True, None),
    ],
)
def test_the_three_states_and_what_is_refused(
    *, has_tokens: bool, has_policy: bool, is_open: bool, state: RuntimeState | None
) -> None:
    def found() -> RuntimeState:
        return classify(has_tokens=has_tokens, has_policy=has_policy, allow_unauthenticated=is_open)

    if state is not None:
        assert found() is state
    else:
        with pytest.raises(SettingInvalid, match="OMNIGRAPH_SERVER_BEARER_TOKEN"):
            found()


def test_a_plan_holds_no_token_and_pages_of_any_origin_need_an_open_server() -> None:
    def plan(origins: tuple[str, ...], token: str | None) -> object:
        server = ServerSettings(
            cors_origins=origins,
            bearer_token=None if token is None else Secret(token),
            unauthenticated=token is None,
        )
        return plan_server(
            ServeRequest(source=GraphSource(uris={"a": "b"}), settings=Settings(server=server))
        )

    assert CANARY not in repr(plan(("https://a.example",), CANARY))
    assert plan(("*",), None)
    for origins in (("*",), ("a.example",), ("https://a.example/path",)):
        with pytest.raises(SettingInvalid, match="OMNIGRAPH_CORS_ORIGINS"):
            plan(origins, CANARY)


class _Vault:
    """What reads secrets of AWS; it says where it was asked to."""

    def __init__(self, region: str | None) -> None:
        self._region = region

    def get_secret_value(self, SecretId: str) -> dict[str, str]:  # noqa: N803 - as it is called
        return {"SecretString": json.dumps({"alice": f"{self._region} {SecretId}"})}


def test_a_secret_of_aws_is_read_in_its_region_and_its_failures_are_told_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connect(_: str, *, region_name: str | None) -> _Vault:
        if region_name is None:
            # As the client itself: the text may hold anything.
            raise type("NoRegionError", (Exception,), {})(f"no region for {CANARY}")
        return _Vault(region_name)

    monkeypatch.setitem(sys.modules, "boto3", SimpleNamespace(client=connect))
    arn = "arn:aws:secretsmanager:eu-west-1:1:secret:tokens"
    for name, region, token in (
        ("tokens", "us-east-2", "us-east-2 tokens"),
        (arn, "us-east-2", f"eu-west-1 {arn}"),
    ):
        tokens = read_tokens(ServerSettings(bearer_tokens_aws_secret=name), region=region)
        assert tokens.actor_of(f"Bearer {token}") == "alice"
    with pytest.raises(SettingInvalid, match="NoRegionError; set AWS_REGION") as refusal:
        read_tokens(ServerSettings(bearer_tokens_aws_secret=arn.rpartition(":")[2]))
    assert CANARY not in "".join(traceback.format_exception(refusal.value))


def test_a_server_that_debugs_shows_nothing_of_what_a_library_sends_and_gets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The client of AWS logs the secret that holds all tokens, at the level that debugging has."""
    start_server_logging(ServerSettings(log_level=LogLevel.DEBUG))
    logging.getLogger("botocore.parsers").debug("Response body: %s", CANARY)
    logging.getLogger("botocore.parsers").warning("tried again")
    logging.getLogger("omnigraph.server").debug("event")
    shown = capsys.readouterr().err
    assert CANARY not in shown
    assert ("tried again" in shown, "event" in shown) == (True, True)


def test_graphs_are_given_once_with_ids_that_are_some() -> None:
    assert parse_graph_options("p.omni", None, []) == {"default": "p.omni"}
    assert parse_graph_options("p.omni", "people", []) == {"people": "p.omni"}
    assert parse_graph_options(None, None, ["a=x", "b=s3://y/z=1"]) == {"a": "x", "b": "s3://y/z=1"}
    for uri, graph_id, named in (
        (None, None, []),
        ("x", None, ["a=x"]),
        (None, "a", ["a=x"]),
        (None, None, ["a=x", "a=y"]),
        (None, None, ["metrics=x"]),
        (None, None, ["a_b=x"]),
        (None, None, ["a"]),
    ):
        with pytest.raises(UsageError):
            parse_graph_options(uri, graph_id, named)
    assert parse_assignments(["all", "a=one"], ["a", "b"]) == {"a": ["all", "one"], "b": ["all"]}


def test_a_port_that_is_taken_is_refused_also_for_workers() -> None:
    with listen("127.0.0.1:0") as taken:
        for take in (listen, hold_port):
            with pytest.raises(SettingInvalid, match="cannot listen"):
                take(address_of(taken))
    with hold_port("127.0.0.1:0") as held, share_port(held) as one, share_port(held) as other:
        assert address_of(held) == address_of(one) == address_of(other)
        one.listen()
        with pytest.raises(SettingInvalid):
            hold_port(address_of(held))


def test_answers_do_not_wait_to_fill_a_packet() -> None:
    """The event loop asks for that by the protocol of the socket, which a plain one lacks."""
    with listen("127.0.0.1:0") as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


def test_a_file_that_is_wrong_ends_the_start_before_anything_listens(graph_path: Path) -> None:
    source = GraphSource(uris={"default": str(graph_path)}, policy_files={"default": "missing"})
    server = ServerSettings(bearer_token=Secret(CANARY))
    plan = plan_server(ServeRequest(source=source, settings=Settings(server=server)))
    with pytest.raises(OmnigraphError) as refusal:
        plan.open()
    assert refusal.value.code == "policy_invalid"


@dataclass(frozen=True)
class PartialSource(GraphSource):
    """A source with a graph that cannot be served beside those that can."""

    def open(self, settings: Settings, state: RuntimeState) -> ServedGraphs:
        broken = QuarantinedGraph(graph_id="broken", code="graph_not_found", message="not there")
        return replace(GraphSource.open(self, settings, state), quarantined=(broken,))


def test_a_server_that_needs_all_graphs_does_not_start_without_one(graph_path: Path) -> None:
    source = PartialSource(uris={"default": str(graph_path)})

    def opened(*, requires_all: bool) -> ServerRuntime:
        server = ServerSettings(unauthenticated=True, require_all_graphs=requires_all)
        return open_runtime(ServeRequest(source=source, settings=Settings(server=server)))

    with contextlib.closing(opened(requires_all=False)) as runtime:
        assert 'omnigraph_graphs{state="quarantined"} 1\n' in runtime.metrics.render()
    with pytest.raises(ClusterRefused, match="broken: not there"):
        opened(requires_all=True)


@pytest.mark.parametrize("is_automatic", [True, False])
def test_maintenance_that_is_switched_off_is_not_begun(
    graph_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_automatic: bool
) -> None:
    begun: list[ServerRuntime] = []

    def begin(runtime: ServerRuntime) -> None:
        begun.append(runtime)

    monkeypatch.setattr(ServerRuntime, "start_maintenance", begin)
    settings = Settings(
        server=ServerSettings(unauthenticated=True),
        storage=StorageSettings(auto_maintenance=is_automatic),
    )
    source = GraphSource(uris={"default": str(graph_path)})
    request = ServeRequest(source=source, settings=settings, maintains=True)
    with contextlib.closing(open_runtime(request)):
        assert bool(begun) is is_automatic


@pytest.mark.parametrize("warms", [True, False])
def test_a_server_that_is_to_be_warm_has_topologies_before_it_is_asked(
    graph_path: Path, *, warms: bool
) -> None:
    settings = Settings(server=ServerSettings(unauthenticated=True))
    source = GraphSource(uris={"default": str(graph_path)})
    request = ServeRequest(source=source, settings=settings, warms=warms)
    with contextlib.closing(open_runtime(request)) as runtime:
        caches = runtime.served.graphs["default"].graph._engine.caches
        assert bool(caches.topologies.entries()) is warms
        assert bool(caches.types.entries()) is warms


def test_metrics_that_come_too_late_are_not_those_of_the_next_time() -> None:
    ours, theirs = Pipe()
    plan = plan_server(
        ServeRequest(
            source=GraphSource(uris={"a": "b"}),
            settings=Settings(server=ServerSettings(unauthenticated=True)),
        )
    )
    with (
        ours,
        theirs,
        ThreadPoolExecutor(1) as pool,
        listen("127.0.0.1:0") as held,
        Workers(plan, held, 0) as workers,
    ):
        theirs.send("late")
        asked = pool.submit(theirs.recv)
        answered = pool.submit(theirs.send, "now")
        told = workers._ask(ours)
        assert (asked.result(), answered.result(), told) == (METRICS, None, "now")


def test_a_worker_for_which_there_is_no_room_is_started_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_server(
        ServeRequest(
            source=GraphSource(uris={"a": "b"}),
            settings=Settings(server=ServerSettings(unauthenticated=True)),
        )
    )

    def fail(_: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with listen("127.0.0.1:0") as held, Workers(plan, held, 0) as workers:
        monkeypatch.setattr(workers, "_start", fail)
        worker = _Worker(0)
        workers._look_after(worker)
        assert (worker.process, worker.due_us > 0) == (None, True)
        due_us = worker.due_us
        workers._restart(worker)
        assert worker.due_us > due_us


def test_metrics_of_workers_are_those_of_one_server() -> None:
    texts = []
    for count in (1, 2):
        metrics = Metrics()
        metrics.requests.add("/graphs", "GET", "200", amount=count)
        metrics.seconds.observe("/graphs", 0.5 * count)
        metrics.graphs.set("served", value=3)
        texts.append(metrics.render())
    text = merged(texts)
    assert 'omnigraph_http_requests_total{route="/graphs",method="GET",status="200"} 3\n' in text
    assert 'omnigraph_http_request_seconds_sum{route="/graphs"} 1.5\n' in text
    assert 'omnigraph_http_request_seconds_bucket{route="/graphs",le="+Inf"} 2\n' in text
    assert 'omnigraph_graphs{state="served"} 3\n' in text
    assert text.count("# TYPE omnigraph_http_requests_total counter") == 1
    assert merged([text]) == text
