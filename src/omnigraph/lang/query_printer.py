"""From the `.gq` syntax tree back to text that parses to an equal tree."""

from collections.abc import Iterable
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.lexemes import write_float, write_string
from omnigraph.lang.values import format_date, format_datetime


def print_queries(queries: Iterable[ast.Query]) -> str:
    """Canonical text of a file, one query after the other."""
    return "\n".join(_query(query) for query in queries)


def print_expr(expr: ast.Expr | ast.NullLit) -> str:
    """Canonical text of one expression; also used in messages and plans."""
    match expr:
        case ast.Var():
            return f"${expr.name}"
        case ast.PropAccess():
            return f"${expr.var}.{expr.property}"
        case ast.AliasRef():
            return expr.name
        case ast.Call():
            return f"{expr.function}({', '.join(print_expr(arg) for arg in expr.args)})"
        case ast.NullLit():
            return "null"
        case ast.ListLit():
            return f"[{', '.join(print_expr(item) for item in expr.items)}]"
        case _:
            return _scalar(expr)


def _scalar(literal: ast.ScalarLit) -> str:
    match literal:
        case ast.StringLit():
            return write_string(literal.value)
        case ast.IntLit():
            return str(literal.value)
        case ast.FloatLit():
            return write_float(literal.value)
        case ast.BoolLit():
            return "true" if literal.value else "false"
        case ast.DateLit():
            return f'date("{format_date(literal.value)}")'
        case ast.DateTimeLit():
            return f'datetime("{format_datetime(literal.value)}")'
        case _:
            assert_never(literal)


def _query(query: ast.Query) -> str:
    params = ", ".join(f"${param.name}: {_param_type(param.type)}" for param in query.params)
    head = f"query {query.name}({params})"
    if query.description is not None:
        head += f" @description({write_string(query.description)})"
    if query.instruction is not None:
        head += f" @instruction({write_string(query.instruction)})"
    match query.body:
        case ast.ReadBody() as read:
            body = _read(read)
        case ast.MutationBody() as mutation:
            body = "\n".join(f"  {_statement(statement)}" for statement in mutation.statements)
        case _:
            assert_never(query.body)
    return f"{head} {{\n{body}\n}}\n"


def _param_type(kind: ast.ParamType) -> str:
    name = kind.name if kind.vector_dim is None else f"{kind.name}({kind.vector_dim})"
    name = f"[{name}]" if kind.is_list else name
    return f"{name}?" if kind.nullable else name


def _read(read: ast.ReadBody) -> str:
    lines = ["  match {", *_clauses(read.clauses, "    "), "  }", "  return {"]
    lines += [f"    {_projection(projection)}" for projection in read.projections]
    lines.append("  }")
    if read.order:
        lines.append(f"  order {{ {', '.join(_ordering(item) for item in read.order)} }}")
    if read.limit is not None:
        lines.append(f"  limit {read.limit}")
    return "\n".join(lines)


def _clauses(clauses: Iterable[ast.Clause], indent: str) -> list[str]:
    lines: list[str] = []
    for clause in clauses:
        if isinstance(clause, ast.Negation):
            lines += [f"{indent}not {{", *_clauses(clause.clauses, indent + "  "), f"{indent}}}"]
        else:
            lines.append(indent + _clause(clause))
    return lines


def _clause(clause: ast.Binding | ast.Traversal | ast.Comparison | ast.CallClause) -> str:
    match clause:
        case ast.Binding():
            matches = ", ".join(
                f"{item.property}: {print_expr(item.value)}" for item in clause.matches
            )
            return f"${clause.var}: {clause.type_name}" + (f" {{ {matches} }}" if matches else "")
        case ast.Traversal():
            return _traversal(clause)
        case ast.Comparison():
            return f"{print_expr(clause.left)} {clause.op} {print_expr(clause.right)}"
        case ast.CallClause():
            return print_expr(clause.call)
        case _:
            assert_never(clause)


def _traversal(traversal: ast.Traversal) -> str:
    edge = f"<{traversal.edge_word}>" if traversal.undirected else traversal.edge_word
    if (traversal.min_hops, traversal.max_hops) != (1, 1):
        high = "" if traversal.max_hops is None else traversal.max_hops
        edge += f"{{{traversal.min_hops},{high}}}"
    if traversal.edge_var is not None:
        edge = f"${traversal.edge_var}:{edge}"
    return f"${traversal.left} {edge} ${traversal.right}"


def _projection(projection: ast.Projection) -> str:
    alias = "" if projection.alias is None else f" as {projection.alias}"
    return f"{print_expr(projection.expr)}{alias},"


def _ordering(ordering: ast.Ordering) -> str:
    direction = "" if ordering.direction is None else f" {ordering.direction}"
    return print_expr(ordering.expr) + direction


def _statement(statement: ast.Statement) -> str:
    match statement:
        case ast.InsertStmt():
            return f"insert {statement.type_name} {_assignments(statement.assignments)}"
        case ast.UpdateStmt():
            assignments = _assignments(statement.assignments)
            predicate = _predicate(statement.predicate)
            return " ".join(("update", statement.type_name, "set", assignments, "where", predicate))
        case ast.DeleteStmt():
            return f"delete {statement.type_name} where {_predicate(statement.predicate)}"
        case _:
            assert_never(statement)


def _assignments(assignments: Iterable[ast.Assignment]) -> str:
    return (
        f"{{ {', '.join(f'{item.property}: {print_expr(item.value)}' for item in assignments)} }}"
    )


def _predicate(predicate: ast.Predicate) -> str:
    return f"{predicate.property} {predicate.op} {print_expr(predicate.value)}"
