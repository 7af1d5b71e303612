"""From `.pg` text to the syntax tree.

Reports what has no meaning on its own: syntax (S000), property types that cannot exist (S007,
S008), shapes of constraints (S014 without a bound, S017, S020) and annotations that stand where
none may (S021).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from lark import Token

from omnigraph.lang import schema_ast as ast
from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.foreign_syntax import is_annotation, suggest_annotation, suggest_type
from omnigraph.lang.grammar import (
    SCHEMA_LANGUAGE,
    Node,
    child_tokens,
    child_trees,
    extent_of,
    parse_trees,
)
from omnigraph.lang.lexemes import read_count, read_float, read_integer, read_string
from omnigraph.lang.source import Extent
from omnigraph.lang.types import BASE_SCALARS, MAX_VECTOR_DIM, STRING, PropType, Scalar

NAME_CONSTRAINTS: dict[
    str, type[ast.KeyConstraint] | type[ast.UniqueConstraint] | type[ast.IndexConstraint]
] = {
    "key": ast.KeyConstraint,
    "unique": ast.UniqueConstraint,
    "index": ast.IndexConstraint,
}
CONSTRAINT_WORDS = frozenset({*NAME_CONSTRAINTS, "range", "check"})


def parse_schema(findings: Findings) -> tuple[ast.Declaration, ...]:
    """The declarations of the findings' source; findings are recorded, what can be read is read."""
    trees = parse_trees(SCHEMA_LANGUAGE, findings)
    is_whole = not findings
    builder = _Builder(findings)
    declarations = tuple(builder.declaration(tree) for tree in trees)
    # Without the broken declarations the others would seem to name types that do not exist.
    return declarations if is_whole else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    low: ast.Number | None
    high: ast.Number | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keyword:
    name: str
    value: ast.LiteralValue


_METADATA_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_Argument = ast.LiteralValue | ast.Name | _Range | _Keyword


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """`@name(args)` before it is known what it is; `args` None without parentheses."""

    name: str
    args: tuple[_Argument, ...] | None
    extent: Extent
    is_quoted: bool = False


