"""Contested entities decided: by resolutions one by one, the rest by the strategy.

Every decision is only a change to the image of the merge; the validator judges the image
afterwards, whoever decided.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.graph.blobs.blob_values import BlobBudget
from omnigraph.graph.changes.row_pairs import form_of
from omnigraph.graph.changes.row_places import side_of
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.merge.conflicts import REPORTED_CONFLICTS
from omnigraph.graph.merge.contests import Contest, ContestTeller
from omnigraph.graph.merge.given_rows import given_row
from omnigraph.graph.merge.resolutions import Resolution, Strategy, Take
from omnigraph.lang.suggest import nearest_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.graph.arrays import Mask
    from omnigraph.graph.merge.conflicts import Conflict, ConflictKind
    from omnigraph.graph.merge.table_merge import MergedTable, TableMerge
    from omnigraph.lang import EdgeType, NodeType
    from omnigraph.storage.table_storage import TableStorage

    Named = tuple[str, str]
    """A type and an id."""

_MOST_NAMED: Final = 3
_MOST_SEEN: Final = 10_000


@dataclass(kw_only=True)
class Decisions:
    """How conflicts are decided, and what was."""

    strategy: Strategy = Strategy.FAIL
    resolutions: Mapping[Named, Resolution] = field(default_factory=dict)
    blobs: BlobBudget = field(default_factory=BlobBudget)
    """Counts what the rows of resolutions give."""
    teller: ContestTeller = field(default_factory=ContestTeller)
    by_resolution: list[dict[str, str]] = field(default_factory=list)
    by_strategy: list[dict[str, str]] = field(default_factory=list)
    undecided: int = 0
    """How many conflicts are left."""
    _used: set[Named] = field(default_factory=set)
    """Resolutions, as they are given."""
    _answered: set[Named] = field(default_factory=set)
    """Entities that had theirs, with the kind of the type."""
    _seen: dict[Named, None] = field(default_factory=dict)
    """Entities that have a conflict, the first of them."""

    @property
    def decided(self) -> list[dict[str, str]]:
        """What was decided; what a strategy decided comes last, because that tells it as well."""
        return [*self.by_resolution, *self.by_strategy]

    @property
    def has_unused(self) -> bool:
        """Whether there are resolutions that nothing has asked for."""
        return not self.resolutions.keys() <= self._used

    def supposing(self, strategy: Strategy) -> Decisions:
        """These decisions as if a strategy decided what is left, for a look at what follows."""
        other = copy(self)
        other.strategy, other.blobs = strategy, self.blobs.again()
        other.by_resolution, other.by_strategy = [], []
        other._used, other._seen = set(self._used), dict(self._seen)  # noqa: SLF001 - of its kind
        other._answered = set(self._answered)  # noqa: SLF001 - of its kind
        return other

    def count_used(self, other: Decisions) -> None:
        """Count as asked for what was in a look at what follows."""
        self._used |= other._used
        self._answered |= other._answered
        self._seen |= other._seen

    def settle(self, merge: TableMerge) -> list[Conflict]:
        """Decide the contests of a table as far as possible; what is left are conflicts.

        The merge keeps those that are left. Up to 10,000 are told; `undecided` counts all.
        """
        told: list[Conflict] = []
        left: list[Contest] = []
        for contest in merge.contests:
            is_open = self._decide(merge, contest)
            if not is_open.any():
                continue
            left.append(contest.chosen(is_open))
            self.undecided += len(left[-1].ids)
            if len(told) < REPORTED_CONFLICTS:
                first = np.arange(len(left[-1].ids)) < REPORTED_CONFLICTS - len(told)
                told += self.teller.tell(merge.item, left[-1].chosen(first))
        merge.contests = left
        return told

    def _decide(self, merge: TableMerge, contest: Contest) -> Mask:
        """Apply what is decided; which of the entities are left."""
        ids = [str(entity) for entity in contest.ids.to_pylist()]
        self._see(merge.item, ids)
        choices = [self._choose(merge.item, entity) for entity in ids]
        for kind, choice in zip(contest.kinds, choices, strict=True):
            if choice is not None:
                self._note(merge.item, kind, choice)
        self._apply(merge, contest, choices)
        return np.asarray([choice is None for choice in choices], np.bool_)

    def settle_broken(
        self,
        store: TableStorage,
        table: MergedTable,
        merge: TableMerge,
        broken: Iterable[str],
    ) -> bool:
        """Apply resolutions to entities whose merged form breaks a rule; whether there were any.

        One that has been applied already is not applied again.
        """
        names = sorted(broken)
        self._see(merge.item, names)
        choices = {
            entity_id: resolution
            for entity_id in names
            if (resolution := self._find(merge.item, entity_id)) is not None
        }
        if not choices:
            return False
        ids = pa.array(choices, pa.string())
        columns = [name for name, _ in table.names]
        base, ours, theirs = (
            form_of(store, handle, side_of(store, handle, ids), columns)
            for handle in (table.base, table.ours, table.theirs)
        )
        merge.drop(ids)
        contest = Contest(ids=ids, base=base, ours=ours, theirs=theirs)
        self._apply(merge, contest, list(choices.values()))
        self.by_resolution += [
            {"type": merge.item.name, "id": entity, "kind": "rule", "take": choice.take.value}
            for entity, choice in choices.items()
        ]
        return True

    def unused_of(self, item: NodeType | EdgeType) -> set[str]:
        """The entities of a type whose resolutions nothing has asked for."""
        names = {item.name, key_of(item)}
        return {each for name, each in self.resolutions.keys() - self._used if name in names}

    def require_all_used(self) -> None:
        """Refuse resolutions of entities that have no conflict, or that are decided already.

        Raises:
            InvalidArgument: it names the first, and the nearest that have one.
        """
        unused = sorted(self.resolutions.keys() - self._used)
        if not unused:
            return
        answered = self._answered | {(_bare(name), each) for name, each in self._answered}
        for type_name, entity_id in answered.intersection(unused):
            raise InvalidArgument(
                f"{_bare(type_name)} {entity_id!r} is decided twice, with and without its kind;"
                f" remove the resolution of {type_name!r}",
                argument="resolutions",
            )
        what = ("resolution", "is for an entity", "it")
        if len(unused) > 1:
            what = ("resolutions", "are for entities", "them")
        raise InvalidArgument(
            f"the {what[0]} of {_listed(unused)} {what[1]} without a conflict; remove {what[2]}"
            f"{self._hint(*unused[0])}",
            argument="resolutions",
        )

    def _hint(self, type_name: str, entity_id: str) -> str:
        """The entities with a conflict that may have been meant."""
        bare = _bare(type_name)
        ids = [each for name, each in self._seen if name == bare]
        near = [(bare, each) for each in nearest_names(entity_id, ids)]
        near = near or [each for each in self._seen if each[1] == entity_id and each[0] != bare]
        if near:
            return f"; did you mean {_listed(near, ' or ')}?"
        return f"; there is one of {_listed(list(self._seen))}" if self._seen else ""

    def _see(self, item: NodeType | EdgeType, ids: Iterable[str]) -> None:
        for entity_id in ids:
            if len(self._seen) >= _MOST_SEEN:
                return
            self._seen[item.name, entity_id] = None

    def _choose(self, item: NodeType | EdgeType, entity_id: str) -> Resolution | None:
        resolution = self._find(item, entity_id)
        if resolution is not None or self.strategy is Strategy.FAIL:
            return resolution
        return Resolution(type=item.name, id=entity_id, take=Take(self.strategy.value))

    def _find(self, item: NodeType | EdgeType, entity_id: str) -> Resolution | None:
        """The resolution of an entity; it is used once."""
        entity = (key_of(item), entity_id)
        if entity in self._answered:
            return None
        for key in (entity, (item.name, entity_id)):
            if key in self.resolutions and key not in self._used:
                self._used.add(key)
                self._answered.add(entity)
                return self.resolutions[key]
        return None

    def _note(self, item: NodeType | EdgeType, kind: ConflictKind, choice: Resolution) -> None:
        is_answered = (key_of(item), choice.id) in self._answered
        (self.by_resolution if is_answered else self.by_strategy).append(
            {
                "type": item.name,
                "id": choice.id,
                "kind": kind.value,
                "take": choice.take.value,
            }
        )

    def _apply(
        self, merge: TableMerge, contest: Contest, choices: Sequence[Resolution | None]
    ) -> None:
        for take in Take:
            where = np.asarray([choice is not None and choice.take is take for choice in choices])
            if not where.any():
                continue
            chosen = contest.chosen(where)
            exists = chosen.ours.side.exists
            match take:
                case Take.OURS:
                    pass
                case Take.THEIRS:
                    merge.take(chosen.ids, chosen.theirs, exists)
                case Take.BASE:
                    merge.take(chosen.ids, chosen.base, exists)
                case Take.DELETE:
                    merge.remove(chosen.ids.filter(pa.array(exists)))
                case Take.ROW:
                    rows = [each for each in choices if each is not None and each.take is take]
                    self._write(merge, chosen, rows)
                case _:
                    assert_never(take)

    def _write(self, merge: TableMerge, contest: Contest, choices: Sequence[Resolution]) -> None:
        places = np.arange(len(choices))
        for place, choice in enumerate(choices):
            entity = contest.chosen(places == place)
            rows = given_row(merge, entity, choice, self.blobs)
            merge.write(rows, is_update=bool(entity.ours.side.exists[0]))


def _bare(type_name: str) -> str:
    """The name of a type without its kind."""
    return type_name.rpartition(":")[2]


def _listed(named: Sequence[Named], last: str = ", ") -> str:
    shown = [f"{type_name} {entity_id!r}" for type_name, entity_id in named[:_MOST_NAMED]]
    more = len(named) - _MOST_NAMED
    return last.join(shown) if more <= 0 else f"{', '.join(shown)} and {more:,} more"
