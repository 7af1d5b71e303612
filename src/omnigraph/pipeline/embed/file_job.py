"""Embedding of a file of records: the same lines again, with vectors.

What is paid for, and the parts of the result, lie in a folder beside the output until it is whole.
The output appears at once, complete, or not at all; what was paid for stays for the next run. One
run at a time works on an output.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.embedding import open_embedder, require_model
from omnigraph.embedding.text_keys import text_keys
from omnigraph.errors import InternalError, InvalidArgument, SourceError
from omnigraph.graph.jobs.stage_teller import Amount, StageTeller
from omnigraph.graph.jobs.stage_times import StageTimes
from omnigraph.ids import UlidSource
from omnigraph.pipeline.embed.file_lines import FileMode, LineChoice, SplitTexts
from omnigraph.pipeline.embed.tasks import TextModel
from omnigraph.pipeline.embed.texts import EmbedPlace, TextEmbedding
from omnigraph.pipeline.files.splits import cut
from omnigraph.pipeline.spark.lanes import LocalLane, SparkLane
from omnigraph.pipeline.spark.session import open_session
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spark.task_storage import open_task_storage
from omnigraph.pipeline.staging.vector_cache import VectorReader, is_paid_file
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from omnigraph.embedding import CheckedEmbedder
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.pipeline.embed.file_lines import JudgedLine
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.settings import Settings
    from omnigraph.storage.input_files import InputFile

_PAID: Final = "paid"
_PARTS: Final = "parts"
_LOCK: Final = "lock"
_COPY_BYTES: Final = 1 << 20
_COUNTED: Final = ("records", "selected_records", "embedded_records", "cleaned_records")
_COUNTS: Final[Mapping[str, pa.DataType]] = dict.fromkeys(_COUNTED, pa.int64())
_WRITTEN: Final = pa.schema(_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileJob:
    """What is asked for."""

    source: Path
    output: Path
    choice: LineChoice
    engine: Engine = Engine.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What became of a file."""

    input: str
    output: str
    records: int
    selected_records: int
    embedded_records: int
    cleaned_records: int
    mode: str
    dimension: int
    model: str
    engine: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; the engine is no part of it."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "engine"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """One split to write."""

    root: str
    run: str
    """Tasks of a run that was killed may still write: each run has parts of its own."""
    number: int
    part: SplitTexts
    model: TextModel
    places: Mapping[bytes, str] = field(default_factory=dict)
    """Where the vectors of its texts are."""

    @property
    def path(self) -> Path:
        """The file that the task writes."""
        return Path(self.root, _PARTS, self.run, f"{self.number:06d}.jsonl")


def embed_file(job: FileJob, settings: Settings, *, progress: Progress | None = None) -> FileReport:
    """Write the records of a file with their vectors to another; how many there were.

    Raises:
        SourceError, InputChanged: the input cannot be read, or a line is no record.
        InvalidArgument: the output cannot be written, or another run works on it, or the engine
            cannot take the input.
        EmbeddingUnavailable, EmbeddingInvalid, EmbeddingFailed, EmbeddingModelMismatch: no vectors.
        SparkUnavailable, PipelineTaskError: Spark could not do it.
    """
    from omnigraph.storage.input_files import InputFiles

    if not job.source.is_file():
        raise SourceError(f"there is no file {job.source}; check the path", path=str(job.source))
    (file,) = InputFiles(settings.storage).find(str(job.source.absolute()))
    engine = choose_engine(job, file.size_bytes, settings.spark.min_input_bytes)
    folder = work_folder(job.output)
    with _alone(job.output, folder):
        try:
            if engine is Engine.LOCAL:
                lane = LocalLane(teller=StageTeller(progress))
                return _Run(job, settings, file, folder, lane).report()
            return _on_spark(job, settings, file, folder, progress)
        finally:
            _tidy(folder)


def _on_spark(
    job: FileJob, settings: Settings, file: InputFile, folder: Path, progress: Progress | None
) -> FileReport:
    with open_session(settings, command="embed") as session, session.configured():
        session.require_access(open_task_storage(str(folder)).location, shared_filesystem=False)
        lane = SparkLane(session=session, runner=StageRunner(session, progress))
        return _Run(job, settings, file, folder, lane).report()


def choose_engine(job: FileJob, size_bytes: int, most_bytes: int) -> Engine:
    """Where the file is embedded: in this process up to a size, and whenever it is only cleaned.

    Raises:
        InvalidArgument: the engine that is asked for cannot take it.
    """
    if job.choice.mode is FileMode.CLEAN:
        return Engine.LOCAL
    if job.engine is Engine.LOCAL and size_bytes > most_bytes:
        raise InvalidArgument(
            f"a file of {size_bytes:,} bytes (more than {most_bytes:,}) needs Spark; leave the"
            " engine out, or give 'spark'",
            argument="engine",
        )
    if job.engine is not Engine.AUTO:
        return job.engine
    return Engine.LOCAL if size_bytes <= most_bytes else Engine.SPARK


def work_folder(output: Path) -> Path:
    """Where a run keeps what is not the result yet: beside it."""
    return output.absolute().parent / f".{output.name}.embed"


@contextmanager
def _alone(output: Path, folder: Path) -> Iterator[None]:
    """Keep other runs off the folder, until this one or its process has ended."""
    lock = folder / _LOCK
    with ExitStack() as leaving:
        with _writing(output):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                held = leaving.enter_context(lock.open("wb"))
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A run that ends removes the file, and a lock on what is gone keeps nobody off.
                is_held = os.path.samestat(os.fstat(held.fileno()), lock.stat())
            except (BlockingIOError, FileNotFoundError):
                is_held = False
        if not is_held:
            raise InvalidArgument(
                f"another run writes {output}; wait until it has ended, or choose another output",
                path=str(output),
            )
        yield


def _tidy(folder: Path) -> None:
    """Remove what no later run can use; what was paid for and not written stays."""
    shutil.rmtree(folder / _PARTS, ignore_errors=True)
    if any(is_paid_file(each.name) for each in folder.rglob("*")):
        return
    shutil.rmtree(folder / _PAID, ignore_errors=True)
    # From here on another run may hold the folder: nothing in it is touched any more.
    with suppress(OSError):
        (folder / _LOCK).unlink()
        folder.rmdir()


@contextmanager
def _writing(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidArgument(
            f"cannot write {output}: {error.strerror or error}", path=str(output)
        ) from error


class _Run:
    """One run on one lane."""

    def __init__(
        self, job: FileJob, settings: Settings, file: InputFile, folder: Path, lane: TaskLane
    ) -> None:
        self._job = job
        self._settings = settings
        self._folder = folder
        self._lane = lane
        self._run = UlidSource(SystemClock()).next_ulid()
        self._embedding: TextEmbedding | None = None
        self._size_bytes = file.size_bytes
        self._parts = [
            SplitTexts(
                split=split,
                choice=job.choice,
                block_bytes=settings.pipeline.batch_bytes,
            )
            for split in cut([file], settings.pipeline.split_bytes)
        ]

    def report(self) -> FileReport:
        """Embed, write the parts, join them."""
        job, spec = self._job, self._job.choice.spec
        model = TextModel(name="", dimension=spec.dimension)
        places: list[dict[bytes, str]] = [{} for _ in self._parts]
        if job.choice.mode is not FileMode.CLEAN:
            with open_embedder(self._settings.embedding, SystemClock()) as embedder:
                require_model(embedder, spec.model, "the spec")
                model = TextModel(name=embedder.model, dimension=spec.dimension)
                places = self._paid(model, embedder)
        counts = self._write(model, places)
        if self._embedding is not None:
            self._embedding.remove()
        return FileReport(
            input=str(job.source),
            output=str(job.output),
            mode=job.choice.mode_name,
            dimension=model.dimension,
            model=model.name,
            engine=(Engine.LOCAL if isinstance(self._lane, LocalLane) else Engine.SPARK).value,
            **counts,
        )

    def _paid(self, model: TextModel, embedder: CheckedEmbedder) -> list[dict[bytes, str]]:
        """For each part the places of its vectors, all of which are paid for."""
        clock = SystemClock()
        embedding = self._embedding = TextEmbedding(
            self._lane,
            open_task_storage(str(self._folder)).objects,
            EmbedPlace(root=str(self._folder), folder=_PAID, run=self._run),
            model,
            self._settings.embedding,
            times=StageTimes(clock),
            given=embedder if isinstance(self._lane, LocalLane) else None,
        )
        survey = embedding.survey(self._parts)
        embedding.pay(survey)
        return [{key: embedding.places[key] for key in keys} for keys in survey.keys]

    def _write(self, model: TextModel, places: Sequence[Mapping[bytes, str]]) -> dict[str, int]:
        parts = self._folder / _PARTS / self._run
        with _writing(self._job.output):
            shutil.rmtree(parts.parent, ignore_errors=True)  # Of runs that were killed.
            parts.mkdir(parents=True)
        tasks = [
            WriteTask(
                root=str(self._folder),
                run=self._run,
                number=number,
                part=part,
                model=model,
                places=held,
            )
            for number, (part, held) in enumerate(zip(self._parts, places, strict=True))
        ]
        counts = dict.fromkeys(_COUNTED, 0)
        work = Amount(size_bytes=self._size_bytes)
        for result in self._lane.run("write", tasks, write_part, _WRITTEN, work=work):
            (batch,) = result.batches
            for name in _COUNTED:
                counts[name] += int(batch.column(name)[0].as_py())
        with _writing(self._job.output):
            whole = parts / "whole"
            with whole.open("wb") as out:
                for task in tasks:
                    with task.path.open("rb") as part_file:
                        shutil.copyfileobj(part_file, out, _COPY_BYTES)
                out.flush()
                os.fsync(out.fileno())
            whole.replace(self._job.output.absolute())
        return counts


def write_part(task: WriteTask) -> Iterator[pa.RecordBatch]:
    """Write the lines of one split; how many there were.

    Raises:
        InvalidArgument: the part cannot be written.
    """
    reader = VectorReader(open_task_storage(task.root).objects, task.places)
    counts = dict.fromkeys(_COUNTED, 0)
    # A task may run twice at the same time.
    partial = task.path.with_suffix(f".{UlidSource(SystemClock()).next_ulid()}")
    with _writing(task.path), partial.open("wb") as out:
        for each in task.part.lines():
            vector = _vector(each, task.model, reader)
            out.write(each.written(vector) + b"\n")
            counts["records"] += 1
            counts["selected_records"] += each.is_selected
            counts["embedded_records"] += vector is not None
            counts["cleaned_records"] += each.is_cleaned
    with _writing(task.path):
        partial.replace(task.path)
    values = [pa.array([counts[name]], pa.int64()) for name in _COUNTED]
    yield pa.record_batch(values, schema=_WRITTEN)


def _vector(
    line: JudgedLine, model: TextModel, reader: VectorReader
) -> npt.NDArray[np.float32] | None:
    if line.text is None:
        return None
    (key,) = text_keys(model.name, model.dimension, [line.text])
    vector = reader.find(key)
    if vector is None:
        raise InternalError(
            f"{line.where}: the vector that was paid for is gone; run the command again"
        )
    return vector
