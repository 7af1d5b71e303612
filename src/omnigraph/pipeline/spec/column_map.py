"""Columns of a tabular source that become rows of one type, checked before anything is read.

No value is cast in silence: a column must have the type of its property, or one that widens to it
without loss. Where it has not, the error names the cast to write.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from omnigraph.pipeline.spec.mistakes import as_one, mistakes_of
from omnigraph.pipeline.spec.pipeline_spec import DEDUPE, WHERE, Column, KeyParts
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
    from omnigraph.pipeline.spec.mistakes import Mistake
    from omnigraph.pipeline.spec.pipeline_spec import Dedupe, Places, Value

_ENDS: Final = ("src", "dst")
_MOST_LISTED: Final = 20


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
    distinct: bool = False
    """Of rows with the same values one is taken."""
    dedupe: Dedupe | None = None
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
    distinct: bool = False
    """Of rows with the same values one is taken."""
    dedupe: Dedupe | None = None

    @property
    def is_plain(self) -> bool:
        """Every row becomes one, and no expression is needed: columns as they are."""
        takes_all = self.where is None and not self.leaves_out_equals
        return takes_all and all(isinstance(each, Column) for each in self.values.values())

    @property
    def leaves_out_equals(self) -> bool:
        """Whether of several rows only one is taken."""
        return self.distinct or self.dedupe is not None

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
    """Mistakes of a mapping that a file declares, with its source and their places in the file.

    Raises:
        InvalidArgument, SourceError: as they were raised, with `source` and `place`, and without
            the values of variables.
    """
    try:
        yield
    except (InvalidArgument, SourceError) as error:
        raise as_one([_placed(each, source, target) for each in mistakes_of(error)]) from error


def _placed(error: Mistake, source: str, target: TargetSpec) -> Mistake:
    known = error.details
    place = target.places.get(str(known.get("property", ""))) or target.places.get("")
    if place is None or "place" in known:
        return error
    named = "" if "source" in known else f"source {source!r}: "
    more = {"source": source, "place": place}
    if known.get("property") in (WHERE, DEDUPE):
        more["property"] = str(known["property"])[1:]
    shown = {
        name: hide(value, target.filled) if isinstance(value, str) else value
        for name, value in known.items()
    }
    message = hide(error.message, target.filled)
    return type(error)(f"{place}: {named}{message}", **shown | more)


def require_target(catalog: Catalog, spec: TargetSpec) -> None:
    """Refuse what no source could give.

    Raises:
        InvalidArgument: there is no such type.
        SourceError: there is no such property, or the key of an end has other parts.
    """
    item = find_type(catalog, spec.type)
    mistakes = _unknown_properties(item, spec)
    for end, node, given in _ends_by_key(catalog, item, spec):
        mistakes += _wrong_key(item, node, end, given)
    if mistakes:
        raise as_one(mistakes)


def plan_mapping(catalog: Catalog, spec: TargetSpec, names: Sequence[str]) -> RowMapping:
    """The mapping for a source that has columns of these names.

    Raises:
        InvalidArgument: there is no such type.
        SourceError: properties or columns that do not exist, or that are missing.
    """
    mapping, mistakes = look_at_mapping(catalog, spec, names)
    if mistakes:
        raise as_one(mistakes)
    return mapping


def look_at_mapping(
    catalog: Catalog, spec: TargetSpec, names: Sequence[str]
) -> tuple[RowMapping, list[Mistake]]:
    """The mapping for a source that has columns of these names, and what is wrong with it.

    What is wrong is not in the mapping, so that the types of the rest can be looked at.

    Raises:
        InvalidArgument: there is no such type.
    """
    item = find_type(catalog, spec.type)
    mistakes = [*_unknown_properties(item, spec), *_unknown_column(item, spec, names)]
    values = _named(item, spec, names)
    key_parts: dict[str, dict[str, str]] = {}
    end_types: dict[str, NodeType] = {}
    for end, node, given in _ends_by_key(catalog, item, spec):
        wrong = _wrong_key(item, node, end, given)
        mistakes += wrong
        if not wrong:
            # No property has a colon in its name.
            key_parts[end] = {part: f"{end}:{part}" for part in node.key or ()}
            values |= {f"{end}:{part}": given.parts[part] for part in node.key or ()}
            end_types[end] = node
    values |= {end: each for end, each in spec.ends.items() if not isinstance(each, KeyParts)}
    if spec.id is not None:
        values["id"] = spec.id
    mapping = RowMapping(
        item=item,
        values=values,
        key_parts=key_parts,
        end_types=end_types,
        where=spec.where,
        distinct=spec.distinct,
        dedupe=spec.dedupe,
    )
    if not mistakes:
        mistakes += _missing_values(mapping, keeps_values=spec.keeps_values)
    absent = _absent_columns(mapping, names)
    unordered = _absent_of_dedupe(mapping, names)
    known = {name: value for name, value in values.items() if name not in absent}
    left = replace(mapping, values=known, dedupe=None if unordered else spec.dedupe)
    return left, [*mistakes, *absent.values(), *unordered]


def type_mistakes(mapping: RowMapping, types: Mapping[str, pa.DataType]) -> list[Mistake]:
    """Values whose types are neither those of their properties nor widen to them."""
    mistakes: list[Mistake] = []
    for name, kind in mapping.kinds.items():
        if name in types and not widens(types[name], kind):
            value, given = mapping.values[name], types[name]
            text = value.name if isinstance(value, Column) else value.sql
            what = f"`{text}`" if isinstance(value, Column) else f"the expression {text!r}"
            mistakes.append(
                SourceError(
                    f"type_error: {what} is {given}, and {mapping.item.name}.{name} is"
                    f' {kind}; write {{expr: "{cast_to(text, given, kind)}"}} if that is meant',
                    column=text,
                    property=name,
                    type=mapping.item.name,
                    code="type_error",
                )
            )
    return mistakes


def require_types(mapping: RowMapping, types: Mapping[str, pa.DataType]) -> None:
    """Refuse values whose types are neither those of their properties nor widen to them.

    Raises:
        SourceError: with the casts to write.
    """
    mistakes = type_mistakes(mapping, types)
    if mistakes:
        raise as_one(mistakes)


def column_types(mapping: RowMapping, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of the values that are columns of a file, as the file says them."""
    return {
        name: schema.field(value.name).type
        for name, value in mapping.values.items()
        if isinstance(value, Column) and schema.names.count(value.name) == 1
    }


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


