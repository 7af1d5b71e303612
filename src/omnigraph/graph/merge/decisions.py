"""Contested entities decided: by resolutions one by one, the rest by the strategy.

Every decision is only a change to the image of the merge; the validator judges the image
afterwards, whoever decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.graph.changes.row_pairs import form_of
from omnigraph.graph.changes.row_places import side_of
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.merge.conflicts import REPORTED_CONFLICTS
from omnigraph.graph.merge.contests import Contest, ContestTeller
from omnigraph.graph.merge.resolutions import Resolution, Strategy, Take
from omnigraph.graph.merge.table_merge import row_schema
from omnigraph.graph.validation import JsonRows, fit_json_rows
from omnigraph.lang.catalog import EdgeType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.arrays import Ids
    from omnigraph.graph.merge.conflicts import Conflict, ConflictKind
    from omnigraph.graph.merge.table_merge import MergedTable, TableMerge
    from omnigraph.lang import NodeType
    from omnigraph.storage.table_storage import TableStorage


@dataclass(kw_only=True)
class Decisions:
    """How conflicts are decided, and what was."""

    strategy: Strategy = Strategy.FAIL
    resolutions: Mapping[tuple[str, str], Resolution] = field(default_factory=dict)
    decided: list[dict[str, str]] = field(default_factory=list)
    undecided: int = 0
    """How many conflicts are left."""
    _used: set[tuple[str, str]] = field(default_factory=set)
    _teller: ContestTeller = field(default_factory=ContestTeller)

    def settle(self, merge: TableMerge) -> list[Conflict]:
        """Decide the contests of a table as far as possible; what is left are conflicts.

        Up to 10,000 of them are told; `undecided` counts all.
        """
        told: list[Conflict] = []
        for contest in merge.contests:
            choices = [self._choose(merge.item, str(entity)) for entity in contest.ids.to_pylist()]
            for kind, choice in zip(contest.kinds, choices, strict=True):
                if choice is not None:
                    self._note(merge.item, kind, choice)
            is_open = np.asarray([choice is None for choice in choices], np.bool_)
            self.undecided += int(is_open.sum())
            is_open &= np.cumsum(is_open) <= REPORTED_CONFLICTS - len(told)
            if is_open.any():
                told += self._teller.tell(merge.item, contest.chosen(is_open))
            _apply(merge, contest, choices)
        return told

    def settle_broken(
        self, store: TableStorage, table: MergedTable, merge: TableMerge, broken: Ids
    ) -> bool:
        """Apply resolutions to entities whose merged form breaks a rule; whether there were any.

        One that has been applied already is not applied again.
        """
        choices = {
            entity_id: resolution
            for entity_id in map(str, broken.to_pylist())
            if (resolution := self._find(merge.item, entity_id)) is not None
        }
        if not choices:
            return False
        ids = pa.array(sorted(choices), pa.string())
        names = [name for name, _ in table.names]
        base, ours, theirs = (
            form_of(store, handle, side_of(store, handle, ids), names)
            for handle in (table.base, table.ours, table.theirs)
        )
        merge.drop(ids)
        contest = Contest(ids=ids, base=base, ours=ours, theirs=theirs)
        _apply(merge, contest, [choices[str(entity)] for entity in ids.to_pylist()])
        self.decided += [
            {"type": merge.item.name, "id": entity, "kind": "rule", "take": choice.take.value}
            for entity, choice in choices.items()
        ]
        return True

    def require_all_used(self) -> None:
        """Refuse a resolution of an entity that has no conflict.

        Raises:
            InvalidArgument: it names the first.
        """
        unused = sorted(self.resolutions.keys() - self._used)
        if unused:
            raise InvalidArgument(
                f"the resolution of {unused[0][0]} {unused[0][1]!r} is for an entity without a"
                " conflict; remove it",
                argument="resolutions",
            )

    def _choose(self, item: NodeType | EdgeType, entity_id: str) -> Resolution | None:
        resolution = self._find(item, entity_id)
        if resolution is not None or self.strategy is Strategy.FAIL:
            return resolution
        return Resolution(type=item.name, id=entity_id, take=Take(self.strategy.value))

    def _find(self, item: NodeType | EdgeType, entity_id: str) -> Resolution | None:
        """The resolution of an entity; it is used once."""
        keys = [(name, entity_id) for name in (item.name, key_of(item))]
        if self._used.isdisjoint(keys):
            for key in keys:
                if key in self.resolutions:
                    self._used.add(key)
                    return self.resolutions[key]
        return None

    def _note(self, item: NodeType | EdgeType, kind: ConflictKind, choice: Resolution) -> None:
        self.decided.append(
            {
                "type": item.name,
                "id": choice.id,
                "kind": kind.value,
                "take": choice.take.value,
            }
        )


def _apply(merge: TableMerge, contest: Contest, choices: list[Resolution | None]) -> None:
    for take in Take:
        where = np.asarray([choice is not None and choice.take is take for choice in choices])
        if not where.any():
            continue
        ids = contest.ids.filter(pa.array(where))
        exists = contest.ours.side.exists[where]
        match take:
            case Take.OURS:
                pass
            case Take.THEIRS:
                merge.take(ids, contest.theirs.chosen(where), exists)
            case Take.BASE:
                merge.take(ids, contest.base.chosen(where), exists)
            case Take.DELETE:
                merge.remove(ids.filter(pa.array(exists)))
            case Take.ROW:
                chosen = [choices[at] for at in np.flatnonzero(where).tolist()]
                for choice, is_update in zip(chosen, exists.tolist(), strict=True):
                    if choice is not None:
                        merge.write(_given_row(merge.item, choice), is_update=is_update)
            case _:
                assert_never(take)


def _given_row(item: NodeType | EdgeType, choice: Resolution) -> pa.Table:
    """The row of a resolution, in the schema of its type.

    Raises:
        InvalidArgument: it does not fit the type.
    """
    members: dict[str, Any] = {**(choice.row or {}), "id": choice.id}  # Any: as JSON gives it
    if isinstance(item, EdgeType):
        members |= {"src": members.pop("from", None), "dst": members.pop("to", None)}
    unknown = sorted(set(members) - set(item.arrow_schema.names))
    if unknown:
        raise _bad_row(item, choice, f"{item.name} has no property {unknown[0]!r}")
    blobs = sorted(set(members) & set(item.blob_properties))
    if blobs:
        raise _bad_row(item, choice, f"the blob {blobs[0]!r} cannot be given here")
    fitted = fit_json_rows(item, JsonRows.of([members]))
    if fitted.findings.first is not None:
        raise _bad_row(item, choice, fitted.findings.first.message)
    rows = fitted.table
    if rows["id"][0].as_py() != choice.id:
        raise _bad_row(item, choice, "its key makes another id")
    columns = [
        pa.nulls(1, field.type) if field.name in item.blob_properties else rows[field.name]
        for field in row_schema(item)
    ]
    return pa.table(columns, schema=row_schema(item))


def _bad_row(item: NodeType | EdgeType, choice: Resolution, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"the resolution of {item.name} {choice.id!r} has a row that does not fit: {why}",
        argument="resolutions",
    )
