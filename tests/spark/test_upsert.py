"""An upsert in one process and one on executors give the same table, whatever indexes it has."""

from __future__ import annotations

import base64
import itertools
import json
import os
import random  # noqa: TID251 - seeded
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load
from tests.unit.storage.workbench import STAMP, Workbench, layout

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.errors import InternalError
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.commit.protocol import Stale
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.jobs.stage_times import StageTimes
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import BranchName, new_operation_id, seeded_ids
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.pipeline.spark.lanes import SparkLane
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spark.task_storage import open_task_storage
from omnigraph.pipeline.staging.detached_views import StagedView
from omnigraph.pipeline.upsert import distributed
from omnigraph.pipeline.upsert.distributed import OFFSETS_BYTES, DistributedUpsert, merge_parts
from omnigraph.pipeline.upsert.strategy import Upserts, driver_bytes
from omnigraph.settings import MergeStrategy, Settings
from omnigraph.storage.blobs import STORED_BLOB
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.sizes import FragmentInfo
from omnigraph.storage.staged_fragments import Pieces, join_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.upsert.tasks import MergePart, MergePlan, PartResult
    from omnigraph.storage.handles import StagedWrite, TableHandle

STRATEGIES = (MergeStrategy.DRIVER, MergeStrategy.DISTRIBUTED)

SCHEMA = """
node Doc {
  slug: String @key
  rank: I64? @index
  body: String? @index
  tag: String?
  vec: Vector(4)? @index
  photo: Blob?
}
node Plain { rank: I64? }
"""
DOC = layout("Doc", SCHEMA)
PLAIN = layout("Plain", SCHEMA)
INDEXES = (
    IndexSpec(property_name="id", kind=IndexKind.BTREE),
    IndexSpec(property_name="rank", kind=IndexKind.BTREE),
    IndexSpec(property_name="body", kind=IndexKind.INVERTED),
    IndexSpec(property_name="vec", kind=IndexKind.IVF_FLAT),
)
Row = dict[str, Any]


def doc(number: int, form: int, photo: Row | None = None) -> Row:
    """One form of a row: no two forms share a value of an indexed property."""
    name = f"d{number:04d}"
    return {
        "id": name,
        "slug": name,
        "rank": form * 10_000 + number % 7,
        "body": f"form{form} word{number % 5}",
        "tag": f"tag of form{form} and {number % 3}",
        "vec": [float(form), float(number % 11) - 5.0, 1.0, float(number % 4)],
        "photo": photo,
    }


def docs(rows: Sequence[Row]) -> pa.Table:
    fields = [
        pa.field(each.name, STORED_BLOB) if each.name == "photo" else each for each in DOC.schema
    ]
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))


@dataclass(frozen=True)
class Merges:
    """Upserts into the tables of one workbench."""

    bench: Workbench
    session: PipelineSession | None
    offsets_bytes: int = OFFSETS_BYTES

    def upserts(self, strategy: MergeStrategy, driver_bytes: int = 1 << 40) -> Upserts:
        settings = replace(Settings().pipeline, merge=strategy, merge_driver_bytes=driver_bytes)
        session: Any = self.session  # The driver's way needs none.
        return Upserts(
            store=self.bench.store,
            settings=settings,
            distributed=DistributedUpsert(
                lane=SparkLane(session=session, runner=StageRunner(session)),
                times=StageTimes(SystemClock()),
                storage=open_task_storage(str(self.bench.root)),
                operation_id=new_operation_id(seeded_ids(3, SystemClock())),
                offsets_bytes=self.offsets_bytes,
            ),
        )

    def view(self, base: TableHandle, *parts: pa.Table) -> StagedView:
        """Rows as a job stages them, each part a fragment of its own."""
        store = self.bench.store
        pieces = join_pieces(store.write_pieces(base, each) for each in parts)
        handle = store.open_staged(base, pieces)
        known = {each.fragment_id for each in store.fragments(base)}
        found = [each.fragment_id for each in store.fragments(handle)]
        return StagedView(
            base=base,
            handle=handle,
            pieces=pieces,
            fragments=tuple(each for each in found if each not in known),
        )

    def merge(
        self, base: TableHandle, strategy: MergeStrategy, *parts: pa.Table
    ) -> tuple[TableHandle, StagedWrite]:
        staged = self.upserts(strategy).stage(self.view(base, *parts), STAMP)
        return self.bench.land(staged), staged


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "tables")


