"""From the `.pg` syntax tree back to text that parses to an equal tree."""

from collections.abc import Iterable
from typing import assert_never

from omnigraph.lang import schema_ast as ast
from omnigraph.lang.lexemes import write_float, write_string


def print_schema(declarations: Iterable[ast.Declaration]) -> str:
    """Canonical text of a schema, one declaration after the other."""
    return "\n".join(_declaration(declaration) for declaration in declarations)


def _declaration(declaration: ast.Declaration) -> str:
    match declaration:
        case ast.InterfaceDecl():
            head = f"interface {declaration.name}"
            constraints: tuple[ast.Constraint, ...] = ()
        case ast.NodeDecl():
            head = " ".join(
                (f"node {declaration.name}", *map(_annotation, declaration.annotations))
            )
            if declaration.implements:
                head += f" implements {', '.join(ref.name for ref in declaration.implements)}"
            constraints = declaration.constraints
        case ast.EdgeDecl():
            head = (
                f"edge {declaration.name}: "
                f"{declaration.from_type.name} -> {declaration.to_type.name}"
            )
            head = " ".join(
                (head, *_card(declaration.card), *map(_annotation, declaration.annotations))
            )
            constraints = declaration.constraints
        case _:
            assert_never(declaration)
    lines = [f"  {_property(item)}" for item in declaration.properties]
    lines += [f"  {_constraint(item)}" for item in constraints]
    return "\n".join((f"{head} {{", *lines, "}\n"))


def _property(item: ast.PropertyDecl) -> str:
    return " ".join((f"{item.name}: {item.type}", *map(_annotation, item.annotations)))


def _card(card: ast.Card | None) -> tuple[str, ...]:
    return () if card is None else (f"@card({card.low}..{'' if card.high is None else card.high})",)


def _annotation(item: ast.Annotation) -> str:
    shown = f'"{item.name}"' if item.is_quoted else item.name
    if item.value is None:
        return f"@{shown}"
    value = item.value.text if isinstance(item.value, ast.Name) else _literal(item.value)
    keywords = (f"{name}={_literal(literal)}" for name, literal in item.keywords)
    return f"@{shown}({', '.join((value, *keywords))})"


def _constraint(item: ast.Constraint) -> str:
    match item:
        case ast.KeyConstraint():
            return f"@key({', '.join(item.names)})"
        case ast.UniqueConstraint():
            return f"@unique({', '.join(item.names)})"
        case ast.IndexConstraint():
            return f"@index({', '.join(item.names)})"
        case ast.RangeConstraint():
            low = "" if item.low is None else _literal(item.low)
            high = "" if item.high is None else _literal(item.high)
            return f"@range({item.property}, {low}..{high})"
        case ast.CheckConstraint():
            return f"@check({item.property}, {write_string(item.pattern)})"
        case _:
            assert_never(item)


def _literal(value: ast.LiteralValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return write_float(value)
        case str():
            return write_string(value)
        case _:
            assert_never(value)