def _unknown_properties(item: NodeType | EdgeType, spec: TargetSpec) -> list[Mistake]:
    known = item.arrow_schema.names
    return [
        SourceError(
            f"{item.name} has no property `{name}`{did_you_mean(name, known, otherwise='it has')}",
            type=item.name,
            property=name,
        )
        for name in spec.columns or ()
        if name not in known
    ]


def _unknown_column(
    item: NodeType | EdgeType, spec: TargetSpec, names: Sequence[str]
) -> list[Mistake]:
    """The columns without a property of their name, where every column is taken."""
    if spec.columns is not None or spec.takes_same_names:
        return []
    known = item.arrow_schema.names
    taken = {each.name for each in (*spec.ends.values(), spec.id) if isinstance(each, Column)}
    unknown = [name for name in names if name not in known and name not in taken]
    if not unknown:
        return []
    hint = did_you_mean(unknown[0], known, otherwise="it has")
    shown = ", ".join(f"`{name}`" for name in unknown[:_MOST_LISTED])
    more = f" and {len(unknown) - _MOST_LISTED:,} more" if len(unknown) > _MOST_LISTED else ""
    return [
        SourceError(
            f"{item.name} has no property for the column{'s' if len(unknown) > 1 else ''}"
            f" {shown}{more}{hint}; say which columns to take (`columns=`, `--map"
            " column=property`)",
            type=item.name,
            column=unknown[0],
        )
    ]


