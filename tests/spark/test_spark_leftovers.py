"""A load that others overtake, that fails, or that goes on for another leaves no file behind.

What needs no tasks elsewhere runs the load in this process; the rest also runs on Spark.
"""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest
from tests.load_jobs import spark_load
from tests.unit.graph.graphs import lose_lease, once

from omnigraph import Graph
from omnigraph.errors import (
    InvalidArgument,
    KeyConflict,
    LoadRejected,
    ReadSetChanged,
    RecoveryRequired,
    SourceError,
)
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.jobs.pins import PINS, pin_for_job
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.graph.manifest.intent import PlannedSchema, SidecarKind
from omnigraph.ids import MAIN_BRANCH, new_operation_id
from omnigraph.lang import accept_schema, compile_schema
from omnigraph.pipeline.load import leftovers, resume
from omnigraph.pipeline.load.leftovers import LoadLeftovers
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.pipeline.staging.job_files import noted_files
from omnigraph.settings import MergeStrategy, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.pipeline.spark.session import PipelineSession

HERE, SPARK = "here", "spark"
SCHEMA = """
node Person { name: String @key  age: I32? }
node Doc { slug: String @key  photo: Blob? }
edge Knows: Person -> Person
"""
STRICTER = SCHEMA.replace("age: I32?", "age: I32?  @range(age, 0..50)")
STRICTEST = SCHEMA.replace("age: I32?", "age: I32?  @range(age, 0..40)")
SPLITS = 3
PHOTO = "base64:" + base64.b64encode(b"p" * 100_000).decode()


class _Killed(BaseException):
    """Stands for the end of the driver: nothing is cleaned up after it."""


def person(name: str, **data: object) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name, **data}}).encode() + b"\n"


def doc(slug: str, photo: str | None = None) -> bytes:
    return json.dumps({"type": "Doc", "data": {"slug": slug, "photo": photo}}).encode() + b"\n"


SEED = b"".join(
    [
        *(person(f"p{n}", age=n) for n in range(10)),
        *(doc(f"d{n}") for n in range(9)),
        doc("d9", PHOTO),
    ]
)
INPUT = b"".join(
    [
        *(person(f"p{n}", age=20 + n) for n in range(5, 15)),
        *(doc(f"d{n}") for n in range(5, 14)),
        doc("d14", PHOTO),
    ]
)


@dataclass
class Loads:
    """One graph, and loads into it."""

    graph: Graph
    folder: Path
    session: PipelineSession | None

    @property
    def root(self) -> Path:
        return self.folder / "graph"

    @property
    def source(self) -> Path:
        return self.folder / "input.jsonl"

    def load(
        self,
        text: bytes | None = None,
        mode: str = "merge",
        **options: Any,  # noqa: ANN401 - as the load takes them
    ) -> JobReport:
        """Load a text, or the source as it is."""
        if text is not None:
            self.source.write_bytes(text)
        settings = Settings()
        size_bytes = self.source.stat().st_size if self.source.exists() else 0
        pipeline = replace(
            settings.pipeline, merge=MergeStrategy.DRIVER, split_bytes=size_bytes // SPLITS + 1
        )
        settings = replace(settings, pipeline=pipeline)
        job = spark_load(
            self.graph,
            self.session,
            settings,
            [plan_source(SourceRequest(source=str(self.source)), settings)],
            LoadRequest(mode=LoadMode(mode), branch=MAIN_BRANCH),
            external=DENY_ALL,
            **options,
        )
        return job.report()

    def cut_off(self, text: bytes, mode: str = "append", **options: Any) -> str:  # noqa: ANN401
        """A load that ended after its intake as if its process had been killed; its operation."""
        told: list[str] = []

        def end() -> None:
            raise _Killed

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LoadLeftovers, "_clear", lambda _: None)
            patched.setattr(LoadLeftovers, "remove_files", lambda _: None)
            with armed("spark_load.post_intake", end), pytest.raises(_Killed):
                self.load(text, mode, started=told.append, **options)
        return told[0]

    def write(self, text: bytes) -> None:
        """Another writer commits."""
        with Graph.open(self.root) as other:
            other.load(text, mode="merge")

    def change_schema(self, text: str) -> None:
        """Another writer changes rules; no table changes."""
        graph = self.graph._graph
        now = graph.schemas.load(graph.lines.read(graph.branch_id(MAIN_BRANCH)).schema.schema_hash)
        accepted = accept_schema(compile_schema(text), now)
        graph.schemas.store(accepted, text)
        planned = PlannedSchema(
            schema_hash=accepted.schema_hash,
            next_type_id=accepted.next_type_id,
            next_property_id=accepted.next_property_id,
        )
        request = WriteRequest(kind=SidecarKind.SCHEMA_APPLY, branch=MAIN_BRANCH)
        graph.protocol.run(request, lambda _: PreparedWrite(schema_to=planned))

    def files(self) -> set[str]:
        """What is stored, but for leases, the manifest and what names schemas."""
        return {
            str(each.relative_to(self.root))
            for each in self.root.rglob("*")
            if each.is_file() and each.relative_to(self.root).parts[0] in ("nodes", "edges")
        } | self.staging()

    def staging(self) -> set[str]:
        """What lies below `__staging`, folders included."""
        return {str(each.relative_to(self.root)) for each in self.root.glob("__staging/**/*")}

    def orphans(self) -> set[str]:
        """Data files and marks of deleted rows that no version of a table names."""
        found = set()
        for folder in [each.parent for each in self.root.glob("*s/*/data")]:
            named = set()
            for each in lance.dataset(str(folder)).versions():
                for fragment in lance.dataset(str(folder), version=each["version"]).get_fragments():
                    named |= {Path(file.path).stem for file in fragment.data_files()}
                    deleted = fragment.metadata.deletion_file
                    if deleted is not None:
                        named.add(Path(deleted.path(fragment.fragment_id)).stem)
            stored = [*(folder / "data").rglob("*"), *(folder / "_deletions").rglob("*")]
            found |= {
                str(each)
                for each in stored
                if each.is_file() and not {each.stem, each.parent.name} & named
            }
        return found

    def ages(self) -> dict[str, int | None]:
        rows = self.graph.snapshot().scan("Person").read_all().to_pylist()
        return {row["name"]: row["age"] for row in rows}


