"""Checking of mutations: targets, assignments, predicates.

One query either inserts and updates, or deletes (rule D2); mixing is refused before any I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.checked import Context, Typed
from omnigraph.lang.conditions import check_condition
from omnigraph.lang.diagnostics import join_names
from omnigraph.lang.expressions import NOW, ExprChecker, date_literal_hint
from omnigraph.lang.query_printer import print_expr
from omnigraph.lang.source import Extent
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import STRING, PropType, Scalar
from omnigraph.lang.values import UnfitValue, fit_number, read_json

_ENDPOINTS = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The type a statement works on, with what may be assigned by its written names."""

    kind: ir.EntityKind
    type: NodeType | EdgeType
    settable: Mapping[str, PropType]

    @property
    def name(self) -> str:
        return self.type.name


def check_mutation(
    checker: ExprChecker, name: str, statements: Sequence[ast.Statement], extent: Extent
) -> tuple[ir.MutationOp, ...]:
    """The checked statements, in order."""
    deletes = [isinstance(item, ast.DeleteStmt) for item in statements]
    if any(deletes) and not all(deletes):
        checker.report(
            "T28",
            "mixed_mutation",
            f"query `{name}` mixes deletes with inserts or updates; split it into two queries, or "
            "run both on a branch and merge",
            extent,
        )
    ops = [_check_statement(checker, item) for item in statements]
    return tuple(op for op in ops if op is not None)


def _check_statement(checker: ExprChecker, statement: ast.Statement) -> ir.MutationOp | None:
    target = _target(checker, statement)
    if target is None:
        return None
    match statement:
        case ast.InsertStmt():
            return _check_insert(checker, statement, target)
        case ast.UpdateStmt():
            return _check_update(checker, statement, target)
        case ast.DeleteStmt():
            where = _check_selection(checker, statement.selection, target)
            if where is None:
                return None
            return ir.Delete(kind=target.kind, type=target.name, where=where)


def _target(checker: ExprChecker, statement: ast.Statement) -> _Target | None:
    name = statement.type_name
    node = checker.catalog.node_types.get(name)
    edge = checker.catalog.edge_types.get(name)
    if node is not None and (edge is None or not _uses_endpoint(statement, node)):
        return _Target(kind=ir.EntityKind.NODE, type=node, settable=_kinds(node))
    if edge is not None:
        return _Target(
            kind=ir.EntityKind.EDGE,
            type=edge,
            settable=dict.fromkeys(_ENDPOINTS, STRING) | _kinds(edge),
        )
    known = [*checker.catalog.node_types, *checker.catalog.edge_types]
    tail = did_you_mean(name, known, otherwise="types are")
    if name in checker.catalog.interfaces:
        nodes = checker.catalog.implementing[name]
        tail = "; it is an interface" + (f", name one of {join_names(nodes)}" if nodes else "")
    checker.report("T10", "unknown_type", f"unknown type `{name}`{tail}", statement.type_extent)
    return None


def _kinds(item: NodeType | EdgeType) -> dict[str, PropType]:
    return {name: declared.type for name, declared in item.properties.items()}


def _uses_endpoint(statement: ast.Statement, node: NodeType) -> bool:
    """True when the statement names `from` or `to` and the node has no such property."""
    names: set[str] = set()
    if not isinstance(statement, ast.DeleteStmt):
        names |= {item.property for item in statement.assignments}
        values = [item.value for item in statement.assignments]
        names |= {
            name
            for value in values
            if not isinstance(value, ast.NullLit)
            for name in ast.bare_names(value)
        }
    if not isinstance(statement, ast.InsertStmt):
        names |= set(ast.bare_names(statement.selection))
    return any(name in names and name not in node.properties for name in _ENDPOINTS)


def _check_insert(
    checker: ExprChecker, statement: ast.InsertStmt, target: _Target
) -> ir.Insert | None:
    if not statement.assignments:
        _report_empty(checker, "insert", target, statement.type_extent)
        return None
    assignments = _check_assignments(checker, statement.assignments, target, _NewRow(checker))
    assigned = {item.property for item in statement.assignments}
    texts = {
        item.property for item in statement.assignments if not isinstance(item.value, ast.NullLit)
    }
    missing = [name for name in _required(target, texts) if name not in assigned]
    if missing:
        checker.report(
            "T12",
            "required_missing",
            f"insert of `{target.name}` misses {join_names(missing)}",
            statement.type_extent,
        )
        return None
    if statement.if_absent and not (isinstance(target.type, NodeType) and target.type.key):
        checker.report(
            "T36",
            "absent_without_key",
            f"`{target.name}` has no key, so each insert of it is a new one; leave out `if absent`"
            + ("" if target.kind is ir.EntityKind.EDGE else ", or declare a `@key`"),
            statement.type_extent,
        )
        return None
    return ir.Insert(
        kind=target.kind,
        type=target.name,
        assignments=assignments,
        if_absent=statement.if_absent or None,
    )