def table_of(bench: Workbench, *fragments: Sequence[Row]) -> TableHandle:
    """A new `Doc` table with these fragments."""
    handle = bench.store.open(DOC, bench.store.create_table(DOC))
    for rows in fragments:
        handle = bench.land(bench.store.stage_append(handle, docs(rows), STAMP))
    return handle


def marks(handle: TableHandle) -> dict[str, Row]:
    """Row id and versions of every row, by id; each id once."""
    names = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = handle.dataset.to_table(columns=names).to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows) == len({row["_rowid"] for row in rows})
    return found


def contents(bench: Workbench, handle: TableHandle) -> dict[str, Row]:
    """Every row as it reads, blobs included."""
    store = bench.store
    rows = {row["id"]: row for row in store.scan(handle).read_all().to_pylist()}
    for entity_id, row in rows.items():
        blob = store.blob(handle, entity_id, "photo")
        if blob is not None:
            row["photo"] = blob.read(0, blob.length) if blob.uri is None else blob.uri
    return rows


def expected(rows: Sequence[Row]) -> dict[str, Row]:
    found = {}
    for row in rows:
        photo = row["photo"]
        kept = {name: value for name, value in row.items() if name != "photo"}
        if photo is not None:
            kept["photo"] = photo["uri"] or photo["data"]
        found[row["id"]] = kept
    return found


OLD, NEW, ADDED = 1, 2, 3
FORMS = {
    OLD: [n for n in range(60, 180) if n % 3],
    # All rows of the first fragment, so that it goes, and every third of the others.
    NEW: [n for n in range(180) if n < 60 or n % 3 == 0],
    ADDED: list(range(180, 240)),
}


def of_form(form: int) -> list[str]:
    return [f"d{n:04d}" for n in FORMS[form]]


@pytest.fixture(scope="module", params=STRATEGIES)
def merged(
    request: pytest.FixtureRequest,
    session: PipelineSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Workbench, TableHandle]:
    """A table with an index of every kind, and rows merged into it."""
    bench = Workbench(tmp_path_factory.mktemp("indexed") / "tables")
    base = table_of(bench, *([doc(n, OLD) for n in range(at, at + 60)] for at in (0, 60, 120)))
    base = bench.land(bench.store.stage_index(base, INDEXES, STAMP))
    # Not a kind that this project builds, but one that a table may have.
    base.dataset.create_scalar_index("tag", "NGRAM", name="ix_ngram")
    base = bench.store.open(DOC, bench.pin(base, bench.store.head_version(DOC, None)))
    rows = [doc(n, form) for form in (NEW, ADDED) for n in FORMS[form]]
    random.Random(1).shuffle(rows)  # noqa: S311 - a test
    handle, staged = Merges(bench, session).merge(
        base, request.param, docs(rows[:70]), docs(rows[70:])
    )
    assert (staged.rows_added, staged.rows_changed) == (len(FORMS[ADDED]), len(FORMS[NEW]))
    return bench, handle


class TestIndexTruth:
    """Results through an index are those without it, for old and for new values."""

    def test_only_rows_that_were_not_touched_are_covered(
        self, merged: tuple[Workbench, TableHandle]
    ) -> None:
        bench, handle = merged
        covered = {each.name: each.rows_covered for each in bench.store.index_coverage(handle)}
        assert covered.pop("ix_1_inverted") == 0, "it was never trained"
        assert len(covered) == len(INDEXES) + 1
        assert set(covered.values()) == {len(FORMS[OLD])}

    @pytest.mark.parametrize("form", FORMS)
    def test_by_btree(self, merged: tuple[Workbench, TableHandle], form: int) -> None:
        _, handle = merged
        for value in range(7):
            asked = f"rank = {form * 10_000 + value}"
            assert ids_of(handle, asked, use_index=True) == ids_of(handle, asked, use_index=False)
        asked = f"rank >= {form * 10_000} and rank < {form * 10_000 + 7}"
        assert ids_of(handle, asked, use_index=True) == of_form(form)

    @pytest.mark.parametrize("form", FORMS)
    def test_by_ngram(self, merged: tuple[Workbench, TableHandle], form: int) -> None:
        _, handle = merged
        asked = f"contains(tag, 'form{form}')"
        assert ids_of(handle, asked, use_index=True) == of_form(form)
        assert ids_of(handle, asked, use_index=False) == of_form(form)

    @pytest.mark.parametrize("form", FORMS)
    def test_by_inverted(self, merged: tuple[Workbench, TableHandle], form: int) -> None:
        bench, handle = merged
        found = bench.store.search_text(handle, "body", f"form{form}")["id"].to_pylist()
        assert sorted(str(each) for each in found) == of_form(form)

    @pytest.mark.parametrize("form", FORMS)
    def test_by_vector(self, merged: tuple[Workbench, TableHandle], form: int) -> None:
        bench, handle = merged
        for number in range(0, 240, 17):
            vector = doc(number, form)["vec"]
            near, exact = (
                bench.store.search_vector(handle, "vec", vector, 240, is_exact=is_exact)
                for is_exact in (False, True)
            )
            assert near.num_rows == 240
            assert sorted(near.to_pylist(), key=str) == sorted(exact.to_pylist(), key=str)