@dataclass(slots=True)
class _Body:
    properties: list[ast.PropertyDecl] = field(default_factory=list)
    constraints: list[ast.Constraint] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Builder:
    findings: Findings

    def report(self, code: str, reason: str, detail: str, extent: Extent) -> None:
        self.findings.add(code, reason, detail, extent)

    def declaration(self, tree: Node) -> ast.Declaration:
        match tree.data:
            case "interface":
                return self.interface(tree)
            case "node":
                return self.node(tree)
            case _:
                return self.edge(tree)

    def interface(self, tree: Node) -> ast.InterfaceDecl:
        name = child_tokens(tree)[0]
        body = self.body(child_trees(tree))
        for constraint in body.constraints:
            self.report(
                "S000",
                "syntax",
                f"interface `{name}` holds properties only; put the constraint in the node",
                constraint.extent,
            )
        return ast.InterfaceDecl(
            name=str(name), properties=tuple(body.properties), extent=extent_of(name)
        )

    def node(self, tree: Node) -> ast.NodeDecl:
        name = child_tokens(tree)[0]
        parts = _parts(tree)
        annotations, _ = self.header(parts["at"], card=False)
        body = self.body(parts["body"])
        return ast.NodeDecl(
            name=str(name),
            annotations=annotations,
            implements=tuple(
                _type_ref(token) for part in parts["implements"] for token in child_tokens(part)
            ),
            properties=tuple(body.properties),
            constraints=tuple(body.constraints),
            extent=extent_of(name),
        )

    def edge(self, tree: Node) -> ast.EdgeDecl:
        name, from_type, to_type = child_tokens(tree)
        parts = _parts(tree)
        annotations, card = self.header(parts["at"], card=True)
        body = self.body(parts["body"])
        return ast.EdgeDecl(
            name=str(name),
            from_type=_type_ref(from_type),
            to_type=_type_ref(to_type),
            card=card,
            annotations=annotations,
            properties=tuple(body.properties),
            constraints=tuple(body.constraints),
            extent=extent_of(name),
        )

    def header(
        self, parts: Iterable[Node], *, card: bool
    ) -> tuple[tuple[ast.Annotation, ...], ast.Card | None]:
        """Annotations after a type's name, and the cardinality of an edge."""
        annotations: list[ast.Annotation] = []
        cardinality: ast.Card | None = None
        for part in parts:
            at = self.at(part)
            if at.name == "card" and card:
                if cardinality is not None:
                    self.report("S017", "card_repeated", "`@card` is given twice", at.extent)
                cardinality = self.card(at) or cardinality
            elif at.args is not None and at.name in CONSTRAINT_WORDS:
                self.report(
                    "S021",
                    "annotation_misplaced",
                    f"`@{at.name}(…)` cannot stand after a type's name; put it in the body",
                    at.extent,
                )
            else:
                annotations.append(self.annotation(at))
        return tuple(annotations), cardinality

    def card(self, at: _At) -> ast.Card | None:
        match at.args:
            case (_Range(low=int() as low, high=None | int() as high),) if low >= 0:
                return ast.Card(low=low, high=high, extent=at.extent)
        self.report("S000", "syntax", "`@card` is written `@card(0..1)` or `@card(1..)`", at.extent)
        return None

    def body(self, blocks: Iterable[Node]) -> _Body:
        members = [member for block in blocks for member in child_trees(block)]
        body = _Body()
        annotations: list[ast.Annotation] = []
        pending: Node | None = None
        for member in members:
            if member.data == "property":
                self.finish_property(pending, annotations, body)
                pending, annotations = member, []
                continue
            at = self.at(member)
            if at.args is not None and at.name in CONSTRAINT_WORDS:
                constraint = self.constraint(at)
                if constraint is not None:
                    body.constraints.append(constraint)
            elif at.name == "card" and pending is None:
                self.report(
                    "S021",
                    "annotation_misplaced",
                    "`@card` stands after an edge's endpoints, before the `{`",
                    at.extent,
                )
            elif pending is None:
                self.report(
                    "S000",
                    "syntax",
                    f"`@{at.name}` must follow the property it describes",
                    at.extent,
                )
            else:
                annotations.append(self.annotation(at))
        self.finish_property(pending, annotations, body)
        return body

    def finish_property(
        self, tree: Node | None, annotations: list[ast.Annotation], body: _Body
    ) -> None:
        if tree is None:
            return
        name = child_tokens(tree)[0]
        body.properties.append(
            ast.PropertyDecl(
                name=str(name),
                type=self.type(child_trees(tree)[0]),
                annotations=tuple(annotations),
                extent=extent_of(name),
            )
        )

    def type(self, tree: Node) -> PropType:
        nullable = any(token.type == "NULLABLE" for token in child_tokens(tree))
        shape = child_trees(tree)[0]
        if shape.data == "enum":
            return self.enum(shape, nullable=nullable)
        words = child_tokens(shape)
        name, extent = str(words[0]), extent_of(words[0])
        dim = words[1] if len(words) > 1 else None
        if name == "Vector" and shape.data == "named":
            return self.vector(dim, extent, nullable=nullable)
        scalar = BASE_SCALARS.get(name)
        if scalar is None or dim is not None:
            self.unknown_type(name, extent, is_list=shape.data == "list", sized=dim is not None)
            scalar = Scalar.STRING
        is_list = shape.data == "list"
        if is_list and scalar is Scalar.BLOB:
            self.report("S008", "list_of_blob", "a list cannot hold Blob", extent)
            return STRING
        return PropType(scalar=scalar, is_list=is_list, nullable=nullable)

    def unknown_type(self, name: str, extent: Extent, *, is_list: bool, sized: bool) -> None:
        if name == "Vector" and is_list:
            detail = "a list cannot hold Vector; its items are base types"
        elif name in BASE_SCALARS and sized:
            detail = f"`{name}` takes no size"
        else:
            detail = f"unknown property type `{name}`{suggest_type(name)}"
        self.report("S000", "syntax", detail, extent)

    def vector(self, dim: Token | None, extent: Extent, *, nullable: bool) -> PropType:
        if dim is None:
            self.report("S000", "syntax", "`Vector` needs its dimension: `Vector(384)`", extent)
            return PropType(scalar=Scalar.VECTOR, vector_dim=1, nullable=nullable)
        size = read_count(dim)
        if not 1 <= size <= MAX_VECTOR_DIM:
            self.report(
                "S007",
                "vector_dimension",
                f"a vector has between 1 and {MAX_VECTOR_DIM} dimensions, not {dim}",
                extent_of(dim),
            )
            size = 1
        return PropType(scalar=Scalar.VECTOR, vector_dim=size, nullable=nullable)

    def enum(self, tree: Node, *, nullable: bool) -> PropType:
        values = [str(token) for token in child_tokens(tree)]
        if not values:
            self.report("S008", "enum_empty", "an enum needs at least one value", extent_of(tree))
            values = ["_"]
        seen: set[str] = set()
        for token in child_tokens(tree):
            if str(token) in seen:
                self.report(
                    "S008", "enum_duplicate", f"enum value `{token}` is repeated", extent_of(token)
                )
            seen.add(str(token))
        return PropType(
            scalar=Scalar.STRING, nullable=nullable, enum_values=tuple(sorted(set(values)))
        )

    def constraint(self, at: _At) -> ast.Constraint | None:
        if at.name in NAME_CONSTRAINTS:
            names = tuple(arg.text for arg in at.args or () if isinstance(arg, ast.Name))
            if len(names) != len(at.args or ()):
                self.report(
                    "S020",
                    "annotation_value",
                    f"`@{at.name}` takes property names only: `@{at.name}(a, b)`",
                    at.extent,
                )
                return None
            return NAME_CONSTRAINTS[at.name](names=names, extent=at.extent)
        return self.range(at) if at.name == "range" else self.check(at)

    def range(self, at: _At) -> ast.RangeConstraint | None:
        match at.args:
            case (ast.Name() as name, _Range(low=low, high=high)):
                return ast.RangeConstraint(property=name.text, low=low, high=high, extent=at.extent)
        self.report(
            "S000",
            "syntax",
            "`@range` is written `@range(property, 0..150)`; either end may be left open",
            at.extent,
        )
        return None

    def check(self, at: _At) -> ast.CheckConstraint | None:
        match at.args:
            case (ast.Name() as name, str() as pattern):
                return ast.CheckConstraint(property=name.text, pattern=pattern, extent=at.extent)
        self.report(
            "S000", "syntax", '`@check` is written `@check(property, "pattern")`', at.extent
        )
        return None

    def annotation(self, at: _At) -> ast.Annotation:
        # `@card` is known to stand in the wrong place here; its shape needs no second finding.
        args = () if at.name == "card" else at.args or ()
        value: ast.LiteralValue | ast.Name | None = None
        keywords: dict[str, ast.LiteralValue] = {}
        for position, arg in enumerate(args):
            match arg:
                case _Keyword() if arg.name in keywords:
                    self.report(
                        "S020",
                        "annotation_repeated",
                        f"`@{at.name}` gives `{arg.name}` twice",
                        at.extent,
                    )
                case _Keyword() if position > 0:
                    keywords[arg.name] = arg.value
                case str() | bool() | int() | float() | ast.Name() if position == 0:
                    value = arg
                case _:
                    self.report("S000", "syntax", _wrong_arguments(at), at.extent)
        return ast.Annotation(
            name=at.name,
            value=value,
            keywords=tuple(sorted(keywords.items())),
            is_quoted=at.is_quoted,
            extent=at.extent,
        )

    def at(self, tree: Node) -> _At:
        token = child_tokens(tree)[0]
        args = tuple(self.argument(child) for child in child_trees(tree)) or None
        if token.type != "STRING":
            return _At(name=str(token), args=args, extent=extent_of(tree))
        name = str(token)[1:-1]
        if not _METADATA_NAME.fullmatch(name) or is_annotation(name):
            self.report(
                "S000",
                "syntax",
                f"`@{token}`: quotes are for metadata, whose name is a lower-case word and none of "
                "the annotations that mean something",
                extent_of(tree),
            )
        return _At(name=name, args=args, extent=extent_of(tree), is_quoted=True)

    def argument(self, tree: Node) -> _Argument:
        match tree.data:
            case "name":
                return ast.Name(text=str(child_tokens(tree)[0]))
            case "keyword":
                return _Keyword(
                    name=str(child_tokens(tree)[0]), value=self.literal(child_trees(tree)[0])
                )
            case "range_closed":
                low, high = child_trees(tree)
                return _Range(low=self.number(low), high=self.number(high))
            case "range_from":
                return _Range(low=self.number(child_trees(tree)[0]), high=None)
            case "range_to":
                return _Range(low=None, high=self.number(child_trees(tree)[0]))
            case "range_open":
                return _Range(low=None, high=None)
            case _:
                return self.literal(tree)

    def literal(self, tree: Node) -> ast.LiteralValue:
        numbers = child_trees(tree)
        if numbers:
            return self.number(numbers[0])
        token = child_tokens(tree)[0]
        if token.type == "STRING":
            return read_string(token, SCHEMA_LANGUAGE, self.findings)
        return token.type == "TRUE"

    def number(self, tree: Node) -> ast.Number:
        token = child_tokens(tree)[0]
        negative = tree.data == "negative"
        if token.type == "INT":
            return read_integer(token, SCHEMA_LANGUAGE, self.findings, negative=negative)
        return read_float(token, SCHEMA_LANGUAGE, self.findings, negative=negative)


def _parts(tree: Node) -> dict[str, list[Node]]:
    """The parts of a declaration by kind: annotations, implemented interfaces, body."""
    parts: dict[str, list[Node]] = {"at": [], "implements": [], "body": []}
    for child in child_trees(tree):
        parts[child.data].append(child)
    return parts


def _wrong_arguments(at: _At) -> str:
    """What is said of a free annotation with other values than one and keywords."""
    meant = None if at.is_quoted else suggest_annotation(at.name)
    if meant is not None:
        return f"annotation `@{at.name}` is not known; did you mean {meant}?"
    return f'`@{at.name}` takes one value and then keywords: `@{at.name}("v", k=1)`'


def _type_ref(token: Token) -> ast.TypeRef:
    return ast.TypeRef(name=str(token), extent=extent_of(token))