@pytest.fixture(params=[HERE])
def loads(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Loads]:
    session = request.getfixturevalue("session") if request.param == "spark" else None
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        graph.load(SEED, mode="append")
        yield Loads(graph, tmp_path, session)


@contextmanager
def before_commit(*actions: Callable[[], None]) -> Iterator[None]:
    """Do something between the preparation of a load and its commit, once for each attempt."""
    waiting = list(actions)

    def act() -> None:
        if waiting:  # What others load passes the same point.
            waiting.pop(0)()

    with armed("load.post_stage_pre_lease", act):
        yield
    assert not waiting


class TestOvertakenMerges:
    @pytest.mark.parametrize("loads", [HERE, SPARK], indirect=True)
    def test_a_merge_that_moved_to_a_newer_version_leaves_no_file_of_its_first_staging(
        self, loads: Loads
    ) -> None:
        # One row that the load replaces too, one that it brings too, and others.
        beside = person("p6", age=1) + person("p12", age=1) + person("q", age=1) + doc("d7")
        with before_commit(lambda: loads.write(beside)):
            report = loads.load(INPUT)
        assert [(each.added, each.changed) for each in report.tables] == [(5, 1), (4, 6)]
        ages = {f"p{n}": n for n in range(5)} | {f"p{n}": 20 + n for n in range(5, 15)}
        assert loads.ages() == ages | {"q": 1}
        assert loads.graph.snapshot().count("Doc") == 15
        assert loads.orphans() == set()
        assert loads.staging() == set()

    def test_a_merge_that_moved_and_then_failed_leaves_nothing(self, loads: Loads) -> None:
        def overtake() -> None:
            loads.write(person("q", age=1) + doc("d7"))
            before.update(loads.files())

        before: set[str] = set()
        with before_commit(overtake), pytest.raises(FailpointHit):
            self.load_failing_under_its_lease(loads)
        # What was there but for the load; its files and its views are gone.
        assert loads.files() < before
        assert loads.orphans() == set()
        assert loads.staging() == set()
        assert "p14" not in loads.ages()

    def load_failing_under_its_lease(self, loads: Loads) -> None:
        passed = 0

        def fail() -> None:
            nonlocal passed
            passed += 1
            if passed == 2:  # The first one is the writer beside it.
                raise FailpointHit("load.post_lease_pre_sidecar")

        with armed("load.post_lease_pre_sidecar", fail):
            loads.load(INPUT)


class TestOverwrites:
    @pytest.mark.parametrize("loads", [HERE, SPARK], indirect=True)
    def test_an_overwrite_that_a_writer_of_the_same_table_overtook_fails_and_leaves_nothing(
        self, loads: Loads
    ) -> None:
        with (
            before_commit(lambda: loads.write(person("q", age=1))),
            pytest.raises(ReadSetChanged) as overtaken,
        ):
            loads.load(INPUT, "overwrite")
        assert overtaken.value.details["member"] == "node:Person"
        assert loads.ages() == {f"p{n}": n for n in range(10)} | {"q": 1}
        assert loads.orphans() == set()
        assert loads.staging() == set()
        assert [each.kind for each in loads.graph.commits.list()] == ["load", "load", "genesis"]


