"""Columns of a tabular source that become rows of one type, checked before anything is read.

No value is cast in silence: a column must have the type of its property, or one that widens to it
without loss. Where it has not, the error names the cast to write.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.graph.arrays import one_array
from omnigraph.graph.blobs.blob_values import refer_stored
from omnigraph.graph.load.rows import filled_vectors
from omnigraph.graph.type_names import find_type
from omnigraph.graph.validation import ALL_ROWS, fit_rows
from omnigraph.graph.validation.columns import fit_column
from omnigraph.graph.validation.spelling import render_ids
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import STRING
from omnigraph.pipeline.spec.column_types import cast_to, widens
from omnigraph.pipeline.spec.pipeline_spec import WHERE, Column, KeyParts
from omnigraph.pipeline.spec.secrets import hide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.validation import FittedRows
    from omnigraph.graph.validation.completion import StoredRows
    from omnigraph.ids import IdSource
    from omnigraph.lang.catalog import Catalog
    from omnigraph.lang.types import PropType
    from omnigraph.pipeline.spec.pipeline_spec import Places, Value

_ENDS: Final = ("src", "dst")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """What the rows of a source are to become, as it was asked for."""

    type: str
    """`node:Person` or `edge:Knows`."""
    columns: Mapping[str, Value] | None = None
    """Values by property; `None` takes every column for the property of its name."""
    takes_same_names: bool = False
    """Properties that are not mapped take the column of their name, if there is one."""
    id: Value | None = None
    ends: Mapping[str, Value | KeyParts] = field(default_factory=dict)
    """`src` and `dst` of an edge; without one the column of that name."""
    where: str | None = None
    keeps_values: bool = False
    """What is not mapped stays as it is, so it need not be mapped."""
    places: Places = field(default_factory=dict, compare=False, repr=False)
    """Where its parts stand, if a file says it."""
    filled: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Values of variables in its texts; no error shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMapping:
    """Which values become which columns of a type; travels to the tasks."""

    item: NodeType | EdgeType
    values: Mapping[str, Value]
    """By column of the type, or by name of a part of a key."""
    key_parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each end that is given by its key: the names in `values`, by part."""
    where: str | None = None

    @property
    def is_plain(self) -> bool:
        """No expression is needed to make the rows: columns as they are."""
        return self.where is None and all(isinstance(each, Column) for each in self.values.values())

    @property
    def kinds(self) -> dict[str, PropType]:
        """The type that each of the values must have."""
        kinds = {name: _kind(self.item, name) for name in self.item.arrow_schema.names}
        for end, parts in self.key_parts.items():
            node = self.end_types[end]
            kinds |= {name: node.properties[part].type for part, name in parts.items()}
        return {name: kinds[name] for name in self.values}

    end_types: Mapping[str, NodeType] = field(default_factory=dict)
    """The node types of the ends that are given by their keys."""

    def describe(self, name: str) -> str:
        """One of the values, or the condition, for people."""
        if name == WHERE:
            return f"the condition {self.where!r} of {self.item.name}"
        value = self.values[name]
        given = f"`{value.name}`" if isinstance(value, Column) else f"the expression {value.sql!r}"
        return f"{self.item.name}.{name}, which is {given}"


@contextmanager
def mistakes_told(source: str, target: TargetSpec) -> Iterator[None]:
    """Mistakes of a mapping that a file declares, with its source and their place in the file.

    Raises:
        InvalidArgument, SourceError: as they were raised, with `source` and `place`, and without
            the values of variables.
    """
    try:
        yield
    except (InvalidArgument, SourceError) as error:
        known = error.details
        place = target.places.get(str(known.get("property", ""))) or target.places.get("")
        if place is None or "place" in known:
            raise
        named = "" if "source" in known else f"source {source!r}: "
        more = {"source": source, "place": place}
        if known.get("property") == WHERE:
            more["property"] = "where"
        shown = {
            name: hide(value, target.filled) if isinstance(value, str) else value
            for name, value in known.items()
        }
        message = hide(error.message, target.filled)
        raise type(error)(f"{place}: {named}{message}", **shown | more) from error


def require_target(catalog: Catalog, spec: TargetSpec) -> None:
    """Refuse what no source could give.

    Raises:
        InvalidArgument: there is no such type.
        SourceError: there is no such property, or the key of an end has other parts.
    """
    item = find_type(catalog, spec.type)
    _named(item, spec, ())
    for end, given in spec.ends.items():
        if isinstance(given, KeyParts) and isinstance(item, EdgeType):
            node = catalog.node_types[item.from_type if end == "src" else item.to_type]
            _require_key(item, node, end, given)


def plan_mapping(catalog: Catalog, spec: TargetSpec, names: Sequence[str]) -> RowMapping:
    """The mapping for a source that has columns of these names.

    Raises:
        InvalidArgument: there is no such type.
        SourceError: a property or a column that does not exist, or one that is missing.
    """
    item = find_type(catalog, spec.type)
    values = _named(item, spec, names)
    key_parts: dict[str, dict[str, str]] = {}
    end_types: dict[str, NodeType] = {}
    for end, given in spec.ends.items():
        if isinstance(given, KeyParts) and isinstance(item, EdgeType):
            node = catalog.node_types[item.from_type if end == "src" else item.to_type]
            _require_key(item, node, end, given)
            # No property has a colon in its name.
            key_parts[end] = {part: f"{end}:{part}" for part in node.key or ()}
            values |= {f"{end}:{part}": given.parts[part] for part in node.key or ()}
            end_types[end] = node
        elif not isinstance(given, KeyParts):
            values[end] = given
    if spec.id is not None:
        values["id"] = spec.id
    for name, value in values.items():
        if isinstance(value, Column) and value.name not in names:
            hint = did_you_mean(value.name, names, otherwise="it has")
            raise SourceError(
                f"the source has no column `{value.name}` for {item.name}.{name}{hint}",
                column=value.name,
                property=name,
            )
    mapping = RowMapping(
        item=item, values=values, key_parts=key_parts, end_types=end_types, where=spec.where
    )
    _require_complete(mapping, keeps_values=spec.keeps_values)
    return mapping


