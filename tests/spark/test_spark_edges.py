"""Corners of loads on Spark: limits, files that must go, texts paid once, loads that go on."""

from __future__ import annotations

import gzip
import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.embedding.provider_server import ProviderServer

from omnigraph import Graph
from omnigraph.errors import (
    ExternalBlobDenied,
    ExternalBlobSource,
    LoadRejected,
    PreconditionFailed,
)
from omnigraph.failpoints import armed
from omnigraph.graph.jobs.pins import PINS
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { name: String @key  score: F64?  marks: [F64]?  photo: Blob? }
edge Knows: Person -> Person
"""


class _Stopped(Exception):
    """What ends a load at a chosen point."""


def stop() -> None:
    raise _Stopped


def person(name: str, **data: object) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name, **data}}).encode() + b"\n"


def people(*names: str) -> bytes:
    return b"".join(person(name) for name in names)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        yield opened


@pytest.fixture
def pipeline(graph: Graph, session: PipelineSession) -> Pipeline:
    return graph.pipeline(session.spark)


def names(graph: Graph) -> list[str]:
    rows = graph.snapshot().scan("Person", columns=["name"]).read_all()
    return sorted(str(each) for each in rows["name"].to_pylist())


def raws_of(report: JobReport) -> list[dict[str, Any]]:
    text = Path(report.rejects_uri or "", "rejects.ndjson").read_bytes()
    return [json.loads(json.loads(each)["raw"]) for each in text.splitlines()]


# --- bad rows -----------------------------------------------------------------------------------


@pytest.mark.extended
def test_numbers_that_json_does_not_know_are_spelled_in_rejected_rows(
    graph: Graph, pipeline: Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "people.parquet"
    scores = [float("nan"), float("inf"), float("-inf"), 0.5]
    table = pa.table(
        {
            "name": ["a", "b", "c", "d"],
            "score": pa.array(scores, pa.float64()),
            "marks": pa.array([[1.0], [float("nan"), 2.0], None, None], pa.list_(pa.float64())),
        }
    )
    pq.write_table(table, path)
    report = pipeline.load(
        path,
        mode="append",
        type="Person",
        on_error="quarantine",
        rejects=str(tmp_path / "rejects"),
        max_reject_ratio=1.0,
    )
    found = [(each["data"]["score"], each["data"]["marks"]) for each in raws_of(report)]
    assert found == [("NaN", [1.0]), ("Infinity", ["NaN", 2.0]), ("-Infinity", None)]
    assert names(graph) == ["d"]


@pytest.mark.extended
def test_a_part_of_bad_rows_may_be_as_large_as_its_bound_and_no_larger(
    graph: Graph, pipeline: Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "people.jsonl"
    options: dict[str, Any] = {"on_error": "quarantine", "rejects": str(tmp_path / "rejects")}
    good = people(*(f"p{n}" for n in range(7)))
    # A line that is no record counts among what was read, a blank one does not.
    path.write_bytes(good + b"nonsense\n\n" + 2 * person("twice"))
    with pytest.raises(LoadRejected, match=r"3 of 10 rows are bad, and max_reject_ratio is 0\.2"):
        pipeline.load(path, mode="append", max_reject_ratio=0.2999, **options)
    assert pipeline.load(path, mode="append", max_reject_ratio=0.3, **options).commit is not None
    assert len(names(graph)) == 7


@pytest.mark.extended
@pytest.mark.usefixtures("session")
def test_rows_whose_blobs_are_not_there_are_set_aside_as_in_one_process(tmp_path: Path) -> None:
    there, missing = (tmp_path / "there.bin").as_uri(), (tmp_path / "missing.bin").as_uri()
    (tmp_path / "there.bin").write_bytes(b"outside")
    edges = [
        {"edge": "Knows", "from": src, "to": dst, "data": {"id": f"{src}-{dst}"}}
        for src, dst in (("ada", "lost"), ("ada", "bob"))
    ]
    path = tmp_path / "people.jsonl"
    path.write_bytes(
        person("ada", photo=there)
        + person("lost", photo=missing)
        # Bad for two reasons; of the first kind it is not even asked for.
        + person("bad", score="x", photo=missing)
        + person("seed", photo=missing)
        + person("bob")
        + b"".join(json.dumps(each).encode() + b"\n" for each in edges)
    )
    told: list[tuple[bytes, bytes, object]] = []
    for engine in ("local", "spark"):
        root, place = tmp_path / engine, tmp_path / f"{engine}-rejects"
        with Graph.init(root, schema=SCHEMA, external_blobs=[tmp_path.as_uri()]) as graph:
            graph.load(people("seed"), mode="append", engine="local")
            with pytest.raises(ExternalBlobSource):
                graph.load(person("x", photo=missing), mode="append", engine="local")
            report = graph.load(
                path,
                mode="append",
                engine=engine,
                on_error="quarantine",
                rejects=str(place),
                max_reject_ratio=1.0,
            )
            assert report.engine == engine
            text = Path(report.rejects_uri or "", "rejects.ndjson").read_bytes()
            told.append((b"".join(graph.export()), text, dict(report.violations)))
            assert names(graph) == ["ada", "bob", "seed"]
    assert told[0] == told[1]
    found = [json.loads(each) for each in told[0][1].splitlines()]
    assert [(each["line"], each["code"], each["property"]) for each in found] == [
        (2, "type_error", "photo"),
        (3, "type_error", "score"),
        (4, "type_error", "photo"),
        (6, "orphan_edge", "dst"),
    ]
    assert found[3]["caused_by"]["line"] == 2


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.usefixtures("session")
def test_a_link_that_leads_out_of_its_base_is_refused_in_both_lanes(
    tmp_path: Path, engine: Literal["local", "spark"]
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (base / "link").symlink_to(tmp_path / "secret")
    path = tmp_path / "people.jsonl"
    path.write_bytes(person("ada", photo=f"{base.as_uri()}/link"))
    with Graph.init(tmp_path / "g", schema=SCHEMA, external_blobs=[base.as_uri()]) as graph:
        with pytest.raises(ExternalBlobDenied, match="leads out of its base"):
            graph.load(path, mode="append", engine=engine)
        assert graph.snapshot().count("Person") == 0


def data_files(folder: Path) -> set[str]:
    return {str(each) for each in folder.rglob("data/**/*") if each.is_file()}


@pytest.mark.extended
def test_a_load_that_commits_nothing_leaves_no_data_file(
    graph: Graph, pipeline: Pipeline, tmp_path: Path
) -> None:
    graph.load(people("ada", "bob"), mode="append")
    before = data_files(tmp_path / "graph")
    path = tmp_path / "people.jsonl"
    # The rows are good by themselves, so they are staged, with a blob that has a file of its own.
    large = "base64:" + "QUJD" * 100_000
    edges = b'{"edge":"Knows","from":"ada","to":"zed","data":{"id":"k"}}\n' * 2
    path.write_bytes(person("ada", photo=large) + person("bob") + edges)
    report = pipeline.load(
        path,
        mode="append",
        on_error="quarantine",
        rejects=str(tmp_path / "rejects"),
        max_reject_ratio=1.0,
    )
    assert report.commit is None
    assert sum(each.rejected for each in report.tables) == 4
    assert data_files(tmp_path / "graph") == before
    assert not list((tmp_path / "graph").rglob("_versions/d*.manifest"))


# --- sizes and formats --------------------------------------------------------------------------


def test_a_data_file_has_no_more_rows_than_the_setting_says(
    session: PipelineSession, tmp_path: Path
) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(people(*(f"p{n:03}" for n in range(250))))
    settings = load_settings({"OMNIGRAPH_PIPELINE_ROWS_PER_FILE": "100"})
    with Graph.init(tmp_path / "graph", schema=SCHEMA, settings=settings) as graph:
        report = graph.pipeline(session.spark).load(path, mode="append")
        (intake,) = [each for each in report.stages if each.name == "intake"]
        assert intake.tasks == 1
        (table,) = (tmp_path / "graph" / "nodes").glob("*")
        counts = [each.count_rows() for each in lance.dataset(str(table)).get_fragments()]
        assert counts == [100, 100, 50]
        assert names(graph) == [f"p{n:03}" for n in range(250)]


@pytest.mark.extended
def test_tabs_part_the_values_of_packed_files_and_of_folders_of_tsv(
    graph: Graph, pipeline: Pipeline, tmp_path: Path
) -> None:
    (tmp_path / "one.tsv.gz").write_bytes(gzip.compress(b"name\tscore\nada\t\n"))
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "a.tsv").write_text("name\tscore\nbob, the first\t\n")
    (folder / "b.TSV.gz").write_bytes(gzip.compress(b"name\tscore\ncy\t\n"))
    (folder / "_SUCCESS").touch()
    columns: dict[str, str | Mapping[str, str]] = {
        "name": "name",
        "score": {"expr": "cast(score as double)"},
    }
    for source in (tmp_path / "one.tsv.gz", folder):
        pipeline.load(source, mode="append", type="Person", columns=columns)
    assert names(graph) == ["ada", "bob, the first", "cy"]
    (tmp_path / "semicolons.tsv").write_text("name;score\ndan;\n")
    pipeline.load(
        tmp_path / "semicolons.tsv",
        mode="append",
        type="Person",
        columns=columns,
        options={"sep": ";"},
    )
    assert "dan" in names(graph)


# --- vectors ------------------------------------------------------------------------------------


@contextmanager
def asking(session: PipelineSession, server: ProviderServer) -> Iterator[None]:
    """Let the workers know where the embedder is."""
    context = session.classic_context
    assert context is not None
    before = dict(context.environment)
    context.environment.update(
        {
            "OMNIGRAPH_EMBED_PROVIDER": "openai",
            "OMNIGRAPH_EMBED_BASE_URL": server.url,
            "OPENAI_API_KEY": "key",
            "NO_PROXY": "*",
        }
    )
    try:
        yield
    finally:
        context.environment.clear()
        context.environment.update(before)


@pytest.mark.extended
def test_a_load_that_is_given_again_pays_for_no_text_twice(
    session: PipelineSession, tmp_path: Path
) -> None:
    schema = 'node Doc { name: String @key  body: String  vec: Vector(3) @embed("body") }'
    path = tmp_path / "docs.jsonl"
    docs = [{"type": "Doc", "data": {"name": f"d{n}", "body": f"text {n}"}} for n in range(6)]
    path.write_text("".join(json.dumps(each) + "\n" for each in docs))
    settings = load_settings({"OMNIGRAPH_PIPELINE_SPLIT_BYTES": "150"})
    paid = tmp_path / "graph" / "__staging" / "embed"
    with (
        ProviderServer() as server,
        asking(session, server),
        Graph.init(tmp_path / "graph", schema=schema, settings=settings) as graph,
    ):
        pipeline = graph.pipeline(session.spark)
        with armed("spark_load.post_resolve", stop), pytest.raises(_Stopped):
            pipeline.load(path, mode="append")
        asked = [text for seen in server.seen for text in seen.texts]
        assert sorted(asked) == [f"text {n}" for n in range(6)]
        assert list(paid.rglob("*.arrow"))
        server.seen.clear()
        report = pipeline.load(path, mode="append")
        assert report.tables[0].added == 6
        assert server.seen == []
        assert not list(paid.rglob("*.arrow"))


# --- loads that go on ---------------------------------------------------------------------------


def cut_off(
    graph: Graph,
    session: PipelineSession,
    source: Path,
    left: Path,
    **options: Any,  # noqa: ANN401 - as the load takes them
) -> str:
    """The graph as a load leaves it whose process is killed after its intake; the operation."""
    told: list[str] = []
    root = Path(str(graph._graph.storage.location))

    def take_a_copy() -> None:
        shutil.copytree(root, left)
        raise _Stopped

    with armed("spark_load.post_intake", take_a_copy), pytest.raises(_Stopped):
        graph.pipeline(session.spark).load(source, mode="append", started=told.append, **options)
    (pin,) = pins_in(left).values()
    (left / PINS / f"pin-{told[0]}.json").write_text(json.dumps({**pin, "pid_started": "0"}))
    return told[0]


def pins_in(root: Path) -> dict[str, dict[str, Any]]:
    return {each.name: json.loads(each.read_text()) for each in (root / PINS).glob("pin-*.json")}


def test_a_load_that_goes_on_renews_the_pin_of_the_one_that_died(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    source, left = tmp_path / "people.jsonl", tmp_path / "left"
    source.write_bytes(people("ada", "bob"))
    operation = cut_off(graph, session, source, left)
    seen: list[dict[str, dict[str, Any]]] = []
    with Graph.open(left) as again:
        with armed("spark_load.post_resolve", lambda: seen.append(pins_in(left))):
            report = again.pipeline(session.spark).load(source, mode="append", resume=operation)
        assert (report.warnings, names(again)) == ((), ["ada", "bob"])
    ((name, pin),) = seen[0].items()
    assert name == f"pin-{operation}.json"
    assert pin["operation_id"] == operation
    assert pin["pid_started"] != "0"
    assert {each["table"] for each in pin["pins"]} == {"node:Person", "edge:Knows"}
    assert pins_in(left) == {}


@pytest.mark.extended
def test_a_load_is_known_by_its_operation_whatever_key_it_is_given(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    source, left = tmp_path / "people.jsonl", tmp_path / "left"
    source.write_bytes(people("ada", "bob"))
    operation = cut_off(graph, session, source, left, idempotency_key="one")
    with Graph.open(left) as again:
        pipeline = again.pipeline(session.spark)
        first = pipeline.load(source, mode="append", resume=operation, idempotency_key="two")
        # What was written since changes nothing about it.
        again.load(people("cy"), mode="append")
        told = pipeline.load(source, mode="append", resume=operation, idempotency_key="three")
        assert first.commit is not None
        assert (told.already_loaded, told.commit) == (True, first.commit)
        assert [each.added for each in told.tables] == [2]
        assert names(again) == ["ada", "bob", "cy"]


# --- runs ---------------------------------------------------------------------------------------

FEED = """
version: 1
name: feed
mode: merge
sources:
  events: {format: table, table: edge_events, cursor: {column: n, type: integer}}
