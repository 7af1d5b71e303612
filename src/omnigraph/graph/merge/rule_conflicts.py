"""Rules that a joined image breaks: who has a part in it, and how a resolution may end it.

A violation names one entity. Resolutions may be for others as well: for both holders of a unique
value, and for the edges by which a node has too many or too few, since the node itself is none of
them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.graph.merge.conflicts import Conflict, ConflictKind
from omnigraph.graph.merge.resolutions import Take
from omnigraph.graph.validation import Code, EntityKind
from omnigraph.storage.predicates import In

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from omnigraph.graph.merge.table_merge import MergedTable, TableMerge
    from omnigraph.graph.validation import Violation
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage

_KINDS: Final = {
    Code.ORPHAN_EDGE: ConflictKind.ORPHAN_EDGE,
    Code.UNIQUE_VIOLATION: ConflictKind.UNIQUE_VIOLATION,
    Code.KEY_CONFLICT: ConflictKind.UNIQUE_VIOLATION,
    Code.CARDINALITY_VIOLATION: ConflictKind.CARDINALITY_VIOLATION,
}
_MOST_EDGES: Final = 100
"""So many edges of a node are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgesOfNode:
    """The edges of one type that start at a node, by the states that have them."""

    base: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    theirs: frozenset[str] = frozenset()
    merged: frozenset[str] = frozenset()
    """Those of the joined image."""

    @property
    def all(self) -> frozenset[str]:
        """Those of any of the three states."""
        return self.base | self.ours | self.theirs

    @property
    def changed(self) -> frozenset[str]:
        """Those that a side has brought there, or taken away."""
        return self.all - (self.base & self.ours & self.theirs)


NO_EDGES: Final = EdgesOfNode()


def edges_of_nodes(
    store: TableStorage, table: MergedTable, merge: TableMerge, nodes: Iterable[str]
) -> dict[str, EdgesOfNode]:
    """The edges that start at some nodes in each of the three states and in the joined image."""
    asked = sorted(set(nodes))
    base, ours, theirs = (
        _edges_at(store, handle, asked) for handle in (table.base, table.ours, table.theirs)
    )
    delta = merge.delta
    gone = set(delta.removed.to_pylist())
    starts = dict(zip(*(delta.rows.table[name].to_pylist() for name in ("id", "src")), strict=True))
    return {
        node: EdgesOfNode(
            base=frozenset(base[node]),
            ours=frozenset(ours[node]),
            theirs=frozenset(theirs[node]),
            merged=frozenset(
                {each for each in ours[node] if each not in gone and each not in starts}
                | {each for each, start in starts.items() if start == node}
            ),
        )
        for node in asked
    }


def _edges_at(
    store: TableStorage, handle: TableHandle, nodes: Sequence[str]
) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    starts = In("src", pa.array(nodes, pa.string()))
    for batch in store.scan(handle, columns=["id", "src"], predicate=starts):
        for row in batch.to_pylist():
            found[row["src"]].add(row["id"])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRules:
    """The violations of an image, with those who have a part in them."""

    violations: Sequence[Violation]
    find_edges: Callable[[str, Sequence[str]], Mapping[str, EdgesOfNode]]
    """The edges that start at nodes, of an edge type by its key as `edge:Knows`."""
    _edges: dict[str, Mapping[str, EdgesOfNode]] = field(default_factory=dict)

    def entities(self, unused_edges: Callable[[str], bool]) -> dict[str, set[str]]:
        """By type as `node:Person` those for whom resolutions may be.

        Args:
            unused_edges: whether resolutions of a type may still be for edges of a node; if not,
                nobody looks for these.
        """
        involved: dict[str, set[str]] = defaultdict(set)
        for violation in self.violations:
            key = _key(violation)
            if violation.code is not Code.CARDINALITY_VIOLATION:
                involved[key] |= set(_holders(violation))
            elif unused_edges(key):
                involved[key] |= self._edges_of(violation).all
        return involved

    def conflicts(self, *, with_remedy: bool) -> list[Conflict]:
        """A conflict for each."""
        return [self._conflict(each, with_remedy=with_remedy) for each in self.violations]

    def _conflict(self, violation: Violation, *, with_remedy: bool) -> Conflict:
        involved: tuple[str, ...] = ()
        if violation.code is Code.CARDINALITY_VIOLATION:
            involved = tuple(sorted(self._edges_of(violation).changed)[:_MOST_EDGES])
        elif violation.held_by is not None:
            involved = tuple(sorted(_holders(violation)))
        return Conflict(
            entity_kind=violation.kind or EntityKind.NODE,
            type_name=violation.type or "",
            entity_id=violation.subject.entity_id,
            kind=_KINDS.get(violation.code, ConflictKind.VALUE_CONSTRAINT_VIOLATION),
            message=violation.message,
            entity_ids=involved,
            remedy=self._remedy(violation) if with_remedy else None,
        )

    def _edges_of(self, violation: Violation) -> EdgesOfNode:
        key = _key(violation)
        if key not in self._edges:
            nodes = [
                each.subject.entity_id
                for each in self.violations
                if each.code is Code.CARDINALITY_VIOLATION
                and _key(each) == key
                and each.subject.entity_id is not None
            ]
            self._edges[key] = self.find_edges(key, nodes)
        return self._edges[key].get(violation.subject.entity_id or "", NO_EDGES)

    def _remedy(self, violation: Violation) -> str | None:
        """A resolution that ends it, or most of it."""
        if violation.code is Code.CARDINALITY_VIOLATION:
            return _remedy_of_count(violation, self._edges_of(violation))
        if violation.code is Code.ORPHAN_EDGE:
            return _resolution(violation, _holders(violation), take=Take.DELETE)
        return _resolution(violation, _holders(violation), row={"…": "…"})


def _remedy_of_count(violation: Violation, edges: EdgesOfNode) -> str | None:
    """One edge less, rather one that a side has brought; or one more that a state has there."""
    if not _is_too_few(violation):
        there = edges.merged & edges.all
        return _resolution(violation, there - edges.base or there, take=Take.DELETE)
    sides = ((edges.ours, Take.OURS), (edges.theirs, Take.THEIRS), (edges.base, Take.BASE))
    for side, take in sides:
        if side - edges.merged:
            return _resolution(violation, side - edges.merged, take=take)
    return None


def _is_too_few(violation: Violation) -> bool:
    edges, limit = violation.value, violation.limit
    return isinstance(edges, int) and isinstance(limit, int) and edges < limit


def _resolution(violation: Violation, entities: Iterable[str], **choice: object) -> str | None:
    """The resolution of the first of some entities, as JSON."""
    first = min(entities, default=None)
    if first is None:
        return None
    return json.dumps({"type": violation.type, "id": first, **choice}, ensure_ascii=False)


def _holders(violation: Violation) -> list[str]:
    named = (violation.subject.entity_id, violation.held_by)
    return [each for each in named if each is not None]


def _key(violation: Violation) -> str:
    return f"{violation.kind}:{violation.type}"
