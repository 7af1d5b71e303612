"""Rows that refer to blobs outside the graph which are not there, as bad rows of their load.

Only of a load whose bad rows are wanted; any other fails at the first such address. Rows that are
bad by themselves are not asked for: nothing of them will be written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import column
from omnigraph.graph.blobs.addresses import shown_address
from omnigraph.graph.validation import Code, Subject, Violation, check_rows, gather
from omnigraph.graph.validation.findings import Rows, masked_findings
from omnigraph.graph.validation.violation import kind_of, place_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.validation import Findings, FittedRows

_ALL: Final = 1 << 62


def with_unseen_blobs(rows: FittedRows, blobs: BlobBudget, *, limit: int) -> FittedRows:
    """The rows; what is wrong with them says also which of their addresses name nothing.

    Raises:
        ExternalBlobSource: a store does not answer.
    """
    addressed = [
        name
        for name in rows.item.blob_properties
        if pa.types.is_struct(rows.table.schema.field(name).type)
    ]
    if not addressed:
        return rows
    bad = {violation.subject.row for violation in check_rows(rows, limit=_ALL).violations}
    asked = {name: _addresses(rows, name, bad) for name in addressed}
    unseen = blobs.unseen(uri for uris in asked.values() for uri in uris if uri is not None)
    findings = [_findings(rows, name, uris, unseen, limit) for name, uris in asked.items()]
    return replace(rows, findings=gather((rows.findings, *findings), limit=limit))


def _addresses(rows: FittedRows, name: str, bad: Container[int | None]) -> list[str | None]:
    """The addresses in a column, but for those of bad rows."""
    addresses = pc.struct_field(column(rows.table, name), "uri").to_pylist()
    return [None if at in bad else uri for at, uri in enumerate(addresses)]


def _findings(
    rows: FittedRows,
    name: str,
    uris: Sequence[str | None],
    unseen: Mapping[str, str],
    limit: int,
) -> Findings:
    def broken(at: int, subject: Subject) -> Violation:
        uri = uris[at] or ""
        return Violation(
            code=Code.TYPE_ERROR,
            message=f"{rows.item.name}.{name}: {shown_address(uri)} could not be looked at:"
            f" {unseen[uri]}",
            kind=kind_of(rows.item),
            type=rows.item.name,
            properties=(name,),
            subject=subject,
            value=shown_address(uri),
            place=place_of(rows.item, name),
        )

    who = Rows(ids=column(rows.table, "id"), lines=rows.lines)
    failed = np.array([uri in unseen for uri in uris], np.bool_)
    return masked_findings(Code.TYPE_ERROR, failed, who, broken, limit=limit)
