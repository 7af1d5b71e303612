"""Entities of several node types: what a variable of an interface is bound to.

They are numbered one type after the other, in the order of the names of the types, so equal ids of
two types are two entities. What only the table of an entity can tell is asked part by part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings, Bound
from omnigraph.engine.entities import Entities
from omnigraph.engine.optional_entities import OptionalEntities
from omnigraph.graph.arrays import ascending, encode, text_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.graph.arrays import Ids, Numbers, Values


class UnionEntities(Entities):
    """Entities of several types, one type after the other."""

    def __init__(self, parts: Sequence[Entities]) -> None:
        super().__init__(parts[0].table, sum(part.size for part in parts))
        self.parts = tuple(parts)
        """Those of each type, in the order of the names."""
        self.starts = np.cumsum([0, *(part.size for part in parts)])
        self._id_codes: Numbers | None = None

    @property
    def identity(self) -> None:
        """No property is the id of every type."""

    @property
    def ids(self) -> Ids:
        """The id of each."""
        if self._ids is None:
            self._ids = text_array(pa.concat_arrays([part.ids for part in self.parts]))
        return self._ids

    @property
    def ranks(self) -> Numbers:
        """The place of each in the order of ids, equal ones in that of their types."""
        if self._ranks is None:
            order = ascending(self.ids)
            self._ranks = np.empty(self.size, np.int64)
            self._ranks[order] = np.arange(self.size)
        return self._ranks

    def id_rank(self, at: Numbers) -> Numbers:
        """Numbers that compare as the ids do, and are equal where they are."""
        if self._id_codes is None:
            texts, codes = encode(self.ids)
            places = np.empty(len(texts), np.int64)
            places[ascending(texts)] = np.arange(len(texts))
            self._id_codes = places[codes]
        return self._id_codes[at]

    def has(self, name: str) -> bool:
        """Whether a column is in memory."""
        return all(part.has(name) for part in self.parts)

    def read(self, names: Iterable[str], at: Numbers | None = None) -> dict[str, Values]:
        """Columns of the entities at these numbers, or of all."""
        wanted = list(dict.fromkeys(names))
        if at is None or self.is_everything(at):
            return _joined(wanted, [part.read(wanted) for part in self.parts])
        places = np.empty(len(at), np.int64)
        columns: list[dict[str, Values]] = []
        before = 0
        for part in self.split(at):
            columns.append(part.entities.read(wanted, part.at))
            places[part.rows] = np.arange(before, before + len(part.at))
            before += len(part.at)
        joined = _joined(wanted, columns)
        return {name: values.take(pa.array(places, pa.int64())) for name, values in joined.items()}

    def type_names(self, at: Numbers) -> Values:
        """The name of the type of each."""
        names = pa.array([part.table.item.name for part in self.parts], pa.string())
        kinds = np.searchsorted(self.starts[1:], at, side="right")
        return names.take(pa.array(kinds, pa.int64()))

    def split(self, at: Numbers) -> Iterator[Part]:
        """The numbers by type."""
        for entities, first in zip(self.parts, self.starts, strict=False):
            rows = np.flatnonzero((at >= first) & (at < first + entities.size))
            yield Part(entities, int(first), rows, at[rows] - first)


@dataclass(frozen=True, slots=True)
class Part:
    """Those of some bound numbers that stand for entities of one type."""

    entities: Entities
    first: int
    """The number of its first entity among all."""
    rows: Numbers
    """Where they are among the given ones."""
    at: Numbers
    """Their numbers within the type."""


def _joined(names: Iterable[str], columns: Sequence[dict[str, Values]]) -> dict[str, Values]:
    return {name: pa.concat_arrays([part[name] for part in columns]) for name in names}


def types_of(entities: Entities) -> UnionEntities | None:
    """The entities by type, those of an optional variable too; None if there is one type only."""
    given = entities.given if isinstance(entities, OptionalEntities) else entities
    return given if isinstance(given, UnionEntities) else None


def union(var: str, scans: Sequence[Bindings]) -> Bindings:
    """One match of a variable from a match for each type; some may only count its rows."""
    if any(var not in scan.columns for scan in scans):
        counts = [scan.rows if scan.weights is None else int(scan.weights.sum()) for scan in scans]
        return Bindings(rows=1).weigh(np.array([sum(counts)]))
    if len(scans) == 1:
        return scans[0]
    bounds = [scan.columns[var] for scan in scans]
    entities = UnionEntities([bound.entities for bound in bounds])
    if all(bound.entities.is_everything(bound.at) for bound in bounds):
        at = entities.everything
    else:
        firsts = zip(bounds, entities.starts, strict=False)
        at = np.concatenate([bound.at + first for bound, first in firsts])
    return Bindings(rows=len(at), columns={var: Bound(entities, at)})


def of_type(bindings: Bindings, var: str, name: str) -> Bindings:
    """The rows whose variable is bound to a node, if it may be of several types to one of this."""
    bound = bindings.columns[var]
    if isinstance(bound.entities, OptionalEntities):
        bindings = bindings.keep(bound.entities.is_there(bound.at))
        bound = Bound(bound.entities.given, bindings.columns[var].at)
        bindings = bindings.bind({var: bound})
    if not isinstance(bound.entities, UnionEntities):
        return bindings
    for part in bound.entities.split(bound.at):
        if part.entities.table.item.name == name:
            return bindings.keep(part.rows).bind({var: Bound(part.entities, part.at)})
    return bindings.keep(np.zeros(0, np.int64))
