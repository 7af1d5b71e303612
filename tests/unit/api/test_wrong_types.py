"""A value of a wrong type is refused with what is expected, also where no type checker looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process"})

# Any: a caller without a type checker.
CALLS: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "cleanup keep": (
        lambda graph, odd: graph.maintenance.cleanup(keep=odd),
        "a number of versions",
    ),
    "cleanup older_than": (
        lambda graph, odd: graph.maintenance.cleanup(older_than=odd),
        "a number and a unit",
    ),
    "optimize target_rows": (
        lambda graph, odd: graph.maintenance.optimize(target_rows=odd),
        "a number of rows",
    ),
    "optimize types": (lambda graph, odd: graph.maintenance.optimize(types=odd), "a list of names"),
    "ensure_indices engine": (
        lambda graph, odd: graph.maintenance.ensure_indices(engine=odd),
        "engine is 'auto'",
    ),
    "recoveries limit": (
        lambda graph, odd: graph.maintenance.recoveries(limit=odd),
        "limit must be a number",
    ),
    "schema plan": (lambda graph, odd: graph.schema.plan(odd), "the Path of a file"),
    "schema apply": (lambda graph, odd: graph.schema.apply(odd), "the Path of a file"),
}
ODD: dict[str, Any] = {"float": 3.5, "list": [3], "truth": True, "text": "3", "bytes": b"3"}
CASES = [
    (call, odd)
    for call in CALLS
    for odd in ODD
    if (call, odd) not in {("schema plan", "text"), ("schema apply", "text")}
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    path = tmp_path_factory.mktemp("odd") / "g"
    with Graph.init(path, schema="node P { name: String @key }", settings=SETTINGS) as graph:
        yield graph


@pytest.mark.parametrize(("call", "odd"), CASES)
def test_a_wrong_type_is_refused_with_the_right_one(graph: Graph, call: str, odd: str) -> None:
    act, told = CALLS[call]
    expected = "by its name" if (call, odd) == ("optimize types", "list") else told
    with pytest.raises(InvalidArgument, match=expected):
        act(graph, ODD[odd])


@pytest.mark.parametrize("odd", [None, 5, b"g"], ids=str)
def test_a_place_of_a_wrong_type_is_refused_and_nothing_is_made(
    graph: Graph,
    tmp_path: Path,
    odd: Any,  # noqa: ANN401 - of any type
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = graph._graph.storage.location.root
    calls: list[Callable[[], object]] = [
        lambda: Graph.open(odd, settings=SETTINGS),
        lambda: Graph.clone(odd, tmp_path / "x", settings=SETTINGS),
        lambda: Graph.clone(source, odd, settings=SETTINGS),
        lambda: Graph.init(odd, schema="node P { name: String @key }", settings=SETTINGS),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="a graph is named by a path or an address"):
            call()
    for branches in (5, [5]):
        with pytest.raises(InvalidArgument, match="name"):
            Graph.clone(source, "y", branches=branches, settings=SETTINGS)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="the Path of a file"):
        Graph.init("z", schema=5, settings=SETTINGS)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_span_or_a_target_beyond_all_bounds_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="older_than"):
        graph.maintenance.cleanup(older_than=f"{'9' * 400}d")
