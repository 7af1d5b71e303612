"""`omnigraph doctor` looks whether the configured graph in a bucket can be listed and read."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.s3.stand_in import WRITES, Access, Kind, StandIn

from omnigraph import Graph
from omnigraph.cli.main import main
from omnigraph.settings import load_settings

pytestmark = pytest.mark.s3

Examine = Callable[..., tuple[int, dict[str, Any]]]  # parsed JSON


@pytest.fixture
def examine(s3: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Examine:
    """The exit code, and what is told of the store of a configuration."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)

    def run(config: str, **more: str) -> tuple[int, dict[str, Any]]:
        (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
        environ = {
            **s3.environment(),
            "AWS_SECRET_ACCESS_KEY": "hidden-key",
            "JAVA_HOME": str(tmp_path / "jdk"),
            "OMNIGRAPH_HOME": str(tmp_path),
            **more,
        }
        code = main(["doctor", "--json"], environ)
        told = capsys.readouterr()
        assert "hidden" not in told.out + told.err
        (check,) = [
            each for each in json.loads(told.out)["checks"] if each["name"] == "Store access"
        ]
        return code, check

    return run


def defaults(uri: str) -> str:
    return f"defaults: {{store: '{uri}'}}"


def test_a_graph_that_can_be_read_is_told_and_nothing_is_written(
    s3: StandIn, examine: Examine
) -> None:
    uri = s3.uri("g")
    schema = "node Person { name: String @key }"
    Graph.init(uri, schema=schema, settings=load_settings(s3.environment())).close()
    s3.access = Access.READ_ONLY
    with s3.watching() as seen:
        code, check = examine(defaults(uri))
    assert (code, check["status"]) == (0, "ok")
    assert check["found"] == f"{uri} can be listed and read"
    assert not {each.kind for each in seen.requests} & WRITES
    assert {each.kind for each in seen.requests} == {Kind.LIST, Kind.GET}


def test_a_profile_leads_to_a_store_and_one_without_objects_is_no_mistake(
    s3: StandIn, examine: Examine
) -> None:
    uri = s3.uri("none")
    config = f"profiles: {{far: {{store: '{uri}'}}}}"
    code, check = examine(config, OMNIGRAPH_PROFILE="far")
    assert (code, check["found"]) == (0, f"{uri} can be listed; nothing is there yet")
    code, check = examine(config, OMNIGRAPH_PROFILE="near")
    assert (code, check["status"]) == (1, "invalid")
    assert "there is no profile 'near'" in check["found"]


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_store_that_refuses_ends_with_1_and_the_remedy(
    s3: StandIn, examine: Examine, monkeypatch: pytest.MonkeyPatch, *, is_listed: bool
) -> None:
    s3.endpoint.store().put("g/a", b"1")

    def refuses(kind: Kind) -> bool:
        return kind is Kind.GET if is_listed else True

    monkeypatch.setattr(s3, "_refuses", refuses)
    code, check = examine(defaults(s3.uri("g")))
    assert (code, check["status"]) == (1, "invalid")
    assert "403" in check["found"]
    assert "AWS_SECRET_ACCESS_KEY" in check["remedy"]


def test_a_store_that_is_not_there_ends_with_1(s3: StandIn, examine: Examine) -> None:
    code, check = examine(defaults("s3://no-such-bucket/g"))
    assert (code, check["status"]) == (1, "invalid")
    assert "no-such-bucket" in check["found"]
    code, check = examine(defaults(s3.uri("g")), AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert (code, check["status"]) == (1, "invalid")
    assert "no answer" in check["found"]
    assert "AWS_ENDPOINT_URL" in check["remedy"]


def test_an_endpoint_that_is_no_store_ends_with_1(examine: Examine) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        for code in (404, 501):
            _Answering.code = code
            ended, check = examine(defaults("s3://bucket/g"), AWS_ENDPOINT_URL=endpoint)
            assert (ended, check["status"]) == (1, "invalid")
        server.shutdown()


class _Answering(BaseHTTPRequestHandler):
    """Every request the same."""

    code = 404

    def do_GET(self) -> None:
        self.send_error(self.code)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("uri", ["s3://me:hidden@bucket/g", "s3://bucket/g?sig=hidden"])
def test_a_secret_in_an_address_is_not_shown(examine: Examine, uri: str) -> None:
    code, check = examine(defaults(uri))
    assert (code, check["status"]) == (1, "invalid")
    assert "operator config" in check["remedy"]
