"""Entities of a table as people and programs see them: properties as JSON, and ends."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, cast

import numpy as np

from omnigraph.graph.blobs.blob_values import INLINE
from omnigraph.graph.changes.entity_change import Image
from omnigraph.graph.results.values import json_values
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.types import STRING
from omnigraph.storage.blobs import Blob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.graph.arrays import Mask
    from omnigraph.graph.changes.row_pairs import Form
    from omnigraph.lang import EdgeType
    from omnigraph.storage.blob_rows import BlobValue


def images_of(
    form: Form,
    item: NodeType | EdgeType | None,
    names: Sequence[tuple[str, str]],
    where: Mask | None = None,
) -> dict[int, Image]:
    """The images of entities by their position; those that do not exist have none.

    Args:
        form: the entities.
        item: their type at that moment.
        names: the columns: as the type names them, and as the image does.
        where: which entities are wanted; all by default.
    """
    chosen = form.side.exists if where is None else where & form.side.exists
    if item is None or not chosen.any():
        return {}
    columns = {shown: _cells(form, item, name, chosen) for name, shown in names}
    endpoints: list[tuple[str, str] | None] = [None] * int(chosen.sum())
    if not isinstance(item, NodeType):
        ends = zip(columns.pop("src"), columns.pop("dst"), strict=True)
        endpoints = cast("list[tuple[str, str] | None]", list(ends))  # cast: ends are texts
    cells = zip(*columns.values(), strict=True) if columns else [()] * len(endpoints)
    properties = [dict(zip(columns, row, strict=True)) for row in cells]
    return {
        at: Image(properties=row, endpoints=ends)
        for at, row, ends in zip(
            np.flatnonzero(chosen).tolist(), properties, endpoints, strict=True
        )
    }


def _cells(form: Form, item: NodeType | EdgeType, name: str, where: Mask) -> list[JsonValue]:
    if name in item.blob_properties:
        return [_blob_text(value) for value in form.blobs(name, where)]
    declared = item.properties.get(name)
    values = form.rows[name].take(form.at[where])
    return json_values(values, STRING if declared is None else declared.type)


def _blob_text(value: BlobValue) -> str | None:
    if not isinstance(value, Blob):
        return value
    return INLINE + base64.b64encode(value.read(0, value.length)).decode()
