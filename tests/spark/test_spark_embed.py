"""Embedding on Spark: every text is paid for once, and one commit fills the rows that hold it."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.embedding.provider_server import (
    Answer,
    ProviderServer,
    Seen,
    good_body,
    unit_rows,
)

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.embedding import MockEmbedder, Purpose
from omnigraph.errors import (
    BranchNotFound,
    EmbeddingInvalid,
    EmbeddingModelMismatch,
    EmbeddingUnavailable,
    InvalidArgument,
    PipelineTaskError,
    ReadOnlyGraph,
)
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.pins import PINS, JobPin
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.embed.file_job import FileJob, embed_file
from omnigraph.pipeline.embed.file_lines import FileMode, LineChoice
from omnigraph.pipeline.embed.file_spec import EmbedSpec, TypeSpec
from omnigraph.pipeline.embed.fill import fill
from omnigraph.pipeline.pipeline import Pipeline
from omnigraph.pipeline.staging.key_frames import group_fragments
from omnigraph.settings import Engine, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from omnigraph.embedding import Embedder
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stage_progress import StageProgress
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Doc {
  name: String @key
  body: String?
  size: I32?
  photo: Blob?
  vec: Vector(3)? @embed("body") @index
}
node Must { name: String @key  vec: Vector(3) @embed("name") }
node Both { name: String @key  a: Vector(2)? @embed("name")  b: Vector(3)? @embed("name") }
node Other { name: String @key  vec: Vector(3)? @embed("name", model="another") }
node Plain { name: String @key }
edge Near: Doc -> Doc
"""
MODEL = "text-embedding-3-large"


def line(type: str, name: str, **data: object) -> dict[str, object]:  # noqa: A002 - as in the format
    return {"type": type, "data": {"name": name, **data}}


def lines(*records: dict[str, object]) -> bytes:
    return "\n".join(json.dumps(each) for each in records).encode()


@contextmanager
def worker_environment(session: PipelineSession, extra: Mapping[str, str]) -> Iterator[None]:
    """Let the Python workers of a session have more variables."""
    context = session.classic_context
    assert context is not None
    before = dict(context.environment)
    context.environment.update(extra)
    try:
        yield
    finally:
        context.environment.clear()
        context.environment.update(before)


def wait_until_idle(session: PipelineSession) -> None:
    """Tasks of a job that failed run on for a moment; nobody may ask while the next test counts."""
    context = session.classic_context
    assert context is not None
    while any(each.numRunningTasks for each in context.statusTracker().getExecutorInfos()):
        sleep(0.01)


@dataclass
class Bench:
    """A graph, a provider, and the variables that name it to everybody."""

    graph: Graph
    session: PipelineSession
    server: ProviderServer
    environ: dict[str, str]

    def embed(
        self,
        type: str = "Doc",  # noqa: A002 - as the call has it
        *,
        embedder: Embedder | None = None,
        **options: Any,  # noqa: ANN401 - as the call takes them
    ) -> JobReport:
        pipeline = Pipeline(
            self.graph._graph,
            load_settings(self.environ),
            actor_id="act-embedder",
            external=DENY_ALL,
            spark=self.session.spark,
            embedder=embedder,
        )
        with worker_environment(self.session, self.environ):
            try:
                return pipeline.embed(type=type, **options)
            finally:
                wait_until_idle(self.session)

    @property
    def asked(self) -> list[str]:
        return [text for seen in self.server.seen for text in seen.texts]

    def vectors(self, branch: str = "main", type: str = "Doc") -> dict[str, list[float] | None]:  # noqa: A002
        rows = self.graph.snapshot(branch=branch).scan(type, columns=["name", "vec"]).read_all()
        return {row["name"]: row["vec"] for row in rows.to_pylist()}

    def change(self, query: str, branch: str = "main") -> None:
        with Graph.open(self.root) as other:
            other.mutate(f"query q() {{ {query} }}", branch=branch)

    @property
    def root(self) -> str:
        return str(self.graph._graph.storage.location)

    @property
    def head(self) -> Any:  # noqa: ANN401 - a commit
        return self.graph.commits.list(limit=1).commits[0]

    @property
    def staged(self) -> list[str]:
        return [each.path for each in self.graph._graph.storage.objects.list("__staging")]

    @property
    def kept(self) -> list[str]:
        return [each.path for each in self.graph._graph.storage.objects.list("__staging/embed")]


