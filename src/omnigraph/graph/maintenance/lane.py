"""What of a branch is so much work for maintenance that Spark takes it; told from metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.maintenance.table_work import list_of_names
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.settings import Engine
from omnigraph.storage.capabilities import wanted_indexes
from omnigraph.storage.compaction import ROWS_PER_FRAGMENT, is_due
from omnigraph.storage.indexes import index_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.indexes import IndexSpec
    from omnigraph.storage.sizes import FragmentInfo

MOST_FRAGMENTS: Final = 64
MOST_ROWS: Final = 10_000_000
"""Of one table: up to these are joined and indexed in this process."""


def parse_engine(engine: str) -> Engine:
    """The lane of that name.

    Raises:
        InvalidArgument: there is none.
    """
    if not isinstance(engine, str) or engine not in set(Engine):
        raise InvalidArgument(
            f"engine is 'auto', 'local' or 'spark', not {engine!r}", argument="engine"
        )
    return Engine(engine)


def why_spark(
    graph: GraphCoordinator,
    branch: str,
    types: Iterable[str] | None,
    *,
    joins: bool,
    target_rows: int | None = None,
) -> str | None:
    """The first table that is too much for this process, in words; `None` if there is none.

    Args:
        graph: what is to be maintained.
        branch: whose tables.
        types: only of these types.
        joins: fragments are joined, not only indexes built.
        target_rows: how many rows a fragment is to have.

    Raises:
        InvalidArgument: there is no such type.
        BranchNotFound: there is no such branch.
    """
    for item, handle in find_items(graph, branch, types):
        fragments: Sequence[FragmentInfo] = graph.tables.fragments(handle)
        if not (joins and is_due(fragments, target_rows or ROWS_PER_FRAGMENT)):
            fragments = _uncovered(graph, handle, wanted_indexes(item), fragments)
        rows = sum(fragment.rows for fragment in fragments)
        if len(fragments) > MOST_FRAGMENTS:
            return f"{key_of(item)} has {len(fragments):,} fragments to work on"
        if rows > MOST_ROWS:
            return f"{key_of(item)} has {rows:,} rows to work on"
    return None


def find_items(
    graph: GraphCoordinator, branch: str, types: Iterable[str] | None
) -> list[tuple[NodeType | EdgeType, TableHandle]]:
    """The wanted types at the head of a branch, and their tables.

    Raises:
        InvalidArgument: there is no such type.
        BranchNotFound: there is no such branch.
    """
    snapshot = open_snapshot(graph, None, branch)
    names = list_of_names(types)
    catalog = snapshot.catalog
    items: list[NodeType | EdgeType] = [*catalog.node_types.values(), *catalog.edge_types.values()]
    chosen = items if names is None else [snapshot.type(name) for name in names]
    return [(item, snapshot.handle(item)) for item in chosen]


def _uncovered(
    graph: GraphCoordinator,
    handle: TableHandle,
    specs: Sequence[IndexSpec],
    fragments: Sequence[FragmentInfo],
) -> Sequence[FragmentInfo]:
    """The fragments that some index does not cover, of those that can be built."""
    store = graph.tables
    covered = {index.name: index.fragments for index in store.index_coverage(handle)}
    lagging: set[int] = set()
    for spec in specs:
        held = covered.get(index_name(handle.layout, spec))
        if held is not None or store.is_buildable(handle, spec):
            lagging |= {each.fragment_id for each in fragments} - (held or frozenset())
    return [each for each in fragments if each.fragment_id in lagging]
