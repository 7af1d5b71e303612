"""Bad rows that are set aside: on Spark the same files, reports and graphs as in one process."""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load
from tests.quarantine_inputs import SCHEMA, SEED, edge, person, random_input, seed_beside

from omnigraph import Graph
from omnigraph.errors import InputChanged, OmnigraphError
from omnigraph.failpoints import armed
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.jobs.report import JobReport, LoadMode
from omnigraph.graph.load.reject_options import parse_reject_options
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import BranchName
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.pipeline.spark.session import PipelineSession

pytestmark = pytest.mark.timeout(600)


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
        """What both loads give: reports or errors, with the files that they wrote."""
        path = self.folder / "input.jsonl"
        path.write_bytes(text)
        rejects: dict[str, Any] = {"max_reject_ratio": 1.0, "on_error": "quarantine"} | options
        places = [self.folder / "here-rejects", self.folder / "spark-rejects"]
        local = _outcome(
            lambda: self.here.load(
                path,
                mode=mode,  # type: ignore[arg-type]  # one of the modes
                engine="local",
                **{**rejects, "rejects": str(places[0])},
            )
        )
        spark = _outcome(
            lambda: self.load_on_spark(
                path, mode, way=way, **{**rejects, "rejects": str(places[1])}
            )
        )
        return local, spark

    def load_on_spark(
        self,
        source: object,
        mode: str,
        *,
        way: CheckWay = CheckWay.AUTO,
        dry_run: bool = False,
        request: dict[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - as above
    ) -> JobReport:
        names = ("on_error", "rejects", "max_rejects", "max_reject_ratio", "cascade")
        rejects = {name: options.pop(name) for name in names if name in options}
        given = source if not isinstance(source, Path) else str(source)
        job = spark_load(
            self.spark,
            self.session,
            self.settings,
            [plan_source(SourceRequest(source=given, **request or {}), self.settings)],  # type: ignore[arg-type]
            LoadRequest(
                mode=LoadMode(mode),
                branch=BranchName("main"),
                rejects=parse_reject_options(self.settings, **rejects),
                dry_run=dry_run,
                **options,
            ),
            external=DENY_ALL,
            way=way,
        )
        return job.report()

    def require_equal(self) -> None:
        assert b"".join(self.spark.export()) == b"".join(self.here.export())


def _outcome(load: Callable[[], JobReport]) -> object:
    try:
        report = load()
    except OmnigraphError as error:
        uri = error.details.pop("rejects_uri", None)
        message = error.message.replace(str(uri), "…")
        return type(error).__name__, message, error.details, _files(uri, None)
    tables = [each.to_dict() for each in report.tables]
    return tables, dict(report.violations), _files(report.rejects_uri, report)


def _files(uri: object, report: JobReport | None) -> dict[str, bytes]:
    if uri is None:
        return {}
    found = {each.name: each.read_bytes() for each in Path(str(uri)).iterdir()}
    if report is not None and report.commit is not None:
        assert found.pop("_COMMITTED").decode() == f"{report.commit.graph_commit_id}\n"
        assert Path(str(uri)).name == report.operation_id
    return found


def rejects_of(report: JobReport) -> list[dict[str, Any]]:
    text = Path(report.rejects_uri or "", "rejects.ndjson").read_bytes()
    return [json.loads(each) for each in text.splitlines()]


@pytest.fixture
def twins(tmp_path: Path, session: PipelineSession) -> Iterator[Twins]:
    settings = Settings()
    settings = replace(
        settings, pipeline=replace(settings.pipeline, split_bytes=900, batch_bytes=400)
    )
    with (
        Graph.init(tmp_path / "here", schema=SCHEMA) as here,
        Graph.init(tmp_path / "spark", schema=SCHEMA) as spark,
    ):
        for each in (here, spark):
            each.load(SEED, mode="append", engine="local")
        yield Twins(here, spark, tmp_path, session, settings)


@pytest.mark.parametrize("mode", thinned(("merge", "append", "overwrite")))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_inputs_give_equal_files_reports_and_graphs(
    seed: int, mode: str, twins: Twins
) -> None:
    rng = random.Random(f"{seed} {mode}")  # noqa: S311 - a test
    for _ in range(2):
        text = random_input(rng, rng.choice([6, 12] if mode == "overwrite" else [10, 90]))
        text += seed_beside(text) if mode == "overwrite" else b""
        local, spark = twins.load(text, mode)
        assert spark == local
        twins.require_equal()


@pytest.mark.parametrize(
    "options",
    thinned(
        [
            {"max_rejects": 2},
            {"dry_run": True},
            {"on_error": "fail"},
            {"max_rejects": 2, "on_error": "fail"},
            {"max_reject_ratio": 0.5},
        ],
        keep=2,
    ),
    ids=str,
)
def test_limits_failures_and_dry_runs_are_told_alike(options: Any, twins: Twins) -> None:  # noqa: ANN401
    text = b"".join(
        [
            person("bad", age=999),
            person("same", email="q"),
            person("other", email="q"),
            b"nonsense\n",
            edge("Knows", "x", "bad", "p0"),
            person("fine"),
        ]
    )
    local, spark = twins.load(text, "append", **options)
    assert spark == local
    twins.require_equal()


@pytest.mark.extended
def test_nothing_that_is_left_makes_no_commit(twins: Twins) -> None:
    local, spark = twins.load(person("bad", age=999) + edge("Knows", "x", "bad", "p0"), "merge")
    assert spark == local
    head = twins.spark.snapshot().graph_commit_id
    path = twins.folder / "input.jsonl"
    report = twins.load_on_spark(path, "merge", **_quarantine(twins))
    assert report.commit is None
    assert twins.spark.snapshot().graph_commit_id == head
    assert [(each.read, each.rejected) for each in report.tables] == [(1, 1), (1, 1)]
    assert [each.name for each in Path(report.rejects_uri or "").iterdir()] == ["rejects.ndjson"]


def test_rejects_of_many_files_name_them_and_stand_in_their_order(twins: Twins) -> None:
    folder = twins.folder / "many"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"\n" * 30 + person("x", age=-1) + person("y", email="s"))
    (folder / "b.jsonl").write_bytes(
        edge("Knows", "k", "x", "y") + b"\n" * 40 + person("z", email="s") + person("fine")
    )
    report = twins.load_on_spark(folder, "append", **_quarantine(twins))
    found = rejects_of(report)
    a, b = str(folder / "a.jsonl"), str(folder / "b.jsonl")
    assert [(each["source"], each["line"], each["code"]) for each in found] == [
        (a, 31, "range_violation"),
        (a, 32, "unique_violation"),
        (b, 1, "orphan_edge"),
        (b, 42, "unique_violation"),
    ]
    assert found[2]["caused_by"] == {"source": a, "line": 31, "code": "range_violation"}
    assert [json.loads(each["raw"])["data"] for each in found[1::2]] == [
        {"name": "y", "email": "s"},
        {"name": "z", "email": "s"},
    ]
    (folder / "c.jsonl").write_bytes(person("finer"))
    again = twins.load_on_spark(folder, "merge", **_quarantine(twins), idempotency_key="night")
    told = twins.load_on_spark(folder, "merge", **_quarantine(twins), idempotency_key="night")
    assert told.already_loaded
    assert (told.tables, told.violations) == (again.tables, again.violations)
    assert told.rejects_uri == again.rejects_uri