class TestSchemaChanges:
    @pytest.mark.parametrize("loads", [HERE, SPARK], indirect=True)
    @pytest.mark.parametrize("mode", ["merge", "overwrite"])
    def test_a_load_starts_over_when_the_schema_changed(self, mode: str, loads: Loads) -> None:
        with before_commit(lambda: loads.change_schema(STRICTER)):
            report = loads.load(INPUT, mode)
        (intake,) = [each for each in report.stages if each.name == "intake"]
        assert intake.rows == 40
        kept = {} if mode == "overwrite" else {f"p{n}": n for n in range(5)}
        assert loads.ages() == kept | {f"p{n}": 20 + n for n in range(5, 15)}
        assert loads.orphans() == set()
        assert loads.staging() == set()

    def test_rows_are_held_against_the_schema_that_is_in_force_at_the_end(
        self, loads: Loads
    ) -> None:
        with (
            before_commit(lambda: loads.change_schema(STRICTER)),
            pytest.raises(LoadRejected),
        ):
            loads.load(INPUT + person("old", age=51))
        assert loads.ages() == {f"p{n}": n for n in range(10)}
        assert loads.orphans() == set()
        assert loads.staging() == set()

    def test_a_schema_that_changes_twice_ends_the_load(self, loads: Loads) -> None:
        with (
            before_commit(
                lambda: loads.change_schema(STRICTER), lambda: loads.change_schema(STRICTEST)
            ),
            pytest.raises(ReadSetChanged, match="changed twice") as changed,
        ):
            loads.load(INPUT)
        assert changed.value.details["member"] == "schema"
        assert loads.ages() == {f"p{n}": n for n in range(10)}
        assert loads.orphans() == set()
        assert loads.staging() == set()