def _required(target: _Target, texts: set[str]) -> list[str]:
    """Names that an insert must give; an `@embed` vector is filled when its source has a text."""
    required = list(_ENDPOINTS) if target.kind is ir.EntityKind.EDGE else []
    embeds = target.type.embeds if isinstance(target.type, NodeType) else {}
    for name, item in target.type.properties.items():
        source = embeds[name].source if name in embeds else None
        has_text = source is not None and (
            source in texts or target.type.properties[source].default is not None
        )
        if item.must_be_given and not has_text:
            required.append(name)
    return required


def _check_update(
    checker: ExprChecker, statement: ast.UpdateStmt, target: _Target
) -> ir.Update | None:
    if not statement.assignments:
        _report_empty(checker, "update", target, statement.type_extent)
    key = (target.type.key or ()) if isinstance(target.type, NodeType) else ()
    ends = _ENDPOINTS if target.kind is ir.EntityKind.EDGE else ()
    for item in statement.assignments:
        if item.property in key:
            checker.report(
                "T33",
                "key_update",
                f"`{target.name}.{item.property}` is part of the key and cannot be set; insert a "
                "new node instead",
                item.extent,
            )
        if item.property in ends:
            checker.report(
                "T16",
                "update_endpoint",
                f"`{target.name}.{item.property}` is an end of the edge and cannot be set; delete "
                "the edge and insert a new one",
                item.extent,
            )
    own = _OwnRow(checker, target)
    assignments = _check_assignments(checker, statement.assignments, target, own)
    where = _check_selection(checker, statement.selection, target)
    if where is None:
        return None
    return ir.Update(kind=target.kind, type=target.name, assignments=assignments, where=where)


def _report_empty(checker: ExprChecker, verb: str, target: _Target, extent: Extent) -> None:
    checker.report("T10", "no_assignments", f"{verb} of `{target.name}` assigns nothing", extent)


def _check_assignments(
    checker: ExprChecker,
    assignments: Sequence[ast.Assignment],
    target: _Target,
    own: "_NewRow | _OwnRow",
) -> tuple[ir.Assign, ...]:
    out: list[ir.Assign] = []
    seen: set[str] = set()
    for item in assignments:
        if item.property in seen:
            checker.report(
                "T13", "assigned_twice", f"`{item.property}` is assigned twice", item.extent
            )
        seen.add(item.property)
        kind = target.settable.get(item.property)
        value = _check_value(checker, item.value, own)
        if kind is None:
            _report_unknown(checker, item.property, target, item.extent)
            continue
        fitted = _assigned(checker, item, value, kind, target)
        if fitted is not None:
            out.append(ir.Assign(_column(item.property, target), fitted))
    return tuple(out)


def _check_value(
    checker: ExprChecker, value: ast.Expr | ast.NullLit, own: "_NewRow | _OwnRow"
) -> Typed | None:
    """The assigned value; None for `null`, and when it is wrong."""
    match value:
        case ast.NullLit():
            return None
        case ast.Var():
            # Alone a parameter may be a Blob; in a value it is read.
            return checker.check_value(value)
        case _:
            checker.context, checker.own_property = Context.ASSIGNMENT, own
            typed = checker.check(value)
            checker.own_property = None
            return typed


@dataclass(frozen=True, slots=True)
class _OwnRow:
    """What bare names mean in the assignments of an update: the row as it was."""

    checker: ExprChecker
    target: _Target

    def __call__(self, ref: ast.AliasRef) -> Typed | None:
        kind = {**self.target.settable, "id": STRING}.get(ref.name)
        if kind is None:
            _report_unknown(self.checker, ref.name, self.target, ref.extent)
            return None
        if kind.scalar is Scalar.BLOB:
            self.checker.report(
                "T24",
                "blob_read",
                f"`{self.target.name}.{ref.name}` is a Blob; a query cannot read it",
                ref.extent,
            )
            return None
        return Typed(ir.Prop(ir.OWN_ROW, _column(ref.name, self.target), kind), kind)


@dataclass(frozen=True, slots=True)
class _NewRow:
    """What bare names mean in an insert: nothing, since there is no row yet."""

    checker: ExprChecker

    def __call__(self, ref: ast.AliasRef) -> None:
        self.checker.report(
            "T11",
            "unknown_property",
            f"`{ref.name}`: a new row has no properties to read; give a literal, with a text in "
            "double quotes, or a parameter",
            ref.extent,
        )


def _column(name: str, target: _Target) -> str:
    return _ENDPOINTS.get(name, name) if target.kind is ir.EntityKind.EDGE else name