def ids_of(handle: TableHandle, asked: str, *, use_index: bool) -> list[str]:
    scanner = handle.dataset.scanner(columns=["id"], filter=asked, use_scalar_index=use_index)
    assert ("ScalarIndexQuery" in scanner.explain_plan()) == use_index
    return sorted(str(each) for each in scanner.to_table()["id"].to_pylist())


class TestEquality:
    @pytest.mark.parametrize("seed", thinned([2, 0, 1]))
    def test_generated_merges_give_equal_tables(
        self, seed: int, session: PipelineSession, tmp_path: Path
    ) -> None:
        rng = random.Random(seed)  # noqa: S311 - a test
        model: dict[str, Row] = {}
        sides = [Merges(Workbench(tmp_path / each), session) for each in STRATEGIES]
        bases = [table_of(each.bench) for each in sides]
        if seed % 2:
            bases = [each.bench.forked(base) for each, base in zip(sides, bases, strict=True)]
        for form in range(1, 4):
            rows = random_rows(rng, form, len(model))
            known = model.keys() & {row["id"] for row in rows}
            parts = [docs(part) for part in cut(rng, rows)]
            before = [marks(base) for base in bases]
            for side, strategy in enumerate(STRATEGIES):
                bases[side], staged = sides[side].merge(bases[side], strategy, *parts)
                counts = (staged.rows_added, staged.rows_changed, staged.rows_removed)
                assert counts == (len(rows) - len(known), len(known), 0)
                assert staged.rows_after == len(model.keys() | {row["id"] for row in rows})
            model |= {row["id"]: row for row in rows}
            for side, base in enumerate(bases):
                assert contents(sides[side].bench, base) == expected(list(model.values()))
                require_kept(before[side], marks(base), known, base.pin.version)
            if form == 2:  # A branch from here on, in some runs.
                bases = [
                    each.bench.forked(base) if seed == 2 else base
                    for each, base in zip(sides, bases, strict=True)
                ]

    @pytest.mark.parametrize("offsets_bytes", thinned([OFFSETS_BYTES, 0]))
    def test_what_executors_wrote_moves_over_what_others_did_to_other_rows(
        self, offsets_bytes: int, bench: Workbench, session: PipelineSession
    ) -> None:
        """Also where the others marked rows of the same fragments as deleted, or joined them."""
        base = table_of(bench, *([doc(n, 1) for n in range(at, at + 10)] for at in (0, 10, 20)))
        base = bench.land(bench.store.stage_index(base, INDEXES, STAMP))
        mine = [*range(10), 12, 15, 21, 100, 101]
        merges = Merges(bench, session, offsets_bytes=offsets_bytes)
        upserts = merges.upserts(MergeStrategy.DISTRIBUTED)
        staged = upserts.stage(merges.view(base, docs([doc(n, 2) for n in mine])), STAMP)
        # One fragment goes, one gets more marks, one is as it was, one comes.
        newer = bench.delete(base, "d0013", "d0014")
        newer = bench.land(bench.store.stage_merge_insert(newer, docs([doc(11, 3)]), STAMP))
        newer = bench.land(bench.store.stage_append(newer, docs([doc(200, 3)]), STAMP))
        newer = bench.land(bench.store.stage_compaction(newer, STAMP))
        newer = bench.land(bench.store.stage_index(newer, INDEXES, STAMP))
        newer = bench.delete(newer, "d0022")
        moved = staged
        for version in range(base.pin.version + 1, newer.pin.version + 1):
            assert moved.rebase is not None
            moved = moved.rebase(bench.store.open(DOC, bench.pin(base, version)))
        assert (moved.rows_added, moved.rows_changed) == (2, 13)
        assert set(moved.files) <= set(upserts.written)
        done = bench.land(moved)
        model = {n: 1 for n in range(30) if n not in (13, 14, 22)} | {11: 3, 200: 3}
        model |= dict.fromkeys(mine, 2)
        assert contents(bench, done) == expected([doc(n, form) for n, form in model.items()])
        assert done.dataset.count_rows() == moved.rows_after == len(model)
        before, after = marks(base), marks(done)
        kept = before.keys() & after.keys()
        assert {each: after[each]["_rowid"] for each in kept} == {
            each: before[each]["_rowid"] for each in kept
        }
        for form in (1, 2, 3):
            asked = f"rank >= {form * 10_000} and rank < {form * 10_000 + 7}"
            assert ids_of(done, asked, use_index=True) == ids_of(done, asked, use_index=False)

    @pytest.mark.parametrize("others", thinned(["update", "insert", "delete"]))
    def test_what_executors_wrote_is_written_anew_where_others_touched_it(
        self, others: str, bench: Workbench, session: PipelineSession
    ) -> None:
        base = table_of(bench, [doc(n, 1) for n in range(5)], [doc(n, 1) for n in range(5, 9)])
        merges = Merges(bench, session)
        rows = docs([doc(2, 2), doc(6, 2), doc(100, 2)])
        staged = merges.upserts(MergeStrategy.DISTRIBUTED).stage(merges.view(base, rows), STAMP)
        store = bench.store
        match others:
            case "insert":
                theirs = store.stage_append(base, docs([doc(100, 3)]), STAMP)
            case "update":
                theirs = store.stage_merge_insert(base, docs([doc(6, 3)]), STAMP)
            case _:
                theirs = store.stage_delete(base, pa.array(["d0002"]), STAMP)
        assert staged.rebase is not None
        with pytest.raises(Stale, match="load again"):
            staged.rebase(bench.land(theirs))

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_rows_that_are_there_as_they_are_given_stay(
        self, strategy: MergeStrategy, bench: Workbench, session: PipelineSession
    ) -> None:
        merges = Merges(bench, session)
        photos = [None, {"data": b"12", "uri": None}, {"data": None, "uri": "file:///nowhere/1"}]
        known = [doc(n, 1, photos[n % 3]) for n in range(9)]
        base = table_of(bench, known[:5], known[5:])
        base = bench.land(bench.store.stage_index(base, INDEXES, STAMP))
        upserts = merges.upserts(strategy)
        nothing = upserts.stage(merges.view(base, docs(known[:4]), docs(known[4:])), STAMP)
        assert (nothing.is_noop, nothing.rows_unchanged) == (True, 9)
        assert upserts.written == []
        other = [doc(1, 1, {"data": b"13", "uri": None}), doc(3, 2), doc(100, 1)]
        handle, staged = merges.merge(base, strategy, docs([*other, *known[5:7]]), docs(known[7:]))
        counts = (staged.rows_added, staged.rows_changed, staged.rows_unchanged)
        assert counts == (1, 2, 4)
        model = {row["id"]: row for row in [*known, *other]}
        assert contents(bench, handle) == expected(list(model.values()))
        require_kept(marks(base), marks(handle), {"d0001", "d0003"}, handle.pin.version)
        covered = {each.rows_covered for each in bench.store.index_coverage(handle)}
        assert covered == {0, 7}

    def test_a_fragment_whose_rows_are_all_replaced_goes(
        self, bench: Workbench, session: PipelineSession
    ) -> None:
        merges = Merges(bench, session)
        base = table_of(bench, [doc(n, 1) for n in range(5)], [doc(n, 1) for n in range(5, 9)])
        replaced, _ = merges.merge(
            base, MergeStrategy.DISTRIBUTED, docs([doc(n, 2) for n in range(5)])
        )
        fragments = bench.store.fragments(replaced)
        assert [(each.rows, each.deleted_rows) for each in fragments] == [(4, 0), (5, 0)]

    def test_fragments_of_new_rows_only_are_taken_as_they_are(
        self, bench: Workbench, session: PipelineSession
    ) -> None:
        merges = Merges(bench, session)
        base = table_of(bench, [doc(n, 1) for n in range(5)])
        view = merges.view(
            base,
            docs([doc(n, 2) for n in range(10, 15)]),
            docs([doc(n, 2) for n in (1, 16)]),
        )
        upserts = merges.upserts(MergeStrategy.DISTRIBUTED)
        handle = bench.land(upserts.stage(view, STAMP))
        names = {file.path for each in handle.dataset.get_fragments() for file in each.data_files()}
        kept, rewritten = (each.files[0].path for each in view.pieces.added)
        assert kept in names
        assert rewritten not in names
        # What the job would remove on failure is what the tasks made, not what it had staged.
        assert len(upserts.written) == 3
        assert not [path for path in upserts.written if kept in path]
        assert all((bench.root / path).is_file() for path in upserts.written)

    def test_an_empty_table_and_no_rows_need_no_spark(self, bench: Workbench) -> None:
        merges = Merges(bench, None)
        rows = docs([doc(1, 1)])
        handle, staged = merges.merge(table_of(bench), MergeStrategy.DISTRIBUTED, rows)
        assert (staged.rows_added, staged.rows_changed) == (1, 0)
        assert bench.ids(handle) == ["d0001"]
        for strategy in STRATEGIES:
            nothing = StagedView(base=handle, handle=None, pieces=Pieces(), fragments=())
            assert merges.upserts(strategy).stage(nothing, STAMP).is_noop

    @pytest.mark.extended
    def test_many_offsets_lie_in_files_and_give_the_same(
        self, bench: Workbench, session: PipelineSession
    ) -> None:
        base = table_of(bench, [doc(n, 1) for n in range(9)], [doc(n, 1) for n in range(9, 20)])
        rows = [doc(n, 2) for n in range(3, 18)]
        parts = docs(rows[::2]), docs(rows[1::2])
        handle, staged = Merges(bench, session, offsets_bytes=59).merge(
            base, MergeStrategy.DISTRIBUTED, *parts
        )
        assert (staged.rows_added, staged.rows_changed) == (0, 15)
        stored = [each for each in (bench.root / "__staging").rglob("*") if each.is_file()]
        assert sum(each.stat().st_size for each in stored) == 15 * 4
        whole = [doc(n, 2 if 3 <= n < 18 else 1) for n in range(20)]
        assert contents(bench, handle) == expected(whole)

    @pytest.mark.extended
    def test_ids_that_repeat_are_refused(self, bench: Workbench, session: PipelineSession) -> None:
        merges = Merges(bench, session)
        base = table_of(bench, [doc(n, 1) for n in range(3)])
        twice = docs([doc(1, 2)]), docs([doc(1, 3)])
        with pytest.raises(InternalError, match="replaces a row of fragment 0 twice"):
            merges.merge(base, MergeStrategy.DISTRIBUTED, *twice)
        # No writer of this project makes such a table.
        base = bench.land(bench.store.stage_append(base, docs([doc(1, 1)]), STAMP))
        with pytest.raises(InternalError, match="some id is in the table twice"):
            merges.merge(base, MergeStrategy.DISTRIBUTED, docs([doc(1, 2)]))


