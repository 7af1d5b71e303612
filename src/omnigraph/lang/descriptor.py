"""The operation descriptor (what a query returns, reads, may change) and stored-query entries."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import Catalog
from omnigraph.lang.ir_parts import counts_outside, inner_ops
from omnigraph.lang.types import PropType, Scalar

_KINDS = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.VECTOR: "vector",
}
_WIDEST = {kind: scalar for scalar, kind in _KINDS.items()}
TypeRef = tuple[ir.EntityKind, str]
_KIND_ORDER = {ir.EntityKind.NODE: 0, ir.EntityKind.EDGE: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Result columns, and the types that execution may look at and may change."""

    result: tuple[ir.Column, ...]
    reads: tuple[TypeRef, ...]
    writes: tuple[TypeRef, ...]

    def to_dict(self) -> dict[str, object]:
        """The JSON form of the contract."""
        return {
            "result": [{"name": column.name} | wire_type(column.type) for column in self.result],
            "reads": [{"kind": kind.value, "type_name": name} for kind, name in self.reads],
            "writes": [{"kind": kind.value, "type_name": name} for kind, name in self.writes],
        }


def wire_type(kind: PropType) -> dict[str, object]:
    """`kind`, `nullable` and what else the wire form of a type needs."""
    out: dict[str, object] = {"kind": "list" if kind.is_list else _KINDS[kind.scalar]}
    if kind.is_list:
        out["item_kind"] = _KINDS[kind.scalar]
    if kind.vector_dim is not None:
        out["vector_dim"] = kind.vector_dim
    return out | {"nullable": kind.nullable}


def prop_type_of(wire: Mapping[str, Any]) -> PropType:  # Any: JSON of the contract
    """A type that has this wire form: of several, the widest."""
    is_list = wire["kind"] == "list"
    return PropType(
        scalar=_WIDEST[wire["item_kind"] if is_list else wire["kind"]],
        is_list=is_list,
        vector_dim=wire.get("vector_dim"),
        nullable=wire["nullable"],
    )


def describe_operation(catalog: Catalog, query: ir.QueryIR | ir.MutationIR) -> Operation:
    """The descriptor of a lowered query."""
    match query:
        case ir.QueryIR():
            return Operation(
                result=query.result_schema,
                reads=_ordered(set(_reads(catalog, query))),
                writes=(),
            )
        case ir.MutationIR():
            writes = {ref for op in query.ops for ref in _writes_of(catalog, op)}
            ends = {
                ref
                for op in query.ops
                if isinstance(op, ir.Insert) and op.kind is ir.EntityKind.EDGE
                for ref in _endpoints(catalog, op.type)
            }
            return Operation(result=(), reads=_ordered(writes | ends), writes=_ordered(writes))


def _reads(catalog: Catalog, query: ir.QueryIR) -> Iterator[TypeRef]:
    yield from _reads_of(catalog, query.ops)
    for block in counts_outside(query):
        yield from _reads_of(catalog, block.inner)


def _reads_of(catalog: Catalog, ops: tuple[ir.Op, ...]) -> Iterator[TypeRef]:
    for op in ops:
        match op:
            case ir.NodeScan():
                yield from ((ir.EntityKind.NODE, name) for name in op.types or (op.type,))
            case ir.Expand():
                yield ir.EntityKind.EDGE, op.edge
                yield from _endpoints(catalog, op.edge)
            case ir.AntiJoin() | ir.SemiJoin() | ir.Optional() | ir.Where():
                pass
        for inner in inner_ops(op):
            yield from _reads_of(catalog, inner)


def _endpoints(catalog: Catalog, edge: str) -> tuple[TypeRef, TypeRef]:
    item = catalog.edge_types[edge]
    return (ir.EntityKind.NODE, item.from_type), (ir.EntityKind.NODE, item.to_type)


def _writes_of(catalog: Catalog, op: ir.MutationOp) -> Iterator[TypeRef]:
    """The target; deleting a node also changes every edge type that touches its type."""
    yield op.kind, op.type
    if isinstance(op, ir.Delete) and op.kind is ir.EntityKind.NODE:
        for name, edge in catalog.edge_types.items():
            if op.type in (edge.from_type, edge.to_type):
                yield ir.EntityKind.EDGE, name


def _ordered(refs: set[TypeRef]) -> tuple[TypeRef, ...]:
    return tuple(sorted(refs, key=lambda ref: (_KIND_ORDER[ref[0]], ref[1])))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """What a caller needs to know to invoke a stored query."""

    name: str
    tool_name: str
    mutation: bool
    params: tuple[ir.Param, ...]
    description: str | None = None
    instruction: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The JSON form of the contract; absent texts are left out."""
        out: dict[str, object] = {"name": self.name, "tool_name": self.tool_name}
        if self.description is not None:
            out["description"] = self.description
        if self.instruction is not None:
            out["instruction"] = self.instruction
        return out | {
            "mutation": self.mutation,
            "params": [{"name": param.name} | wire_type(param.type) for param in self.params],
        }


def stored_query(
    query: ast.Query, params: tuple[ir.Param, ...], *, tool_name: str | None = None
) -> StoredQuery:
    """The catalog entry of a checked query."""
    return StoredQuery(
        name=query.name,
        tool_name=tool_name or query.name,
        mutation=query.is_mutation,
        params=params,
        description=query.description,
        instruction=query.instruction,
    )