def _quarantine(twins: Twins) -> dict[str, Any]:
    rejects = str(twins.folder / "rejects")
    return {"on_error": "quarantine", "rejects": rejects, "max_reject_ratio": 1.0}


def test_rows_of_parquet_and_frames_are_written_as_records_that_can_be_mended(
    twins: Twins,
) -> None:
    table = pa.table(
        {
            "name": ["one", "two", "three", "four"],
            "age": pa.array([999, 5, None, 7], pa.int32()),
            "email": ["m", "n", "n", "o"],
        }
    )
    path = twins.folder / "people.parquet"
    pq.write_table(table, path, row_group_size=2)
    report = twins.load_on_spark(path, "append", request={"type": "Person"}, **_quarantine(twins))
    found = rejects_of(report)
    assert [(each["line"], each["code"]) for each in found] == [
        (1, "range_violation"),
        (2, "unique_violation"),
        (3, "unique_violation"),
    ]
    assert [(table.read, table.added, table.rejected) for table in report.tables] == [(4, 1, 3)]
    mended = "\n".join(each["raw"] for each in found).replace("999", "99")
    mended = mended.replace('"email":"n"', '"email":"l"', 1)
    twins.spark.load(mended.encode(), mode="append", engine="local")
    ages = {
        name: (twins.spark.snapshot().entity("Person", name) or {})["age"]
        for name in ("one", "two", "three", "four")
    }
    assert ages == {"one": 99, "two": 5, "three": None, "four": 7}
    frame = twins.session.spark.createDataFrame(
        pa.table({"who": ["one", "nobody"], "team": ["t0", "t1"], "key": ["f1", "f2"]})
    )
    columns = {"src": "who", "dst": "team", "id": "key"}
    frames = twins.load_on_spark(
        frame, "append", request={"edge": "In", "columns": columns}, **_quarantine(twins)
    )
    assert frames.commit is None
    assert sorted((each["source"], each["code"]) for each in rejects_of(frames)) == [
        ("frame", "cardinality_violation"),
        ("frame", "orphan_edge"),
    ]
    assert {each["raw"] for each in rejects_of(frames)} == {
        '{"edge":"In","from":"one","to":"t0","data":{"id":"f1"}}',
        '{"edge":"In","from":"nobody","to":"t1","data":{"id":"f2"}}',
    }


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_cascade_rejects_the_same_nodes_by_joins(twins: Twins, mode: str) -> None:
    """By joins, which only input beyond a million rows takes otherwise."""
    text = (
        person("new")
        + edge("In", "i1", "new", "t0")
        + edge("In", "i2", "new", "nobody")
        + person("other")
        + edge("Knows", "k1", "other", "new")
        + person("kept")
        + edge("In", "i3", "kept", "t0")
        + edge("In", "i4", "kept", "t1")
    )
    local, spark = twins.load(text, mode, way=CheckWay.JOINS, cascade=True)
    assert spark == local
    twins.require_equal()


