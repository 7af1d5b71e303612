"""Applying a schema: planned again under the lease of the schema, then one commit of `main`.

The accepted schema is a row of the same publish as the pins, registrations and tombstones, so data
and schema never disagree. Whoever prepared a write on the old schema is told at arbitration and
prepares it again; whoever reads keeps the catalog of its snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    BranchBusy,
    InvalidArgument,
    ReadSetChanged,
    SchemaApplyBlocked,
)
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.manifest.intent import ParentRule, PlannedSchema, SidecarKind
from omnigraph.graph.recovery.leases import SCHEMA_SCOPE, LeaseLost
from omnigraph.graph.schema_apply.added_rules import check_added_rules
from omnigraph.graph.schema_apply.applied import SchemaApplied
from omnigraph.graph.schema_apply.data_removal import DroppedData, remove_dropped
from omnigraph.graph.schema_apply.dependents import SchemaDependent, refuse_broken_dependents
from omnigraph.graph.schema_apply.schema_state import (
    accepted_on,
    plan_change,
    plan_schema,
    refuse_unsupported,
)
from omnigraph.graph.schema_apply.table_changes import (
    NewTables,
    compare_tables,
    ended_tables,
    registration_of,
    renamed_pin,
    stage_change,
)
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID
from omnigraph.lang import accept_schema, compile_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.intent import NamedTable
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.graph.recovery.leases import Lease
    from omnigraph.graph.schema_apply.table_changes import TableChange
    from omnigraph.lang import SchemaPlan
    from omnigraph.storage.handles import StagedWrite

ATTEMPTS: Final = 6
"""How often an apply is prepared when other writers of `main` are faster."""

OVERTAKEN: Final = 3
"""After so many of them the writers wait for it: it has to be prepared on the head it commits on,
and a busy branch would not stand still for it."""


def apply_schema(
    graph: GraphCoordinator,
    source: str | SchemaPlan,
    *,
    allow_data_loss: bool = False,
    actor_id: str | None = None,
    dependents: Sequence[SchemaDependent] = (),
) -> SchemaApplied:
    """Bring `main` to a schema, or to that of a plan, as one commit.

    Raises:
        SchemaInvalid: the desired schema does not compile.
        SchemaRefused: a step cannot be done, rows break a new constraint, or something that rests
            on the schema would not survive it.
        SchemaApplyBlocked: other branches live.
        ReadSetChanged: the plan is of another schema (`schema`), or the lease of `main` was lost in
            every attempt (`graph_head`).
        BranchBusy: another process changes the schema, or creates or deletes branches.
    """
    wanted = _wanted(source, allow_data_loss=allow_data_loss)
    plan = plan_schema(graph, wanted.source, allow_data_loss=wanted.allow_data_loss)
    wanted.require_base(plan.schema_from)
    refuse_unsupported(plan)
    if not plan.steps:
        return SchemaApplied(plan=plan, commit=None)
    _require_no_branches(graph)
    with graph.leases.holding(SCHEMA_SCOPE) as lease:
        run = _ApplyRun(graph, wanted, lease, dependents)
        row = run.commit(actor_id)
    if row is None:
        return SchemaApplied(plan=run.plan or plan, commit=None)
    kept = remove_dropped(graph, run.dropped)
    return SchemaApplied(plan=run.plan or plan, commit=commit_of(row), kept_data=tuple(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is to be applied."""

    source: str
    allow_data_loss: bool
    base: str | None = None
    """The schema that a plan was made for; any, for a source."""

    def require_base(self, schema_hash: str | None) -> None:
        """Refuse a plan that was made for another schema than the one in force."""
        if self.base is not None and self.base != schema_hash:
            raise ReadSetChanged(
                "the schema of the graph changed since this plan was made; plan again, and look at"
                " the steps before you apply them",
                member="schema",
                expected=self.base,
                actual=schema_hash,
            )


def _wanted(source: str | SchemaPlan, *, allow_data_loss: bool) -> _Wanted:
    if isinstance(source, str):
        return _Wanted(source=source, allow_data_loss=allow_data_loss)
    if source.source is None or source.schema_from is None:
        raise InvalidArgument(
            "this plan was made without a graph; make it with `graph.schema.plan`",
            argument="source_or_plan",
        )
    if allow_data_loss and not source.allow_data_loss:
        raise InvalidArgument(
            "this plan was made without data loss; plan again with allow_data_loss=True",
            argument="allow_data_loss",
        )
    return _Wanted(
        source=source.source, allow_data_loss=source.allow_data_loss, base=source.schema_from
    )


