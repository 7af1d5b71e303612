"""Tasks on executors: one result per partition, whatever fails on the way."""

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import (
    ExecutorMismatch,
    InternalError,
    PipelineTaskError,
    ResourceLimit,
    SourceError,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.pipeline.spark.conform import conform, from_ipc, to_ipc
from omnigraph.pipeline.spark.handshake import (
    require_executors_of,
    require_matching_executors,
    versions_here,
)
from omnigraph.pipeline.spark.session import PipelineSession
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spark.tasks import TaskResult, frame_of_tasks, run_tasks

NUMBERS = pa.schema({"number": pa.int64()})
Body = Callable[[int], Iterable[pa.RecordBatch]]

# The functions that run on executors are nested: those are pickled with their code, and the
# executors need not know this module.


def values(result: TaskResult) -> list[int | None]:
    return [value for batch in result.batches for value in batch.column("number").to_pylist()]


def squares() -> Body:
    def run(task: int) -> Iterable[pa.RecordBatch]:
        import pyarrow as pa

        yield pa.record_batch({"number": pa.array([task * task], pa.int64())})

    return run


def failing_first(marks: Path, fail: Callable[[], None]) -> Body:
    """A task that fails at its first attempt, and gives its number at the second."""

    def run(task: int) -> Iterable[pa.RecordBatch]:
        import pyarrow as pa

        try:
            (marks / str(task)).touch(exist_ok=False)
        except FileExistsError:
            return [pa.record_batch({"number": pa.array([task], pa.int64())})]
        fail()
        return []

    return run


def counting(calls: Path, fail: Callable[[int], None]) -> Body:
    """A task that leaves a line for every attempt."""

    def run(task: int) -> Iterable[pa.RecordBatch]:
        with calls.open("a") as file:
            file.write(f"{task}\n")
        fail(task)
        return []

    return run


class TestConform:
    SCHEMA = pa.schema(
        [pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())]  # type: ignore[arg-type]
    )

    def test_a_batch_that_fits_is_passed_on(self) -> None:
        batch = pa.RecordBatch.from_arrays(
            [pa.array([1], pa.int32()), pa.array(["x"])], schema=self.SCHEMA
        )
        assert conform(batch, self.SCHEMA) is batch

    def test_columns_are_put_in_order_and_cast(self) -> None:
        batch = pa.record_batch({"b": pa.array(["x"], pa.large_string()), "a": pa.array([7])})
        fitted = conform(batch, self.SCHEMA)
        assert fitted.schema == self.SCHEMA
        assert fitted.to_pylist() == [{"a": 7, "b": "x"}]

    def test_a_value_is_never_changed_to_fit(self) -> None:
        batch = pa.record_batch({"a": pa.array([2**40]), "b": pa.array(["x"])})
        with pytest.raises(InternalError, match=r"'a' as int64.*declared int32"):
            conform(batch, self.SCHEMA)

    def test_a_type_that_cannot_be_cast_is_named(self) -> None:
        batch = pa.record_batch({"a": pa.array([[1]]), "b": pa.array(["x"])})
        with pytest.raises(InternalError, match="'a' as list"):
            conform(batch, self.SCHEMA)

    @pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", "c"]])
    def test_missing_and_unknown_columns_are_refused(self, names: list[str]) -> None:
        batch = pa.record_batch({name: pa.array([1]) for name in names})
        with pytest.raises(InternalError, match=r"\['a', 'b'\] are declared"):
            conform(batch, self.SCHEMA)

    def test_a_null_is_refused_where_there_is_none(self) -> None:
        batch = pa.record_batch({"a": pa.array([None], pa.int32()), "b": pa.array(["x"])})
        with pytest.raises(InternalError, match="1 nulls for 'a'"):
            conform(batch, self.SCHEMA)
        with pytest.raises(InternalError, match="1 nulls for 'a'"):
            conform(pa.RecordBatch.from_arrays(batch.columns, schema=self.SCHEMA), self.SCHEMA)

    def test_batches_survive_the_way_as_bytes(self) -> None:
        batches = (pa.record_batch({"number": [1, 2]}), pa.record_batch({"number": [3]}))
        assert from_ipc(to_ipc(batches, NUMBERS)) == batches
        assert from_ipc(to_ipc((), NUMBERS)) == ()


