"""Loads whose checks are joins, or read whole columns, beside writers who commit before them.

No rule is broken.

What such a check asked is held against what others changed, as in the checks of one process.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load

from omnigraph import Graph
from omnigraph.errors import KeyConflict, LoadRejected, OmnigraphError, ReadSetChanged
from omnigraph.failpoints import armed
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import BranchName
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import MergeStrategy, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
node Town { name: String @key  size: I32? }
node Note { text: String @key  size: I32? }
edge Visits: Person -> Town @card(1..3) { note: String? }
"""
SETTINGS = Settings()
SETTINGS = replace(SETTINGS, pipeline=replace(SETTINGS.pipeline, merge=MergeStrategy.DRIVER))


def person(name: str, **data: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **data}}


def visit(id_: str, source: str, target: str = "rome") -> dict[str, object]:
    return {"edge": "Visits", "from": source, "to": target, "data": {"id": id_}}


def lines(*records: Mapping[str, object]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)


SEED = lines(
    *({"type": "Town", "data": {"name": each}} for each in ("rome", "oslo", "bern")),
    *(person(each, email=f"{each}@x", age=1) for each in ("ann", "bob", "cid", "dan")),
    visit("a1", "ann"),
    visit("a2", "ann", "oslo"),
    visit("b1", "bob"),
    visit("c1", "cid"),
)


@pytest.fixture
def graph(tmp_path: Path, session: PipelineSession) -> Iterator[Graph]:
    session.require_alive()
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        graph.load(SEED, mode="append")
        yield graph


def put(graph: Graph, name: str, *rows: dict[str, object], remove: tuple[str, ...] = ()) -> None:
    """Upsert rows of a type and remove ids, in one commit."""
    schema = graph.snapshot().type(name).arrow_schema
    fields = [each for each in schema if each.name != "id" or name == "Visits"]
    with graph.write() as writer:
        if rows:
            writer.upsert(name, pa.Table.from_pylist(list(rows), pa.schema(fields)))
        if remove:
            writer.delete(name, remove)
        writer.commit()


def load(
    graph: Graph,
    session: PipelineSession,
    path: Path,
    records: bytes,
    mode: str,
    overtake: Callable[[Graph], object],
    way: CheckWay = CheckWay.JOINS,
) -> int:
    """Load while somebody else commits between staging and lease; how often it was prepared."""
    path.write_bytes(records)
    source = plan_source(SourceRequest(source=str(path)), SETTINGS)
    job = spark_load(
        graph,
        session if way is CheckWay.JOINS else None,
        SETTINGS,
        [source],
        LoadRequest(mode=LoadMode(mode), branch=BranchName("main")),
        external=DENY_ALL,
        way=way,
    )
    prepared: list[int] = []

    def before_lease() -> None:
        prepared.append(1)
        if len(prepared) == 1:
            with Graph.open(path.parent / "graph") as other:
                overtake(other)

    with armed("load.post_stage_pre_lease", before_lease):
        job.report()
    return len(prepared)