def of(text: str) -> list[float]:
    return [float(each) for each in unit_rows([text], 3)[0]]


@pytest.fixture(scope="module")
def running() -> Iterator[ProviderServer]:
    """One provider for all tests: workers with the same variables are used again."""
    with ProviderServer() as server:
        yield server


@pytest.fixture
def bench(
    tmp_path: Path,
    session: PipelineSession,
    running: ProviderServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    one_each = partial(group_fragments, rows=1)
    monkeypatch.setattr("omnigraph.pipeline.embed.job.group_fragments", one_each)
    monkeypatch.setattr("omnigraph.pipeline.embed.filled_rows.group_fragments", one_each)
    server = running
    server.seen.clear()
    server.script = []
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        for first in (0, 4):
            graph.load(
                lines(
                    *(
                        line("Doc", f"d{n}", body=f"text {n % 3}", photo="base64:aGk=", size=n)
                        for n in range(first, first + 4)
                    )
                ),
                mode="append",
            )
        graph.load(
            lines(
                line("Doc", "none"),
                line("Doc", "given", body="text 0", vec=[1, 0, 0]),
            ),
            mode="append",
        )
        environ = {
            "OMNIGRAPH_EMBED_PROVIDER": "openai",
            "OMNIGRAPH_EMBED_BASE_URL": server.url,
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "1",
            "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "2",
            "OMNIGRAPH_EMBED_BATCH_TEXTS": "1",
            "OPENAI_API_KEY": "key",
        }
        yield Bench(graph, session, server, environ)


def test_missing_vectors_are_filled_by_one_commit_and_each_text_is_paid_once(
    bench: Bench,
) -> None:
    report = bench.embed()
    assert sorted(bench.asked) == ["text 0", "text 1", "text 2"]
    assert bench.vectors() == {f"d{n}": of(f"text {n % 3}") for n in range(8)} | {
        "none": None,
        "given": [1, 0, 0],
    }
    (table,) = report.tables
    assert (table.table, table.read, table.changed, table.unchanged) == ("node:Doc", 8, 8, 0)
    assert report.commit is not None
    assert bench.head == report.commit
    assert (bench.head.kind, bench.head.actor_id) == ("embed", "act-embedder")
    assert [each.name for each in report.stages] == ["list", "survey", "embed", "resolve", "commit"]
    assert (report.mode, report.engine, report.warnings) == ("missing", "spark", ())
    assert bench.kept == []
    # The rest of each row stays as it was.
    assert bench.graph.blob("node", "Doc", "d3", "photo").read() == b"hi"
    row = bench.graph.snapshot().entity("Doc", "d7")
    assert row is not None
    assert row["size"] == 7
    assert bench.embed().commit is None
    assert len(bench.asked) == 3


@pytest.mark.extended
def test_all_embeds_what_has_a_vector_too(bench: Bench) -> None:
    report = bench.embed(mode="all", property="vec")
    assert report.tables[0].changed == 9
    assert bench.vectors()["given"] == of("text 0")


def test_a_dry_run_counts_and_asks_nobody(bench: Bench) -> None:
    before = bench.head
    report = bench.embed(dry_run=True)
    assert (report.dry_run, report.commit, report.tables[0].read) == (True, None, 8)
    assert next(each.rows for each in report.stages if each.name == "embed") == 3
    assert (bench.asked, bench.kept, bench.head) == ([], [], before)


def test_nothing_to_do_makes_no_commit(bench: Bench) -> None:
    before = bench.head
    report = bench.embed("Both")
    assert (report.commit, report.tables[0].read, bench.head) == (None, 0, before)


@pytest.mark.extended
def test_a_required_vector_is_never_missing_and_can_be_made_anew(bench: Bench) -> None:
    bench.graph.load(lines(line("Must", "m", vec=[0, 0, 1])), mode="append")
    assert bench.embed("Must").commit is None
    assert bench.embed("Must", mode="all").commit is not None
    assert bench.vectors(type="Must") == {"m": of("m")}


@pytest.mark.extended
def test_all_vectors_of_a_type_are_filled_by_one_commit(bench: Bench) -> None:
    bench.graph.load(lines(line("Both", "x", a=[1, 0]), line("Both", "y")), mode="append")
    report = bench.embed("Both")
    assert (report.tables[0].read, report.tables[0].changed) == (2, 2)
    rows = bench.graph.snapshot().scan("Both").read_all().to_pylist()
    found = {row["name"]: (row["a"], row["b"]) for row in rows}
    assert found["x"] == ([1, 0], of("x"))
    assert found["y"][1] == of("y")
    assert found["y"][0] == [float(each) for each in unit_rows(["y"], 2)[0]]


@pytest.mark.extended
def test_a_branch_is_filled_by_itself(bench: Bench) -> None:
    bench.graph.branches.create("draft")
    before = bench.head
    report = bench.embed(branch="draft")
    assert report.branch == "draft"
    assert bench.vectors("draft")["d0"] == of("text 0")
    assert bench.vectors()["d0"] is None
    assert bench.head == before


@pytest.mark.extended
def test_a_text_that_changes_while_it_is_embedded_is_skipped_and_counted(bench: Bench) -> None:
    def change(seen: Seen) -> bytes:
        bench.change(
            """
            update Doc set { body: "newer" } where name = "d1"
            insert Doc { name: "late", body: "text 0" }
            insert Doc { name: "later", body: "never seen" }
            """
        )
        bench.change('delete Doc where name = "d2"')
        return good_body(seen)

    bench.server.script = [Answer(body=change)]
    report = bench.embed()
    assert sorted(bench.asked) == ["text 0", "text 1", "text 2"]
    found = bench.vectors()
    assert found["d1"] is None
    assert found["later"] is None
    # It holds a text that was embedded, whoever wrote it.
    assert found["late"] == found["d0"] == of("text 0")
    (table,) = report.tables
    assert (table.read, table.changed, table.unchanged) == (9, 7, 2)
    assert report.warnings == (
        "2 rows were written while texts were embedded and skipped; run embed again",
    )
    assert bench.embed().tables[0].changed == 2
    assert sorted(bench.asked[3:]) == ["never seen", "newer"]


@pytest.mark.extended
def test_a_change_between_the_last_look_and_the_commit_is_seen_too(bench: Bench) -> None:
    changes: list[str] = ['update Doc set { body: "newer", size: 1 } where name = "d1"']

    def watch(told: StageProgress) -> None:
        if told.stage == "commit" and changes:
            bench.change(changes.pop())

    report = bench.embed(progress=watch)
    assert (report.tables[0].changed, report.tables[0].unchanged) == (7, 1)
    assert bench.vectors()["d1"] is None
    assert len(bench.asked) == 3


@pytest.mark.extended
def test_a_change_of_other_rows_does_not_stand_in_the_way(bench: Bench) -> None:
    stages: list[str] = []

    def watch(told: StageProgress) -> None:
        if told.stage == "commit" and "commit" not in stages:
            bench.change('insert Doc { name: "late" }')
        stages.append(told.stage)

    assert bench.embed(progress=watch).tables[0].changed == 8
    assert stages.count("commit") == 1
    assert "late" in bench.vectors()


@pytest.mark.extended
def test_a_refusal_ends_the_job_and_what_was_paid_for_is_kept(bench: Bench) -> None:
    before = bench.head
    bench.environ["OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE"] = "1800"
    bench.server.script = [Answer(), Answer(status=400)]
    with pytest.raises(EmbeddingUnavailable) as caught:
        bench.embed()
    assert caught.value.details == {"provider": "openai", "status": 400}
    assert bench.head == before
    paid = len([path for path in bench.kept if path.endswith(".arrow")])
    assert 1 <= paid <= 2
    bench.server.seen.clear()
    bench.embed()
    assert len(bench.asked) == 3 - paid


def failed_after_paying(bench: Bench) -> list[str]:
    """The texts that a run over four rows, which then failed, paid for."""
    bench.graph.load(
        lines(*(line("Must", f"m{n}", vec=[0, 0, 1]) for n in range(4))), mode="append"
    )
    bench.environ["OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE"] = "1800"
    bench.server.script = [Answer(), Answer(status=400)]
    with pytest.raises(EmbeddingUnavailable):
        bench.embed("Must", mode="all")
    paid = [path for path in bench.kept if path.endswith(".arrow")]
    assert paid
    bench.server.seen.clear()
    return paid


@pytest.mark.extended
def test_a_run_without_a_commit_keeps_what_another_paid_for(bench: Bench) -> None:
    paid = failed_after_paying(bench)
    assert bench.embed("Must").commit is None
    assert set(paid) <= set(bench.kept)
    assert bench.embed("Must", mode="all").tables[0].changed == 4
    assert len(bench.asked) == 4 - len(paid)
    assert bench.kept == []


@pytest.mark.extended
def test_a_commit_keeps_what_a_run_at_work_paid_for(bench: Bench) -> None:
    paid = failed_after_paying(bench)
    graph = bench.graph._graph
    pin = JobPin(
        graph.storage.objects,
        graph.clock,
        operation_id=paid[0].split("/")[3],
        kind="embed",
        owner=None,
        ttl_ms=60_000,
    )
    with pin:
        pin.hold([])
        assert bench.embed("Must", mode="all").commit is not None
    assert [path for path in bench.kept if path.endswith(".arrow")] == paid
    assert len(bench.asked) == 4 - len(paid)


@pytest.mark.extended
def test_the_version_that_is_read_is_pinned_until_the_job_ends(bench: Bench) -> None:
    objects = bench.graph._graph.storage.objects
    held: list[dict[str, Any]] = []

    def look(seen: Seen) -> bytes:
        held.extend(json.loads(objects.get(each.path)) for each in objects.list(PINS))
        return good_body(seen)

    snapshot = open_snapshot(bench.graph._graph, None, MAIN_BRANCH)
    version = snapshot.handle(snapshot.catalog.node_types["Doc"]).pin.version
    bench.server.script = [Answer(body=look)]
    bench.embed()
    (pin,) = held
    assert (pin["kind"], pin["owner"]) == ("embed", "act-embedder")
    assert [(each["table"], each["version"]) for each in pin["pins"]] == [("node:Doc", version)]
    assert objects.list(PINS) == []


@pytest.mark.extended
def test_tasks_write_rows_that_are_larger_than_what_the_driver_may_hold(bench: Bench) -> None:
    photo = bytes(range(256)) * 800
    bench.environ["OMNIGRAPH_PIPELINE_MERGE_DRIVER_BYTES"] = "100"
    bench.environ["OMNIGRAPH_PIPELINE_MERGE"] = "driver"
    encoded = base64.b64encode(photo).decode()
    bench.graph.load(
        lines(line("Doc", "big", body="text 9", photo=f"base64:{encoded}")), mode="append"
    )
    report = bench.embed()
    assert (report.tables[0].changed, report.merge_strategy) == (9, "distributed")
    # Four fragments, of which one has no row to fill.
    assert next(each.tasks for each in report.stages if each.name == "resolve") == 4
    assert bench.vectors()["big"] == of("text 9")
    assert bench.graph.blob("node", "Doc", "big", "photo").read() == photo
    assert bench.staged == []


@pytest.mark.extended
def test_a_task_that_fails_after_it_wrote_fills_the_same_rows_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.pipeline.embed.filled_rows.fill", failing_once(fill))
    report = bench.embed()
    stage = next(each for each in report.stages if each.name == "resolve")
    assert (stage.tasks, stage.retries) == (3, 3)
    assert report.tables[0].changed == 8
    assert bench.vectors() == {f"d{n}": of(f"text {n % 3}") for n in range(8)} | {
        "none": None,
        "given": [1, 0, 0],
    }
    assert sorted(bench.asked) == ["text 0", "text 1", "text 2"]


def failing_once(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A task that is done and fails, at its first attempt."""

    def run(task: Any) -> Any:  # noqa: ANN401 - passed on as it came
        from pyspark import TaskContext

        from omnigraph.errors import StorageUnavailable

        done = list(function(task))
        context = TaskContext.get()
        assert context is not None
        if not context.attemptNumber():
            raise StorageUnavailable("the store did not answer")
        return done

    return run


@pytest.mark.extended
def test_no_answer_fails_after_the_attempts_of_client_and_task(bench: Bench) -> None:
    # Tasks of a job that failed may ask a little longer: a provider that nobody else asks.
    with ProviderServer() as server:
        server.script = [Answer(status=503)] * 100
        bench.environ["OMNIGRAPH_EMBED_BASE_URL"] = server.url
        with pytest.raises(PipelineTaskError) as caught:
            bench.embed()
    cause: Any = caught.value.details["cause"]
    assert cause["error"] == "EmbeddingFailed"


@pytest.mark.extended
@pytest.mark.parametrize("status", [429, 500])
def test_an_answer_that_may_be_better_later_is_asked_again(bench: Bench, status: int) -> None:
    bench.server.script = [Answer(status=status, headers={"Retry-After": "0"})] * 2
    assert bench.embed().tables[0].changed == 8
    assert len(bench.asked) == 5


def test_a_wrong_dimension_names_the_row_and_writes_nothing(bench: Bench) -> None:
    before = bench.head
    body = json.dumps({"data": [{"embedding": [1.0, 2.0]}]}).encode()
    bench.server.script = [Answer(body=lambda _: body)] * 9
    with pytest.raises(EmbeddingInvalid, match=r"^Doc 'd\d': .*has 2 values") as caught:
        bench.embed()
    assert str(caught.value.details["row"]).startswith("Doc 'd")
    assert bench.head == before


def test_an_empty_text_names_the_row_before_anything_is_paid(bench: Bench) -> None:
    bench.graph.load(lines(line("Doc", "blank", body="")), mode="append")
    with pytest.raises(EmbeddingInvalid, match=r"^Doc 'blank': the text is empty"):
        bench.embed()
    assert bench.asked == []


@pytest.mark.extended
def test_requests_keep_to_the_rate_of_the_job(bench: Bench) -> None:
    at: list[int] = []
    clock = SystemClock()

    def note(seen: Seen) -> bytes:
        at.append(clock.monotonic_us())
        return good_body(seen)

    bench.graph.load(
        lines(*(line("Doc", f"more{n}", body=f"more {n}") for n in range(5))), mode="append"
    )
    bench.server.script = [Answer(body=note)] * 8
    bench.environ["OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE"] = "60"
    bench.embed()
    assert len(at) == 8
    # Two tasks of four requests, one every two seconds; the first of a new worker may be late.
    assert max(at) - min(at) >= 4_000_000


def test_workers_of_another_model_are_refused(bench: Bench) -> None:
    settings = bench.environ | {"OMNIGRAPH_EMBED_MODEL": "driver-model"}
    pipeline = Pipeline(
        bench.graph._graph,
        load_settings(settings),
        actor_id=None,
        external=DENY_ALL,
        spark=bench.session.spark,
    )
    with (
        worker_environment(bench.session, bench.environ),
        pytest.raises(EmbeddingModelMismatch, match="'driver-model'"),
    ):
        pipeline.embed(type="Doc")
    assert bench.asked == []


@pytest.mark.extended
def test_the_mock_needs_no_network(bench: Bench) -> None:
    bench.environ.clear()
    bench.environ["OMNIGRAPH_EMBEDDINGS_MOCK"] = "1"
    bench.embed()
    expected = MockEmbedder().embed(["text 0"], dimension=3, purpose=Purpose.DOCUMENT)[0]
    assert bench.vectors()["d0"] == [float(each) for each in expected]


@pytest.mark.extended
def test_an_embedder_that_was_handed_in_is_used_in_this_process(bench: Bench) -> None:
    asked: list[str] = []

    class Ours:
        model = "ours"

        def embed(self, texts: Any, *, dimension: int, purpose: Purpose) -> Any:  # noqa: ANN401
            asked.extend(texts)
            return MockEmbedder("ours").embed(texts, dimension=dimension, purpose=purpose)

    bench.embed(embedder=Ours())
    assert sorted(asked) == ["text 0", "text 1", "text 2"]
    assert bench.asked == []
    assert bench.vectors()["d4"] is not None


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"type": "Dco"}, InvalidArgument, "did you mean Doc"),
        ({"type": "Plain"}, InvalidArgument, "types that have one: Both, Doc, Must, Other"),
        ({"type": "edge:Near"}, InvalidArgument, "edge:Near has no `@embed` vector"),
        ({"property": "body"}, InvalidArgument, "it has: `vec`"),
        ({"mode": "some"}, InvalidArgument, "not 'some'"),
        ({"branch": "nope"}, BranchNotFound, "nope"),
        ({"type": "Other"}, EmbeddingModelMismatch, "'another'"),
    ],
)
def test_what_cannot_be_embedded_is_refused(
    bench: Bench, options: dict[str, str], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        bench.embed(**options)  # type: ignore[arg-type]
    assert bench.asked == []


def test_a_graph_that_is_open_read_only_is_not_embedded(bench: Bench) -> None:
    with Graph.open(bench.root, mode="read_only") as reading, pytest.raises(ReadOnlyGraph):
        reading.pipeline(bench.session.spark).embed(type="Doc")


CHILD = """
import sys
from omnigraph import Graph
with Graph.open(sys.argv[1]) as graph, graph.pipeline() as pipeline:
    print(pipeline.embed(type="Doc").tables[0].changed)
"""


@pytest.mark.extended
def test_a_killed_job_has_paid_for_what_it_had_and_the_next_pays_the_rest(bench: Bench) -> None:
    bench.graph.load(
        lines(*(line("Doc", f"more{n}", body=f"more {n}") for n in range(5))), mode="append"
    )
    child: list[subprocess.Popen[bytes]] = []
    answered: list[str] = []

    def answer(seen: Seen) -> bytes:
        answered.extend(seen.texts)
        return good_body(seen)

    def kill(_: Seen) -> bytes:
        child[0].send_signal(signal.SIGKILL)
        child[0].wait()
        raise ConnectionResetError  # Nobody is there to be answered.

    # A worker outlives its driver for a moment, and is not answered any more.
    bench.server.script = [
        *[Answer(body=answer)] * 3,
        Answer(body=kill),
        *[Answer(status=503)] * 100,
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")},
        **bench.environ,
        "OMNIGRAPH_SPARK_MASTER": "local[1,1]",
        "OMNIGRAPH_SPARK_CONF": "spark.driver.memory=1g;spark.log.level=OFF"
        ";spark.driver.host=127.0.0.1;spark.driver.bindAddress=127.0.0.1",
        "OMNIGRAPH_SPARK_CDS": "0",
    }
    child.append(
        subprocess.Popen(
            [sys.executable, "-c", CHILD, bench.root],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    )
    # The pipe ends when the last process has ended that the child started.
    child[0].communicate(timeout=200)
    assert child[0].returncode == -signal.SIGKILL
    assert len(answered) == 3
    assert bench.vectors()["d0"] is None
    bench.server.script = []
    before = len(bench.server.seen)
    bench.embed()
    rest = [text for seen in bench.server.seen[before:] for text in seen.texts]
    assert sorted(answered + rest) == sorted(
        [*(f"text {n}" for n in range(3)), *(f"more {n}" for n in range(5))]
    )
    assert bench.vectors()["more4"] == of("more 4")
    assert bench.kept == []


@pytest.mark.extended
def test_a_file_gives_the_same_bytes_on_spark(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    records: list[dict[str, object]] = [
        *(line("Doc", f"d{n}", title=f"t{n % 4}") for n in range(40)),
        {"edge": "Near", "from": "d1", "to": "d2"},
        line("Doc", "given", vec=[1, 0, 0]),
    ]
    source.write_bytes(lines(*records))
    choice = LineChoice(
        spec=EmbedSpec(dimension=3, types={"Doc": TypeSpec(target="vec", fields=("title",))}),
        mode=FileMode.FILL_MISSING,
    )
    settings = load_settings(bench.environ | {"OMNIGRAPH_PIPELINE_SPLIT_BYTES": "300"})
    local = FileJob(source=source, output=tmp_path / "a.jsonl", choice=choice)
    here = embed_file(local, settings)
    assert len(bench.asked) == 4
    with worker_environment(bench.session, bench.environ):
        there = embed_file(
            replace(local, output=tmp_path / "b.jsonl", engine=Engine.SPARK), settings
        )
    assert (here.engine, there.engine) == ("local", "spark")
    assert replace(there, engine="local", output=here.output) == here
    assert len(bench.asked) == 8
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_the_command_fills_a_graph_on_the_active_session(
    bench: Bench, call_main: Callable[..., tuple[int, str, str]]
) -> None:
    with worker_environment(bench.session, bench.environ):
        code, out, err = call_main(
            "embed", "--store", bench.root, "--type", "Doc", "--json", environ=bench.environ
        )
    assert code == 0, err
    body = json.loads(out)
    assert (body["tables"][0]["changed"], body["commit"]["kind"]) == (8, "embed")
    with worker_environment(bench.session, bench.environ):
        code, out, err = call_main(
            "embed", "--store", bench.root, "--type", "Doc", environ=bench.environ
        )
    assert "commit          none, there was nothing to fill\n" in out


@pytest.fixture
def call_main(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process."""
    from omnigraph.cli.main import main

    def run(*words: str, environ: Mapping[str, str]) -> tuple[int, str, str]:
        code = main(list(words), {"HOME": str(tmp_path)} | dict(environ))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