def random_rows(rng: random.Random, form: int, known: int) -> list[Row]:
    """Rows that replace about half of the known ones, and new ones."""
    replaced = rng.sample(range(known), known * 2 // 3)
    numbers = [*replaced, *range(known, known + rng.randint(1, 40))]
    rng.shuffle(numbers)
    return [doc(number, form, random_photo(rng, form)) for number in numbers]


def random_photo(rng: random.Random, form: int) -> Row | None:
    match rng.randrange(5):
        case 0:
            return None
        case 1:
            return {"data": None, "uri": f"file:///nowhere/{form}/{rng.randrange(9)}"}
        case 2:
            return {"data": bytes([form]) * 100_000, "uri": None}
        case 3:
            return {"data": b"", "uri": None}
        case _:
            return {"data": rng.randbytes(20), "uri": None}


def cut(rng: random.Random, rows: list[Row]) -> list[list[Row]]:
    at = sorted({0, len(rows), *(rng.randrange(len(rows)) for _ in range(3))})
    return [rows[start:end] for start, end in itertools.pairwise(at)]


def require_kept(
    before: dict[str, Row], after: dict[str, Row], changed: set[str], version: int
) -> None:
    """Rows keep their row ids and their birth; those that changed tell it, and only those."""
    for name, row in before.items():
        now = after[name]
        assert now["_rowid"] == row["_rowid"]
        assert now["_row_created_at_version"] == row["_row_created_at_version"]
        last = row["_row_last_updated_at_version"]
        assert now["_row_last_updated_at_version"] == (version if name in changed else last)
    used = {row["_rowid"] for row in before.values()}
    for name in after.keys() - before.keys():
        assert after[name]["_row_created_at_version"] == version
        assert after[name]["_rowid"] not in used


class TestRetries:
    @pytest.mark.extended
    def test_a_worker_killed_after_it_wrote_gives_the_exact_rows(
        self, session: PipelineSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench = Workbench(tmp_path / "tables")
        base = table_of(bench, [doc(n, 1) for n in range(20)])
        rows = [doc(n, 2) for n in range(10, 25)]
        monkeypatch.setattr(distributed, "write_part", dying_once(tmp_path / "mark"))
        merges = Merges(bench, session)
        upserts = merges.upserts(MergeStrategy.DISTRIBUTED)
        assert upserts.distributed is not None
        times = upserts.distributed.times
        times.enter("resolve")
        handle = bench.land(upserts.stage(merges.view(base, docs(rows)), STAMP))
        assert (tmp_path / "mark").exists()
        whole = [doc(n, 1) for n in range(10)] + rows
        assert contents(bench, handle) == expected(whole)
        times.enter(None)
        (told,) = times.reports()
        assert (told.tasks, told.retries) == (2, 1)
        # The staged file, and a file of changed and one of new rows of the killed attempt.
        data = {each.name for each in (bench.root / DOC.location / "data").glob("*.lance")}
        used = {file.path for each in handle.dataset.get_fragments() for file in each.data_files()}
        assert used <= data
        assert len(data - used) == 3


def dying_once(mark: Path) -> Callable[[MergePlan, MergePart, pa.Table], PartResult]:
    """Writes a part and kills its worker, once. Nested, so that its code travels with it."""

    def write(plan: MergePlan, part: MergePart, places: pa.Table) -> PartResult:
        from omnigraph.pipeline.upsert.tasks import write_part

        result = write_part(plan, part, places)
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return result
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    return write


class TestChoice:
    def test_what_one_process_can_hold_is_merged_by_it(self, bench: Workbench) -> None:
        merges = Merges(bench, None)
        base = table_of(bench, [doc(n, 1) for n in range(500)])
        view = merges.view(base, docs([doc(1, 2)]))
        needed = driver_bytes(bench.store, view)
        staged = sum(file.file_size_bytes or 0 for file in view.pieces.added[0].files)
        assert needed == staged + 500 * (len("d0001") + 4)
        for limit, chosen in ((needed, "distributed"), (needed + 1, "driver")):
            upserts = merges.upserts(MergeStrategy.AUTO, driver_bytes=limit)
            assert upserts.strategy == MergeStrategy.DRIVER
            assert upserts.choose(view) == upserts.strategy == chosen

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_strategy_that_was_asked_for_is_taken(
        self, strategy: MergeStrategy, bench: Workbench
    ) -> None:
        merges = Merges(bench, None)
        view = merges.view(table_of(bench), docs([doc(1, 2)]))
        for limit in (0, 1 << 40):
            assert merges.upserts(strategy, driver_bytes=limit).choose(view) is strategy

    def test_blobs_beside_their_files_count(self, bench: Workbench) -> None:
        merges = Merges(bench, None)
        base = table_of(bench, [doc(0, 1, {"data": b"y" * 1_000_000, "uri": None})])
        photos: list[Row] = [
            {"data": b"x" * 1_000_000, "uri": None},
            {"data": None, "uri": "file:///far"},
        ]
        view = merges.view(base, *(docs([doc(n, 2, each)]) for n, each in enumerate(photos)))
        files = sum(each.files[0].file_size_bytes or 0 for each in view.pieces.added)
        assert files < 100_000
        assert view.handle is not None
        assert bench.store.staged_bytes(view.handle, view.fragments) == files + 1_000_000
        assert bench.store.staged_bytes(view.handle, ()) == 0

    def test_parts_hold_what_a_task_can(self) -> None:
        def fragment(number: int, rows: int = 1, size_bytes: int = 1) -> FragmentInfo:
            return FragmentInfo(
                fragment_id=number, rows=rows, deleted_rows=0, size_bytes=size_bytes
            )

        def numbers(*fragments: FragmentInfo, has_blobs: bool = False) -> list[list[int]]:
            found = merge_parts(fragments, has_blobs=has_blobs)
            assert [each.number for each in found] == list(range(len(found)))
            return [[one.fragment_id for one in each.fragments] for each in found]

        assert numbers() == []
        assert numbers(fragment(4), fragment(5)) == [[4, 5]]
        assert numbers(fragment(4), fragment(5), has_blobs=True) == [[4], [5]]
        assert numbers(*(fragment(n) for n in range(10))) == [list(range(8)), [8, 9]]
        half = 1 << 18
        assert numbers(fragment(0, half), fragment(1, half), fragment(2)) == [[0, 1], [2]]
        large = fragment(1, size_bytes=1 << 30)
        assert numbers(fragment(0), large, fragment(2)) == [[0], [1], [2]]


class TestDriver:
    def test_rows_without_blobs_are_streamed_and_can_move_to_a_newer_base(
        self, bench: Workbench
    ) -> None:
        merges = Merges(bench, None)
        base = bench.filled(PLAIN, *({"id": f"p{n}", "rank": n} for n in range(20)))
        rows = [{"id": f"p{n}", "rank": 100 + n} for n in range(15, 25)]
        view = merges.view(base, pa.Table.from_pylist(rows, schema=PLAIN.schema))
        staged = merges.upserts(MergeStrategy.DRIVER).stage(view, STAMP)
        assert (staged.rows_added, staged.rows_changed, staged.rows_after) == (5, 5, 25)
        newer = bench.append(base, {"id": "p24", "rank": 0})
        assert staged.rebase is not None
        moved = staged.rebase(newer)
        assert (moved.rows_added, moved.rows_changed, moved.rows_after) == (4, 6, 25)
        found = bench.column(bench.land(moved), "rank")
        assert found == {f"p{n}": n if n < 15 else 100 + n for n in range(25)}

    def test_staged_rows_that_cannot_be_read_are_told_as_such(self, bench: Workbench) -> None:
        merges = Merges(bench, None)
        base = bench.filled(PLAIN, {"id": "a", "rank": 1})
        rows = pa.Table.from_pylist([{"id": "a", "rank": 2}], schema=PLAIN.schema)
        view = merges.view(base, rows)
        for path in bench.store.piece_files(base, view.pieces):
            (bench.root / path).unlink()
        with pytest.raises(ObjectMissing, match="node:Plain"):
            merges.upserts(MergeStrategy.DRIVER).stage(view, STAMP)


GRAPH = """
node Person { name: String @key  age: I32? @index  bio: String? @index  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
OLDER = "query older() { match { $p: Person  $p.age > 40 } return { $p.name } order { $p.name } }"
AGE = 'query age() { update Person set { age: 77 } where name = "p12" }'


def person(name: str, **data: object) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name, **data}}).encode() + b"\n"


def knows(id: str, src: str, dst: str, since: int) -> bytes:  # noqa: A002 - as in the format
    record = {"edge": "Knows", "from": src, "to": dst, "data": {"id": id, "since": since}}
    return json.dumps(record).encode() + b"\n"


PHOTO = "base64:" + base64.b64encode(b"p" * 100_000).decode()
SEED = b"".join(
    [
        *(person(f"p{n}", age=n, bio=f"seed {n}", photo=PHOTO) for n in range(30)),
        *(knows(f"k{n}", f"p{n}", f"p{n + 1}", n) for n in range(20)),
    ]
)
FIRST = b"".join(
    [
        *(person(f"p{n}", age=40 + n, bio=f"first {n}") for n in range(10, 36)),
        person("p0", age=99, photo="base64:aGk="),
        *(knows(f"k{n}", f"p{n}", "p35", 1000 + n) for n in range(5, 25)),
        knows("k7", "p0", "p1", 7777),
    ]
)
SECOND = b"".join(person(f"p{n}", age=n, bio=f"second {n}") for n in range(5, 40))


@dataclass
class Loads:
    """One graph, loaded on Spark."""

    graph: Graph
    folder: Path
    session: PipelineSession
    strategy: MergeStrategy

    def load(
        self,
        text: bytes,
        *,
        branch: str = "main",
        dry_run: bool = False,
        split_bytes: int = 900,
    ) -> JobReport:
        path = self.folder / "input.jsonl"
        path.write_bytes(text)
        settings = Settings()
        pipeline = replace(settings.pipeline, merge=self.strategy, split_bytes=split_bytes)
        settings = replace(settings, pipeline=pipeline)
        job = spark_load(
            self.graph,
            self.session,
            settings,
            [plan_source(SourceRequest(source=str(path)), settings)],
            LoadRequest(
                mode=LoadMode.MERGE,
                branch=BranchName(branch),
                from_=None if branch == "main" else "main",
                dry_run=dry_run,
            ),
            external=DENY_ALL,
        )
        return job.report()

    @property
    def root(self) -> Path:
        return self.folder / self.strategy

    def files(self) -> set[str]:
        """What is stored, but for leases, whose objects every write leaves."""
        return {
            str(each.relative_to(self.root))
            for each in self.root.rglob("*")
            if each.is_file() and "__leases" not in each.parts
        }

    def data(self) -> set[str]:
        """Data files, and folders of the blobs beside them, by the name of the file."""
        found = (each for folder in self.root.rglob("data") for each in folder.iterdir())
        return {each.stem for each in found if each.is_file() or any(each.iterdir())}

    def used(self) -> set[str]:
        """Data files that some version of a table names."""
        versions = (
            lance.dataset(str(folder.parent), version=each["version"])
            for folder in self.root.rglob("_versions")
            for each in lance.dataset(str(folder.parent)).versions()
        )
        files = (
            file
            for version in versions
            for each in version.get_fragments()
            for file in each.data_files()
        )
        return {Path(each.path).stem for each in files}


class TestLoads:
    @pytest.fixture(params=STRATEGIES)
    def loads(
        self, request: pytest.FixtureRequest, session: PipelineSession, tmp_path: Path
    ) -> Iterator[Loads]:
        with Graph.init(tmp_path / request.param, schema=GRAPH) as graph:
            graph.load(SEED, mode="append")
            graph.maintenance.ensure_indices()
            yield Loads(graph, tmp_path, session, request.param)

    @pytest.mark.extended
    @pytest.mark.parametrize("branch", ["main", "side"])
    def test_merges_on_spark_equal_those_in_process(
        self, branch: str, loads: Loads, tmp_path: Path
    ) -> None:
        with Graph.init(tmp_path / "local", schema=GRAPH) as local:
            local.load(SEED, mode="append")
            for text in (FIRST, SECOND):
                start = None if branch == "main" else "main"
                wanted = local.load(text, mode="merge", branch=branch, from_=start)
                foreseen = loads.load(text, branch=branch, dry_run=True)
                report = loads.load(text, branch=branch)
                assert report.merge_strategy == foreseen.merge_strategy == loads.strategy
                assert report.tables == foreseen.tables == wanted.tables
                assert exported(loads.graph, branch) == exported(local, branch)
            for graph in (loads.graph, local):
                graph.mutate(AGE, branch=branch)
            assert exported(loads.graph, branch) == exported(local, branch)
            assert exported(loads.graph, "main") == exported(local, "main")
            found = loads.graph.query(OLDER, branch=branch).to_dicts()
            assert found == local.query(OLDER, branch=branch).to_dicts()
            assert len(found) > 1

    @pytest.mark.parametrize("loads", thinned(reversed(STRATEGIES)), indirect=True)
    def test_a_merge_beside_a_writer_of_other_rows_is_written_once(self, loads: Loads) -> None:
        commits: list[int] = []
        resolved: list[int] = []
        with Graph.open(loads.root) as other:

            def commit() -> None:
                commits.append(len(commits))
                with armed("load.post_stage_pre_lease", lambda: None):
                    text = person("p1", age=1_000 + len(commits)) + person(f"new{len(commits)}")
                    other.load(text, mode="merge", engine="local")

            with (
                armed("spark_load.post_resolve", lambda: resolved.append(len(commits))),
                armed("load.post_stage_pre_lease", commit),
            ):
                report = loads.load(SECOND)
            assert (commits, resolved) == ([0], [0])
            assert [(each.added, each.changed) for each in report.tables] == [(10, 25)]
            found = {row["id"]: row for row in people_of(loads.graph)}
            assert (found["p1"]["age"], found["new1"]["age"], len(found)) == (1_001, None, 41)
            assert found["p5"]["bio"] == "second 5"

    @pytest.mark.parametrize("loads", thinned(STRATEGIES), indirect=True)
    def test_rows_that_were_merged_leave_no_file_of_the_input(self, loads: Loads) -> None:
        report = loads.load(FIRST + person("new", photo=PHOTO), split_bytes=1 << 20)
        assert [each.superseded for each in report.tables] == [0, 1]
        assert loads.data() == loads.used()

    @pytest.mark.parametrize("loads", thinned(STRATEGIES), indirect=True)
    def test_what_was_written_goes_when_the_load_fails(self, loads: Loads) -> None:
        before = loads.files()
        with armed("spark_load.post_resolve", Action.RAISE), pytest.raises(FailpointHit):
            loads.load(FIRST)
        assert loads.files() == before

    @pytest.mark.extended
    @pytest.mark.parametrize("loads", [MergeStrategy.DISTRIBUTED], indirect=True)
    def test_what_was_written_goes_when_a_later_stage_fails(
        self, loads: Loads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = loads.files()

        def fail(task: object) -> Iterator[pa.RecordBatch]:
            raise InternalError(f"no deletion today: {type(task).__name__}")

        monkeypatch.setattr(distributed, "delete_replaced", fail)
        with pytest.raises(InternalError, match="no deletion today"):
            loads.load(FIRST)
        assert loads.files() == before


def people_of(graph: Graph) -> list[Row]:
    found: list[Row] = graph.snapshot().scan("Person").read_all().to_pylist()
    return found


def exported(graph: Graph, branch: str) -> bytes:
    return b"".join(graph.export(branch=branch))