class TestRunTasks:
    pytestmark = pytest.mark.timeout(600)

    def test_each_task_has_a_partition_of_its_own_and_results_come_in_order(
        self, session: PipelineSession
    ) -> None:
        def where(task: int) -> Iterable[pa.RecordBatch]:
            import pyarrow as pa
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            yield pa.record_batch({"number": pa.array([task, context.partitionId()], pa.int64())})

        results = run_tasks(session, "where", list(range(7)), where, NUMBERS)
        assert [result.partition for result in results] == list(range(7))
        assert [result.attempt for result in results] == [1] * 7
        assert [values(result) for result in results] == [[n, n] for n in range(7)]

    def test_without_tasks_nothing_runs(self, session: PipelineSession) -> None:
        def never(task: int) -> Iterable[pa.RecordBatch]:
            raise AssertionError(task)

        assert run_tasks(session, "none", [], never, NUMBERS) == []

    def test_a_task_may_give_no_batch_or_several(self, session: PipelineSession) -> None:
        def several(task: int) -> Iterable[pa.RecordBatch]:
            import pyarrow as pa

            for each in range(task):
                yield pa.record_batch({"number": pa.array([each], pa.int64())})

        results = run_tasks(session, "several", [0, 1, 3], several, NUMBERS)
        assert [values(result) for result in results] == [[], [0], [0, 1, 2]]

    def test_types_that_spark_lacks_survive(self, session: PipelineSession) -> None:
        columns: dict[str, pa.DataType] = {
            "u64": pa.uint64(),
            "time": pa.timestamp("ms", tz="UTC"),
            "word": pa.dictionary(pa.int8(), pa.string()),
            "vector": pa.list_(pa.float32(), 2),
        }
        schema = pa.schema(columns)

        def odd(task: int) -> Iterable[pa.RecordBatch]:
            import pyarrow as pa

            rows = [{"u64": 2**64 - 1, "time": task, "word": "x", "vector": [0.5, 1.5]}]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

        (result,) = run_tasks(session, "odd", [0], odd, schema)
        assert result.batches[0].schema == schema
        assert result.batches[0].column("u64").to_pylist() == [2**64 - 1]

    def test_a_final_error_of_ours_is_raised_as_it_was_and_the_task_runs_once(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        def fail(task: int) -> None:
            if task:
                raise SourceError(f"no file {task}", path="a\nb", line=task)

        calls = tmp_path / "calls"
        with pytest.raises(SourceError) as caught:
            run_tasks(session, "intake", [0, 1, 2], counting(calls, fail), NUMBERS)
        assert caught.value.message == "no file 1"
        assert caught.value.details == {"path": "a\nb", "line": 1}
        assert caught.value.__notes__ == ["raised in task 1 of stage intake"]
        assert sorted(calls.read_text().split()) == ["0", "1", "2"]

    def test_a_native_panic_is_a_final_error_of_the_storage(self, session: PipelineSession) -> None:
        def panic(task: int) -> Iterable[pa.RecordBatch]:
            raise type("PanicException", (BaseException,), {})(f"index {task} out of bounds")

        with pytest.raises(StorageInternalError, match="index 0 out of bounds"):
            run_tasks(session, "intake", [0], panic, NUMBERS)

    def test_an_error_that_passes_is_tried_again(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        def fail() -> None:
            raise StorageUnavailable("the store did not answer")

        results = run_tasks(session, "intake", [3, 4], failing_first(tmp_path, fail), NUMBERS)
        assert [(result.attempt, values(result)) for result in results] == [(2, [3]), (2, [4])]

    def test_an_error_that_stays_names_stage_task_attempts_and_cause(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        def fail(task: int) -> None:
            if task == 1:
                raise ValueError('a "bad" {value}\nof two lines')

        calls = tmp_path / "calls"
        with pytest.raises(PipelineTaskError) as caught:
            run_tasks(session, "intake", [0, 1], counting(calls, fail), NUMBERS)
        assert caught.value.details == {
            "stage": "intake",
            "partition": 1,
            "attempts": 4,
            "cause": {
                "error": "ValueError",
                "message": 'a "bad" {value}\nof two lines',
                "details": {},
            },
        }
        assert calls.read_text().split().count("1") == 4
        assert pickle.loads(pickle.dumps(caught.value)).details == caught.value.details  # noqa: S301

    @pytest.mark.extended
    def test_an_error_of_ours_that_stays_is_the_cause(self, session: PipelineSession) -> None:
        def fail(task: int) -> Iterable[pa.RecordBatch]:
            raise StorageUnavailable("no answer", operation="read", task=task)

        with pytest.raises(PipelineTaskError) as caught:
            run_tasks(session, "intake", [0], fail, NUMBERS)
        assert caught.value.details["cause"] == {
            "error": "StorageUnavailable",
            "message": "no answer",
            "details": {"operation": "read", "task": 0},
        }

    @pytest.mark.extended
    def test_a_killed_worker_changes_no_result(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        def die() -> None:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)

        results = run_tasks(
            session, "intake", list(range(4)), failing_first(tmp_path, die), NUMBERS
        )
        assert [values(result) for result in results] == [[0], [1], [2], [3]]
        # A worker that dies takes the attempt of no other task with it.
        assert [result.attempt for result in results] == [2, 2, 2, 2]

    @pytest.mark.extended
    def test_a_worker_that_is_always_killed_is_told_with_advice(
        self, session: PipelineSession
    ) -> None:
        def die(task: int) -> Iterable[pa.RecordBatch]:
            import os
            import signal

            if task == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return []

        with pytest.raises(
            PipelineTaskError, match=r"killed.*lower pipeline\.batch_bytes"
        ) as caught:
            run_tasks(session, "intake", [0, 1], die, NUMBERS)
        assert (caught.value.details["partition"], caught.value.details["attempts"]) == (1, 4)

    @pytest.mark.extended
    def test_a_result_of_the_wrong_shape_is_named_and_not_tried_again(
        self, session: PipelineSession
    ) -> None:
        def wrong(task: int) -> Iterable[pa.RecordBatch]:
            import pyarrow as pa

            yield pa.record_batch({"number": pa.array([f"{task} is no number"])})

        with pytest.raises(InternalError, match=r"'number' as string.*declared int64"):
            run_tasks(session, "intake", [0], wrong, NUMBERS)

    def test_a_result_that_is_no_metadata_is_refused(self, session: PipelineSession) -> None:
        def large(task: int) -> Iterable[pa.RecordBatch]:
            import numpy as np
            import pyarrow as pa

            yield pa.record_batch({"number": pa.array(np.full(9_000_000, task))})

        with pytest.raises(ResourceLimit, match="task 0 returned 72,") as caught:
            run_tasks(session, "intake", [0], large, NUMBERS)
        assert caught.value.details["resource"] == "task_result_bytes"

    @pytest.mark.extended
    def test_rows_of_tasks_can_be_joined_and_grouped(self, session: PipelineSession) -> None:
        frame = frame_of_tasks(session, [1, 2, 3], squares(), NUMBERS)
        joined = frame.join(session.spark.range(5).withColumnRenamed("id", "number"), "number")
        rows = StageRunner(session).run("check", joined.toArrow)
        assert set(rows.column("number").to_pylist()) == {1, 4}
        assert frame_of_tasks(session, [], squares(), NUMBERS).count() == 0

    @pytest.mark.extended
    def test_a_final_error_in_a_lazy_frame_is_raised_as_it_was(
        self, session: PipelineSession
    ) -> None:
        def fail(task: int) -> Iterable[pa.RecordBatch]:
            raise SourceError(f"no file {task}", line=7)

        frame = frame_of_tasks(session, [5], fail, NUMBERS)
        with pytest.raises(SourceError, match="no file 5") as caught:
            StageRunner(session).run("check", frame.count)
        assert caught.value.details == {"line": 7}


class TestHandshake:
    pytestmark = pytest.mark.timeout(600)

    def test_an_executor_of_this_installation_matches(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        opened = tmp_path / "opened"

        def probe() -> None:
            opened.touch()

        assert require_matching_executors(session, probe) == versions_here()
        assert opened.exists()

    def test_a_graph_that_cannot_be_opened_there_is_told(self, session: PipelineSession) -> None:
        def probe() -> None:
            raise StorageUnavailable("no route to the bucket")

        with pytest.raises(ExecutorMismatch, match="StorageUnavailable: no route to the bucket"):
            require_matching_executors(session, probe)

    def test_a_job_asks_an_executor_to_read_the_graph(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        runner = StageRunner(session)
        Graph.init(tmp_path / "g", schema="node Person { name: String @key }").close()
        require_executors_of(str(tmp_path / "g"), session, runner)
        with pytest.raises(ExecutorMismatch, match="cannot open the graph: ObjectMissing"):
            require_executors_of(str(tmp_path / "nothing"), session, runner)

    def test_a_probe_that_cannot_be_unpickled_there_is_told(self, session: PipelineSession) -> None:
        with pytest.raises(ExecutorMismatch, match="Nowhere"):
            require_matching_executors(session, Unknown())

    @pytest.mark.parametrize("package", thinned(["omnigraph", "pylance"]))
    def test_another_version_there_is_refused(
        self, session: PipelineSession, tmp_path: Path, package: str
    ) -> None:
        other = tmp_path / f"{package}-9.9.9.dist-info"
        other.mkdir()
        (other / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.9.9\n")
        with Workers(session, PYTHONPATH=str(tmp_path)), pytest.raises(ExecutorMismatch) as caught:
            require_matching_executors(session, lambda: None)
        assert f"{package} 9.9.9 (driver " in caught.value.message
        executor = caught.value.details["executor"]
        assert isinstance(executor, dict)
        assert executor[package] == "9.9.9"

    @pytest.mark.extended
    def test_an_executor_that_cannot_run_our_tasks_is_told(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        broken = tmp_path / "pyarrow"
        broken.mkdir()
        (broken / "__init__.py").write_text("raise ImportError('pyarrow is broken here')\n")
        with (
            Workers(session, PYTHONPATH=str(tmp_path)),
            pytest.raises(ExecutorMismatch, match="cannot run our tasks"),
        ):
            require_matching_executors(session, lambda: None)


class Unknown:
    """Pickles to the name of a module that no executor has."""

    def __call__(self) -> None:
        raise AssertionError

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        import importlib

        return importlib.import_module, ("Nowhere",)


class Workers:
    """Starts workers with other variables, as an executor on another machine may."""

    def __init__(self, session: PipelineSession, **variables: str) -> None:
        context = session.classic_context
        assert context is not None
        self._environment = context.environment
        self._variables = variables

    def __enter__(self) -> None:
        self._environment.update(self._variables)

    def __exit__(self, *error: object) -> None:
        for name in self._variables:
            del self._environment[name]
