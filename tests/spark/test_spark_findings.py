"""What a load tells of bad rows and of small files, where Spark joins and merges."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load

from omnigraph import Graph
from omnigraph.errors import LoadRejected
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.report import JobReport, LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.checks import join_checks
from omnigraph.pipeline.checks import way as ways
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.intake import part_findings
from omnigraph.pipeline.load.check import LoadCheck
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import MergeStrategy, Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.pipeline.checks.join_checks import LoadChecks
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person
edge Likes: Person -> Person
"""


def node(name: str, **data: object) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name, **data}}).encode() + b"\n"


def edge(type: str, id: str, src: str, dst: str) -> bytes:  # noqa: A002 - as in the format
    ends = {"from": src, "to": dst}
    return json.dumps({"edge": type, **ends, "data": {"id": id}}).encode() + b"\n"


BAD = b"".join(
    [
        *(node(f"p{n}", age=200 if n == 5 else n) for n in range(6)),
        *(edge("Knows", f"k{n:02}", "p0", f"nobody{n}") for n in range(30)),
        *(edge("Likes", f"l{n:02}", f"none{n}", "p1") for n in range(9)),
    ]
)


@dataclass
class Loads:
    """A graph, and loads into it on Spark."""

    folder: Path
    session: PipelineSession

    def settings(self, **pipeline: Any) -> Settings:  # noqa: ANN401 - one value per setting
        # The files stay as the loads leave them.
        environment = {"OMNIGRAPH_DURABILITY": "process", "OMNIGRAPH_AUTO_MAINTENANCE": "0"}
        settings = load_settings(environment)
        return replace(settings, pipeline=replace(settings.pipeline, **pipeline))

    def load(
        self,
        text: bytes,
        mode: str,
        *,
        is_on_spark: bool = True,
        way: CheckWay = CheckWay.JOINS,
        **pipeline: Any,  # noqa: ANN401 - one value per setting
    ) -> JobReport:
        """With every check as a join; or by the same tasks, one after the other in this process."""
        path = self.folder / "in.jsonl"
        path.write_bytes(text)
        settings = self.settings(**pipeline)
        with self.graph(settings) as graph:
            return spark_load(
                graph,
                self.session if is_on_spark else None,
                settings,
                [plan_source(SourceRequest(source=str(path)), settings)],
                LoadRequest(mode=LoadMode(mode), branch=MAIN_BRANCH),
                external=DENY_ALL,
                way=way,
            ).report()

    def here(self, text: bytes, **pipeline: Any) -> JobReport:  # noqa: ANN401 - as above
        with self.graph(self.settings(**pipeline)) as graph:
            return graph.load(text, mode="append")

    @contextmanager
    def graph(self, settings: Settings) -> Iterator[Graph]:
        with Graph.open(self.folder / "g", settings=settings) as graph:
            yield graph


@pytest.fixture
def loads(tmp_path: Path, session: PipelineSession) -> Loads:
    Graph.init(tmp_path / "g", schema=SCHEMA).close()
    return Loads(tmp_path, session)


def refusal(load: Callable[[], JobReport]) -> tuple[str, dict[str, Any]]:
    with pytest.raises(LoadRejected) as caught:
        load()
    return caught.value.message, caught.value.details


@pytest.mark.extended
def test_the_setting_bounds_what_joins_report_and_all_are_counted(loads: Loads) -> None:
    message, details = refusal(
        lambda: loads.load(BAD, "append", max_violations=7, split_bytes=1_400)
    )
    assert (message, details) == refusal(lambda: loads.here(BAD, max_violations=7))
    assert (details["total"], len(details["violations"])) == (40, 7)
    assert details["counts"] == {"orphan_edge": 39, "range_violation": 1}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("most_bytes", "halved_to"),
    # An edge that fails has about 10 bytes of texts: its id and the node that it lacks.
    thinned([(200, 12), (1, 1)]),
)
def test_joins_fetch_no_more_than_fit_and_say_how_many_are_listed(
    most_bytes: int, halved_to: int, loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The violation of a single row is gathered as ever.
    monkeypatch.setattr(join_checks, "COLLECTED_BYTES", most_bytes)
    assert part_findings.COLLECTED_BYTES == 64 << 20
    message, details = refusal(lambda: loads.load(BAD, "append", max_violations=25))
    plain, whole = refusal(lambda: loads.here(BAD, max_violations=25))
    # What is kept of them stands in the same order.
    kept = details["violations"]
    assert [each for each in whole["violations"] if each in kept] == kept
    assert len(kept) == halved_to
    assert details == {**whole, "halved_to": halved_to, "violations": kept}
    assert message.removeprefix(plain) == (
        f"; they are too many or too large to list, so the list was halved to the first {halved_to}"
    )


@pytest.mark.extended
def test_a_check_that_fits_as_a_whole_is_not_halved(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = node("p0") + b"".join(edge("Knows", f"k{n}", "p0", "x" * 50) for n in range(3))
    # The last row passes the bound, and there is none after it.
    monkeypatch.setattr(join_checks, "COLLECTED_BYTES", 3 * 52 - 1)
    found = refusal(lambda: loads.load(text, "append"))
    assert found == refusal(lambda: loads.here(text))
    assert len(found[1]["violations"]) == 3


@pytest.mark.parametrize(("most_bytes", "is_joined"), [(1 << 20, False), (2_000, True)])
def test_keys_are_joined_if_they_turn_out_not_to_fit_the_driver(
    *, most_bytes: int, is_joined: bool, loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "_LOOKED_UP_ROWS", 1)
    monkeypatch.setattr(ways, "_JOINED_ROWS", 1)
    joins: list[object] = []
    joined = LoadCheck._joins

    def spied(check: LoadCheck, *given: Any) -> LoadChecks:  # noqa: ANN401 - as it is called
        joins.append(check)
        return joined(check, *given)

    monkeypatch.setattr(LoadCheck, "_joins", spied)
    text = b"".join(node(f"p{n}") + edge("Knows", f"k{n:02}", "p0", f"p{n}") for n in range(20))
    loads.load(text, "append", way=CheckWay.AUTO, check_driver_bytes=most_bytes)
    assert bool(joins) == is_joined
    bad = b"".join(edge("Likes", f"l{n:02}", "p0", f"q{n}") for n in range(20))
    found = refusal(
        lambda: loads.load(bad, "append", way=CheckWay.AUTO, check_driver_bytes=most_bytes)
    )
    assert found == refusal(lambda: loads.here(bad))


@pytest.mark.extended
def test_a_merge_on_executors_counts_the_files_that_are_left(loads: Loads) -> None:
    rows = [node(f"p{n:03}", age=n) for n in range(70)]
    split_bytes = len(rows[0])
    text = b"".join(rows)
    (warning,) = loads.load(
        text, "append", is_on_spark=False, way=CheckWay.AUTO, split_bytes=split_bytes
    ).warnings
    assert warning.startswith("node:Person has 70 files of 1 row ")
    changed = b"".join(node(f"p{n:03}", age=n + 1) for n in range(5, 8))
    report = loads.load(changed, "merge", merge=MergeStrategy.DISTRIBUTED)
    assert report.merge_strategy == "distributed"
    with loads.graph(loads.settings()) as graph:
        snapshot = open_snapshot(graph._graph, None, MAIN_BRANCH)
        handle = snapshot.handle(snapshot.catalog.node_types["Person"])
        files = len(graph._graph.tables.fragments(handle))
    assert files > 64
    assert report.warnings == (
        f"node:Person has {files} files of 1 row on average; compaction is due:"
        " omnigraph optimize does it",
    )
