"""What the metrics of a server tell of its graphs is what storage says when they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.serving import ACTOR, TOKEN, LiveServer, serving

from omnigraph.errors import StorageUnavailable
from omnigraph.graph.access import EVERYTHING, Action, Decision, Visibility

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from omnigraph.lang import Catalog

PENDING = 'omnigraph_recovery_pending{graph="default"} '


class Watching:
    """Lets everybody with a token see the metrics."""

    names_queries = False

    def bind(self, catalog: Catalog) -> None: ...

    def authorize(self, actor: str | None, action: Action, *_: object, **__: object) -> Decision:
        allowed = actor == ACTOR and action is Action.METRICS
        return Decision(allowed=allowed, rule_id="watch", message="no")

    def visibility(self, actor: str | None) -> Visibility:  # noqa: ARG002 - the same for all
        return EVERYTHING


def test_writes_that_wait_for_a_recovery_are_counted_when_somebody_asks(
    graph_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = graph_path / "__recovery" / "main" / "01K00000000000000000000000.json"
    with (
        serving({"default": graph_path}, tokens={ACTOR: TOKEN}, server_policy=Watching()) as live,
        live.client(TOKEN) as client,
    ):

        def told() -> str:
            [line] = [each for each in client.get("/metrics").text.splitlines() if PENDING in each]
            return line.removeprefix(PENDING)

        assert told() == "0"
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_text("{}", encoding="utf-8")
        assert told() == "1"

        def fail(_: object) -> int:
            raise StorageUnavailable("not now")

        with monkeypatch.context() as patched:
            patched.setattr("omnigraph.api.parts.GraphMaintenance.unsettled_writes", fail)
            assert told() == "1"
        left.unlink()
        assert told() == "0"


def test_methods_that_a_client_makes_up_are_counted_as_one(server: LiveServer) -> None:
    with server.client() as client:
        for number in range(3):
            assert client.request(f"MADE-UP-{number}", "/healthz").status_code == 405
    told = server.runtime.metrics.render()
    assert "MADE-UP" not in told
    # The last one may not be counted yet: that happens after its answer.
    assert 'omnigraph_http_requests_total{route="(none)",method="(other)",status="405"}' in told
