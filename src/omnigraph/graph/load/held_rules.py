"""The rules across rows over rows that are held in memory, for `quarantine`; by the validator.

The lines of the rows are their places.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.graph.arrays import (
    chosen,
    contained,
    distinct,
    group_codes,
    is_given,
    one_array,
    taken,
    texts,
)
from omnigraph.graph.load.quarantine import Broken, BrokenRow
from omnigraph.graph.load.rows import load_delta
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation import Findings, Subject, gather
from omnigraph.graph.validation.bare_nodes import required_edges
from omnigraph.graph.validation.cardinality import without_edges
from omnigraph.graph.validation.committed import find_edges
from omnigraph.graph.validation.delta import prepare_write
from omnigraph.graph.validation.evaluator import rule_findings
from omnigraph.graph.validation.relation_rules import (
    CardinalityRule,
    KeptEndRule,
    UniqueRule,
    compared_columns,
)
from omnigraph.graph.validation.spelling import show_value, stored_value
from omnigraph.graph.validation.violation import bare_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.graph.jobs.report import LoadMode
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import CommittedRows, FittedRows, TableDelta, Violation
    from omnigraph.graph.validation.delta import Write
    from omnigraph.graph.validation.relation_rules import RelationRule
    from omnigraph.lang.catalog import Catalog


class HeldRelations:
    """The `RelationRules` of a load whose keys are in memory."""

    def __init__(
        self,
        catalog: Catalog,
        mode: LoadMode,
        rows: Mapping[TableRef, FittedRows],
        committed: CommittedRows,
        *,
        most: int,
    ) -> None:
        self._catalog = catalog
        self._mode = mode
        self._rows = {ref: _keys_only(each) for ref, each in rows.items()}
        self._committed = committed
        self._limit = most + 1

    def drop(self, places: Mapping[TableRef, Sequence[int]]) -> None:
        """Forget rows."""
        for ref, each in places.items():
            held = self._rows[ref]
            stays = pa.array(~np.isin(places_of(held), each))
            self._rows[ref] = replace(
                held,
                table=held.table.filter(stays),
                lines=one_array(held.lines).filter(stays) if held.lines is not None else None,
            )

    def keys(self) -> Broken:
        """Check 5, and with every record that breaks it also the one that it meets."""
        write = self._write()
        rows: list[BrokenRow] = []
        for rule in write.rules.keys:
            findings = self._findings(write, rule)
            rows += _broken(rule, findings.violations)
            # Beyond the limit all is lost already, whoever is to blame.
            is_whole = findings.violations and findings.total < self._limit
            if isinstance(rule, UniqueRule) and is_whole:
                delta = write.delta_of(rule.item)
                rows += _broken(rule, _first_holders(rule, delta, findings.violations))
        return Broken(rows=rows)

    def endpoints(self) -> Broken:
        """Check 6; nobody can be blamed for edges that are committed."""
        write = self._write()
        rows: list[BrokenRow] = []
        blocking: list[Findings] = []
        for rule in write.rules.endpoints:
            findings = self._findings(write, rule)
            if isinstance(rule, KeptEndRule):
                blocking.append(findings)
            else:
                rows += _broken(rule, findings.violations)
        return Broken(rows=rows, blocking=gather(blocking))

    def cardinality(self) -> Broken:
        """Check 7, by the records that bring edges to a source or take them away."""
        write = self._write()
        rows: list[BrokenRow] = []
        blocking: list[Findings] = []
        for rule in write.rules.cardinality:
            findings = self._findings(write, rule)
            if findings.violations:
                records, unmended = self._of_sources(
                    rule, write.delta_of(rule.item), findings.violations
                )
                rows += records
                blocking.append(unmended)
        return Broken(rows=rows, blocking=gather(blocking))

    def bare_nodes(self) -> Broken:
        """Nodes that no edge of a type starts at which asks for one."""
        write = self._write()
        rows: list[BrokenRow] = []
        for item in required_edges(self._catalog):
            node = self._catalog.node_types[item.from_type]
            held = self._rows.get(ref_of(node))
            if held is None or not held.table.num_rows:
                continue
            rule = CardinalityRule(item=item, node=node)
            ids = one_array(held.table["id"])
            bare = without_edges(write, rule, distinct(chosen(ids, is_given(ids))))
            places = places_of(held)
            for at in np.flatnonzero(contained(ids, bare))[: self._limit]:
                subject = Subject(entity_id=ids[int(at)].as_py(), input_line=int(places[at]))
                rows.append(
                    BrokenRow(
                        table=ref_of(node),
                        place=int(places[at]),
                        violation=bare_node(item, subject.entity_id or "", row=subject),
                    )
                )
        return Broken(rows=rows)

    def superseded(self) -> dict[TableRef, list[int]]:
        """Records of an edge id that a later one replaces."""
        return superseded_places(self._deltas())

    def _deltas(self) -> Iterator[TableDelta]:
        return (load_delta(rows, self._mode) for rows in self._rows.values())

    def _write(self) -> Write:
        return prepare_write(self._catalog, self._deltas(), self._committed)

    def _findings(self, write: Write, rule: RelationRule) -> Findings:
        return rule_findings(write, rule, limit=self._limit)

    def _of_sources(
        self, rule: CardinalityRule, delta: TableDelta, violations: Sequence[Violation]
    ) -> tuple[list[BrokenRow], Findings]:
        """The records to blame for sources with too many or too few edges."""
        by_source = {each.subject.entity_id or "": each for each in violations}
        table, places = delta.rows.table, places_of(delta.rows)
        ref = ref_of(rule.item)
        rows: list[BrokenRow] = []
        blamed: set[str] = set()

        def blame(at: int, source: str) -> None:
            blamed.add(source)
            violation = by_source[source]
            rows.append(BrokenRow(table=ref, place=int(places[at]), violation=violation))

        starts = one_array(table["src"])
        for at in np.flatnonzero(contained(starts, texts(by_source)))[: self._limit]:
            blame(int(at), starts[int(at)].as_py())
        for at, source in self._moved(rule, delta, by_source):
            blame(at, source)
        left = tuple(each for source, each in by_source.items() if source not in blamed)
        counts = {rule.code: len(left)} if left else {}
        return rows, Findings(violations=left, counts=counts)

    def _moved(
        self, rule: CardinalityRule, delta: TableDelta, by_source: Mapping[str, Violation]
    ) -> list[tuple[int, str]]:
        """Rows that take an edge from a source which is left with too few."""
        few = texts(source for source, each in by_source.items() if _is_below(rule, each))
        if delta.replaces_all or not len(few):
            return []
        image = delta.image
        held = find_edges(self._committed, rule.asked, image.ids)
        held = held.filter(pa.array(contained(one_array(held["src"]), few)))
        taken_from: dict[str, str] = {
            edge["id"]: edge["src"] for edge in held.select(["id", "src"]).to_pylist()
        }
        starts = image.column("src")
        moved: list[tuple[int, str]] = []
        for index in np.flatnonzero(contained(image.ids, texts(taken_from))):
            source = taken_from[image.ids[int(index)].as_py()]
            if starts[int(index)].as_py() != source:
                moved.append((int(image.at[index]), source))
        return moved[: self._limit]


def _is_below(rule: CardinalityRule, violation: Violation) -> bool:
    edges = violation.value
    return isinstance(edges, int) and edges < rule.low


def _keys_only(rows: FittedRows) -> FittedRows:
    """The columns that rules across rows look at."""
    return replace(rows, table=rows.table.select(compared_columns(rows.item)), findings=Findings())


def places_of(rows: FittedRows) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The lines of rows, as numbers."""
    if rows.lines is None:
        raise InternalError(f"rows of {rows.item.name} have no places; please report this")
    return np.asarray(rows.lines.to_numpy(zero_copy_only=False), np.int64)