def _report_unknown(checker: ExprChecker, name: str, target: _Target, extent: Extent) -> None:
    if name == "null":
        detail = "`null` stands alone: `x: null`; a computed value is null where a part of it is"
        checker.report("T11", "unknown_property", detail, extent)
        return
    known = target.settable
    tail = did_you_mean(name, known, otherwise="it has")
    if name in _ENDPOINTS.values() and target.kind is ir.EntityKind.EDGE:
        tail = "; the endpoints are `from` and `to`"
    elif name == "id" and isinstance(target.type, NodeType) and target.type.key is not None:
        tail = f"; the id comes from the key ({', '.join(target.type.key)})"
    elif name == "id":
        tail = "; ids are given by the system"
    checker.report(
        "T11", "unknown_property", f"type `{target.name}` has no property `{name}`{tail}", extent
    )


def _assigned(
    checker: ExprChecker,
    item: ast.Assignment,
    value: Typed | None,
    kind: PropType,
    target: _Target,
) -> ir.Expr | None:
    """The value as the column takes it; `value` is None for `null`, and when it is wrong."""
    if isinstance(item.value, ast.NullLit):
        if kind.nullable:
            return ir.Lit(None, kind)
        _unfit(checker, item, kind, target, "null; it is required")
        return None
    if value is None:
        return None
    if isinstance(value.expr, ir.Lit):
        return _fit_literal(checker, item, value.expr, kind, target)
    is_blob_text = (
        kind.scalar is Scalar.BLOB and value.type.is_text and isinstance(value.expr, ir.Param)
    )
    if is_blob_text or kind.is_compatible_with(value.type):
        return value.expr
    code = "T3" if value.expr is NOW.expr else "T7"
    described = f"`{print_expr(item.value)}` of type {value.type}"
    _unfit(checker, item, kind, target, described, code)
    return None


def _fit_literal(
    checker: ExprChecker, item: ast.Assignment, literal: ir.Lit, kind: PropType, target: _Target
) -> ir.Lit | None:
    """The literal as the column holds it; T3 when it is of another kind or does not fit."""
    is_list = isinstance(literal.value, tuple)
    is_vector = kind.scalar is Scalar.VECTOR and is_list and literal.type.scalar.is_numeric
    is_empty = literal.value == () and kind.is_list
    is_blob_text = kind.scalar is Scalar.BLOB and literal.type.is_text
    compatible = kind.is_compatible_with(literal.type)
    if not (is_vector or is_empty or is_blob_text or compatible):
        hint = date_literal_hint(kind, literal.type)
        _unfit(checker, item, kind, target, f"a value of type {literal.type}{hint}")
        return None
    try:
        return ir.Lit(_fitted(literal, kind), kind.as_nullable(nullable=False))
    except UnfitValue as error:
        _unfit(checker, item, kind, target, f"this value: {error}")
        return None


def _fitted(literal: ir.Lit, kind: PropType) -> object:
    """The literal's value in the column's type; its kind is known to be compatible.

    Raises:
        UnfitValue: a number out of range, a fraction, a wrong length, or outside an enum.
    """
    value = literal.value
    if kind.scalar is Scalar.VECTOR or kind.enum_values is not None:
        read = read_json(list(value) if isinstance(value, tuple) else value, kind)
        return tuple(read) if isinstance(read, list) else read
    if kind.scalar.is_numeric:
        if isinstance(value, tuple):
            return tuple(fit_number(part, kind.scalar) for part in value)
        if isinstance(value, int | float):
            return fit_number(value, kind.scalar)
    return value


def _unfit(
    checker: ExprChecker,
    item: ast.Assignment,
    kind: PropType,
    target: _Target,
    described: str,
    code: str = "T3",
) -> None:
    checker.report(
        code,
        "assignment_type",
        f"`{target.name}.{item.property}` is {kind} and cannot take {described}",
        item.value.extent,
    )


def _check_selection(
    checker: ExprChecker, selection: ast.Condition, target: _Target
) -> ir.Condition | None:
    """The condition of a `where`, over properties of the row."""
    known = {**target.settable, "id": STRING}

    def own_property(ref: ast.AliasRef) -> Typed | None:
        kind = known.get(ref.name)
        if kind is None:
            _report_unknown(checker, ref.name, target, ref.extent)
            return None
        if not kind.is_plain:
            checker.report(
                "T11",
                "predicate_type",
                f"`{target.name}.{ref.name}` is {kind}; `where` compares scalars only",
                ref.extent,
            )
            return None
        return Typed(ir.Prop(ir.OWN_ROW, _column(ref.name, target), kind), kind)

    checker.context, checker.own_property = Context.SELECTION, own_property
    condition = check_condition(checker, selection)
    checker.own_property = None
    return condition