nodes:
  - type: Person
    from: events
    columns: {name: name}
"""


@pytest.mark.extended
def test_a_forced_run_does_not_commit_over_another_from_the_same_state(
    graph: Graph, pipeline: Pipeline, session: PipelineSession, tmp_path: Path
) -> None:
    path = tmp_path / "feed.yaml"
    path.write_text(FEED)
    rows: list[tuple[str, int]] = []

    def add(name: str) -> None:
        rows.append((name, len(rows) + 1))
        frame = session.spark.createDataFrame(rows, "name string, n bigint")
        frame.createOrReplaceTempView("edge_events")

    overtakes = [True]

    def overtake() -> None:
        if overtakes:
            overtakes.clear()
            add("bob")
            assert pipeline.run(path, force=True).cursors == {"events": 2}

    add("ada")
    before = len(graph.commits.list(limit=100))
    with armed("spark_load.post_list", overtake):
        report = pipeline.run(path, force=True)
    # It is planned again, from where the other ended: the cursor does not go back.
    assert report.cursors == {"events": 2}
    assert len(graph.commits.list(limit=100)) == before + 1
    assert pipeline.run(path).commit is None
    assert names(graph) == ["ada", "bob"]


def test_all_columns_are_those_of_the_file(
    graph: Graph, pipeline: Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,city\na,Rome\n")
    columns = {"name": {"expr": "to_json(struct(*))"}}
    pipeline.load(path, mode="append", type="Person", columns=columns)
    assert names(graph) == ['{"name":"a","city":"Rome"}']


def test_a_load_that_is_refused_under_the_lease_leaves_no_file(
    graph: Graph, pipeline: Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(people("a"))
    head = graph.load(people("z"), mode="append").commit
    assert head is not None
    before = sorted((tmp_path / "graph").glob("*s/*/data/*"))

    def overtake() -> None:
        graph.mutate('query q() { update Person set { score: 1.0 } where name = "z" }')

    with armed("spark_load.post_resolve", overtake), pytest.raises(PreconditionFailed):
        pipeline.load(path, mode="append", if_commit=head.graph_commit_id)
    now = sorted((tmp_path / "graph").glob("*s/*/data/*"))
    # One file more: that of the update.
    assert len(now) == len(before) + 1


# --- CSV ----------------------------------------------------------------------------------------


def test_a_csv_has_its_quotes_doubled(graph: Graph, pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('name\n"say ""hi"" now"\n')
    pipeline.load(path, mode="append", type="Person")
    assert names(graph) == ['say "hi" now']


@pytest.mark.extended
def test_an_exported_csv_loads_back(session: PipelineSession, tmp_path: Path) -> None:
    schema = "node Note { name: String @key  text: String? }"
    texts = [None, "", 'a "quoted" one', "two\nlines", "a,b", "\\", " x "]
    records = [
        {"type": "Note", "data": {"name": f"n{at}", "text": text}} for at, text in enumerate(texts)
    ]
    data = "".join(f"{json.dumps(each)}\n" for each in records).encode()
    with (
        Graph.init(tmp_path / "one", schema=schema) as one,
        Graph.init(tmp_path / "two", schema=schema) as two,
    ):
        one.load(data, mode="append")
        spark = session.spark
        one.pipeline(spark).export(tmp_path / "out", format="csv")
        (part,) = (tmp_path / "out").rglob("*.csv")
        two.pipeline(spark).load(
            part,
            mode="append",
            type="Note",
            columns={"name": "name", "text": "text"},
            options={"multiLine": "true", "nullValue": "\\N"},
        )
        assert b"".join(two.export()) == b"".join(one.export())