def require_types(mapping: RowMapping, types: Mapping[str, pa.DataType]) -> None:
    """Refuse values whose types are neither those of their properties nor widen to them.

    Raises:
        SourceError: with the cast to write.
    """
    for name, kind in mapping.kinds.items():
        given = types[name]
        if not widens(given, kind):
            value = mapping.values[name]
            text = value.name if isinstance(value, Column) else value.sql
            what = f"`{text}`" if isinstance(value, Column) else f"the expression {text!r}"
            raise SourceError(
                f"type_error: {what} is {given}, and {mapping.item.name}.{name} is"
                f' {kind}; write {{expr: "{cast_to(text, given, kind)}"}} if that is meant',
                column=text,
                property=name,
                type=mapping.item.name,
                code="type_error",
            )


def rows_of(
    mapping: RowMapping,
    given: pa.Table,
    *,
    ids: IdSource,
    lines: pa.Array[Any],  # Any: numbers
    blobs: BlobBudget,
    stored: StoredRows | None = None,
) -> FittedRows:
    """Mapped columns as rows of the type; the names are those of `mapping.values`."""
    for end, parts in mapping.key_parts.items():
        node = mapping.end_types[end]
        kinds = [node.properties[part].type for part in parts]
        members = [
            fit_column(one_array(given[name]), kind).values
            for name, kind in zip(parts.values(), kinds, strict=True)
        ]
        given = given.drop_columns(list(parts.values()))
        given = given.append_column(end, render_ids(members, kinds))
    fitted = fit_rows(
        mapping.item,
        given,
        ids=ids,
        lines=lines,
        filled_later=filled_vectors(mapping.item),
        stored=stored,
        limit=ALL_ROWS,
    )
    refer_stored(mapping.item, fitted.table, blobs)
    return fitted


def _named(item: NodeType | EdgeType, spec: TargetSpec, names: Sequence[str]) -> dict[str, Value]:
    known = item.arrow_schema.names
    values: dict[str, Value] = {}
    for name, value in (spec.columns or {}).items():
        if name not in known:
            hint = did_you_mean(name, known, otherwise="it has")
            raise SourceError(
                f"{item.name} has no property `{name}`{hint}", type=item.name, property=name
            )
        values[name] = value
    taken = {value.name for value in values.values() if isinstance(value, Column)}
    taken |= {each.name for each in spec.ends.values() if isinstance(each, Column)}
    if isinstance(spec.id, Column):
        taken.add(spec.id.name)
    if spec.columns is None or spec.takes_same_names:
        given = {*values, *spec.ends, *(("id",) if spec.id is not None else ())}
        values |= {name: Column(name=name) for name in names if name in known and name not in given}
    elif isinstance(item, EdgeType) and not spec.keeps_values:
        values |= {
            end: Column(name=end) for end in _ENDS if end not in values and end not in spec.ends
        }
    if spec.columns is None and not spec.takes_same_names:
        unknown = [name for name in names if name not in known and name not in taken]
        if unknown:
            hint = did_you_mean(unknown[0], known, otherwise="it has")
            raise SourceError(
                f"{item.name} has no property for the column `{unknown[0]}`{hint}; say which"
                " columns to take (`columns=`, `--map column=property`)",
                type=item.name,
                column=unknown[0],
            )
    return values


def _require_key(item: EdgeType, node: NodeType, end: str, given: KeyParts) -> None:
    if node.key is None or set(given.parts) != set(node.key):
        has = f"the key ({', '.join(node.key)})" if node.key else "no key: give its id"
        raise SourceError(
            f"`{end}` of {item.name} is given by the key ({', '.join(given.parts)}) and"
            f" {node.name} has {has}",
            type=item.name,
            property=end,
        )


def _require_complete(mapping: RowMapping, *, keeps_values: bool) -> None:
    """Every property that must have a value has somewhere to take it from."""
    item = mapping.item
    if not mapping.values:
        raise SourceError(
            f"nothing of the source becomes a property of {item.name}; map a column",
            type=item.name,
        )
    if keeps_values:
        return
    later = filled_vectors(item)
    for end in _ENDS if isinstance(item, EdgeType) else ():
        if end not in mapping.values and end not in mapping.key_parts:
            raise SourceError(
                f"{item.name} is an edge and the source has no column `{end}`; say which column"
                f' gives it (`columns={{"{end}": …}}`)',
                type=item.name,
                property=end,
            )
    for name, prop in item.properties.items():
        if name in mapping.values or prop.type.nullable or prop.default is not None:
            continue
        if name not in later:
            raise SourceError(
                f"{item.name}.{name} must have a value and no column is mapped to it",
                type=item.name,
                property=name,
            )


def _kind(item: NodeType | EdgeType, name: str) -> PropType:
    return item.properties[name].type if name in item.properties else STRING
