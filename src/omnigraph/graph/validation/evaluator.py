"""The one validator of writes: mutations, loads in process and on Spark, and branch merges.

Pure: a function of the deltas and of the answers that the committed rows give. All checks run, so
that one call shows every kind of fault.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, assert_never

from omnigraph.graph.validation.cardinality import cardinality_findings
from omnigraph.graph.validation.delta import prepare_write
from omnigraph.graph.validation.endpoints import end_findings, kept_end_findings
from omnigraph.graph.validation.findings import REPORTED_VIOLATIONS, gather
from omnigraph.graph.validation.relation_rules import (
    CardinalityRule,
    EndRule,
    KeptEndRule,
    NewIdRule,
    UniqueRule,
)
from omnigraph.graph.validation.row_rules import check_rows
from omnigraph.graph.validation.uniqueness import new_id_findings, unique_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.validation.committed import CommittedRows
    from omnigraph.graph.validation.delta import TableDelta, Write
    from omnigraph.graph.validation.findings import Findings
    from omnigraph.graph.validation.relation_rules import RelationRule
    from omnigraph.lang.catalog import Catalog


def validate(
    catalog: Catalog,
    deltas: Iterable[TableDelta],
    committed: CommittedRows,
    *,
    limit: int = REPORTED_VIOLATIONS,
) -> Findings:
    """What the write breaks: exact counts, and the first `limit` violations in order.

    Raises:
        InternalError: two deltas of one table.
    """
    write = prepare_write(catalog, deltas, committed)
    row_findings = (check_rows(delta.rows, limit=limit) for delta in write.deltas)
    related = check_relations(write, limit=limit)
    return gather(chain(row_findings, related), limit=limit)


def check_relations(write: Write, *, limit: int = REPORTED_VIOLATIONS) -> Iterator[Findings]:
    """Checks 5 to 7, which look at other rows."""
    return (rule_findings(write, rule, limit=limit) for rule in write.rules)


def rule_findings(write: Write, rule: RelationRule, *, limit: int) -> Findings:
    """What breaks one rule across rows."""
    match rule:
        case NewIdRule():
            return new_id_findings(write, rule, limit=limit)
        case UniqueRule():
            return unique_findings(write, rule, limit=limit)
        case EndRule():
            return end_findings(write, rule, limit=limit)
        case KeptEndRule():
            return kept_end_findings(write, rule, limit=limit)
        case CardinalityRule():
            return cardinality_findings(write, rule, limit=limit)
        case _:
            assert_never(rule)
