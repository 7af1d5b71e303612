"""Every distinct text of a job is paid for once, whatever fails and however often it runs."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

_ROOT = str(Path(__file__).parents[4])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.extended import thinned  # noqa: E402 - as below
from tests.unit.embedding.provider_server import (  # noqa: E402 - needs the path above
    Answer,
    ProviderServer,
    unit_rows,
)

from omnigraph.clock import SystemClock  # noqa: E402
from omnigraph.embedding import MockEmbedder, checked, open_embedder  # noqa: E402
from omnigraph.embedding.pace import Rate  # noqa: E402
from omnigraph.embedding.text_keys import text_keys  # noqa: E402
from omnigraph.errors import (  # noqa: E402
    EmbeddingFailed,
    EmbeddingInvalid,
    EmbeddingModelMismatch,
    EmbeddingUnavailable,
    InternalError,
)
from omnigraph.graph.jobs.stage_times import StageTimes  # noqa: E402
from omnigraph.graph.load.vector_filling import VectorFiller  # noqa: E402
from omnigraph.ids import UlidSource  # noqa: E402
from omnigraph.lang import compile_schema  # noqa: E402
from omnigraph.pipeline.embed.tasks import (  # noqa: E402
    MOST_TEXTS,
    ChosenTexts,
    PayTask,
    TextModel,
    pay,
)
from omnigraph.pipeline.embed.texts import (  # noqa: E402
    EmbedPlace,
    TextEmbedding,
    choose_tasks,
    share_out,
)
from omnigraph.pipeline.spark.conform import to_ipc  # noqa: E402
from omnigraph.pipeline.spark.lanes import LocalLane  # noqa: E402
from omnigraph.pipeline.spark.task_storage import open_task_storage  # noqa: E402
from omnigraph.pipeline.spark.tasks import MAX_RESULT_BYTES  # noqa: E402
from omnigraph.pipeline.staging.vector_cache import (  # noqa: E402
    PLACES,
    PaidVectors,
    StoredPlaces,
    VectorFiles,
    VectorReader,
    read_file,
)
from omnigraph.settings import EmbeddingSettings, Secret  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph.embedding import CheckedEmbedder
    from omnigraph.storage.objects import StorageAdapter

MODEL = "text-embedding-3-large"


@dataclass(frozen=True)
class Words:
    """A part of the input that is just a list."""

    words: tuple[str, ...]

    def texts(self) -> Iterator[tuple[str, str]]:
        for number, word in enumerate(self.words):
            yield f"row {number}", word


class Bench:
    """Jobs on a folder, asking a provider on this machine."""

    def __init__(self, folder: Path, server: ProviderServer, opened: ExitStack) -> None:
        self.server = server
        self._opened = opened
        self.root = str(folder)
        self.times = StageTimes(SystemClock())
        self.settings = EmbeddingSettings(
            provider="openai",
            base_url=server.url,
            openai_api_key=Secret("key"),
            batch_texts=2,
            retry_backoff_ms=1,
            retry_attempts=2,
        )

    @property
    def objects(self) -> StorageAdapter:
        return open_task_storage(self.root).objects

    def job(self, dimension: int = 3, **settings: Any) -> TextEmbedding:  # noqa: ANN401
        chosen = replace(self.settings, **settings)
        return TextEmbedding(
            LocalLane(),
            self.objects,
            EmbedPlace(
                root=self.root, folder="paid/job", run=UlidSource(SystemClock()).next_ulid()
            ),
            TextModel(name=MODEL, dimension=dimension),
            chosen,
            times=self.times,
            given=self.open(chosen),
        )

    def open(self, settings: EmbeddingSettings) -> CheckedEmbedder:
        return self._opened.enter_context(open_embedder(settings, SystemClock()))

    def run(self, *parts: Sequence[str], **settings: Any) -> TextEmbedding:  # noqa: ANN401
        job = self.job(**settings)
        job.pay(job.survey([Words(tuple(part)) for part in parts]))
        return job

    def vector(self, job: TextEmbedding, text: str) -> npt.NDArray[np.float32] | None:
        return VectorReader(self.objects, job.places).find(key(text))

    @property
    def asked(self) -> list[str]:
        return [text for seen in self.server.seen for text in seen.texts]

    @property
    def files(self) -> list[str]:
        return PaidVectors(self.objects, "paid/job").files()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with ProviderServer() as server, ExitStack() as opened:
        yield Bench(tmp_path / "root", server, opened)


def key(text: str, dimension: int = 3) -> bytes:
    return text_keys(MODEL, dimension, [text])[0]


def test_a_text_of_several_parts_is_paid_for_once(bench: Bench) -> None:
    job = bench.run(["a", "b", "a"], ["b", "c"], ["c", "a"])
    assert sorted(bench.asked) == ["a", "b", "c"]
    found = bench.vector(job, "c")
    assert found is not None
    assert np.array_equal(found, unit_rows(["c"], 3)[0])


def test_the_survey_counts_rows_and_texts_and_asks_nobody(bench: Bench) -> None:
    job = bench.job()
    found = job.survey([Words(("a", "b", "a")), Words(("b",))])
    assert (found.rows, found.texts, job.unpaid(found)) == (4, 2, 2)
    assert bench.asked == []
    assert bench.files == []


def test_an_empty_text_is_refused_with_its_row_before_anything_is_paid(bench: Bench) -> None:
    with pytest.raises(EmbeddingInvalid, match="row 1: the text is empty") as caught:
        bench.run(["a", ""])
    assert caught.value.details == {"row": "row 1"}
    assert bench.asked == []


def test_a_second_run_pays_only_for_what_the_first_did_not(bench: Bench) -> None:
    bench.server.script = [Answer(), Answer(status=400)]
    with pytest.raises(EmbeddingUnavailable):
        bench.run(["a", "b", "c", "d", "e"])
    assert bench.asked == ["a", "b", "c", "d"]
    bench.server.seen.clear()
    bench.run(["e", "d", "c", "b", "a"])
    assert sorted(bench.asked) == ["c", "d", "e"]


def test_what_was_paid_for_another_model_or_dimension_is_no_help(bench: Bench) -> None:
    bench.run(["a"])
    bench.run(["a"], dimension=5)
    assert bench.asked == ["a", "a"]


def test_removing_leaves_nothing_of_this_run_and_of_earlier_ones(bench: Bench) -> None:
    bench.run(["a"])
    job = bench.run(["a", "b"])
    assert len(bench.files) == 2
    job.remove()
    assert bench.objects.list("paid") == []


def test_removing_keeps_what_another_run_paid_for_meanwhile(bench: Bench) -> None:
    job = bench.run(["a"])
    bench.run(["b"])
    job.remove()
    assert len(bench.files) == 1


def test_removing_keeps_files_that_hold_a_text_of_another_run(bench: Bench) -> None:
    bench.run(["a", "b", "c"])
    job = bench.run(["a", "c"])
    job.remove()
    assert len(bench.files) == 1
    assert set(PaidVectors(bench.objects, "paid/job").places()) == {key("a"), key("b")}
    job = bench.run(["b", "a"])
    job.remove()
    assert bench.files == []
    assert bench.asked == ["a", "b", "c"]


def test_removing_keeps_the_files_of_a_run_that_is_at_work(bench: Bench) -> None:
    bench.server.script = [Answer(), Answer(status=400)]
    with pytest.raises(EmbeddingUnavailable):
        bench.run(["a", "b", "c"])
    (path,) = bench.files
    run = path.split("/")[2]
    before = bench.objects.list("paid")
    bench.run(["a", "b"]).remove(lambda each: each == run)
    assert bench.objects.list("paid") == before
    bench.run(["a", "b"]).remove(lambda _: False)
    assert bench.objects.list("paid") == []


def test_files_that_another_job_removes_are_paid_for_again(bench: Bench) -> None:
    job = bench.job()
    found = job.survey([Words(("a", "b", "c"))])
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: bench.objects.delete_prefix("paid"),
    ]
    real = bench.server.script

    class Removing(list[Answer]):
        def __bool__(self) -> bool:
            if steps:
                steps.pop(0)()
            return False

    bench.server.script = Removing(real)
    # Three texts, however often they are asked.
    assert job.pay(found) == 3
    assert bench.asked == ["a", "b", "c", "a", "b"]
    (stage,) = (each for each in bench.times.reports() if each.name == "embed")
    assert stage.rows == 3
    assert all(bench.vector(job, each) is not None for each in "abc")


def test_a_file_that_was_not_written_to_its_end_is_passed_over(bench: Bench) -> None:
    bench.run(["a"])
    (path,) = bench.files
    bench.objects.put(path, bench.objects.get(path)[:40])
    bench.objects.put("paid/job/other.arrow", b"")
    job = bench.run(["a"])
    assert bench.asked == ["a", "a"]
    assert bench.vector(job, "a") is not None


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_an_answer_that_may_be_better_later_is_asked_again(bench: Bench, status: int) -> None:
    bench.server.script = [Answer(status=status, headers={"Retry-After": "0"})]
    bench.run(["a"])
    assert bench.asked == ["a", "a"]


def test_no_answer_at_all_fails_and_keeps_what_was_paid(bench: Bench) -> None:
    bench.server.script = [Answer(), Answer(status=500), Answer(status=500)]
    with pytest.raises(EmbeddingFailed):
        bench.run(["a", "b", "c"])
    assert len(bench.files) == 1


def test_a_wrong_dimension_names_the_row(bench: Bench) -> None:
    body = json.dumps(
        {"data": [{"embedding": [1.0, 0.0, 0.0]}, {"embedding": [1.0, 2.0]}]}
    ).encode()
    bench.server.script = [Answer(), Answer(body=lambda _: body)]
    with pytest.raises(EmbeddingInvalid, match=r"^row 4: .* has 2 values") as caught:
        bench.run(["a", "b", "a", "c", "d"])
    assert caught.value.details["row"] == "row 4"


def test_an_embedder_of_another_model_is_refused_before_it_is_asked(bench: Bench) -> None:
    job = bench.job(model="another")
    with pytest.raises(EmbeddingModelMismatch, match="'another'"):
        job.pay(job.survey([Words(("a",))]))
    assert bench.asked == []


def pay_task(bench: Bench, words: str, number: int = 0) -> PayTask:
    return PayTask(
        root=bench.root,
        folder=f"paid/job/run/{number}",
        job_folder="paid/job/run",
        model=TextModel(name="mock", dimension=3),
        chosen=(ChosenTexts(part=Words(tuple(words)), places=np.arange(len(words))),),
        rate=Rate(),
        batch_texts=2,
    )


class Dying:
    """Gives vectors for some texts, then dies as a killed process does."""

    model = "mock"

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, dimension: int, purpose: Any) -> object:  # noqa: ANN401
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += texts
        return MockEmbedder().embed(texts, dimension=dimension, purpose=purpose)


def test_a_task_that_runs_again_asks_only_for_the_rest(bench: Bench) -> None:
    first, second = Dying(2), Dying(9)
    task = pay_task(bench, "abcdefg")
    with pytest.raises(KeyboardInterrupt):
        list(pay(task, given=checked(first, batch_texts=9)))  # type: ignore[arg-type]
    (batch,) = pay(task, given=checked(second, batch_texts=9))  # type: ignore[arg-type]
    assert first.asked + second.asked == list("abcdefg")
    assert batch.num_rows == 7


def test_a_refusal_in_one_task_ends_the_others_at_their_next_request(bench: Bench) -> None:
    bench.server.script = [Answer(status=403)]
    refused = bench.open(replace(bench.settings, model="mock"))
    with pytest.raises(EmbeddingUnavailable):
        list(pay(pay_task(bench, "ab"), given=refused))
    other = Dying(9)
    (batch,) = pay(pay_task(bench, "cd", 1), given=checked(other, batch_texts=9))  # type: ignore[arg-type]
    assert (other.asked, batch.num_rows) == ([], 0)


@pytest.mark.parametrize("batch_texts", thinned([96, 1]))
def test_what_the_largest_task_returns_is_small_enough(bench: Bench, batch_texts: int) -> None:
    words = tuple(f"word {number}" for number in range(960))
    task = replace(
        pay_task(bench, ""),
        folder=f"__staging/embed/{'k' * 32}/op-{'r' * 26}/00000",
        chosen=(ChosenTexts(part=Words(words), places=np.arange(len(words))),),
        batch_texts=batch_texts,
    )
    (batch,) = pay(task, given=checked(MockEmbedder(), batch_texts=96))
    assert batch.num_rows == len(words)
    largest = len(to_ipc([batch], PLACES)) * MOST_TEXTS / len(words)
    assert largest < MAX_RESULT_BYTES
    assert batch_texts == 1 or largest < 40 * MOST_TEXTS


def test_a_part_that_lost_texts_is_an_error(bench: Bench) -> None:
    task = pay_task(bench, "ab")
    changed = replace(task, chosen=(replace(task.chosen[0], part=Words(("a",))),))
    with pytest.raises(InternalError, match="1 more texts"):
        list(pay(changed, given=checked(MockEmbedder(), batch_texts=9)))


@pytest.mark.parametrize(
    ("texts", "rate", "slots", "tasks"),
    [
        (1_000, Rate(), 2, 8),
        (150, Rate(), 8, 2),
        (1, Rate(), 8, 1),
        (10_000, Rate(requests=10), 8, 1),
        (10_000, Rate(requests=60), 8, 2),
        (10_000, Rate(requests=6_000), 8, 8),
        (10_000, Rate(requests=6_000, tokens=60_000), 8, 2),
        (10_000, Rate(tokens=1), 8, 1),
        (5_000_000, Rate(), 2, 20),
        (1_200_000, Rate(requests=10), 2, 5),
    ],
)
def test_no_more_tasks_than_the_rate_keeps_busy(
    texts: int, rate: Rate, slots: int, tasks: int
) -> None:
    found = choose_tasks(texts, 10 * texts, rate=rate, slots=slots, batch_texts=96)
    assert found == tasks


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_shares_hold_every_text_once_and_are_even(count: int) -> None:
    wanted = [
        ChosenTexts(part=Words(("x",)), places=np.array(places, np.int64))
        for places in ([0, 2, 3], [1], [0, 1, 2, 3, 4, 5])
    ]
    shares = share_out(wanted, count)
    assert len(shares) <= count
    sizes = [sum(len(each.places) for each in share) for share in shares]
    assert max(sizes) - min(sizes) <= max(sizes[0] - 1, 1)
    flat = [place for share in shares for each in share for place in each.places.tolist()]
    assert flat == [0, 2, 3, 1, 0, 1, 2, 3, 4, 5]


def test_a_filler_with_a_memory_pays_once_for_all_that_share_it(bench: Bench) -> None:
    catalog = compile_schema('node Doc { t: String  v: Vector(3) @embed("t") }')
    doc = catalog.node_types["Doc"]
    embedder = bench.open(bench.settings)

    def filler() -> VectorFiller:
        memory = PaidVectors(bench.objects, "paid/load/000001")
        return VectorFiller(open_embedder=lambda: embedder, memory=memory)

    first = filler().vectors(doc, "v", ["a", "b"])
    second = filler().vectors(doc, "v", ["b", "c", "a"])
    assert sorted(bench.asked) == ["a", "b", "c"]
    assert [each.tolist() for each in (first[1], first[0])] == [
        second[0].tolist(),
        second[2].tolist(),
    ]


def test_places_that_are_stored_name_the_file_of_every_key_and_of_no_other(bench: Bench) -> None:
    # Keys that end in zeros, and keys that differ at their ends only.
    known = [bytes([n]) * 15 + bytes([m]) for n in (0, 7, 255) for m in (0, 1, 255)]
    places = {key: f"file {number % 2}" for number, key in enumerate(known)}
    StoredPlaces.store(bench.objects, "places", places)
    stored = StoredPlaces(bench.objects, "places")
    asked = [*reversed(known), bytes([7]) * 15 + bytes([2]), bytes([8]) * 16]
    assert stored.files_of(asked) == [*(places[each] for each in reversed(known)), None, None]
    assert stored.files_of([]) == []
    StoredPlaces.store(bench.objects, "none", {})
    assert StoredPlaces(bench.objects, "none").files_of(known[:1]) == [None]


def test_vectors_of_many_files_are_found_and_each_file_is_read_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bench.run([f"text {n}" for n in range(10)])
    monkeypatch.setattr("omnigraph.pipeline.staging.vector_cache._OPEN_FILES", 1)
    read: list[str] = []

    def watched(objects: StorageAdapter, path: str) -> pa.RecordBatch | None:
        read.append(path)
        return read_file(objects, path)

    monkeypatch.setattr("omnigraph.pipeline.staging.vector_cache.read_file", watched)
    texts = [f"text {n}" for n in (0, 9, 1, 8, 2, 7)] + ["unknown"]
    keys = [key(each) for each in texts]
    found = VectorFiles(bench.objects).find_all(keys, [job.places.get(each) for each in keys])
    assert [None if each is None else each.tolist() for each in found] == [
        *(unit_rows([each], 3)[0].tolist() for each in texts[:-1]),
        None,
    ]
    assert len(read) == len(set(read)) == len(set(map(job.places.get, keys[:-1])))
