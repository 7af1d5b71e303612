"""The parts of a staged write that any process may do, and how they are asked for.

Staging is written as steps: it asks for tasks on one version of a table, is given what they made,
and goes on. Whoever drives the steps does the tasks (`finish`), or hands them to other processes.
Tasks and what they make pickle. A task only writes files that nothing names yet: one that is done
twice leaves files, and no other result.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from lance.dataset import Index
from lance.optimize import CompactionTask, RewriteResult

from omnigraph.errors import InternalError
from omnigraph.storage import indexes, lance_writes
from omnigraph.storage.files import fragment_files, segment_folder
from omnigraph.storage.indexes import IndexKind

if TYPE_CHECKING:
    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.handles import Pin, TableHandle
    from omnigraph.storage.indexes import Centroids, IndexSpec
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.sizes import FragmentInfo

_Result = TypeVar("_Result")
_Kind = TypeVar("_Kind")

MOST_PARTS: Final = 64
"""Segments that are merged into one: they are merged by one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How the index of one table is spread over tasks."""

    rows: int
    """A task has at least so many, unless there are fewer left."""

    def groups(self, fragments: Sequence[FragmentInfo], most: int) -> list[tuple[int, ...]]:
        """The fragments in at most so many groups of about equal size, neighbours together."""
        total = sum(fragment.rows for fragment in fragments)
        enough = max(self.rows, -(-total // most))
        groups: list[tuple[int, ...]] = []
        held: list[int] = []
        rows = 0
        for fragment in fragments:
            held.append(fragment.fragment_id)
            rows += fragment.rows
            if rows >= enough:
                groups.append(tuple(held))
                held, rows = [], 0
        return [*groups, tuple(held)] if held else groups


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Fragments to be joined, as Lance planned it."""

    group: CompactionTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTask:
    """The centroids of a vector index, from a sample of the whole table."""

    spec: IndexSpec
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    """An index over some fragments."""

    spec: IndexSpec
    fragments: tuple[int, ...]
    partitions: int = 0
    centroids: Centroids | None = None
    """Of a vector index of which this is one part; without them it trains its own."""
    is_part: bool = False
    """It is merged with others, so that a text index need not be finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """The segments of one index, to be made one."""

    segments: tuple[Index, ...]


TableTask: TypeAlias = RewriteTask | TrainingTask | SegmentTask | MergeTask
_OPERATIONS: Final = {
    RewriteTask: "compact",
    TrainingTask: "train_index",
    SegmentTask: "build_index",
    MergeTask: "merge_index",
}
Outcome: TypeAlias = "RewriteResult | Index | Centroids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Tasks that may be done at once, on this version."""

    handle: TableHandle
    tasks: tuple[TableTask, ...]


Steps: TypeAlias = Generator[Asked, Sequence[Outcome], _Result]
"""Sent what the tasks made, in their order; closed, it removes what only it needs."""


def finish(calls: StoreCalls, steps: Steps[_Result]) -> _Result:
    """The end of the steps, every task done here."""
    with closing(steps):
        try:
            asked = next(steps)
            while True:
                asked = steps.send(perform(calls, asked))
        except StopIteration as ended:
            result: _Result = ended.value
            return result


def perform(calls: StoreCalls, asked: Asked) -> list[Outcome]:
    """Do the tasks: files that nothing names, and what tells of them."""
    handle = asked.handle
    outcomes: list[Outcome] = []
    for operation, tasks in groupby(asked.tasks, lambda task: _OPERATIONS[type(task)]):
        with calls.making(operation, handle.layout.table_key):
            outcomes += [_done(handle, task) for task in tasks]
    return outcomes


def _done(handle: TableHandle, task: TableTask) -> Outcome:
    dataset, layout = handle.dataset, handle.layout
    match task:
        case RewriteTask():
            return lance_writes.rewrite_group(dataset, task.group)
        case TrainingTask():
            return indexes.train_centroids(dataset, layout, task.spec, task.partitions)
        case SegmentTask():
            options = _options(task)
            return indexes.build_segment(
                dataset, layout, task.spec, task.fragments, options, is_part=task.is_part
            )
        case MergeTask():
            return indexes.merge_segments(dataset, task.segments)


# Any: what Lance takes for the kind of index.
def _options(task: SegmentTask) -> dict[str, Any]:
    if task.spec.kind is not IndexKind.IVF_FLAT:
        return {}
    options: dict[str, Any] = {"metric": indexes.METRIC, "num_partitions": task.partitions}
    if task.centroids is not None:
        options["ivf_centroids"] = task.centroids
    return options


def outcomes_of(outcomes: Sequence[Outcome], kind: type[_Kind]) -> list[_Kind]:
    """What tasks of one kind made.

    Raises:
        InternalError: something else.
    """
    found: list[_Kind] = [outcome for outcome in outcomes if isinstance(outcome, kind)]
    if len(found) != len(outcomes):
        raise InternalError(f"tasks on a table did not all give a {kind.__name__}")
    return found


def outcome_files(root: GraphLocation, pin: Pin, outcome: Outcome) -> tuple[str, ...]:
    """The files and folders, below the root of the graph, that a task wrote on this line."""
    if isinstance(outcome, Index):
        return (segment_folder(pin, outcome),)
    if isinstance(outcome, RewriteResult):
        return fragment_files(root, pin, outcome.new_fragments)
    return ()
