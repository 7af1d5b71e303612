"""From the `.gq` syntax tree back to text that parses to an equal tree."""

from collections.abc import Iterable
from types import UnionType
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
            args = ", ".join(print_expr(arg) for arg in expr.args)
            return f"{expr.function}({'distinct ' if expr.distinct else ''}{args})"
        case ast.Arithmetic() | ast.Negative():
            return _computed(expr)
        case ast.If():
            parts = (_condition(expr.condition), *map(print_expr, (expr.then, expr.otherwise)))
            return f"if({', '.join(parts)})"
        case ast.CountBlock():
            lines = (line.strip() for line in _clauses(expr.clauses, ""))
            return f"count {{ {' '.join(lines)} }}"
        case ast.NullLit():
            return "null"
        case ast.ListLit():
            return f"[{', '.join(print_expr(item) for item in expr.items)}]"
        case _:
            return _scalar(expr)


_LEVELS = {
    ast.ArithmeticOp.ADD: 1,
    ast.ArithmeticOp.SUBTRACT: 1,
    ast.ArithmeticOp.MULTIPLY: 2,
    ast.ArithmeticOp.DIVIDE: 2,
    ast.ArithmeticOp.REMAINDER: 2,
}
_UNARY, _PRIMARY = 3, 4


def _level(expr: ast.Expr) -> int:
    """How tightly an expression binds."""
    match expr:
        case ast.Arithmetic():
            return _LEVELS[expr.op]
        case ast.Negative():
            return _UNARY
        case _:
            return _PRIMARY


def _computed(expr: ast.Arithmetic | ast.Negative) -> str:
    if isinstance(expr, ast.Negative):
        # Right behind a minus a number would become a literal.
        is_number = isinstance(expr.value, ast.IntLit | ast.FloatLit)
        text = print_expr(expr.value)
        is_bare = _level(expr.value) >= _UNARY and (not is_number or text.startswith("-"))
        return f"-{text}" if is_bare else f"-({text})"
    level = _LEVELS[expr.op]
    left, right = print_expr(expr.left), print_expr(expr.right)
    left = left if _level(expr.left) >= level else f"({left})"
    right = right if _level(expr.right) > level else f"({right})"
    return f"{left} {expr.op} {right}"


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
    lines = ["  match {", *_clauses(read.clauses, "    "), "  }"]
    lines.append(f"  return {'distinct ' if read.distinct else ''}{{")
    lines += [f"    {_projection(projection)}" for projection in read.projections]
    lines.append("  }")
    if read.having:
        lines += ["  having {", *_clauses(read.having, "    "), "  }"]
    if read.order:
        lines.append(f"  order {{ {', '.join(_ordering(item) for item in read.order)} }}")
    if read.limit is not None:
        lines.append(f"  limit {_count(read.limit)}")
    if read.offset is not None:
        lines.append(f"  offset {_count(read.offset)}")
    return "\n".join(lines)


def _count(count: int | ast.Var) -> str:
    return print_expr(count) if isinstance(count, ast.Var) else str(count)


_BLOCK_WORDS = {ast.Negation: "not", ast.Optional: "optional", ast.Exists: "exists"}


def _clauses(clauses: Iterable[ast.Clause], indent: str) -> list[str]:
    lines: list[str] = []
    for clause in clauses:
        if isinstance(clause, ast.InnerBlock):
            head = f"{indent}{_BLOCK_WORDS[type(clause)]} {{"
            lines += [head, *_clauses(clause.clauses, indent + "  "), f"{indent}}}"]
        else:
            lines.append(indent + _clause(clause))
    return lines


def _clause(clause: ast.Binding | ast.Traversal | ast.Condition) -> str:
    match clause:
        case ast.Binding():
            matches = ", ".join(
                f"{item.property}: {'in ' if item.is_one_of else ''}{print_expr(item.value)}"
                for item in clause.matches
            )
            return f"${clause.var}: {clause.type_name}" + (f" {{ {matches} }}" if matches else "")
        case ast.Traversal():
            return _traversal(clause)
        case _:
            text = _condition(clause)
            # A minus at its start would subtract from what the clause before ends with.
            is_continued = text.startswith("-") and not text[1:2].isdigit()
            return f"({text})" if is_continued or _reads_as_walk(clause) else text


def _reads_as_walk(condition: ast.Condition) -> bool:
    """Whether a clause that begins like this would be read as a traversal."""
    match condition:
        case ast.AnyOf(parts=parts) | ast.AllOf(parts=parts):
            return _reads_as_walk(parts[0])
        case ast.Comparison(left=ast.Var(), op=ast.CompareOp.IN, right=ast.Var()):
            return True
        case ast.Comparison(left=ast.Var(), op=ast.CompareOp.CONTAINS, right=right):
            return not isinstance(right, ast.PropAccess | ast.Call | ast.If | ast.CountBlock)
        case ast.Comparison(left=ast.Var(), op=ast.CompareOp.STARTS_WITH, right=right):
            return isinstance(right, ast.Var) or _level(right) < _PRIMARY
        case _:
            return False


def _condition(condition: ast.Condition) -> str:
    match condition:
        case ast.Comparison():
            sides = print_expr(condition.left), print_expr(condition.right)
            return f"{sides[0]} {condition.op} {sides[1]}"
        case ast.CallClause():
            return print_expr(condition.call)
        case ast.NullTest():
            return f"{print_expr(condition.expr)} is {'not ' if condition.negated else ''}null"
        case ast.NotCondition():
            return f"not ({_condition(condition.part)})"
        case ast.AnyOf():
            return " or ".join(_part(part, ast.AnyOf) for part in condition.parts)
        case ast.AllOf():
            return " and ".join(_part(part, ast.AnyOf | ast.AllOf) for part in condition.parts)
        case _:
            assert_never(condition)


def _part(part: ast.Condition, bracketed: type | UnionType) -> str:
    text = _condition(part)
    return f"({text})" if isinstance(part, bracketed) else text


def _traversal(traversal: ast.Traversal) -> str:
    edge = f"<{traversal.edge_word}>" if traversal.undirected else traversal.edge_word
    if (traversal.min_hops, traversal.max_hops) != (1, 1):
        high = "" if traversal.max_hops is None else _count(traversal.max_hops)
        edge += f"{{{_count(traversal.min_hops)},{high}}}"
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
            absent = " if absent" if statement.if_absent else ""
            return f"insert {statement.type_name}{absent} {_assignments(statement.assignments)}"
        case ast.UpdateStmt():
            assignments = _assignments(statement.assignments)
            selection = _condition(statement.selection)
            return " ".join(("update", statement.type_name, "set", assignments, "where", selection))
        case ast.DeleteStmt():
            return f"delete {statement.type_name} where {_condition(statement.selection)}"
        case _:
            assert_never(statement)


def _assignments(assignments: Iterable[ast.Assignment]) -> str:
    return (
        f"{{ {', '.join(f'{item.property}: {print_expr(item.value)}' for item in assignments)} }}"
    )
