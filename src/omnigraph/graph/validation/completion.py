"""Rows that give some of their values: the others are those of the committed rows.

A row says which properties it mentions. What it does not mention is taken from the committed row of
its id before any rule looks at it, so that rules see whole rows. A vector that is made from a text
is kept only as long as the text is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import column, is_given, mask_of, nulls, places_in
from omnigraph.graph.validation.columns import FittedColumn
from omnigraph.graph.validation.violation import Code, Subject, Violation, kind_of, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.arrays import Column, Mask, Numbers
    from omnigraph.lang.catalog import EdgeType, NodeType


class StoredRows(Protocol):
    """The committed rows that an input is completed from."""

    @property
    def must_exist(self) -> bool:
        """A row whose id is not committed breaks a rule; else it is a new row."""
        ...

    def find(self, item: NodeType | EdgeType, ids: Column) -> pa.Table:
        """The rows of these ids that are committed, whole, each once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The committed rows beside the given ones."""

    rows: pa.Table
    at: Numbers
    """For each given row its committed one, or -1."""
    unknown: Mask
    """Rows that should be committed and are not."""
    kept_texts: Mapping[str, str] = field(default_factory=dict)
    """By vector the text that it is made from."""

    def filled(
        self, name: str, fitted: FittedColumn, absent: Mask, given: Mapping[str, Column]
    ) -> FittedColumn:
        """A column with the committed values where rows do not mention it."""
        fills = absent & (self.at >= 0)
        if name not in self.rows.schema.names or not fills.any():
            return fitted
        stored = column(self.rows, name).take(pa.array(np.maximum(self.at, 0), pa.int64()))
        text = self.kept_texts.get(name)
        if text is not None:
            was = column(self.rows, text).take(pa.array(np.maximum(self.at, 0), pa.int64()))
            fills &= mask_of(pc.equal(was, given[text])) | (~is_given(was) & ~is_given(given[text]))
        values = _stored_form(fitted.values, stored.type)
        # cast: the stubs give the union of arrays and scalars.
        merged = cast("Column", pc.if_else(pa.array(fills), stored, values))
        return FittedColumn(values=merged, unfit=fitted.unfit & ~fills)


def complete(
    stored: StoredRows, item: NodeType | EdgeType, ids: Column, kept_texts: Mapping[str, str]
) -> Completion:
    """What is committed of rows with these ids, some of which may be null."""
    asked = ids.drop_null().unique()
    rows = stored.find(item, asked)
    at = places_in(ids, column(rows, "id"))
    unknown = (at < 0) & is_given(ids) if stored.must_exist else np.zeros(len(ids), np.bool_)
    return Completion(rows=rows, at=at, unknown=unknown, kept_texts=kept_texts)


def unknown_key(item: NodeType | EdgeType, subject: Subject) -> Violation:
    """A row that should change one that is not there."""
    return Violation(
        code=Code.UNKNOWN_KEY,
        message=f"there is no {item.name} '{shown(subject.entity_id or '')}' to update",
        kind=kind_of(item),
        type=item.name,
        properties=("id",),
        subject=subject,
        value=subject.entity_id,
    )


def _stored_form(values: Column, kind: pa.DataType) -> Column:
    """The values in the type of stored ones; blobs have two forms."""
    if values.type == kind:
        return values
    if not pa.types.is_struct(kind):
        return values.cast(kind)
    if values.null_count == len(values):
        return nulls(len(values), kind)
    data = values.cast(pa.large_binary())
    parts = [data, nulls(len(values), pa.string())]
    # cast: the stubs know no type of a struct array.
    made = pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    return cast("Column", made)