def superseded_places(deltas: Iterable[TableDelta]) -> dict[TableRef, list[int]]:
    """Places of records of an edge id that a later one replaces, by table."""
    return {
        ref_of(delta.item): places_of(delta.rows)[delta.superseded].tolist()
        for delta in deltas
        if len(delta.superseded)
    }


def _broken(rule: RelationRule, violations: Iterable[Violation]) -> Iterator[BrokenRow]:
    ref = ref_of(rule.item)
    for each in violations:
        if each.subject.input_line is None:
            raise InternalError(f"a row of {rule.item.name} has no place; please report this")
        yield BrokenRow(table=ref, place=each.subject.input_line, violation=each)


def _first_holders(
    rule: UniqueRule, delta: TableDelta, violations: Sequence[Violation]
) -> Iterator[Violation]:
    """Of each tuple that several records hold: the one that the others are said to meet.

    It is broken by the second of them, unless it is broken by a committed row already.
    """
    members = [delta.records.column(name) for name in rule.names]
    whole = np.flatnonzero(np.logical_and.reduce([is_given(each) for each in members]))
    codes = group_codes([taken(each, whole) for each in members])
    rows = delta.records.rows.chosen(whole)
    positions = np.arange(len(codes)) if rows.positions is None else rows.positions
    second: dict[int, tuple[str, int]] = {}
    flagged: set[int] = set()
    for each in violations:
        row, entity_id = each.subject.row, each.subject.entity_id
        if row is None or entity_id is None:
            continue
        flagged.add(row)
        code = int(codes[np.searchsorted(positions, row)])
        second[code] = min(second.get(code, (entity_id, row)), (entity_id, row))
    counts = np.bincount(codes)
    for index in np.flatnonzero((counts > 1)[codes]):
        subject = rows.subject(int(index))
        code = int(codes[index])
        if subject.row not in flagged and code in second:
            yield _held_twice(rule, delta, subject, second[code][0])


def _held_twice(rule: UniqueRule, delta: TableDelta, subject: Subject, held_by: str) -> Violation:
    at = subject.row or 0
    values = [
        show_value(stored_value(one_array(delta.rows.table[name]), at, kind), kind)
        for name, kind in zip(rule.names, rule.kinds, strict=True)
    ]
    return rule.violation(subject, values=values, held_by=held_by)
