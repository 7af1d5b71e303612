"""Arrow or JSON input to rows of a type: columns by name, exact schema, defaults, ids; and check 1.

Whatever speaks Arrow is taken. The result always has the schema of the type and one row per input
row; a cell that does not fit is null and reported. Columns that the type does not have are an
error of the caller and not of a row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.graph.arrays import (
    column,
    is_given,
    mask_of,
    nulled,
    nulls,
    one_array,
)
from omnigraph.graph.validation.cells import (
    cell_findings,
    empty_id,
    explain_arrow,
    explain_json,
)
from omnigraph.graph.validation.columns import FittedColumn, fit_column
from omnigraph.graph.validation.completion import complete, unknown_key
from omnigraph.graph.validation.findings import (
    REPORTED_VIOLATIONS,
    Findings,
    Rows,
    gather,
    masked_findings,
)
from omnigraph.graph.validation.identity import (
    Identity,
    derive_ids,
    id_mismatch,
    known_by_id,
    mint_ids,
)
from omnigraph.graph.validation.json_columns import fit_json_column
from omnigraph.graph.validation.violation import Code
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import STRING, PropType, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.arrays import Column, Columns, Mask
    from omnigraph.graph.validation.cells import Explain
    from omnigraph.graph.validation.completion import StoredRows
    from omnigraph.graph.validation.json_columns import JsonColumn, JsonRows
    from omnigraph.ids import IdSource


class ArrowStream(Protocol):
    """Anything with an Arrow C stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream, as a capsule."""
        ...


FitBlobs: TypeAlias = "Callable[[NodeType | EdgeType, str, Sequence[object]], JsonColumn]"
"""How a column of blob values is read: what a blob may be is the graph's decision."""

