"""Asks an executor, before any file is written, whether it is what the driver takes it for.

The question is pickled by value and imports nothing of ours, so that an executor without OmniGraph
can still answer. It covers the executor that got the task; others are expected to be like it.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Final

from omnigraph.errors import ExecutorMismatch, PipelineTaskError
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spark.task_storage import prove_access
from omnigraph.pipeline.spark.tasks import pickled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from omnigraph.pipeline.spark.session import PipelineSession

STAGE: Final = "handshake"
_MUST_AGREE: Final = ("omnigraph", "pylance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What runs in one process; None for what is not installed there."""

    python: str
    omnigraph: str | None
    pylance: str | None
    pyarrow: str | None


def versions_here() -> Versions:
    """The versions of this process."""
    return Versions(
        python=platform.python_version(),
        omnigraph=metadata.version("omnigraph"),
        pylance=metadata.version("pylance"),
        pyarrow=metadata.version("pyarrow"),
    )


def require_executors_of(root: str, session: PipelineSession, runner: StageRunner) -> None:
    """Have an executor tell its versions and read the graph, before a job writes any file.

    Raises:
        ExecutorMismatch: as `require_matching_executors` says.
    """
    require_matching_executors(session, partial(prove_access, root), runner=runner)


def require_matching_executors(
    session: PipelineSession, probe: Callable[[], object], *, runner: StageRunner | None = None
) -> Versions:
    """Run one task that tells its versions and calls the probe; the versions of the executor.

    Args:
        session: where to run.
        probe: proves access, most often by opening the graph; pickled, its result is dropped.
        runner: of the job that this is the first stage of.

    Raises:
        ExecutorMismatch: omnigraph or pylance differ, the probe fails, or no Python of ours runs.
        SparkUnavailable: the session was lost.
        Cancelled: the job was cancelled.
    """
    question = _question(pickled(probe))

    def action() -> str:
        asked = session.spark.range(0, 1, 1, 1).mapInArrow(question, "answer string")
        return str(asked.toArrow().column(0)[0].as_py())

    try:
        answer = json.loads((runner or StageRunner(session)).run(STAGE, action, tasks=1))
    except PipelineTaskError as error:
        raise ExecutorMismatch(
            f"an executor of {session.cluster} cannot run our tasks: {_cause(error)}; install the"
            " driver's omnigraph, pylance and pyarrow for the Python of its workers"
            " (PYSPARK_PYTHON)",
            cluster=session.cluster,
        ) from error
    versions = Versions(**answer["versions"])
    _require_same(versions, versions_here(), session.cluster)
    if answer["failure"] is not None:
        raise ExecutorMismatch(
            f"an executor of {session.cluster} cannot open the graph: {answer['failure']}; give it"
            " the credentials and the network of the driver, or a path that it sees",
            cluster=session.cluster,
            failure=answer["failure"],
        )
    return versions


def _require_same(executor: Versions, driver: Versions, cluster: str) -> None:
    there, here = asdict(executor), asdict(driver)
    differing = [name for name in _MUST_AGREE if there[name] != here[name]]
    if differing:
        told = ", ".join(
            f"{name} {there[name] or 'missing'} (driver {here[name]})" for name in differing
        )
        raise ExecutorMismatch(
            f"an executor of {cluster} has {told}; install the driver's versions there",
            cluster=cluster,
            executor=there,
            driver=here,
        )


def _question(
    probe: bytes,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The body of the task; nested, because only such functions are pickled by value."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json
        import pickle
        import platform
        from importlib import metadata

        import pyarrow as pa

        versions: dict[str, str | None] = {"python": platform.python_version()}
        for name in ("omnigraph", "pylance", "pyarrow"):
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                versions[name] = None
        failure = None
        try:
            pickle.loads(probe)()  # noqa: S301 - the driver pickled it
        except BaseException as error:  # noqa: BLE001 - reported; a native panic is no Exception
            failure = f"{type(error).__name__}: {error}"[:2_000]
        told = json.dumps({"versions": versions, "failure": failure})
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([told])], names=["answer"])

    return answer


def _cause(error: PipelineTaskError) -> str:
    cause = error.details.get("cause")
    return str(cause["message"]) if isinstance(cause, dict) else error.message