def require_valid(graph: Graph) -> dict[str, dict[str, dict[str, Any]]]:
    """Every rule holds; the rows by type and id."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in ("Person", "Town", "Note", "Visits"):
        rows = graph.snapshot().scan(name).read_all().to_pylist()
        found[name] = {row["id"]: row for row in rows}
        assert len(found[name]) == len(rows), name
    emails = [row["email"] for row in found["Person"].values() if row["email"]]
    assert len(set(emails)) == len(emails)
    for edge in found["Visits"].values():
        assert edge["src"] in found["Person"]
        assert edge["dst"] in found["Town"]
    return found


def sources(graph: Graph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for edge in require_valid(graph)["Visits"].values():
        found.setdefault(edge["src"], []).append(edge["id"])
    return {source: sorted(ids) for source, ids in sorted(found.items())}


def edge_row(id_: str, source: str, target: str = "rome") -> dict[str, object]:
    return {"id": id_, "src": source, "dst": target}


REFUSED: dict[str, tuple[bytes, str, Callable[[Graph], object], type[OmnigraphError]]] = {
    "a source loses one edge to the load and its other one to a writer": (
        lines(visit("a1", "bob")),
        "merge",
        lambda other: put(other, "Visits", remove=("a2",)),
        LoadRejected,
    ),
    "a source gets one edge too many": (
        lines(visit("a3", "ann")),
        "merge",
        lambda other: put(other, "Visits", edge_row("a4", "ann")),
        LoadRejected,
    ),
    "a source has only the edge that the load takes from it": (
        lines(visit("d1", "ann")),
        "merge",
        lambda other: put(other, "Visits", edge_row("d1", "dan")),
        LoadRejected,
    ),
    "a tuple is taken": (
        lines(person("eve", email="e@x")),
        "merge",
        lambda other: put(other, "Person", {"name": "dan", "email": "e@x"}),
        LoadRejected,
    ),
    "a tuple that a row keeps is freed and taken": (
        lines(person("ann", email="ann@x", age=5)),
        "merge",
        lambda other: put(
            other, "Person", {"name": "ann", "email": "z@x"}, {"name": "dan", "email": "ann@x"}
        ),
        LoadRejected,
    ),
    "an end is removed": (
        lines(visit("b2", "bob", "bern")),
        "append",
        lambda other: put(other, "Town", remove=("bern",)),
        LoadRejected,
    ),
    "an id is taken": (
        lines(person("eve")),
        "append",
        lambda other: put(other, "Person", {"name": "eve"}),
        KeyConflict,
    ),
    "a table that is replaced is written": (
        lines({"type": "Note", "data": {"text": "n"}}),
        "overwrite",
        lambda other: put(other, "Note", {"text": "m"}),
        ReadSetChanged,
    ),
    "an edge comes to a node that is replaced": (
        lines(*({"type": "Town", "data": {"name": each}} for each in ("rome", "oslo"))),
        "overwrite",
        lambda other: put(other, "Visits", edge_row("b2", "bob", "bern")),
        ReadSetChanged,
    ),
}


IN_DEFAULT_SUITE = (
    "a source loses one edge to the load and its other one to a writer",
    # Those of an overwrite need no joins.
    "a table that is replaced is written",
    "an edge comes to a node that is replaced",
)


CASES = sorted(REFUSED, key=lambda case: case not in IN_DEFAULT_SUITE)


@pytest.mark.parametrize(
    ("case", "way"),
    [
        *thinned(((case, CheckWay.JOINS) for case in CASES), keep=3),
        *thinned(((case, CheckWay.WHOLE) for case in CASES), keep=5),
    ],
)
def test_a_load_that_would_break_a_rule_by_what_others_did_is_refused(
    graph: Graph, session: PipelineSession, tmp_path: Path, case: str, way: CheckWay
) -> None:
    records, mode, theirs, error = REFUSED[case]
    with pytest.raises(error):
        load(graph, session, tmp_path / "input.jsonl", records, mode, theirs, way)
    assert len(graph.commits.list()) == 3
    found = sources(graph)
    assert all(1 <= len(edges) <= 3 for edges in found.values())
    assert {"ann", "bob", "cid"} <= found.keys()


def test_rows_that_others_put_into_an_empty_table_are_there_once(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    note = lines({"type": "Note", "data": {"text": "n", "size": 2}})
    theirs = lambda other: put(other, "Note", {"text": "n", "size": 1})  # noqa: E731 - by its name
    assert load(graph, session, tmp_path / "input.jsonl", note, "merge", theirs) == 2
    assert require_valid(graph)["Note"]["n"]["size"] == 2


@pytest.mark.parametrize(
    "way", [pytest.param(CheckWay.JOINS, marks=pytest.mark.extended), CheckWay.WHOLE]
)
def test_a_load_beside_changes_of_other_rows_is_prepared_once(
    graph: Graph, session: PipelineSession, tmp_path: Path, way: CheckWay
) -> None:
    """Others change rows of every table, and even rows that the load only refers to or replaces."""
    records = lines(person("ann", email="ann@x", age=5), person("eve"), visit("a1", "bob", "oslo"))

    def theirs(other: Graph) -> None:
        put(other, "Person", {"name": "bob", "email": "w@x", "age": 9}, {"name": "fay"})
        put(other, "Person", {"name": "ann", "email": "ann@x", "age": 7})
        put(other, "Town", {"name": "oslo", "size": 3})
        put(other, "Visits", edge_row("c1", "cid", "bern"), edge_row("d1", "dan"))

    assert load(graph, session, tmp_path / "input.jsonl", records, "merge", theirs, way) == 1
    found = require_valid(graph)
    assert (found["Person"]["ann"]["age"], found["Person"]["bob"]["age"]) == (5, 9)
    assert sources(graph) == {"ann": ["a2"], "bob": ["a1", "b1"], "cid": ["c1"], "dan": ["d1"]}
