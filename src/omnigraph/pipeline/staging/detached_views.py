"""Detached versions through which the staged rows of a job can be read, and their end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import InternalError
from omnigraph.graph.arrays import one_array
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.staging.key_frames import StagedTable, staged_parts
from omnigraph.storage.predicates import In
from omnigraph.storage.staged_fragments import join_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.commit.read_set import Keys
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.pipeline.staging.part_result import IntakeResult
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import Pin, TableHandle
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.staged_fragments import Pieces
    from omnigraph.storage.table_store import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedView:
    """The rows that a job brings to one table."""

    base: TableHandle
    handle: TableHandle | None
    """`None` when no row was staged."""
    pieces: Pieces
    fragments: tuple[int, ...]
    """Numbers of the staged fragments in the view."""


class StagedViews:
    """The views of one job."""

    def __init__(self, storage: GraphStorage) -> None:
        self._storage = storage
        self._opened: list[str] = []
        self._fragments: dict[Pin, tuple[FragmentInfo, ...]] = {}
        self.views: dict[TableRef, StagedView] = {}

    def open(self, bases: Mapping[TableRef, TableHandle], results: Sequence[IntakeResult]) -> None:
        """Make what the splits staged readable."""
        store = self._storage.tables
        self.views = {}
        for ref in sorted({ref for each in results for ref in each.tables}):
            base = bases[ref]
            pieces = join_pieces(each.tables[ref].pieces for each in results if ref in each.tables)
            handle: TableHandle | None = None
            fragments: tuple[int, ...] = ()
            if pieces.added:
                handle = store.open_staged(base, pieces)
                self._opened += store.view_files(handle)
                known = {each.fragment_id for each in self._fragments_of(base)}
                fragments = tuple(
                    sorted(
                        each.fragment_id
                        for each in store.fragments(handle)
                        if each.fragment_id not in known
                    )
                )
                if len(fragments) != len(pieces.added):
                    raise InternalError(
                        f"{base.layout.table_key}: {len(pieces.added)} staged fragments and"
                        f" {len(fragments)} in their view; please report this"
                    )
            self.views[ref] = StagedView(
                base=base, handle=handle, pieces=pieces, fragments=fragments
            )

    def tables(self, txn: WriteTxn, results: Sequence[IntakeResult]) -> dict[TableRef, StagedTable]:
        """Every table of the graph, with what is staged for it."""
        tables: dict[TableRef, StagedTable] = {}
        for ref, item in txn.tables.types.items():
            committed = txn.readable(ref)
            view = self.views.get(ref)
            start = view.fragments[0] if view is not None and view.fragments else 0
            tables[ref] = StagedTable(
                item=item,
                committed=TaskTable(layout=committed.layout, pin=committed.pin),
                committed_fragments=self._fragments_of(committed),
                view=None
                if view is None or view.handle is None
                else TaskTable(layout=view.handle.layout, pin=view.handle.pin),
                parts=() if view is None else staged_parts(ref, results, start),
            )
        return tables

    def _fragments_of(self, committed: TableHandle) -> tuple[FragmentInfo, ...]:
        """Asked once of a version, which never changes: each check wants those of all tables."""
        if committed.pin not in self._fragments:
            self._fragments[committed.pin] = tuple(self._storage.tables.fragments(committed))
        return self._fragments[committed.pin]

    def close(self) -> None:
        """Remove the views; the staged files stay for the commit."""
        for path in self._opened:
            self._storage.objects.delete(path)
        self._opened.clear()


def holds_any(store: TableStorage, view: StagedView, column: str, keys: Keys) -> bool:
    """Whether a row of a view has one of these texts in a column."""
    if view.handle is None:
        return False
    reader = store.scan(
        view.handle,
        columns=[column],
        predicate=In(column, one_array(keys)),
        fragments=view.fragments,
    )
    return any(batch.num_rows for batch in reader)
