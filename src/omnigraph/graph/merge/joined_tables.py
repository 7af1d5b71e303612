"""All tables of a three-way merge: decided, held against every rule, staged.

A merge joins two branches; a revert joins a branch with the parent of one of its commits. Both are
the same work on three states: base, ours, theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.history.snapshot import reclaimed
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.merge.conflicts import REPORTED_CONFLICTS
from omnigraph.graph.merge.merge_room import MergeRoom
from omnigraph.graph.merge.resolutions import Strategy
from omnigraph.graph.merge.rule_conflicts import BrokenRules, edges_of_nodes
from omnigraph.graph.merge.table_merge import MergedTable, TableMerge, merge_table
from omnigraph.graph.validation import validate
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.transactions import RowCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.merge.conflicts import Conflict
    from omnigraph.graph.merge.decisions import Decisions
    from omnigraph.graph.merge.rule_conflicts import EdgesOfNode
    from omnigraph.graph.validation import Findings
    from omnigraph.lang import EdgeType, NodeType
    from omnigraph.storage.handles import StagedWrite, TableHandle

    Written = Sequence[tuple[Snapshot, Snapshot]]


@dataclass(kw_only=True)
class JoinedTables:
    """What is done to each table, or what stands in the way."""

    merges: dict[TableRef, TableMerge] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    conflict_count: int = 0

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many rows change, by type as `node:Person`."""
        return {key_of(merge.item): merge.counts for merge in self._changing.values()}

    def stage(self, txn: WriteTxn) -> tuple[StagedWrite, ...]:
        """The changed tables, staged on the captured state."""
        return tuple(_stage(txn, ref, merge) for ref, merge in self._changing.items())

    def validated(self, txn: WriteTxn) -> Findings:
        """What the joined image breaks."""
        deltas = [merge.delta for merge in self._changing.values()]
        return validate(txn.catalog, deltas, TxnLookups(txn), limit=REPORTED_CONFLICTS)

    @property
    def _changing(self) -> dict[TableRef, TableMerge]:
        return {ref: merge for ref, merge in sorted(self.merges.items()) if not merge.is_empty}


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The two states that are joined with the captured one."""

    base: Snapshot
    """What both sides are compared with."""
    theirs: Snapshot
    """What is brought."""
    is_cautious: bool = False
    """As for `merge_table`."""
    entrances: Sequence[Sequence[Snapshot]] = ()
    """As `CommitStates.entrances`."""
    may_be_decided: bool = True
    """Whether there are resolutions: a revert takes none."""
    find_written: Callable[[], Written | None] = lambda: None
    """Where in the history it was written what differs between the two, if that is known."""


def join_tables(txn: WriteTxn, states: Joined, decisions: Decisions) -> JoinedTables:
    """Everything that differs between base and theirs, brought to the captured state.

    Raises:
        InvalidArgument: a resolution is of an entity without a conflict, or does not fit.
        SnapshotReclaimed: cleanup removed a version.
        ResourceLimit: too much changes.
    """
    return _Joining(txn, states, decisions).joined()


class _Joining:
    def __init__(self, txn: WriteTxn, states: Joined, decisions: Decisions) -> None:
        self._txn = txn
        self._states = states
        self._decisions = decisions
        self._joined = JoinedTables()
        self._room = MergeRoom()

    def joined(self) -> JoinedTables:
        joined = self._joined
        for ref, item in sorted(self._txn.tables.types.items()):
            if self._states.base.pin(item) != self._states.theirs.pin(item):
                joined.merges[ref] = self._merged(ref, item)
        for merge in joined.merges.values():
            joined.conflicts += self._decisions.settle(merge)
        joined.conflict_count = self._decisions.undecided
        if joined.conflicts:
            self._look_beyond_contests()
        else:
            self._check_rules()
        if joined.conflict_count <= REPORTED_CONFLICTS:
            self._decisions.require_all_used()
        joined.conflicts.sort(key=lambda conflict: conflict.order)
        return joined

    def _merged(self, ref: TableRef, item: NodeType | EdgeType) -> TableMerge:
        table = self._table(ref, item)
        try:
            table = replace(table, written=self._written(item, table))
            return merge_table(
                self._txn.store, table, self._room, is_cautious=self._states.is_cautious
            )
        except ObjectMissing as error:
            raise reclaimed(self._states.base, item.name) from error

    def _table(self, ref: TableRef, item: NodeType | EdgeType) -> MergedTable:
        return MergedTable(
            item=item,
            base=self._states.base.handle(item),
            ours=self._txn.readable(ref),
            theirs=self._states.theirs.handle(item),
            entrances=[
                [state.handle(item) for state in states] for states in self._states.entrances
            ],
        )

    def _written(
        self, item: NodeType | EdgeType, table: MergedTable
    ) -> list[tuple[TableHandle, TableHandle]] | None:
        """Where the differences of a table were written, if they cannot be told by its line."""
        if self._txn.store.common_pin(table.base, table.theirs) == table.base.pin:
            return None
        stretches = self._find_written()
        if stretches is None:
            return None
        try:
            return [
                (older.handle(item), newer.handle(item))
                for older, newer in stretches
                if older.pin(item) != newer.pin(item)
            ]
        except SnapshotReclaimed:
            return None

    @cached_property
    def _find_written(self) -> Callable[[], Written | None]:
        return cache(self._states.find_written)

    def _check_rules(self) -> None:
        """Hold the image against every rule; what resolutions decide is looked at again."""
        findings = self._settled(self._joined, self._decisions)
        broken = self._broken_rules(self._joined, findings)
        self._joined.conflicts += broken.conflicts(with_remedy=self._states.may_be_decided)
        self._joined.conflict_count = findings.total

    def _look_beyond_contests(self) -> None:
        """Find out which resolutions rules will ask for once the contested entities are decided.

        It is not known how they will be: for one side, or for the other.
        """
        for strategy in (Strategy.OURS, Strategy.THEIRS):
            if not self._decisions.has_unused:
                return
            decisions = self._decisions.supposing(strategy)
            merges = {ref: merge.copied() for ref, merge in self._joined.merges.items()}
            for merge in merges.values():
                decisions.settle(merge)
            self._settled(JoinedTables(merges=merges), decisions)
            self._decisions.count_used(decisions)

    def _settled(self, joined: JoinedTables, decisions: Decisions) -> Findings:
        """What rules are broken once the resolutions for those that break them are applied.

        A decision may bring out what another one is for; each is applied once.
        """
        findings = joined.validated(self._txn)
        while self._settle_broken(joined, decisions, findings):
            findings = joined.validated(self._txn)
        return findings

    def _settle_broken(
        self, joined: JoinedTables, decisions: Decisions, findings: Findings
    ) -> bool:
        """Apply resolutions of those who have a part in a broken rule; whether there were any."""
        if not decisions.has_unused:
            return False
        types = {key_of(item): (ref, item) for ref, item in self._txn.tables.types.items()}
        broken = self._broken_rules(joined, findings)
        entities = broken.entities(lambda key: bool(decisions.unused_of(types[key][1])))
        decided = [
            decisions.settle_broken(
                self._txn.store,
                self._table(*types[key]),
                joined.merges.setdefault(
                    types[key][0], TableMerge(item=types[key][1], room=self._room)
                ),
                involved,
            )
            for key, involved in entities.items()
        ]
        return any(decided)

    def _broken_rules(self, joined: JoinedTables, findings: Findings) -> BrokenRules:
        return BrokenRules(
            violations=findings.violations, find_edges=partial(self._edges_of_nodes, joined)
        )

    def _edges_of_nodes(
        self, joined: JoinedTables, key: str, nodes: Sequence[str]
    ) -> Mapping[str, EdgesOfNode]:
        ref, item = next(each for each in self._txn.tables.types.items() if key_of(each[1]) == key)
        merge = joined.merges.get(ref) or TableMerge(item=item)
        return edges_of_nodes(self._txn.store, self._table(ref, item), merge, nodes)


def _stage(txn: WriteTxn, ref: TableRef, merge: TableMerge) -> StagedWrite:
    """Delete, update, append, in this order."""
    store, stamp = txn.store, txn.stamp
    inserts, updates, removals = merge.inserts, merge.updates, merge.removals
    steps: list[Callable[[TableHandle], StagedWrite]] = []
    if len(removals):
        steps.append(lambda handle: store.stage_delete(handle, removals, stamp))
    if updates.num_rows:
        steps.append(lambda handle: store.stage_update(handle, updates, stamp))
    if inserts.num_rows:
        steps.append(lambda handle: store.stage_append(handle, inserts, stamp))
    first, *then = steps
    counts = RowCounts(added=inserts.num_rows, changed=updates.num_rows, removed=len(removals))
    return store.chain(first(txn.writable(ref)), *then, counts=counts)
