"""What writers that change no row share: which tables, how many at once, and how often.

They stage without a lease and keep what they staged over their attempts; what others moved
meanwhile is staged again, a few times.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from omnigraph.errors import InvalidArgument, ReadSetChanged
from omnigraph.graph.history.snapshot import snapshot_at
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.ids import new_link_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.rows import PinRow, TableRef
    from omnigraph.ids import IdSource
    from omnigraph.storage.handles import Link, StagedWrite, WriteStamp

_Result = TypeVar("_Result")


def list_of_names(types: Iterable[str] | None) -> tuple[str, ...] | None:
    """The names of the wanted types; `None` for all.

    Raises:
        InvalidArgument: it is no list, or one text, whose letters would be taken for names.
    """
    if isinstance(types, str | bytes) or not isinstance(types, Iterable | None):
        raise InvalidArgument(f"types is a list of names, not {types!r}", argument="types")
    return None if types is None else tuple(types)


def chosen_tables(
    graph: GraphCoordinator, txn: WriteTxn, names: tuple[str, ...] | None
) -> list[TableRef]:
    """The tables of the wanted types, nodes before edges, by name.

    Raises:
        InvalidArgument: there is no such type.
    """
    wanted = set(txn.tables.types)
    if names is not None:
        snapshot = snapshot_at(graph, txn.line, txn.line.head_commit)
        wanted = {ref_of(snapshot.type(name)) for name in names}
    keys = {ref: txn.tables.layouts[ref].table_key for ref in wanted}
    return sorted(wanted, key=lambda ref: (keys[ref].startswith("edge:"), keys[ref]))


def for_each(
    graph: GraphCoordinator,
    stage: str,
    refs: Sequence[TableRef],
    act: Callable[[TableRef], _Result],
    progress: Progress,
) -> dict[TableRef, _Result]:
    """The results for some tables, several of them at work at once."""
    if not refs:
        return {}
    done: dict[TableRef, _Result] = {}
    progress(StageProgress(stage=stage, total=len(refs)))
    with ThreadPoolExecutor(graph.maintenance_concurrency, "maintenance") as pool:
        waiting = {pool.submit(act, ref): ref for ref in refs}
        try:
            for future in as_completed(waiting):
                done[waiting[future]] = future.result()
                progress(StageProgress(stage=stage, done=len(done), total=len(refs)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done


def restamped(staged: StagedWrite, stamp: WriteStamp, ids: IdSource) -> StagedWrite:
    """The same content under the name of this attempt: versions tell who made them."""
    return replace(staged, links=tuple(_restamped(link, stamp, ids) for link in staged.links))


def _restamped(link: Link, stamp: WriteStamp, ids: IdSource) -> Link:
    uuid = new_link_uuid(ids)
    return replace(
        link,
        uuid=uuid,
        stage=lambda handle: replace(
            link.stage(handle), uuid=uuid, transaction_properties=stamp.properties
        ),
    )


def place_of(pinned: PinRow) -> tuple[str | None, int]:
    """The line and the version that a pin names."""
    return pinned.branch, pinned.version


def moved_on(member: str, actual: object) -> ReadSetChanged:
    """What a writer that was overtaken too often is told."""
    return ReadSetChanged(
        f"{member} changed while this was prepared; run the command again",
        member=member,
        expected=None,
        actual=str(actual),
    )


def silent(progress: StageProgress) -> None:
    """Nobody wants to know."""
