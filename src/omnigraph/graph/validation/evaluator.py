"""The one validator of writes: mutations, loads in process and on Spark, and branch merges.

Pure: a function of the deltas and of the answers that the committed rows give. All checks run, so
that one call shows every kind of fault.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from omnigraph.graph.validation.cardinality import cardinality_findings
from omnigraph.graph.validation.delta import prepare_write
from omnigraph.graph.validation.endpoints import endpoint_findings
from omnigraph.graph.validation.findings import REPORTED_VIOLATIONS, gather
from omnigraph.graph.validation.row_rules import check_rows
from omnigraph.graph.validation.uniqueness import strict_insert_findings, unique_findings
from omnigraph.lang.catalog import EdgeType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.validation.committed import CommittedRows
    from omnigraph.graph.validation.delta import TableDelta, Write
    from omnigraph.graph.validation.findings import Findings
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
    for delta in write.deltas:
        yield strict_insert_findings(write, delta, limit=limit)
        yield from unique_findings(write, delta, limit=limit)
    yield from endpoint_findings(write, limit=limit)
    for delta in write.deltas:
        if isinstance(delta.item, EdgeType):
            yield cardinality_findings(write, delta.item, delta, limit=limit)
