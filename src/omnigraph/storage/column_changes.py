"""Staged writes that add and drop columns of a table, and fill new ones.

Dropping, and adding without values, is metadata only: old rows read null, and dropped data stays in
the files until they are rewritten. Filling writes one file per fragment with the new columns alone;
no row moves, and no row counts as changed for whoever compares versions of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.storage import lance_writes
from omnigraph.storage.files import line_folder
from omnigraph.storage.layout import column_of, physical_field
from omnigraph.storage.transactions import live_rows, nothing, staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from omnigraph.storage.handles import StagedWrite, TableHandle, WriteStamp
    from omnigraph.storage.transactions import Writing


def stage_columns(
    writing: Writing, handle: TableHandle, stamp: WriteStamp, *, dropped: Sequence[str] = ()
) -> StagedWrite:
    """Adds the columns that the handle's layout has and its table has not, and drops others.

    The handle is opened with the layout that is in force afterwards. `dropped` are physical names
    of columns whose properties no layout has any more; those that are not there are left out.
    """

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_columns(writing, newer, stamp, dropped=dropped)

    layout = handle.layout
    known = set(handle.dataset.schema.names)
    fields = [
        physical_field(layout, name)
        for name in layout.schema.names
        if column_of(layout, name) not in known
    ]
    present = [name for name in dropped if name in known]
    if not fields and not present:
        return nothing(writing, handle, rebase)
    with writing.calls.making("change_columns", layout.table_key):
        scratch = f"scratch-{stamp.operation_id.lower()}"
        operation = lance_writes.change_columns(handle.dataset, fields, present, scratch)
    return staged(writing, handle, operation, stamp, rebase=rebase)


def stage_filled_columns(
    writing: Writing,
    handle: TableHandle,
    values: Mapping[str, pa.Scalar[pa.DataType]],
    stamp: WriteStamp,
) -> StagedWrite:
    """Adds columns of the handle's layout in which every row has one value, by property."""

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_filled_columns(writing, newer, values, stamp)

    layout = handle.layout
    known = set(handle.dataset.schema.names)
    filled = {
        physical_field(layout, name): value
        for name, value in values.items()
        if column_of(layout, name) not in known
    }
    rows = live_rows(writing, handle)
    if not filled or not rows:
        return nothing(writing, handle, rebase)
    with writing.calls.making("fill_columns", layout.table_key):
        operation, files = lance_writes.fill_columns(handle.dataset, filled)
    written = staged(
        writing, handle, operation, stamp, changed=rows, rebase=rebase, restaged_rows=rows
    )
    folder = line_folder(handle.pin.location, handle.pin.branch)
    return replace(written, files=tuple(f"{folder}/data/{name}" for name in files))
