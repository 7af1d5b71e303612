"""The rows that an embedding job fills: each written once, where it was, whoever writes beside it.

The tasks run in this process, one after the other; a job on Spark has the same ones.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pytest

from omnigraph import Graph
from omnigraph.embedding import MockEmbedder, Purpose
from omnigraph.errors import BlobNotFound, InternalError, ReadSetChanged
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.ids import MAIN_BRANCH, BranchName
from omnigraph.pipeline.embed import fill
from omnigraph.pipeline.embed.job import EmbedJob, EmbedOptions
from omnigraph.pipeline.embed.targets import EmbedMode
from omnigraph.pipeline.spark.job import open_job
from omnigraph.pipeline.staging.key_frames import group_fragments
from omnigraph.settings import load_settings
from omnigraph.storage.reading import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stage_progress import StageProgress

SCHEMA = """
node Doc {
  name: String @key
  body: String? @index
  size: I32? @index
  photo: Blob?
  scan: Blob?
  vec: Vector(3)? @embed("body") @index
}
"""


@dataclass
class Asked:
    """An embedder that remembers what it was asked for."""

    model: str = "mock"
    texts: list[str] = field(default_factory=list)

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        self.texts += texts
        return MockEmbedder().embed(texts, dimension=dimension, purpose=purpose)


@dataclass
class Bench:
    """A graph with documents in fragments of their own, and jobs on it."""

    graph: Graph
    root: Path
    embedder: Asked = field(default_factory=Asked)

    def embed(
        self,
        mode: str = "missing",
        branch: str = "main",
        at_commit: Callable[[], None] | None = None,
        times: int = 1,
    ) -> JobReport:
        """Run the job; what is to happen before its commit happens so many times."""
        left = [] if at_commit is None else [at_commit] * times

        def watch(told: StageProgress) -> None:
            if told.stage == "commit" and left:
                left.pop()()

        options = EmbedOptions(
            type="Doc", property=None, mode=EmbedMode.parse(mode), branch=BranchName(branch)
        )
        job = open_job(self.graph._graph, None, load_settings({}), kind="embed", progress=watch)
        return EmbedJob(job, options, embedder=self.embedder).report()

    def load(self, *docs: Mapping[str, object]) -> None:
        lines = "\n".join(json.dumps({"type": "Doc", "data": each}) for each in docs)
        self.graph.load(lines.encode(), mode="append")

    def change(self, query: str, branch: str = "main") -> None:
        self.graph.mutate(f"query q() {{ {query} }}", branch=branch)

    def compact(self) -> None:
        def prepare(txn: WriteTxn) -> PreparedWrite:
            (ref,) = txn.tables.types
            whole = txn.store.stage_compaction(txn.writable(ref), txn.stamp)
            return PreparedWrite(staged=(replace(whole, rebase=None),))

        request = WriteRequest(kind=SidecarKind.OPTIMIZE, branch=MAIN_BRANCH)
        assert self.graph._graph.protocol.run(request, prepare) is not None

    def vectors(self, branch: str = "main") -> dict[str, list[float] | None]:
        rows = self.graph.snapshot(branch=branch).scan("Doc").read_all().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["name"]: row["vec"] for row in rows}

    @property
    def row_ids(self) -> dict[str, int]:
        snapshot = self.graph.snapshot()
        handle = snapshot.handle(snapshot.type("Doc"))
        rows = self.graph._graph.tables.scan(handle, columns=["id"], with_row_ids=True).read_all()
        return {row["id"]: row[ROW_ID] for row in rows.to_pylist()}

    def photo(self, name: str) -> bytes:
        return self.graph.blob("node", "Doc", name, "photo").read()

    def leftovers(self) -> set[str]:
        """Files that a run without a crash leaves and no version names."""
        found = {str(each) for each in (self.root / "__staging").rglob("*") if each.is_file()}
        for folder in self.root.glob("*/*/data"):
            table = lance.dataset(str(folder.parent))
            versions = [table.checkout_version(each["version"]) for each in table.versions()]
            fragments = [each for version in versions for each in version.get_fragments()]
            named = {file.path for each in fragments for file in each.data_files()}
            marks = {
                Path(file.path(each.fragment_id)).name
                for each in fragments
                if (file := each.metadata.deletion_file) is not None
            }
            found |= {str(path) for path in folder.glob("*.lance") if path.name not in named}
            deleted = (folder.parent / "_deletions").glob("*")
            found |= {str(path) for path in deleted if path.name not in marks}
        return found


def of(text: str) -> list[float]:
    made = MockEmbedder().embed([text], dimension=3, purpose=Purpose.DOCUMENT)[0]
    return [float(each) for each in made]


def resolved(report: JobReport) -> int:
    """How many tasks filled rows."""
    return next(each.tasks for each in report.stages if each.name == "resolve")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    one_each = partial(group_fragments, rows=1)
    monkeypatch.setattr("omnigraph.pipeline.embed.job.group_fragments", one_each)
    monkeypatch.setattr("omnigraph.pipeline.embed.filled_rows.group_fragments", one_each)
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        made = Bench(graph, tmp_path / "g")
        for first in (0, 2):
            made.load(
                *({"name": f"d{n}", "body": f"text {n % 3}"} for n in range(first, first + 2)),
                {"name": f"plain{first}", "size": first},
            )
        yield made


ALL = {f"d{n}": of(f"text {n % 3}") for n in range(4)}
PLAIN = {"plain0": None, "plain2": None}


def test_rows_keep_their_row_ids_and_nothing_is_left_over(bench: Bench) -> None:
    before = bench.row_ids
    report = bench.embed()
    assert bench.vectors() == ALL | PLAIN
    assert bench.row_ids == before
    assert (report.engine, report.merge_strategy) == ("local", "driver")
    assert bench.leftovers() == set()


def test_a_task_writes_what_it_holds_as_often_as_it_must(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "_FLUSH_BYTES", 0)
    monkeypatch.setattr("omnigraph.pipeline.embed.filled_rows.group_fragments", group_fragments)
    before = bench.row_ids
    assert bench.embed().tables[0].changed == 4
    assert bench.vectors() == ALL | PLAIN
    assert bench.row_ids == before
    assert bench.leftovers() == set()


def test_rows_that_lie_in_another_order_than_their_row_ids_keep_both(bench: Bench) -> None:
    # An update moves a row behind those that came after it, and a compaction joins them.
    bench.change('update Doc set { size: 7 } where name = "d0"')
    bench.compact()
    before = bench.row_ids
    bench.embed()
    assert bench.vectors() == ALL | PLAIN
    assert bench.row_ids == before


def test_blobs_of_filled_rows_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.storage.staged_fragments._BLOB_BYTES", 150_000)
    monkeypatch.setattr("omnigraph.storage.staged_fragments._BLOBS_AT_ONCE", 3)
    large = {f"b{n}": bytes([n]) * 100_000 for n in range(5)}
    bench.load(
        *(
            {"name": name, "body": name, "photo": f"base64:{base64.b64encode(data).decode()}"}
            for name, data in large.items()
        ),
        {"name": "small", "body": "small", "photo": "base64:aGk="},
        {"name": "bare", "body": "bare"},
    )
    assert bench.embed().tables[0].changed == 11
    assert {name: bench.photo(name) for name in large} == large
    assert bench.photo("small") == b"hi"
    with pytest.raises(BlobNotFound, match="it is null"):
        bench.photo("bare")
    assert bench.vectors()["b3"] == of("b3")


def test_the_address_of_a_blob_outside_the_graph_is_kept(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "photo.png"
    outside.write_bytes(b"far away")
    record = {"type": "Doc", "data": {"name": "far", "body": "far", "photo": outside.as_uri()}}
    with Graph.open(bench.root, external_blobs=[tmp_path.as_uri()]) as other:
        other.load(json.dumps(record).encode(), mode="append")
        bench.graph.refresh()
        assert bench.embed().tables[0].changed == 5
        other.refresh()
        assert other.blob("node", "Doc", "far", "photo").uri == outside.as_uri()


def test_indexes_that_were_there_before_find_what_the_rows_hold_now(bench: Bench) -> None:
    bench.load(*({"name": f"x{n}", "body": f"word{n}", "size": n} for n in range(300)))
    bench.embed()
    bench.graph.maintenance.ensure_indices()
    bench.change('update Doc set { body: "another" } where size > 290')
    bench.embed(mode="all")
    snapshot = bench.graph.snapshot()
    handle, store = snapshot.handle(snapshot.type("Doc")), bench.graph._graph.tables
    for name, text in (("x7", "word7"), ("x288", "word288")):
        assert store.search_text(handle, "body", text)["id"].to_pylist() == [name]
    assert len(store.search_text(handle, "body", "another")) == 9
    found = bench.graph.query("query q() { match { $d: Doc { size: 8 } } return { $d.name } }")
    assert [row["d.name"] for row in found] == ["x8"]
    nearest = bench.graph.query(
        """query q($v: Vector(3)) { match { $d: Doc }
        return { $d.name } order { nearest($d.vec, $v) } limit 9 }""",
        params={"v": of("another")},
    )
    assert sorted(str(row["d.name"]) for row in nearest) == [f"x{n}" for n in range(291, 300)]
    old = bench.graph.query(
        """query q($v: Vector(3)) { match { $d: Doc }
        return { $d.name } order { nearest($d.vec, $v) } limit 1 }""",
        params={"v": of("word295")},
    )
    assert [row["d.name"] for row in old] != ["x295"]


def test_a_deleted_row_beside_those_that_are_filled_does_not_stand_in_the_way(
    bench: Bench,
) -> None:
    """The old forms of rows are marked as deleted again, beside what others deleted."""
    report = bench.embed(at_commit=lambda: bench.change('delete Doc where name = "plain0"'))
    assert (report.tables[0].changed, resolved(report)) == (4, 2)
    assert bench.vectors() == ALL | {"plain2": None}
    assert bench.leftovers() == set()


def test_a_fragment_whose_last_other_row_goes_is_gone(bench: Bench) -> None:
    before = bench.row_ids
    bench.embed(at_commit=lambda: bench.change("delete Doc where size >= 0"))
    assert bench.vectors() == ALL
    assert bench.row_ids.items() <= before.items()


def test_only_what_others_touched_is_filled_again(bench: Bench) -> None:
    report = bench.embed(
        at_commit=lambda: bench.change('update Doc set { body: "newer" } where name = "d1"')
    )
    # Two fragments, then the one that lost the row and the one that got it.
    assert resolved(report) == 4
    assert (report.tables[0].changed, report.tables[0].unchanged) == (3, 1)
    assert bench.vectors() == ALL | PLAIN | {"d1": None}
    assert sorted(bench.embedder.texts) == ["text 0", "text 1", "text 2"]
    assert bench.leftovers() == set()


def test_rows_that_moved_meanwhile_are_filled_where_they_are(bench: Bench) -> None:
    before = bench.row_ids
    report = bench.embed(at_commit=bench.compact)
    # What was written for two fragments is moved to the one that has their rows now.
    assert resolved(report) == 2
    assert bench.vectors() == ALL | PLAIN
    assert bench.row_ids == before
    assert bench.leftovers() == set()


def test_the_first_write_of_a_branch_that_others_overtake_fills_the_line_that_they_made(
    bench: Bench,
) -> None:
    bench.graph.branches.create("draft")
    newer = 'update Doc set { body: "newer" } where name = "d1"'
    report = bench.embed(branch="draft", at_commit=lambda: bench.change(newer, "draft"))
    assert (report.tables[0].changed, report.tables[0].unchanged) == (3, 1)
    assert bench.vectors("draft") == ALL | PLAIN | {"d1": None}
    assert bench.vectors() == dict.fromkeys(ALL | PLAIN)


def test_rows_that_others_filled_first_are_left_to_them(bench: Bench) -> None:
    vectors = [{"name": name, "vec": [0.0, 0.0, 1.0]} for name in ALL]

    def fill_all() -> None:
        lines = "\n".join(json.dumps({"type": "Doc", "data": each}) for each in vectors)
        bench.graph.load(lines.encode(), mode="merge")

    assert bench.embed(at_commit=fill_all).commit is None
    assert bench.vectors() == {name: [0.0, 0.0, 1.0] for name in ALL} | PLAIN
    left = bench.leftovers()
    assert all("__staging/embed/" in each for each in left)


def test_when_others_are_always_faster_the_job_says_so_and_keeps_what_was_paid(
    bench: Bench,
) -> None:
    with pytest.raises(ReadSetChanged, match="node:Doc"):
        bench.embed(
            at_commit=lambda: bench.change('update Doc set { size: 1 } where name = "d1"'),
            times=4,
        )
    assert bench.vectors() == dict.fromkeys(ALL | PLAIN)
    bench.embed()
    assert bench.vectors() == ALL | PLAIN
    assert sorted(bench.embedder.texts) == ["text 0", "text 1", "text 2"]


def test_a_job_that_fails_deletes_what_it_wrote_and_keeps_what_was_paid(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise InternalError("no more")

    def overtake() -> None:
        bench.change('update Doc set { body: "newer" } where name = "d1"')
        monkeypatch.setattr("omnigraph.pipeline.embed.filled_rows.fill", fail)

    with pytest.raises(InternalError, match="no more"):
        bench.embed(at_commit=overtake)
    left = bench.leftovers()
    assert left
    assert all("__staging/embed/" in each for each in left)


def test_a_kill_before_the_commit_leaves_the_vectors_for_the_next_run(bench: Bench) -> None:
    with armed("embed.post_stage_pre_lease", Action.RAISE), pytest.raises(FailpointHit):
        bench.embed()
    assert bench.vectors()["d0"] is None
    assert bench.embed().tables[0].changed == 4
    assert sorted(bench.embedder.texts) == ["text 0", "text 1", "text 2"]


def test_a_job_moves_its_table_by_one_transaction(bench: Bench) -> None:
    def version() -> int:
        snapshot = bench.graph.snapshot()
        return snapshot.handle(snapshot.type("Doc")).pin.version

    before = version()
    with armed("embed.between_links", Action.RAISE):
        bench.embed()
    assert version() == before + 1