def test_a_second_attempt_takes_rows_back_that_are_good_by_then(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(
        edge("Knows", "x1", "p6", "late") + person("new", age=999) + edge("Knows", "x2", "p6", "p7")
    )
    waiting = [person("late") + edge("Knows", "x3", "p7", "p6")]

    def write() -> None:
        if waiting:  # The load of the other handle passes the same point.
            with Graph.open(twins.folder / "spark") as other:
                other.load(waiting.pop(), mode="append", engine="local")

    with armed("load.post_stage_pre_lease", write):
        report = twins.load_on_spark(path, "append", **_quarantine(twins))
    assert report.commit is not None
    assert [each["line"] for each in rejects_of(report)] == [2]
    assert twins.spark.snapshot().entity("Knows", "x1") is not None
    assert [each.name for each in (twins.folder / "rejects").iterdir()] == [report.operation_id]


def test_a_file_that_changes_before_its_lines_are_fetched_fails_the_load(twins: Twins) -> None:
    path = twins.folder / "input.jsonl"
    path.write_bytes(person("p1") + person("fine"))
    before = b"".join(twins.spark.export())

    def change() -> None:
        path.write_bytes(person("p2") + person("fine") + b"\n")

    with armed("spark_load.post_intake", change), pytest.raises(InputChanged):
        twins.load_on_spark(path, "append", **_quarantine(twins))
    assert b"".join(twins.spark.export()) == before


def test_a_crash_before_the_commit_leaves_files_without_the_mark(twins: Twins) -> None:
    class Crash(BaseException):
        pass

    def crash() -> None:
        raise Crash

    path = twins.folder / "input.jsonl"
    path.write_bytes(person("p1") + person("fine"))
    with armed("load.post_stage_pre_lease", crash), pytest.raises(Crash):
        twins.load_on_spark(path, "append", **_quarantine(twins))
    (folder,) = (twins.folder / "rejects").iterdir()
    assert [each.name for each in folder.iterdir()] == ["rejects.ndjson"]


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("append", marks=pytest.mark.slow),
        pytest.param("merge", marks=pytest.mark.extended),
        pytest.param("overwrite", marks=pytest.mark.slow),
    ],
)
def test_joins_reject_the_same_rows(mode: str, twins: Twins) -> None:
    rng = random.Random(f"{mode} 2")  # noqa: S311 - a test
    text = random_input(rng, 8 if mode == "overwrite" else 60)
    text += seed_beside(text) if mode == "overwrite" else b""
    if mode == "merge":
        # Takes one of the two edges that its source must have.
        text += edge("In", "i10", "p7", "t0") + edge("In", "own", "p7", "t1")
    # Every part of the input is a task of every join.
    twins.settings = Settings()
    local, spark = twins.load(text, mode, way=CheckWay.JOINS)
    assert spark == local
    assert isinstance(local, tuple)
    assert len(local) == 3, local
    assert mode != "merge" or b"source 'p1' has 1 edge (min 2)" in local[2]["rejects.ndjson"]
    twins.require_equal()


