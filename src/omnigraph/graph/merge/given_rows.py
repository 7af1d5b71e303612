"""The rows that resolutions give, in the form of their table.

A row is the whole entity in the load format, blobs included. A blob that it leaves out stays as
every side has it that has the entity; if these differ nothing is chosen for the caller, so that no
bytes are lost without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.graph.arrays import one_array
from omnigraph.graph.blobs.blob_values import in_stored_form
from omnigraph.graph.changes.row_pairs import equal_forms
from omnigraph.graph.load.rows import json_blobs
from omnigraph.graph.merge.table_merge import row_schema
from omnigraph.graph.validation import JsonRows, fit_json_rows
from omnigraph.lang.catalog import EdgeType

if TYPE_CHECKING:
    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.merge.contests import Contest
    from omnigraph.graph.merge.resolutions import Resolution
    from omnigraph.graph.merge.table_merge import TableMerge
    from omnigraph.lang import NodeType

    Blobs: TypeAlias = pa.Array[Any]  # Any: bytes and addresses

_ENDS: Final = {"from": "src", "to": "dst"}


def given_row(
    merge: TableMerge, contest: Contest, choice: Resolution, budget: BlobBudget
) -> pa.Table:
    """The row of a resolution, ready to be written.

    Args:
        merge: what the merge does to the table.
        contest: the one entity, as the three states have it.
        choice: the resolution that gives the row.
        budget: what the write may hold of blobs.

    Raises:
        InvalidArgument: it does not fit the type, or leaves out a blob that the sides have
            otherwise.
        ExternalBlobDenied: it has an address that the graph does not allow.
        ResourceLimit: the blobs of all rows are too many.
    """
    item = merge.item
    members = _members(item, choice)
    kept = {
        name: _kept_blob(merge, contest, choice, name)
        for name in item.blob_properties
        if name not in members
    }
    fitted = fit_json_rows(
        item,
        JsonRows.of([members]),
        fit_blobs=json_blobs(budget),
        # Required blobs may be left out, too: every row has an id.
        filled_later=dict.fromkeys(kept, "id"),
    )
    if fitted.findings.first is not None:
        raise _bad_row(item, choice, fitted.findings.first.message)
    rows = fitted.table
    if rows["id"][0].as_py() != choice.id:
        raise _bad_row(item, choice, "its key makes another id")
    columns = [
        kept[field.name]
        if field.name in kept
        else in_stored_form(one_array(rows[field.name]))
        if field.name in item.blob_properties
        else rows[field.name]
        for field in row_schema(item)
    ]
    return pa.table(columns, schema=row_schema(item))


def _members(item: NodeType | EdgeType, choice: Resolution) -> dict[str, Any]:  # Any: of JSON
    """The members of the row by column.

    Raises:
        InvalidArgument: one is unknown or missing, or the row is of another entity.
    """
    given = dict(choice.row or {})
    if given.pop("id", choice.id) != choice.id:
        raise _bad_row(item, choice, "it gives another id; leave the id out")
    ends: dict[str, Any] = {}
    if isinstance(item, EdgeType):
        missing = [name for name in _ENDS if name not in given]
        if missing:
            raise _bad_row(item, choice, f"it has no `{missing[0]}`; an edge has both ends")
        ends = {column: given.pop(name) for name, column in _ENDS.items()}
    unknown = sorted(set(given) - set(item.properties))
    if unknown:
        raise _bad_row(item, choice, f"{item.name} has no property {unknown[0]!r}")
    return {"id": choice.id, **ends, **given}


def _kept_blob(merge: TableMerge, contest: Contest, choice: Resolution, name: str) -> Blobs:
    """A blob that a row leaves out.

    Raises:
        InvalidArgument: the sides have not the same.
    """
    ours, theirs = contest.ours, contest.theirs
    is_on_both = ours.side.exists.all() and theirs.side.exists.all()
    if is_on_both and not equal_forms(ours, theirs, [(name, name)]).all():
        raise _bad_row(
            merge.item,
            choice,
            f"it leaves out the blob {name!r}, of which the two sides have different values; give"
            " `base64:…`, an address or null, or take the form of one side",
        )
    form = ours if ours.side.exists.all() else theirs
    return merge.stored_blobs(form.blobs(name, form.side.exists) or [None])


def _bad_row(item: NodeType | EdgeType, choice: Resolution, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"the resolution of {item.name} {choice.id!r} has a row that does not fit: {why}",
        argument="resolutions",
    )
