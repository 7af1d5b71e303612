"""A load on Spark gives the graph, the report and the errors that the in-process load gives."""

from __future__ import annotations

import base64
import json
import random  # noqa: TID251 - seeded
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load
from ulid import ULID

from omnigraph import Graph
from omnigraph.errors import (
    EmbeddingFailed,
    EmbeddingUnavailable,
    IdempotencyKeyReused,
    InputChanged,
    KeyConflict,
    LoadRejected,
    OmnigraphError,
    PreconditionFailed,
    SourceError,
)
from omnigraph.failpoints import armed
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.jobs.report import JobReport, LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import BranchName
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.load.input import LoadInput
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  born: Date?
  score: F64?
  tags: [String]?
  big: U64? @unique
  photo: Blob?
  level: enum(junior, senior)? @default("junior")
  @range(age, 0..150)
  @check(name, "^[a-zA-Z0-9]+$")
}
node Day { day: Date @key  note: String? }
edge Knows: Person -> Person @card(0..2) { since: I32? }
edge On: Person -> Day
"""
MODES = ("append", "merge", "overwrite")


def line_files(source: str, settings: Settings) -> LoadSource:
    return plan_source(SourceRequest(source=source), settings)


def line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def node(name: str, type: str = "Person", **data: object) -> bytes:  # noqa: A002 - as in the format
    key = "day" if type == "Day" else "name"
    return line({"type": type, "data": {key: name, **data}})


def edge(id: str, src: str, dst: str, type: str = "Knows", **data: object) -> bytes:  # noqa: A002
    return line({"edge": type, "from": src, "to": dst, "data": {"id": id, **data}})


SEED = b"".join(
    [
        *(
            node(f"p{n}", age=n, email=f"e{n}", photo="base64:aGk=", big=2**63 + n)
            for n in range(8)
        ),
        node("2024-01-01", "Day"),
        *(edge(f"k{n}", f"p{n}", f"p{n + 1}", since=n) for n in range(6)),
    ]
)

GOOD = b"".join(
    [
        node("new", age=5, tags=["a", None], score=0.1, born="1999-12-31"),
        node("p1", age=77, email="e1"),
        # The id spells the day in another way, and the edge uses that spelling.
        line({"type": "Day", "data": {"id": "2024-02-03", "day": "2024-02-03"}}),
        edge("k1", "p1", "new"),
        edge("twice", "new", "p1", since=1),
        b"\n",
        edge("twice", "new", "p1", since=2),
        edge("on", "new", "2024-02-03", "On"),
    ]
)

BAD = b"".join(
    [
        node("Ada", age="x"),
        node("Cy", age=200),
        line({"type": "Persn"}),
        node("Cy", age=20),
        node("Di", email="e7"),
        node("Ed", email="q", big=7),
        node("Fa", email="q", big=7, level="boss"),
        node("b!d"),
        node("Gi", nope=1),
        b'{"type":"Person","data":{"name":"Ha","name":"Hb"}}\n',
        b"\xff\n",
        line({"type": "Day", "data": {"id": "other", "day": "2024-02-03"}}),
        edge("o1", "Ada", "Zed"),
        line({"edge": "Knows", "from": "Ada", "data": {"id": "o2"}}),
        *(edge(f"c{n}", "p1", f"p{n}") for n in range(3)),
        edge("twin", "p3", "p4"),
        edge("twin", "p3", "p5"),
        edge("k0", "p7", "p6"),
    ]
)


@dataclass
class Twins:
    """The same graph twice: one is loaded in this process, one on Spark."""

    here: Graph
    spark: Graph
    folder: Path
    session: PipelineSession
    settings: Settings

    def load(
        self,
        text: bytes,
        mode: str,
        *,
        way: CheckWay = CheckWay.AUTO,
        **options: Any,  # noqa: ANN401 - as the load takes them
    ) -> tuple[object, object]:
        """What both loads give: their tables, or their errors."""
        path = self.folder / "input.jsonl"
        path.write_bytes(text)
        local = _outcome(lambda: self.here.load(text, mode=mode, **options))  # type: ignore[arg-type]
        spark = _outcome(lambda: self.load_on_spark(str(path), mode, way=way, **options))
        return local, spark

    def load_on_spark(
        self,
        source: str,
        mode: str,
        *,
        way: CheckWay = CheckWay.AUTO,
        **options: Any,  # noqa: ANN401 - as the load takes them
    ) -> JobReport:
        job = spark_load(
            self.spark,
            self.session,
            self.settings,
            [line_files(source, self.settings)],
            LoadRequest(
                mode=LoadMode(mode),
                branch=BranchName(options.pop("branch", "main")),
                **options,
            ),
            external=DENY_ALL,
            way=way,
        )
        return job.report()

    def require_equal(self, branch: str = "main") -> None:
        assert b"".join(self.spark.export(branch=branch)) == b"".join(
            self.here.export(branch=branch)
        )


def _outcome(load: Callable[[], JobReport]) -> object:
    try:
        report = load()
    except OmnigraphError as error:
        return type(error).__name__, error.message, error.details
    return [each.to_dict() for each in report.tables]


@pytest.fixture
def twins(tmp_path: Path, session: PipelineSession) -> Iterator[Twins]:
    settings = Settings()
    settings = replace(settings, pipeline=replace(settings.pipeline, split_bytes=700))
    with (
        Graph.init(tmp_path / "here", schema=SCHEMA) as here,
        Graph.init(tmp_path / "spark", schema=SCHEMA) as spark,
    ):
        for each in (here, spark):
            each.load(SEED, mode="append")
        yield Twins(here, spark, tmp_path, session, settings)


@pytest.mark.parametrize("mode", MODES)
def test_good_rows_give_equal_graphs_and_reports(mode: str, twins: Twins) -> None:
    text = GOOD if mode == "merge" else GOOD.replace(b"twice", b"once", 1)
    if mode == "append":
        text = text.replace(b'"p1", "age"', b'"q1", "age"').replace(b'"e1"', b'"f1"')
        text = text.replace(b'"k1"', b'"l1"')
    if mode == "overwrite":
        text += SEED.replace(b'"p1"', b'"pp"').replace(b'"e1"', b'"ee"')
        text = text.replace(b'"k1"', b'"kk"', 1)
    local, spark = twins.load(text, mode)
    assert isinstance(local, list), local
    assert spark == local
    twins.require_equal()


@pytest.mark.parametrize(
    ("mode", "way"),
    [
        *thinned(((mode, CheckWay.AUTO) for mode in MODES), keep=2),
        pytest.param("append", CheckWay.JOINS, marks=pytest.mark.extended),
        pytest.param("merge", CheckWay.JOINS, marks=pytest.mark.slow),
        pytest.param("overwrite", CheckWay.JOINS, marks=pytest.mark.slow),
    ],
)
def test_bad_rows_give_equal_errors_with_equal_lines(
    mode: str, way: CheckWay, twins: Twins
) -> None:
    local, spark = twins.load(BAD, mode, way=way)
    assert isinstance(local, tuple)
    assert spark == local
    twins.require_equal()


@pytest.mark.extended
def test_good_rows_pass_the_joins_too(twins: Twins) -> None:
    local, spark = twins.load(GOOD, "merge", way=CheckWay.JOINS)
    assert isinstance(local, list), local
    assert spark == local
    twins.require_equal()


@pytest.mark.extended
def test_overwriting_nodes_below_edges_is_refused_alike(twins: Twins) -> None:
    local, spark = twins.load(node("p1"), "overwrite", way=CheckWay.JOINS)
    assert isinstance(local, tuple)
    assert spark == local


@pytest.mark.parametrize(
    "seed", [*thinned([0, 1]), *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_random_inputs_give_equal_outcomes(seed: int, twins: Twins) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test
    for step in range(3):
        text = b"".join(_random_line(rng) for _ in range(rng.randint(1, 40)))
        if rng.random() < 0.3:
            text = text.rstrip(b"\n")
        mode = rng.choice(MODES)
        local, spark = twins.load(text, mode)
        assert spark == local, (seed, step, mode)
        twins.require_equal()


def _random_line(rng: random.Random) -> bytes:
    names = [f"p{n}" for n in range(10)] + ["x", "y"]
    choice = rng.random()
    if choice < 0.05:
        return rng.choice([b"\n", b"{}\n", b"[1]\n", b'{"type":"Person"}\n', b"nonsense\n"])
    if choice < 0.5:
        data: dict[str, Any] = {}
        if rng.random() < 0.6:
            data["age"] = rng.choice([1, 20, 151, None, "x", 1.5]) if rng.random() < 0.2 else 30
        if rng.random() < 0.4:
            data["email"] = f"e{rng.randrange(30)}"
        return node(rng.choice([*names, f"n{rng.randrange(40)}"]), **data)
    return edge(f"k{rng.randrange(60)}", rng.choice(names), rng.choice(names))


def test_lines_of_many_files_are_named(twins: Twins) -> None:
    folder = twins.folder / "many"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(node("one") * 1 + b"\n" * 30)
    (folder / "b.jsonl").write_bytes(b"\n" * 40 + node("two", age=999))
    (folder / "_skipped").write_bytes(b"nonsense")
    with pytest.raises(LoadRejected) as refused:
        twins.load_on_spark(str(folder), "append")
    found: Any = refused.value.details["violations"]
    assert len(found) == 1
    found = found[0]
    assert (found["source"], found["input_line"]) == (str(folder / "b.jsonl"), 41)


def test_a_dry_run_and_a_refused_load_leave_nothing(twins: Twins) -> None:
    root = twins.folder / "spark"
    before = _files(root)
    (twins.folder / "input.jsonl").write_bytes(GOOD)
    source = str(twins.folder / "input.jsonl")
    report = twins.load_on_spark(source, "merge", dry_run=True)
    assert [each.to_dict() for each in report.tables] == [
        each.to_dict() for each in twins.here.load(GOOD, mode="merge", dry_run=True).tables
    ]
    assert report.commit is None
    (twins.folder / "input.jsonl").write_bytes(BAD)
    with pytest.raises(LoadRejected):
        twins.load_on_spark(source, "merge")
    assert _files(root) == before


def _files(root: Path) -> set[str]:
    """What is stored, but for leases, whose objects every write leaves."""
    return {
        str(each.relative_to(root))
        for each in root.rglob("*")
        if each.is_file() and "__leases" not in each.parts
    }


def test_a_missing_branch_is_forked_and_goes_again_when_the_load_fails(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(BAD)
    with pytest.raises(LoadRejected):
        twins.load_on_spark(str(path), "append", branch="side", from_="main")
    assert [each.name for each in twins.spark.branches.list()] == ["main"]
    local, spark = twins.load(GOOD, "merge", branch="side", from_="main")
    assert spark == local
    twins.require_equal("side")
    twins.require_equal("main")


def test_a_commit_that_lands_while_the_branch_of_a_failed_load_goes_is_kept(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(BAD)
    with Graph.open(str(twins.spark._graph.storage.location)) as other, ExitStack() as points:

        def touch() -> None:
            points.close()
            other.load(node("late"), mode="append", branch="side")

        def wait_for_removal() -> None:
            # From here on the next lease is that of the removal: the input is refused.
            points.enter_context(armed("lease.post_create", touch))

        with (
            armed("spark_load.post_intake", wait_for_removal),
            pytest.raises(LoadRejected, match="'side' that this load created stays, because"),
        ):
            twins.load_on_spark(str(path), "append", branch="side", from_="main")
        assert other.snapshot(branch="side").entity("Person", "late") is not None


def test_a_key_conflict_a_lost_condition_and_a_used_key_are_told(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(node("p0"))
    with pytest.raises(KeyConflict, match="'p0' exists already"):
        twins.load_on_spark(str(path), "append")
    with pytest.raises(PreconditionFailed):
        twins.load_on_spark(str(path), "merge", if_commit="01J00000000000000000000000")
    first = twins.load_on_spark(str(path), "merge", idempotency_key="night-1")
    again = twins.load_on_spark(str(path), "merge", idempotency_key="night-1")
    assert again.already_loaded
    assert again.commit == first.commit
    assert again.tables == first.tables
    path.write_bytes(node("p0", age=3))
    with pytest.raises(IdempotencyKeyReused):
        twins.load_on_spark(str(path), "merge", idempotency_key="night-1")


def test_an_empty_input_makes_no_commit(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    for text in (b"", b"\n\n"):
        path.write_bytes(text)
        assert twins.load_on_spark(str(path), "merge").commit is None
    with pytest.raises(SourceError, match="there is no file"):
        twins.load_on_spark(str(twins.folder / "missing.jsonl"), "merge")


def test_minted_ids_follow_from_the_operation_and_the_place(twins: Twins) -> None:
    edges = line({"edge": "Knows", "from": "p7", "to": "p6"}) * 2
    path = twins.folder / "input.jsonl"
    path.write_bytes(edges)
    report = twins.load_on_spark(str(path), "append")
    assert report.commit is not None
    ids = [
        json.loads(each)["data"]["id"]
        for chunk in twins.spark.export(types=["Knows"])
        for each in chunk.splitlines()
    ]
    minted = [each for each in ids if len(each) == 26]
    assert len(set(minted)) == 2
    moments = {int(ULID.from_str(each).milliseconds) for each in minted}
    assert moments == {report.commit.created_at // 1_000}


def test_a_load_goes_on_beside_a_writer_that_does_not_concern_it(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(node("fresh", age=1) + edge("f1", "fresh", "p1"))
    with _writing_before_commit(twins, node("bystander", age=2)):
        report = twins.load_on_spark(str(path), "append")
    assert [each.added for each in report.tables] == [1, 1]
    assert twins.spark.snapshot().entity("Person", "bystander") is not None
    assert twins.spark.snapshot().entity("Person", "fresh") is not None


def test_a_load_sees_what_a_faster_writer_took(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(node("fresh", age=1))
    with _writing_before_commit(twins, node("fresh", age=2)), pytest.raises(KeyConflict):
        twins.load_on_spark(str(path), "append")
    found = twins.spark.snapshot().entity("Person", "fresh")
    assert found is not None
    assert found["age"] == 2


@contextmanager
def _writing_before_commit(twins: Twins, text: bytes) -> Iterator[None]:
    """Another handle writes once, between the preparation of a load and its commit."""
    waiting = [text]

    def write() -> None:
        if waiting:  # The load of the other handle passes the same point.
            with Graph.open(twins.folder / "spark") as other:
                other.load(waiting.pop(), mode="merge")

    with armed("load.post_stage_pre_lease", write):
        yield
    assert not waiting


@pytest.mark.parametrize("step", thinned(["load.post_phase_a", "load.post_phase_d_pre_release"]))
def test_an_interrupt_while_it_is_committed_takes_no_file_of_it(step: str, twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(node("fresh", age=1))

    def interrupt() -> None:
        raise KeyboardInterrupt

    with armed(step, interrupt), pytest.raises(KeyboardInterrupt):
        twins.load_on_spark(str(path), "append")
    with Graph.open(twins.folder / "spark") as again:
        rows = b"".join(again.export(types=["Person"]))
        if again.snapshot().entity("Person", "fresh") is None:
            again.load(path, mode="append")
            rows = b"".join(again.export(types=["Person"]))
    assert b'"fresh"' in rows


def test_blobs_beside_their_files_go_with_a_load_that_fails_or_is_only_tried(twins: Twins) -> None:
    # The line of a blob would be hundreds of splits.
    twins.settings = Settings()
    path = twins.folder / "input.jsonl"
    photo = "base64:" + base64.b64encode(b"x" * 100_000).decode()
    path.write_bytes(node("fresh", photo=photo))
    before = _files(twins.folder / "spark")
    assert twins.load_on_spark(str(path), "append", dry_run=True).commit is None
    path.write_bytes(node("fresh", photo=photo) + node("p0"))
    with pytest.raises(KeyConflict):
        twins.load_on_spark(str(path), "append")
    assert _files(twins.folder / "spark") == before


def test_a_changed_file_is_told_at_once(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(node("fresh"))

    def change(found: LoadInput, *given: object) -> object:
        path.write_bytes(node("other", age=2))
        return taken(found, *given)

    taken: Any = LoadInput.taken
    monkeypatch.setattr(LoadInput, "taken", change)
    with pytest.raises(InputChanged):
        twins.load_on_spark(str(path), "append")


def test_required_vectors_are_filled_and_a_dry_run_asks_no_embedder(
    session: PipelineSession, tmp_path: Path
) -> None:
    schema = 'node Doc { name: String @key  body: String  vec: Vector(4) @embed("body") }'
    path = tmp_path / "docs.jsonl"
    path.write_bytes(line({"type": "Doc", "data": {"name": "a", "body": "text"}}))
    with Graph.init(tmp_path / "docs", schema=schema) as graph:
        twins = Twins(graph, graph, tmp_path, session, Settings())
        # The workers have no key: whoever asks an embedder there fails.
        assert twins.load_on_spark(str(path), "append", dry_run=True).commit is None
        with pytest.raises((EmbeddingUnavailable, EmbeddingFailed)):
            twins.load_on_spark(str(path), "append")
        assert graph.snapshot().count("Doc") == 0