def _require_no_branches(graph: GraphCoordinator) -> None:
    """Refuse to change the schema under other branches, whose rows it would not reach."""
    others = [name for name in graph.lines.live_branch_ids().values() if name != MAIN_BRANCH]
    if others:
        raise SchemaApplyBlocked(
            f"the schema cannot change while other branches live: {', '.join(sorted(others))};"
            " merge or delete them first",
            branches=sorted(others),
        )


class _ApplyRun:
    """One apply over all its attempts, under the lease of the schema."""

    def __init__(
        self,
        graph: GraphCoordinator,
        wanted: _Wanted,
        lease: Lease,
        dependents: Sequence[SchemaDependent],
    ) -> None:
        self._graph = graph
        self._dependents = dependents
        self._wanted = wanted
        self._lease = lease
        self._desired = compile_schema(wanted.source)
        self._new_tables = NewTables(graph.tables)
        self.plan: SchemaPlan | None = None
        self.dropped: list[DroppedData] = []

    def commit(self, actor_id: str | None) -> CommitRow | None:
        """The commit; prepared again as long as other writers of `main` are faster."""
        graph = self._graph
        request = WriteRequest(
            kind=SidecarKind.SCHEMA_APPLY,
            branch=graph.lines.live_branch_ids()[MAIN_BRANCH_ID],
            branch_id=MAIN_BRANCH_ID,
            actor_id=actor_id,
            parent_rule=ParentRule.EXACT,
        )
        for attempt in range(ATTEMPTS):
            try:
                leased = replace(request, prepares_under_lease=attempt >= OVERTAKEN)
                return graph.protocol.run(leased, self._prepare)
            except ReadSetChanged as moved:
                # Nothing was decided by what the others wrote that is not decided again.
                if moved.details.get("member") == "schema":
                    raise
                conflict = moved
                graph.pauses.between_attempts(attempt)
        raise conflict

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        self._require_alone()
        self._wanted.require_base(txn.line.schema.schema_hash)
        is_hard = self._wanted.allow_data_loss
        accepted = accepted_on(self._graph.schemas, txn.line)
        self.plan = plan_change(
            accepted, txn.line, self._desired, self._wanted.source, allow_data_loss=is_hard
        )
        refuse_unsupported(self.plan)
        if not self.plan.steps:
            return PreparedWrite()
        after = accept_schema(self._desired, accepted, keeps_dropped=not is_hard)
        refuse_broken_dependents(after.catalog, self._dependents)
        changes = compare_tables(txn.tables, after, txn.line, is_hard=is_hard)
        check_added_rules(txn, self.plan, after.catalog, changes)
        after, created = self._new_tables.make(txn.tables, after)
        self._graph.schemas.store(after, self._wanted.source, may_mend=True)
        staged = {change.ref: stage_change(txn, change) for change in changes}
        renamed = [
            renamed_pin(change, txn.line.pins[change.ref])
            for change in changes
            if change.is_renamed and staged[change.ref] is None
        ]
        ended = ended_tables(txn.tables, after)
        self.dropped = _dropped(changes, staged, ended) if is_hard else []
        return PreparedWrite(
            staged=tuple(write for write in staged.values() if write is not None),
            is_strict=True,
            registrations=tuple(map(registration_of, created)),
            tombstones=tuple(ended),
            pins=(*created, *renamed),
            schema_to=PlannedSchema(
                schema_hash=after.schema_hash,
                next_type_id=after.next_type_id,
                next_property_id=after.next_property_id,
            ),
            stats={"schema": {"from": accepted.schema_hash, "steps": len(self.plan.steps)}},
            handing_over=self._require_alone,
        )

    def _require_alone(self) -> None:
        """Nobody else changes the schema, and no branch was created meanwhile.

        Raises:
            BranchBusy: the lease was lost.
            SchemaApplyBlocked: a branch lives.
        """
        try:
            self._lease.check()
        except LeaseLost as lost:
            raise BranchBusy(
                "the lease of the schema was lost to another process; send the same again",
                scope=SCHEMA_SCOPE,
            ) from lost
        _require_no_branches(self._graph)


def _dropped(
    changes: Sequence[TableChange],
    staged: Mapping[TableRef, StagedWrite | None],
    ended: Sequence[NamedTable],
) -> list[DroppedData]:
    """What is to be removed once the change is visible."""
    columns = [
        DroppedData(
            ref=change.ref,
            table_key=change.layout.table_key,
            location=change.layout.location,
            below=write.base.pin.version + len(write.links),
        )
        for change in changes
        if change.dropped and (write := staged[change.ref]) is not None
    ]
    tables = [
        DroppedData(ref=one.ref, table_key=one.table_key, location=one.location, below=None)
        for one in ended
    ]
    return [*columns, *tables]
