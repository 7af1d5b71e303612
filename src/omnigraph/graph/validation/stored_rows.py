"""Rules that a schema adds, held against the rows that are stored already.

The rules and their texts are the validator's own; only what is judged differs: the rows of one
table, which arrive in batches. A rule of one row looks at a batch at a time. A rule across rows
compares all that share a value, so the table is read in as many passes as keep each small enough
to hold: a pass takes the rows whose first compared value falls to it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.graph.arrays import encode
from omnigraph.graph.validation.delta import TableDelta, prepare_write
from omnigraph.graph.validation.evaluator import rule_findings
from omnigraph.graph.validation.findings import gather
from omnigraph.graph.validation.fitting import FittedRows
from omnigraph.graph.validation.relation_rules import CardinalityRule, UniqueRule, unique_rules
from omnigraph.graph.validation.row_rules import check_rows
from omnigraph.lang.catalog import Check, EdgeType, NodeType, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from omnigraph.graph.validation.committed import CommittedRows
    from omnigraph.graph.validation.findings import Findings
    from omnigraph.lang.catalog import Catalog

ROWS_PER_PASS: Final = 1_000_000
"""How many rows are compared with each other at once."""

StoredRule: TypeAlias = Range | Check | UniqueRule | CardinalityRule


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """The rows of one type, as the new schema names them."""

    item: NodeType | EdgeType
    row_count: int
    scan: Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
    """All rows, with these columns; asked once for each pass."""


def find_rule(
    catalog: Catalog,
    item: NodeType | EdgeType,
    word: str,
    property_name: str | None,
    arguments: Sequence[object],
) -> StoredRule | None:
    """The rule of a type that a declared constraint stands for."""
    given = tuple(arguments)
    rules: list[StoredRule] = []
    match word, item:
        case "card", EdgeType():
            rules = [CardinalityRule(item=item, node=catalog.node_types[item.from_type])]
        case "unique", _:
            rules = [rule for rule in unique_rules(item) if tuple(sorted(rule.names)) == given]
        case "range", NodeType():
            bounds = [rule for rule in item.ranges if rule.property == property_name]
            rules = [rule for rule in bounds if (rule.low, rule.high) == given]
        case "check", NodeType():
            patterns = [rule for rule in item.checks if rule.property == property_name]
            rules = [rule for rule in patterns if (rule.pattern,) == given]
    return rules[0] if rules else None


def check_stored(
    catalog: Catalog,
    stored: StoredTable,
    rule: StoredRule,
    committed: CommittedRows,
    *,
    limit: int,
) -> Findings:
    """What of the stored rows breaks a rule: exact counts, and the first `limit` violations."""
    if isinstance(rule, Range | Check):
        return gather(_row_by_row(stored, rule, limit), limit=limit)
    return gather(_across_rows(catalog, stored, rule, committed, limit), limit=limit)


def _row_by_row(stored: StoredTable, rule: Range | Check, limit: int) -> Iterator[Findings]:
    """Batch by batch, against a type that declares nothing but this rule."""
    if not isinstance(stored.item, NodeType):
        return
    item = replace(
        stored.item,
        properties={rule.property: stored.item.properties[rule.property]},
        ranges=(rule,) if isinstance(rule, Range) else (),
        checks=(rule,) if isinstance(rule, Check) else (),
    )
    for batch in stored.scan(["id", rule.property]):
        yield check_rows(FittedRows(item=item, table=pa.Table.from_batches([batch])), limit=limit)


def _across_rows(
    catalog: Catalog,
    stored: StoredTable,
    rule: UniqueRule | CardinalityRule,
    committed: CommittedRows,
    limit: int,
) -> Iterator[Findings]:
    """Pass by pass: all rows of a pass stand for the whole table, so no committed row is asked."""
    names = rule.names if isinstance(rule, UniqueRule) else ("src",)
    passes = max(1, -(-stored.row_count // ROWS_PER_PASS))
    for number in range(passes):
        batches = [
            batch if passes == 1 else _falling_to(batch, names[0], number, passes)
            for batch in stored.scan(list(dict.fromkeys(["id", *names])))
        ]
        if not any(batch.num_rows for batch in batches):
            continue
        rows = FittedRows(item=stored.item, table=pa.Table.from_batches(batches))
        delta = TableDelta(rows=rows, replaces_all=True)
        yield rule_findings(prepare_write(catalog, [delta], committed), rule, limit=limit)


def _falling_to(batch: pa.RecordBatch, name: str, number: int, passes: int) -> pa.RecordBatch:
    """The rows of a batch whose value of a column belongs to a pass; equal values to the same."""
    values, codes = encode(batch.column(name))
    texts = (str(value).encode() for value in values)
    # One more at the end, where the code of null leads: what is not given is compared with nothing.
    falls = np.array([*(zlib.crc32(text) % passes == number for text in texts), False], np.bool_)
    return batch.filter(pa.array(falls[codes]))
