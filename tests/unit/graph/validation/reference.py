"""The checks written down once more, row by row over dictionaries, as slow and plain as possible.

Rows hold stored values: epoch numbers for Date and DateTime. Input rows have the right types, so
of check 1 only missing values are left.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from omnigraph.lang import Catalog, EdgeType, NodeType, render_key
from omnigraph.lang.keys import spell_key
from omnigraph.lang.types import STRING, PropType

Row = Mapping[str, object]
Table = tuple[bool, str]
Found = tuple[int, bool, str, bool, str, int, int, str, str]
"""Rank, table and row by which it is ordered; then code and message."""


@dataclass(frozen=True, kw_only=True)
class PlainDelta:
    """A delta as dictionaries."""

    item: NodeType | EdgeType
    rows: Sequence[Row] = ()
    strict: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    replaces_all: bool = False
    repeats_edge_ids: bool = False

    @property
    def table(self) -> Table:
        return isinstance(self.item, EdgeType), self.item.name


@dataclass(frozen=True, kw_only=True)
class PlainGraph:
    """Committed rows by table and id."""

    tables: Mapping[Table, Mapping[str, Row]] = field(default_factory=dict)


def identified(item: NodeType | EdgeType, row: Row) -> Row:
    """The row with the id of its key."""
    if not isinstance(item, NodeType) or item.key is None:
        return row
    values = [row[name] for name in item.key]
    kinds = [item.properties[name].type for name in item.key]
    return {**row, "id": None if None in values else render_key(values, kinds)}


def expected_findings(
    catalog: Catalog, deltas: Sequence[PlainDelta], graph: PlainGraph
) -> list[Found]:
    """Every violation, in order."""
    write = _Write(catalog, deltas, graph)
    return sorted(write.findings())


def of_every_kind(kinds: Sequence[Hashable], limit: int) -> list[int]:
    """Which of the violations in order are reported: of each kind up to three before others."""
    met: Counter[Hashable] = Counter()
    ranked = []
    for number, kind in enumerate(kinds):
        ranked.append((min(met[kind], 3), number))
        met[kind] += 1
    return sorted(number for _, number in sorted(ranked)[:limit])


def kind_of(item: NodeType | EdgeType, name: str) -> PropType:
    """The type of a property or a system column."""
    return item.properties[name].type if name in item.properties else STRING


class _Write:
    def __init__(self, catalog: Catalog, deltas: Sequence[PlainDelta], graph: PlainGraph) -> None:
        self.catalog, self.deltas, self.graph = catalog, deltas, graph
        self.images: dict[Table, dict[str, tuple[int, Row]]] = {}
        for delta in deltas:
            image: dict[str, tuple[int, Row]] = {}
            for at, row in enumerate(delta.rows):
                if isinstance(row["id"], str):
                    image[row["id"]] = (at, row)
            self.images[delta.table] = image

    def delta(self, table: Table) -> PlainDelta | None:
        return next((one for one in self.deltas if one.table == table), None)

    def committed(self, table: Table) -> Mapping[str, Row]:
        return self.graph.tables.get(table, {})

    def survivors(self, table: Table) -> dict[str, Row]:
        """Committed rows that the write leaves as they are."""
        delta = self.delta(table)
        if delta is None:
            return dict(self.committed(table))
        if delta.replaces_all:
            return {}
        touched = set(delta.removed) | set(self.images[table])
        return {key: row for key, row in self.committed(table).items() if key not in touched}

    def final(self, table: Table) -> dict[str, Row]:
        written = {key: row for key, (_, row) in self.images.get(table, {}).items()}
        return self.survivors(table) | written

    def findings(self) -> Iterator[Found]:
        for delta in self.deltas:
            for at, row in enumerate(delta.rows):
                yield from self.row_findings(delta, at, row)
            yield from self.strict_findings(delta)
            yield from self.unique_findings(delta)
        for edge in self.catalog.edge_types.values():
            yield from self.orphan_findings(edge)
            yield from self.card_findings(edge)

    def row_findings(self, delta: PlainDelta, at: int, row: Row) -> Iterator[Found]:
        item = delta.item
        names = item.arrow_schema.names

        def found(rank: int, name: str, code: str, message: str) -> Found:
            key = row["id"]
            place = names.index(name)
            return (rank, *delta.table, key is not None, str(key or ""), at, place, code, message)

        for name in names:
            kind = kind_of(item, name)
            of_key = name == "id" and isinstance(item, NodeType) and item.key is not None
            if row[name] is None and not kind.nullable and not of_key:
                text = f"{item.name}.{name}: expected {kind}, got null"
                yield found(1, name, "required_missing", text)
        for one in item.ranges if isinstance(item, NodeType) else ():
            value, kind = row[one.property], item.properties[one.property].type
            if not isinstance(value, int | float):
                continue
            start = f"@range violation on {item.name}.{one.property}: value"
            spelled = spell_key(value, kind)
            if one.low is not None and Fraction(value) < Fraction(one.low):
                text = f"{start} {spelled} < min {one.low}"
                yield found(2, one.property, "range_violation", text)
            if one.high is not None and Fraction(value) > Fraction(one.high):
                text = f"{start} {spelled} > max {one.high}"
                yield found(2, one.property, "range_violation", text)
        for prop in item.properties.values():
            known, value = prop.type.enum_values, row[prop.name]
            if known is not None and value is not None and value not in known:
                expected = ", ".join(known)
                text = f"invalid enum value '{value}' for {item.name}.{prop.name}"
                yield found(4, prop.name, "enum_violation", f"{text} (expected: {expected})")

    def strict_findings(self, delta: PlainDelta) -> Iterator[Found]:
        for key, (at, _) in self.images[delta.table].items():
            taken = key in self.committed(delta.table) and key not in delta.removed
            if key in delta.strict and taken and not delta.replaces_all:
                text = f"{delta.item.name} '{key}' exists already"
                yield (5, *delta.table, True, key, at, 0, "key_conflict", text)

    def unique_findings(self, delta: PlainDelta) -> Iterator[Found]:
        item = delta.item
        key = item.key if isinstance(item, NodeType) and item.key is not None else ("id",)
        if delta.repeats_edge_ids and isinstance(item, EdgeType):
            records = list(self.images[delta.table].values())
        else:
            records = [(at, row) for at, row in enumerate(delta.rows) if row["id"] is not None]
        records.sort(key=lambda record: (str(record[1]["id"]), record[0]))
        constraints = [key, *item.unique]
        for place, names in enumerate(constraints):
            if place and names == key:
                continue
            holders = self.committed_tuples(delta.table, item, names) if place else {}
            for at, row in records:
                spelled = _spelled(item, names, row)
                if spelled is None:
                    continue
                one = str(row["id"])
                if spelled in holders:
                    where = names[0] if len(names) == 1 else f"({', '.join(names)})"
                    value = spelled[0] if len(names) == 1 else f"({', '.join(spelled)})"
                    text = (
                        f"@unique violation on {item.name}.{where}: value '{value}' "
                        f"held by '{holders[spelled][1]}' and '{one}'"
                    )
                    yield (6, *delta.table, True, one, at, place, "unique_violation", text)
                if spelled not in holders or holders[spelled][0]:
                    holders[spelled] = (False, one)

    def committed_tuples(
        self, table: Table, item: NodeType | EdgeType, names: Sequence[str]
    ) -> dict[tuple[str, ...], tuple[bool, str]]:
        """The smallest id of each tuple, marked as committed."""
        out: dict[tuple[str, ...], tuple[bool, str]] = {}
        for key, row in sorted(self.survivors(table).items(), reverse=True):
            spelled = _spelled(item, names, row)
            if spelled is not None:
                out[spelled] = (True, key)
        return out

    def orphan_findings(self, edge: EdgeType) -> Iterator[Found]:
        table = (True, edge.name)
        touched_nodes = {one.table for one in self.deltas if one.removed or one.replaces_all}
        for place, (endpoint, node) in enumerate(
            (("src", edge.from_type), ("dst", edge.to_type)), start=1
        ):
            nodes = self.final((False, node))
            lost = self.committed((False, node)).keys() - nodes.keys()
            delta = self.delta((False, node))
            written = self.images.get(table, {})
            for key, row in self.final(table).items():
                end = row[endpoint]
                if end is None or end in nodes:
                    continue
                if key not in written:
                    is_lost = delta is not None and (
                        delta.replaces_all or end in delta.removed or end in lost
                    )
                    if (False, node) not in touched_nodes or not is_lost:
                        continue
                at = written[key][0] if key in written else -1
                text = f"{endpoint} '{end}' not found in {node}"
                yield (7, *table, True, key, at, place, "orphan_edge", text)

    def card_findings(self, edge: EdgeType) -> Iterator[Found]:
        table = (True, edge.name)
        delta = self.delta(table)
        if delta is None:
            return
        image = self.images[table]
        sources = {row["src"] for _, row in image.values()} - {None}
        if not delta.replaces_all:
            for key, row in self.committed(table).items():
                if key in image or key in delta.removed:
                    sources.add(row["src"])
        nodes = self.delta((False, edge.from_type))
        if nodes is not None:
            written = self.images[nodes.table]
            gone = {one for one in sources if one in nodes.removed or nodes.replaces_all}
            sources -= gone - set(written)
        low, high = edge.card
        for source in sources:
            count = sum(row["src"] == source for row in self.final(table).values())
            if low <= count and (high is None or count <= high):
                continue
            limit = f"min {low}" if count < low else f"max {high}"
            edges = "1 edge" if count == 1 else f"{count} edges"
            text = f"@card violation on edge {edge.name}: source '{source}' has {edges} ({limit})"
            yield (8, *table, True, str(source), -1, 0, "cardinality_violation", text)


def _spelled(item: NodeType | EdgeType, names: Sequence[str], row: Row) -> tuple[str, ...] | None:
    if any(row[name] is None for name in names):
        return None
    return tuple(spell_key(row[name], kind_of(item, name)) for name in names)