def _named(item: NodeType | EdgeType, spec: TargetSpec, names: Sequence[str]) -> dict[str, Value]:
    """The values that are given by name, or taken because a column has the name of a property."""
    known = item.arrow_schema.names
    values = {name: value for name, value in (spec.columns or {}).items() if name in known}
    if spec.columns is None or spec.takes_same_names:
        given = {*values, *spec.ends, *(("id",) if spec.id is not None else ())}
        values |= {name: Column(name=name) for name in names if name in known and name not in given}
    elif isinstance(item, EdgeType) and not spec.keeps_values:
        values |= {
            end: Column(name=end) for end in _ENDS if end not in values and end not in spec.ends
        }
    return values


def _ends_by_key(
    catalog: Catalog, item: NodeType | EdgeType, spec: TargetSpec
) -> Iterator[tuple[str, NodeType, KeyParts]]:
    """The ends of an edge that are given by the keys of their nodes."""
    for end, given in spec.ends.items():
        if isinstance(given, KeyParts) and isinstance(item, EdgeType):
            yield end, catalog.node_types[item.from_type if end == "src" else item.to_type], given


def _wrong_key(
    item: NodeType | EdgeType, node: NodeType, end: str, given: KeyParts
) -> list[Mistake]:
    if node.key is not None and set(given.parts) == set(node.key):
        return []
    has = f"the key ({', '.join(node.key)})" if node.key else "no key: give its id"
    return [
        SourceError(
            f"`{end}` of {item.name} is given by the key ({', '.join(given.parts)}) and"
            f" {node.name} has {has}",
            type=item.name,
            property=end,
        )
    ]


def _absent_columns(mapping: RowMapping, names: Sequence[str]) -> dict[str, Mistake]:
    """By value: a column that the source does not have."""
    return {
        name: SourceError(
            f"the source has no column `{value.name}` for {mapping.item.name}.{name}"
            f"{did_you_mean(value.name, names, otherwise='it has')}",
            column=value.name,
            property=name,
        )
        for name, value in mapping.values.items()
        if isinstance(value, Column) and value.name not in names
    }


def _absent_of_dedupe(mapping: RowMapping, names: Sequence[str]) -> list[Mistake]:
    dedupe = mapping.dedupe
    return [
        SourceError(
            f"the source has no column `{name}` for the `dedupe` of {mapping.item.name}"
            f"{did_you_mean(name, names, otherwise='it has')}",
            column=name,
            property=DEDUPE,
        )
        for name in (() if dedupe is None else (*dedupe.by, dedupe.order))
        if name not in names
    ]


def _missing_values(mapping: RowMapping, *, keeps_values: bool) -> list[Mistake]:
    """Properties that must have a value and have nowhere to take it from."""
    item = mapping.item
    if not mapping.values:
        return [
            SourceError(
                f"nothing of the source becomes a property of {item.name}; map a column",
                type=item.name,
            )
        ]
    if keeps_values:
        return []
    mistakes: list[Mistake] = [
        SourceError(
            f"{item.name} is an edge and the source has no column `{end}`; say which column"
            f' gives it (`columns={{"{end}": …}}`)',
            type=item.name,
            property=end,
        )
        for end in (_ENDS if isinstance(item, EdgeType) else ())
        if end not in mapping.values and end not in mapping.key_parts
    ]
    later = filled_vectors(item)
    mistakes += [
        SourceError(
            f"{item.name}.{name} must have a value and no column is mapped to it",
            type=item.name,
            property=name,
        )
        for name, prop in item.properties.items()
        if name not in mapping.values
        and name not in later
        and not prop.type.nullable
        and prop.default is None
    ]
    return mistakes


def _kind(item: NodeType | EdgeType, name: str) -> PropType:
    return item.properties[name].type if name in item.properties else STRING