def test_values_that_an_expression_rejects_are_set_aside_with_what_they_were(
    twins: Twins,
) -> None:
    path = twins.folder / "people.csv"
    path.write_text("who,years,town\nada,36,x\nbob,old,y\ncy,,z\ndan,7,w\n")
    columns = {
        "name": "who",
        "age": {"expr": "cast(years as int)"},
        "email": {"expr": "concat('mail of ', element_at(array('x'), if(town = 'w', 0, 1)))"},
    }
    request = {"format": "csv", "type": "Person", "columns": columns}
    report = twins.load_on_spark(path, "append", request=request, **_quarantine(twins))
    assert report.violations["type_error"] == 2
    failed = [each for each in rejects_of(report) if each["code"] == "type_error"]
    assert [(each["source"], each["line"], each["property"]) for each in failed] == [
        (str(path), 2, "age"),
        (str(path), 4, "email"),
    ]
    assert "cast(years as int)" in failed[0]["message"]
    assert '{"years":"old"}' in failed[0]["message"]
    assert json.loads(failed[0]["raw"])["data"]["age"] == "old"


def test_values_that_an_expression_loses_are_counted(twins: Twins) -> None:
    path = twins.folder / "people.csv"
    path.write_text("who,years\nada,36\nbob,old\ncy,\ndan,NA\n")
    columns = {"name": "who", "age": {"expr": "try_cast(years as int)"}}
    request = {"format": "csv", "type": "Person", "columns": columns}
    for dry_run in (True, False):
        report = twins.load_on_spark(path, "append", request=request, dry_run=dry_run)
        (lost,) = [each for each in report.warnings if "became null" in each]
        assert lost.startswith("2 values became null: Person.age, which is the expression")


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("coalesce(try_cast(q as int), try_cast(r as int))", 2),
        ("if(q <> '0', try_cast(8 / cast(q as int) as int), null)", 0),
        ("try_cast(element_at(split(q, '[)]'), 1) as int)", 1),
    ],
)
def test_values_are_lost_by_the_part_of_an_expression_that_has_them(
    twins: Twins, sql: str, count: int
) -> None:
    path = twins.folder / "people.csv"
    path.write_text("who,q,r\nada,1,\nbob,,old\ncy,0,2\ndan,,\n")
    if count == 2:
        path.write_text("who,q,r\nada,old,\nbob,,old\ncy,old,2\ndan,,\n")
    elif count:
        path.write_text("who,q,r\nada,old,\nbob,,\ncy,7,2\n")
    request = {"format": "csv", "type": "Person", "columns": {"name": "who", "age": {"expr": sql}}}
    report = twins.load_on_spark(path, "append", request=request, dry_run=True)
    told = [each.partition(":")[0] for each in report.warnings if "became null" in each]
    said = {0: [], 1: ["1 value became null"], 2: ["2 values became null"]}
    assert told == said[count]