ArrowRows: TypeAlias = "pa.Table | pa.RecordBatch | Sequence[pa.RecordBatch] | ArrowStream"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows in the exact schema of their type, and what was wrong with the input."""

    item: NodeType | EdgeType
    table: pa.Table
    """A cell that did not fit, and the id of a row whose key is broken, are null."""
    lines: Column | None = None
    """Line of the input per row."""
    findings: Findings = field(default_factory=Findings)
    """Ids that contradict their keys, and check 1."""
    respelled: Mapping[str, str] = field(default_factory=dict)
    """Given ids of keyed nodes that were rewritten to the canonical ones."""


def fit_rows(
    item: NodeType | EdgeType,
    given: ArrowRows,
    *,
    ids: IdSource | None = None,
    lines: Column | Columns | None = None,
    unmentioned: Mapping[str, Column] | None = None,
    filled_later: Mapping[str, str] | None = None,
    stored: StoredRows | None = None,
    limit: int = REPORTED_VIOLATIONS,
) -> FittedRows:
    """The input as rows of `item`.

    A property with a `@default` takes it in rows that do not mention the property: all of them
    when the column is absent, else those that `unmentioned` marks as true. Ids of keyed nodes are
    derived, others are minted from `ids` where none is given. A required column of `filled_later`
    may miss a value where the column that it is filled from has one. With `stored`, what a row does
    not mention is taken from the committed row of its id.

    Raises:
        InvalidArgument: a column that the type does not have, or one given twice.
    """
    table = arrow_table(item.name, given)
    check_columns(item, table)
    columns = [_fit(item, table, name, unmentioned or {}) for name in item.arrow_schema.names]
    return _fitted_rows(
        item,
        _excused(columns, filled_later or {}),
        ids=ids,
        lines=lines,
        completing=_Completing(stored, filled_later or {}),
        limit=limit,
    )


def fit_json_rows(
    item: NodeType | EdgeType,
    rows: JsonRows,
    *,
    ids: IdSource | None = None,
    lines: Column | None = None,
    fit_blobs: FitBlobs | None = None,
    filled_later: Mapping[str, str] | None = None,
    stored: StoredRows | None = None,
    limit: int = REPORTED_VIOLATIONS,
) -> FittedRows:
    """Rows of JSON values; every column of theirs is one of the type.

    A property that a row does not mention takes its default, or is null. The rest is as for
    `fit_rows`.
    """
    columns = [_fit_json(item, rows, name, fit_blobs) for name in item.arrow_schema.names]
    return _fitted_rows(
        item,
        _excused(columns, filled_later or {}, rows),
        ids=ids,
        lines=lines,
        completing=_Completing(stored, filled_later or {}),
        limit=limit,
    )


@dataclass(frozen=True, slots=True)
class _Completing:
    """How rows that give some of their values are made whole, if they are."""

    stored: StoredRows | None
    kept_texts: Mapping[str, str]

    @property
    def must_exist(self) -> bool:
        return self.stored is not None and self.stored.must_exist


def _excused(
    columns: Sequence[_InputColumn],
    filled_later: Mapping[str, str],
    rows: JsonRows | None = None,
) -> Sequence[_InputColumn]:
    """Columns that are filled later, with the rows that may leave a required value out.

    JSON tells a value that is left out from an explicit null; Arrow does not.
    """
    if not filled_later:
        return columns
    given = {one.name: is_given(one.fitted.values) for one in columns}
    marked_columns: list[_InputColumn] = []
    for one in columns:
        if one.name not in filled_later:
            marked_columns.append(one)
            continue
        excused = given[filled_later[one.name]]
        if rows is not None:
            excused = excused & rows.column(one.name).absent()
        marked_columns.append(replace(one, excused=excused))
    return marked_columns


def _fitted_rows(
    item: NodeType | EdgeType,
    columns: Sequence[_InputColumn],
    *,
    ids: IdSource | None,
    lines: Column | Columns | None,
    completing: _Completing,
    limit: int,
) -> FittedRows:
    given_ids = columns[0].fitted
    # A row that must exist cannot have a new id.
    identity = _identify(item, columns, None if completing.must_exist else ids)
    by_id = np.zeros(len(given_ids.values), np.bool_)
    if completing.stored is not None:
        identity, by_id = _known_by_id(item, columns, identity)
    # A row whose key is broken is known by the id that it was given, if any.
    known_as = pc.coalesce(identity.ids, given_ids.values)
    rows = Rows(ids=known_as, lines=None if lines is None else one_array(lines))
    kept_ids, blank = _without_blank_ids(item, identity.ids, rows, limit=limit)
    columns, unknown = _completed(item, columns, kept_ids, completing, rows, limit=limit)
    if by_id.any():
        # The members of their keys are there now.
        identity = _identify(item, columns, None)
        kept_ids = identity.ids
    findings = [
        unknown,
        _mismatches(item, given_ids.values, identity, rows, limit=limit),
        blank,
        *(_cells(item, one, identity, rows, limit=limit) for one in columns),
    ]
    return FittedRows(
        item=item,
        table=_table(item, [kept_ids, *(one.fitted.values for one in columns[1:])]),
        lines=rows.lines,
        findings=gather(findings, limit=limit),
        respelled=identity.respelled,
    )


def _completed(
    item: NodeType | EdgeType,
    columns: Sequence[_InputColumn],
    ids: Column,
    completing: _Completing,
    rows: Rows,
    *,
    limit: int,
) -> tuple[Sequence[_InputColumn], Findings]:
    """The columns with the committed values of what rows do not mention, and unknown rows."""
    if completing.stored is None:
        return columns, Findings()
    completion = complete(completing.stored, item, ids, completing.kept_texts)
    whole: dict[str, _InputColumn] = {columns[0].name: columns[0]}
    # Texts first: whether a vector is kept depends on its text.
    for one in sorted(columns[1:], key=lambda each: each.name in completing.kept_texts):
        given = {name: each.fitted.values for name, each in whole.items()}
        fitted = completion.filled(one.name, one.fitted, one.absent(), given)
        excused = completion.unknown if one.excused is None else one.excused | completion.unknown
        whole[one.name] = replace(one, fitted=fitted, excused=excused)
    findings = masked_findings(
        Code.UNKNOWN_KEY,
        completion.unknown,
        rows,
        lambda _, subject: unknown_key(item, subject),
        limit=limit,
    )
    return [whole[each.name] for each in columns], findings


def follow_respelled(
    edges: FittedRows, sources: Mapping[str, str], targets: Mapping[str, str]
) -> FittedRows:
    """The edges with endpoints in the canonical spelling; the maps are `respelled` of the nodes."""
    table = edges.table
    for name, spellings in (("src", sources), ("dst", targets)):
        if spellings:
            old, new = pa.array(list(spellings), pa.utf8()), pa.array(list(spellings.values()))
            given = column(table, name)
            at = pc.index_in(given, value_set=old)
            followed = pc.coalesce(new.take(at), given)
            position = table.schema.get_field_index(name)
            table = table.set_column(position, table.schema.field(position), followed)
    return FittedRows(
        item=edges.item,
        table=table,
        lines=edges.lines,
        findings=edges.findings,
        respelled=edges.respelled,
    )


def arrow_table(type_name: str, given: ArrowRows) -> pa.Table:
    """The rows of a type as one table.

    Raises:
        InvalidArgument: they are no Arrow data.
    """
    try:
        if isinstance(given, pa.Table):
            return given
        if isinstance(given, pa.RecordBatch):
            return pa.Table.from_batches([given])
        if isinstance(given, Sequence):
            return pa.Table.from_batches(given)
        return _without_frame_index(pa.RecordBatchReader.from_stream(given).read_all())
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidArgument(
            f"rows of {type_name} come as Arrow: a table, record batches, a data frame, or anything"
            f" with an Arrow stream; wrap a dict of columns in pyarrow.table() ({error})",
            type=type_name,
        ) from error


_FRAME_INDEX = re.compile(r"__index_level_\d+__")


def _without_frame_index(table: pa.Table) -> pa.Table:
    """A data frame that was filtered or sorted brings its row labels along; they are no data."""
    labels = [name for name in table.column_names if _FRAME_INDEX.fullmatch(name)]
    return table.drop_columns(labels) if labels else table


def check_columns(item: NodeType | EdgeType, table: pa.Table) -> None:
    """Refuse what is no column of a type, and what is one twice.

    Raises:
        InvalidArgument: there is such a column.
    """
    known = item.arrow_schema.names
    for name in table.column_names:
        if name not in known:
            hint = did_you_mean(name, known, otherwise="it has")
            raise InvalidArgument(
                f"{item.name} has no property `{name}`{hint}", type=item.name, property=name
            )
    repeated = {name for name in table.column_names if table.column_names.count(name) > 1}
    if repeated:
        name = min(repeated)
        raise InvalidArgument(
            f"column `{name}` of {item.name} is given twice; give it once",
            type=item.name,
            property=name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _InputColumn:
    name: str
    kind: PropType
    explain: Explain
    fitted: FittedColumn
    absent: Callable[[], Mask]
    """Rows that do not mention it; few ask, and JSON has to be looked through for it."""
    excused: Mask | None = None
    """Rows that may miss a required value."""


def _fit(
    item: NodeType | EdgeType, table: pa.Table, name: str, unmentioned: Mapping[str, Column]
) -> _InputColumn:
    prop = item.properties.get(name)
    kind = STRING if prop is None else prop.type
    is_absent = name not in table.column_names
    given = nulls(table.num_rows, arrow_type(kind)) if is_absent else column(table, name)
    fitted = fit_column(given, kind)
    absent = np.full(table.num_rows, is_absent)
    if name in unmentioned:
        absent = mask_of(one_array(unmentioned[name]))
    if prop is not None and prop.default is not None:
        fitted = _filled(fitted, absent, pa.scalar(prop.default.value, arrow_type(kind)))
    explain = explain_arrow(given, kind)
    return _InputColumn(name=name, kind=kind, explain=explain, fitted=fitted, absent=lambda: absent)


def _fit_json(
    item: NodeType | EdgeType,
    rows: JsonRows,
    name: str,
    fit_blobs: FitBlobs | None,
) -> _InputColumn:
    prop = item.properties.get(name)
    kind = STRING if prop is None else prop.type
    written = rows.column(name)
    given = written.or_null()
    if kind.scalar is Scalar.BLOB and fit_blobs is not None:
        json_column = fit_blobs(item, name, given.values)
    else:
        json_column = fit_json_column(given, kind)
    fitted = json_column.fitted
    if prop is not None and prop.default is not None:
        default = pa.scalar(prop.default.value, arrow_type(kind))
        fitted = _filled(fitted, written.absent(), default)
    return _InputColumn(
        name=name,
        kind=kind,
        explain=explain_json(given.values, json_column.reasons),
        fitted=fitted,
        absent=written.absent,
    )


def _filled(fitted: FittedColumn, fills: Mask, default: pa.Scalar[pa.DataType]) -> FittedColumn:
    if not fills.any():
        return fitted
    # cast: the stubs give the union of arrays and scalars.
    values = cast("Column", pc.if_else(pa.array(fills), default, fitted.values))
    return FittedColumn(values=values, unfit=fitted.unfit & ~fills)


def _identify(
    item: NodeType | EdgeType, columns: Sequence[_InputColumn], ids: IdSource | None
) -> Identity:
    given = columns[0].fitted
    key = _key(item)
    if key is not None:
        by_name = {one.name: one for one in columns}
        members = [by_name[name] for name in key]
        return derive_ids(
            [one.fitted.values for one in members], [one.kind for one in members], given.values
        )
    return Identity(
        ids=mint_ids(given.values, is_given(given.values) | given.unfit, ids),
        mismatched=np.zeros(len(given.values), np.bool_),
        respelled={},
    )


def _known_by_id(
    item: NodeType | EdgeType, columns: Sequence[_InputColumn], identity: Identity
) -> tuple[Identity, Mask]:
    """The ids with those of rows that give an id and leave out some of their key."""
    key, given = _key(item), columns[0].fitted.values
    partly = np.zeros(len(given), np.bool_)
    if key is None or given.null_count == len(given):
        return identity, partly
    members = [one for one in columns if one.name in key]
    for one in members:
        partly |= one.absent()
    by_name = {one.name: one.kind for one in members}
    return known_by_id(identity, [by_name[name] for name in key], given, partly)


def _key(item: NodeType | EdgeType) -> tuple[str, ...] | None:
    return item.key if isinstance(item, NodeType) else None


def _mismatches(
    item: NodeType | EdgeType, given: Column, identity: Identity, rows: Rows, *, limit: int
) -> Findings:
    at = np.flatnonzero(identity.mismatched)
    if not len(at):
        return Findings()
    # Reported by line, not by id, so the first rows are the first findings.
    made = tuple(
        id_mismatch(
            item,
            rows.subject(int(each)),
            given=given[int(each)].as_py(),
            canonical=identity.ids[int(each)].as_py(),
        )
        for each in at[:limit]
    )
    return Findings(violations=made, counts={Code.ID_MISMATCH: len(at)})


def _cells(
    item: NodeType | EdgeType, one: _InputColumn, identity: Identity, rows: Rows, *, limit: int
) -> Findings:
    unfit = one.fitted.unfit
    if one.name != "id":
        held = one.fitted.values
    elif _key(item) is None:
        held = identity.ids
    else:
        # The members of the key answer for the id.
        return cell_findings(
            item, one.name, one.kind, (one.explain, unfit, np.zeros_like(unfit)), rows, limit=limit
        )
    missing = np.zeros_like(unfit) if one.kind.nullable else ~is_given(held) & ~unfit
    if one.excused is not None:
        missing &= ~one.excused
    return cell_findings(item, one.name, one.kind, (one.explain, unfit, missing), rows, limit=limit)


def _without_blank_ids(
    item: NodeType | EdgeType, ids: Column, rows: Rows, *, limit: int
) -> tuple[Column, Findings]:
    """Empty ids are null from here on, but for a keyed node, whose key may be the empty text."""
    if _key(item) is not None:
        return ids, Findings()
    blank = mask_of(pc.equal(ids, pa.scalar("")))
    findings = masked_findings(
        Code.TYPE_ERROR, blank, rows, lambda _, subject: empty_id(item, subject), limit=limit
    )
    return nulled(ids, blank), findings


def _table(item: NodeType | EdgeType, values: Sequence[Column]) -> pa.Table:
    schema = item.arrow_schema
    # A blob may come in the form of the storage layer instead of plain binary.
    fields = [
        part if part.type == values[at].type else part.with_type(values[at].type)
        for at, part in enumerate(schema)
    ]
    return pa.Table.from_arrays(list(values), schema=pa.schema(fields))
