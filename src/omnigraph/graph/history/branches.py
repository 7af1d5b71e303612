"""Branches: lines of the manifest under a name, created and deleted at the cost of a few rows.

A branch is there when its row on the main line says `live`, and gone when it says `deleted`;
whatever Lance keeps for it before or after is invisible. Neither operation makes a graph commit.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import (
    BranchExists,
    BranchHasDescendants,
    BranchHasTags,
    BranchNotFound,
    OmnigraphError,
    TagExists,
)
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.history.branch_names import parse_branch_name, refuse_main
from omnigraph.graph.history.named_rows import (
    holding,
    live_branches,
    live_tags,
    require_free,
    write_named,
)
from omnigraph.graph.manifest.publisher import require_head
from omnigraph.graph.manifest.rows import BranchRow
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.graph.recovery.leases import SCHEMA_SCOPE, LeaseLost, branch_scope
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID, BranchId, new_branch_id
from omnigraph.limits import MAX_PUBLISH_ROUNDS
from omnigraph.storage.handles import lance_branch
from omnigraph.storage.signals import ObjectMissing, StorageSignal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.recovery.leases import Lease
    from omnigraph.ids import BranchName
    from omnigraph.storage.handles import TableLayout

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A live branch, as callers see it."""

    name: str
    branch_id: str
    parent: str | None
    """The branch it was forked from; `None` for `main`, or when that one is gone."""

    forked_at: str | None
    head: str
    created_at: int | None
    actor_id: str | None
    tables_owned: tuple[str, ...]
    """Tables that this branch has written itself."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body = {name: getattr(self, name) for name in self.__slots__}
        return body | {"tables_owned": list(self.tables_owned)}


class Branches:
    """The branches of one open graph."""

    def __init__(self, graph: GraphCoordinator) -> None:
        self._graph = graph

    def list(self) -> list[Branch]:
        """Live branches, `main` first, then by name; one deleted meanwhile is left out."""
        names = self._graph.lines.live_branch_ids()
        rows = self._graph.lines.read(MAIN_BRANCH_ID).branches()
        branches = [self._describe_main()]
        for branch_id, name in names.items():
            if branch_id != MAIN_BRANCH_ID:
                with suppress(BranchNotFound):
                    branches.append(self._describe(rows[name], names))
        return branches

    def get(self, name: str) -> Branch:
        """One live branch.

        Raises:
            BranchNotFound: there is none of that name.
        """
        if name == MAIN_BRANCH:
            return self._describe_main()
        return self._describe(self._graph.lines.branch(name), self._graph.lines.live_branch_ids())

    def create(self, name: str, from_: str, *, actor_id: str | None) -> Branch:
        """Create a branch at the head of another.

        Raises:
            InvalidBranchName: the name breaks the rule.
            BranchExists, TagExists: a live branch or tag has that name.
            BranchNotFound: there is no branch to fork from.
        """
        wanted = parse_branch_name(name)
        graph = self._graph
        require_free(wanted, graph.lines.read(MAIN_BRANCH_ID))
        graph.branch_id(from_)
        with holding(graph, SCHEMA_SCOPE) as leases:
            require_free(wanted, graph.lines.read(MAIN_BRANCH_ID))
            row = self._forked(wanted, from_, actor_id)
            maybe_fail("branch_create.post_native")
            try:
                write_named(graph, row, lambda line: _require_creatable(row, line), leases)
            except (BranchExists, TagExists, BranchNotFound):
                self._reclaim(row.branch_id, ())
                raise
        graph.upkeep.after_publish(MAIN_BRANCH_ID)
        return self._describe(row, graph.lines.live_branch_ids())

    def delete(
        self, name: str, *, if_commit: str | None = None, branch_id: str | None = None
    ) -> None:
        """Delete a branch; it is gone when this returns, its storage soon after.

        Args:
            name: the branch.
            if_commit: delete it only while this commit is its head. A write that lacked nothing but
                its publish lands first, and counts.
            branch_id: the branch that is meant, if known: a later one of that name is another.

        Raises:
            InvalidBranchName: the branch is `main`.
            BranchNotFound: there is none of that name.
            BranchHasDescendants: live branches were forked from it.
            BranchHasTags: tags name commits whose data it holds.
            PreconditionFailed: its head is not `if_commit`.
            RecoveryBlocked: with `if_commit`, a write of the branch cannot be settled.
        """
        refuse_main(name, "deleted")
        graph = self._graph
        row = graph.lines.branch(name)
        if branch_id not in (None, row.branch_id):
            raise _gone(name)

        def judge(line: ManifestLine) -> None:
            _require_deletable(row, line)
            require_head(if_commit, graph.lines.read(row.branch_id))

        # The schema lease keeps a branch from being forked off this one meanwhile; the branch's own
        # keeps a write from standing between its phases.
        with holding(graph, SCHEMA_SCOPE, branch_scope(row.branch_id)) as leases:
            if if_commit is not None:
                graph.recovery.heal(row.branch_id, leases[-1])
            owned = self._owned_tables(row.branch_id)
            write_named(graph, row.deleted(), judge, leases)
            if if_commit is not None:
                self._require_undisturbed(row, leases[-1])
            maybe_fail("branch_delete.post_publish_pre_reclaim")
            self._settle_sidecars(row.branch_id, leases[-1])
        self._reclaim(row.branch_id, owned)
        graph.upkeep.after_publish(MAIN_BRANCH_ID)

    def _forked(self, name: BranchName, from_: str, actor_id: str | None) -> BranchRow:
        """A line that starts at the head of another, and the row that will name it."""
        graph = self._graph
        missing: ObjectMissing | None = None
        for _ in range(MAX_PUBLISH_ROUNDS):
            source = graph.lines.read(graph.branch_id(from_))
            row = BranchRow(
                name=name,
                branch_id=new_branch_id(graph.ids),
                parent_branch_id=source.branch_id,
                forked_at=source.head.commit_id,
                created_at=graph.clock.now_us(),
                actor_id=actor_id,
                line_start=source.handle.version,
            )
            try:
                graph.storage.manifest.create_line(row.branch_id, source.handle)
            except ObjectMissing as error:
                # Others have moved on, and the version is cleaned away; or the branch is deleted.
                missing = error
                continue
            return row
        raise BranchNotFound(
            f"the branch to fork {name!r} from was deleted meanwhile", branch=from_
        ) from missing

    def _require_undisturbed(self, row: BranchRow, lease: Lease) -> None:
        """Take a conditional deletion back when somebody may have written beside it.

        The head lies on the line of the branch and the row on the main line, so no one merge
        compares both: only the lease, held from the comparison until after the merge, joins them.
        """

        def judge(line: ManifestLine) -> None:
            if line.branches().get(row.name) != row.deleted():
                raise _gone(row.name)
            require_free(row.name, line)

        try:
            lease.check()
        except LeaseLost:
            write_named(self._graph, row, judge)
            raise

    def _settle_sidecars(self, branch_id: BranchId, lease: Lease) -> None:
        """Record writes of the deleted branch as discarded; if this fails, an open does it."""
        try:
            self._graph.recovery.heal(branch_id, lease)
        except (OmnigraphError, StorageSignal) as error:
            log.warning("sidecars left", extra={"branch_id": branch_id, "cause": str(error)})

    def _reclaim(self, branch_id: BranchId, owned: Sequence[TableLayout]) -> None:
        self._graph.reclaimer.reclaim(branch_id, owned)
        self._graph.lines.forget(branch_id)

    def _owned_tables(self, branch_id: BranchId) -> Sequence[TableLayout]:
        own = lance_branch(branch_id)
        pins = self._graph.lines.read(branch_id).pins
        return [
            bare_layout(ref, pin.table_key, pin.location)
            for ref, pin in pins.items()
            if pin.branch == own
        ]

    def _describe_main(self) -> Branch:
        line = self._graph.lines.read(MAIN_BRANCH_ID)
        return Branch(
            name=MAIN_BRANCH,
            branch_id=MAIN_BRANCH_ID,
            parent=None,
            forked_at=None,
            head=line.head.commit_id,
            created_at=None,
            actor_id=None,
            tables_owned=tuple(sorted(pin.table_key for pin in line.pins.values())),
        )

    def _describe(self, row: BranchRow, names: Mapping[BranchId, BranchName]) -> Branch:
        """A branch with its head; one that nobody has written to stands where it was forked."""
        head = row.forked_at
        owned: tuple[str, ...] = ()
        if not self._is_untouched(row):
            head = self._graph.lines.read(row.branch_id).head.commit_id
            owned = tuple(sorted(table.table_key for table in self._owned_tables(row.branch_id)))
        return Branch(
            name=row.name,
            branch_id=row.branch_id,
            parent=names.get(row.parent_branch_id),
            forked_at=row.forked_at,
            head=head,
            created_at=row.created_at,
            actor_id=row.actor_id,
            tables_owned=owned,
        )

    def _is_untouched(self, row: BranchRow) -> bool:
        """Whether the line still is as it was made, which is told without opening it."""
        if row.line_start is None:
            return False
        try:
            return not self._graph.storage.manifest.is_moved(row.branch_id, row.line_start)
        except ObjectMissing as gone:
            raise BranchNotFound(f"the branch {row.name!r} is gone", branch=row.name) from gone


def _require_creatable(row: BranchRow, line: ManifestLine) -> None:
    require_free(row.name, line)
    if row.parent_branch_id not in {MAIN_BRANCH_ID, *live_branches(line)}:
        raise BranchNotFound(
            f"the branch to fork {row.name!r} from was deleted meanwhile",
            branch=row.parent_branch_id,
        )


def _require_deletable(row: BranchRow, line: ManifestLine) -> None:
    if line.branches().get(row.name) != row:
        raise _gone(row.name)
    children = sorted(
        branch.name
        for branch in live_branches(line).values()
        if branch.parent_branch_id == row.branch_id
    )
    if children:
        raise BranchHasDescendants(
            f"branches were forked from {row.name!r}: {', '.join(children)}; delete them first",
            branch=row.name,
            descendants=children,
        )
    tags = [tag.name for tag in live_tags(line) if tag.branch_id == row.branch_id]
    if tags:
        raise BranchHasTags(
            f"tags name commits of {row.name!r}: {', '.join(tags)}; delete the tags first, or keep"
            " the branch, which holds their data",
            branch=row.name,
            tags=tags,
        )


def _gone(name: str) -> BranchNotFound:
    return BranchNotFound(f"the branch {name!r} is gone already", branch=name)