class TestStaging:
    NEW = b"".join(person(f"n{n}", age=n) for n in range(40))

    @pytest.mark.parametrize("loads", [HERE, SPARK], indirect=True)
    def test_a_load_that_went_on_for_another_leaves_no_mark_and_no_folder(
        self, loads: Loads
    ) -> None:
        operation = loads.cut_off(self.NEW)
        assert loads.staging()
        report = loads.load(mode="append", resume=operation)
        assert report.warnings == ()
        assert loads.staging() == set()
        again = loads.load(mode="append", resume=operation)
        assert again.already_loaded
        assert loads.staging() == set()

    def test_a_load_leaves_no_folder_whether_it_ended_well_or_not(self, loads: Loads) -> None:
        loads.load(self.NEW, "append")
        assert loads.staging() == set()
        with pytest.raises(KeyConflict):
            loads.load(self.NEW, "append")
        assert loads.staging() == set()
        with armed("spark_load.post_intake", Action.RAISE), pytest.raises(FailpointHit):
            loads.load(self.NEW, "merge")
        assert loads.staging() == set()

    def test_a_load_that_went_on_and_failed_leaves_what_another_try_needs_and_no_mark(
        self, loads: Loads
    ) -> None:
        operation = loads.cut_off(self.NEW)
        before = loads.staging()
        with armed("spark_load.post_check", Action.RAISE), pytest.raises(FailpointHit):
            loads.load(mode="append", resume=operation)
        assert loads.staging() == before
        report = loads.load(mode="append", resume=operation)
        assert report.warnings == ()
        assert report.tables[0].added == 40
        assert loads.orphans() == set()
        assert loads.staging() == set()

    def test_a_merge_that_went_on_for_another_leaves_no_file(self, loads: Loads) -> None:
        operation = loads.cut_off(INPUT, "merge")
        report = loads.load(mode="merge", resume=operation)
        assert [(each.added, each.changed) for each in report.tables] == [(5, 1), (5, 5)]
        assert loads.orphans() == set()
        assert loads.staging() == set()

    def test_a_mark_stays_when_it_is_not_known_what_became_of_the_load(self, loads: Loads) -> None:
        operation = loads.cut_off(self.NEW)
        with (
            armed("load.post_table_commit", once(lambda: lose_lease(loads.root, released=True))),
            pytest.raises(RecoveryRequired),
        ):
            loads.load(mode="append", resume=operation)
        # Whoever was thought dead must not take the files: the next writer may commit them.
        assert resume.is_taken_over(loads.graph._graph.storage, operation)
        loads.write(person("later"))
        with Graph.open(loads.root) as again:
            assert len(b"".join(again.export(types=["Person"])).splitlines()) == 51

    def test_a_load_that_could_not_go_on_leaves_what_another_try_needs(self, loads: Loads) -> None:
        operation = loads.cut_off(self.NEW)
        before = loads.staging()
        loads.source.rename(loads.folder / "away.jsonl")
        with pytest.raises(SourceError):
            loads.load(mode="append", resume=operation)
        assert loads.staging() == before
        (loads.folder / "away.jsonl").rename(loads.source)
        report = loads.load(mode="append", resume=operation)
        assert report.warnings == ()
        assert len(loads.ages()) == 50

    def test_a_refused_attempt_to_go_on_touches_nothing_of_a_load_that_runs(
        self, loads: Loads
    ) -> None:
        told: list[str] = []

        def try_to_go_on() -> None:
            before = loads.files()
            with pytest.raises(InvalidArgument, match="still runs"):
                loads.load(mode="append", resume=told[0])
            assert loads.files() == before

        with armed("spark_load.post_intake", try_to_go_on):
            loads.load(self.NEW, "append", started=told.append)
        assert len(loads.ages()) == 50

    def test_a_mark_stands_until_the_one_that_made_it_ends(self, loads: Loads) -> None:
        graph = loads.graph._graph
        operation = loads.cut_off(self.NEW)
        first = resume.take_over(graph, operation)
        second = resume.take_over(graph, operation)
        resume.forget_intake(graph.storage, operation)
        assert resume.give_back(graph.storage, operation, first) == 0
        assert resume.is_taken_over(graph.storage, operation)
        assert resume.remove_staging(graph.storage, operation) == 0
        assert resume.give_back(graph.storage, operation, second) > 0
        assert loads.staging() == set()

    def test_a_load_that_was_thought_dead_takes_no_file_of_a_commit(self, loads: Loads) -> None:
        """It wakes up when the other one has committed its files and taken away its mark."""
        told: list[str] = []
        reports: list[JobReport] = []

        def go_on_elsewhere() -> None:
            if len(told) == 1:  # The other load passes the same point.
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(resume, "living_pin", lambda *_: None)
                    again = loads.load(mode="append", resume=told[0], started=told.append)
                reports.append(again)
                assert loads.staging() == set()
                raise FailpointHit("spark_load.post_check")

        with armed("spark_load.post_check", go_on_elsewhere), pytest.raises(FailpointHit):
            loads.load(self.NEW, "append", started=told.append)
        assert reports[0].warnings == ()
        assert loads.staging() == set()
        with Graph.open(loads.root) as again:
            assert len(b"".join(again.export(types=["Person"])).splitlines()) == 50

    def test_a_load_that_was_thought_dead_takes_no_file_of_one_that_started_over(
        self, loads: Loads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It fails, and while it looks for its files the other one stages new ones."""
        told: list[str] = []
        reports: list[JobReport] = []
        is_staged, may_go_on = threading.Event(), threading.Event()
        real = noted_files

        def pause() -> None:
            if threading.current_thread() is other:
                is_staged.set()
                assert may_go_on.wait(30)

        def overtaken(*given: Any) -> list[str]:  # noqa: ANN401 - passed on as they came
            monkeypatch.undo()
            other.start()
            assert is_staged.wait(30)
            return real(*given)

        def go_on() -> None:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(resume, "living_pin", lambda *_: None)
                reports.append(loads.load(mode="append", resume=told[0]))

        other = threading.Thread(target=go_on)
        monkeypatch.setattr(leftovers, "noted_files", overtaken)
        with (
            armed("spark_load.post_intake", pause),
            armed("spark_load.post_check", fail_in(threading.current_thread())),
        ):
            with pytest.raises(FailpointHit):
                loads.load(self.NEW, "append", started=told.append)
            may_go_on.set()
            other.join()
        assert reports[0].tables[0].added == 40
        with Graph.open(loads.root) as again:
            assert len(b"".join(again.export(types=["Person"])).splitlines()) == 50


def fail_in(thread: threading.Thread) -> Callable[[], None]:
    def fail() -> None:
        if threading.current_thread() is thread:
            raise FailpointHit("spark_load.post_check")

    return fail


def test_the_pin_of_a_job_lives_as_long_as_a_lease(loads: Loads) -> None:
    graph = loads.graph._graph
    settings = replace(Settings().storage, lease_ttl_ms=12_345)
    operation = new_operation_id(graph.ids)
    with pin_for_job(
        graph.storage.objects,
        graph.clock,
        settings,
        operation_id=operation,
        kind="embed",
        owner="act",
    ) as held:
        held.hold([])
        (path,) = (loads.root / PINS).glob("*.json")
        pin = json.loads(path.read_text())
    assert (pin["operation_id"], pin["kind"], pin["owner"]) == (operation, "embed", "act")
    assert pin["ttl_ms"] == 12_345
    assert not path.exists()
