"""Strategies for schemas that compile, and the fixed schema that most query properties use."""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st
from tests.property import names as n

from omnigraph.lang import Catalog, compile_schema
from omnigraph.lang import schema_ast as ast
from omnigraph.lang.schema_printer import print_schema
from omnigraph.lang.types import INTEGER_RANGES, PropType, Scalar

FIXED_SCHEMA = """
interface Named { name: String @index }
node Person implements Named {
  email: String @key  age: I32?  height: F32?  balance: I64?  joined: DateTime?  born: Date?
  tags: [String]?  scores: [F64]?  level: enum(junior, senior)?  photo: Blob?
  active: Bool @default(true)
  @range(age, 0..150) @check(email, "@")
}
node Team { slug: String @key  title: String  size: U32?  founded: Date? }
node Doc {
  slug: String @key  title: String @index  vec: Vector(3) @embed(title, model="m1") @index
  stars: U64?  rating: F64?  body: String?
}
node Link { weight: F64? }
edge Knows: Person -> Person { since: Date?  note: String?  strength: F32? }
edge MemberOf: Person -> Team @card(0..1) { role: enum(lead, member)? }
edge Wrote: Person -> Doc { position: I32  @unique(src, dst) }
edge Cites: Doc -> Doc
edge Owns: Team -> Doc { since: DateTime? }
edge Link: Doc -> Team { at: DateTime? }
edge Parent: Team -> Team
"""
CATALOG = compile_schema(FIXED_SCHEMA)

PLAIN_SCALARS = tuple(scalar for scalar in Scalar if scalar not in (Scalar.VECTOR, Scalar.BLOB))


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSchema:
    """A schema that compiles: its tree, its text and its catalog."""

    declarations: tuple[ast.Declaration, ...]
    source: str
    catalog: Catalog


def schema_of(declarations: tuple[ast.Declaration, ...]) -> GeneratedSchema:
    """Print and compile a tree."""
    source = print_schema(declarations)
    return GeneratedSchema(declarations=declarations, source=source, catalog=compile_schema(source))


def _kinds(*, key: bool = False) -> st.SearchStrategy[PropType]:
    """Property types; with `key`, only those that a key member may have."""
    plain = st.one_of(
        st.builds(PropType, scalar=st.sampled_from(PLAIN_SCALARS)),
        st.builds(
            PropType,
            scalar=st.just(Scalar.STRING),
            enum_values=st.sets(n.enum_values, min_size=1, max_size=3).map(sorted).map(tuple),
        ),
    )
    if key:
        return plain
    kinds = st.one_of(
        plain,
        st.builds(
            PropType, scalar=st.sampled_from(PLAIN_SCALARS), is_list=st.sampled_from((True,))
        ),
        st.builds(PropType, scalar=st.just(Scalar.VECTOR), vector_dim=st.integers(1, 4)),
        st.just(PropType(scalar=Scalar.BLOB)),
    )
    return st.builds(
        lambda kind, nullable: kind.as_nullable(nullable=nullable), kinds, st.booleans()
    )


def _defaults(kind: PropType) -> st.SearchStrategy[ast.LiteralValue]:
    """A literal that `@default` of a plain type takes."""
    if kind.enum_values is not None:
        return st.sampled_from(kind.enum_values)
    match kind.scalar:
        case Scalar.BOOL:
            return st.booleans()
        case Scalar.F32 | Scalar.F64:
            return st.floats(-1e30, 1e30)
        case Scalar.DATE:
            return st.just("2024-02-29")
        case Scalar.DATETIME:
            return st.just("2024-02-29T12:00:00Z")
        case Scalar.STRING:
            return n.texts
        case integer:
            return st.integers(*INTEGER_RANGES[integer])


_METADATA = st.lists(
    st.one_of(
        st.builds(ast.Annotation, name=st.just("description"), value=st.just("what it is")),
        st.builds(
            ast.Annotation,
            name=st.sampled_from(("note", "pii", "owner")),
            value=st.none() | st.booleans() | n.texts,
        ),
    ),
    max_size=2,
    unique_by=lambda note: note.name,
)


class _Names:
    """Fresh names, so that nothing collides by accident."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, prefix: str) -> str:
        self._next += 1
        return f"{prefix}{self._next}"


def _property(
    draw: st.DrawFn, name: str, kind: PropType, *, index: bool = True
) -> ast.PropertyDecl:
    annotations = list(draw(_METADATA))
    if kind.is_plain and draw(st.booleans()):
        value = draw(_defaults(kind))
        annotations.append(ast.Annotation(name="default", value=value))
    indexable = kind.is_plain or kind.scalar is Scalar.VECTOR
    if index and indexable and not kind.is_list and draw(st.booleans()):
        annotations.append(ast.Annotation(name="index"))
    return ast.PropertyDecl(
        name=name, type=kind, annotations=tuple(draw(st.permutations(annotations)))
    )


def _properties(draw: st.DrawFn, fresh: _Names, *, most: int = 4) -> list[ast.PropertyDecl]:
    count = draw(st.integers(0, most))
    return [_property(draw, fresh.take("p"), draw(_kinds())) for _ in range(count)]


def _pick(
    draw: st.DrawFn,
    properties: list[ast.PropertyDecl],
    fits: Callable[[PropType], bool],
) -> ast.PropertyDecl | None:
    found = [item for item in properties if fits(item.type)]
    return draw(st.sampled_from(found)) if bool(found) and draw(st.booleans()) else None


def _node_constraints(draw: st.DrawFn, properties: list[ast.PropertyDecl]) -> list[ast.Constraint]:
    out: list[ast.Constraint] = []
    plain = [item.name for item in properties if item.type.is_plain]
    if bool(plain) and draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(plain), min_size=1, max_size=2, unique=True))
        is_unique = draw(st.booleans())
        kind = ast.UniqueConstraint if is_unique else ast.IndexConstraint
        out.append(kind(names=tuple(names)))
    number = _pick(draw, properties, lambda kind: kind.scalar.is_numeric and not kind.is_list)
    if number is not None:
        low, high = sorted(draw(st.tuples(st.integers(-9, 9), st.floats(-9, 9))))
        bounds = draw(st.sampled_from(((low, high), (low, None), (None, high))))
        out.append(ast.RangeConstraint(property=number.name, low=bounds[0], high=bounds[1]))
    text = _pick(draw, properties, lambda kind: kind.is_text and kind.enum_values is None)
    if text is not None:
        out.append(ast.CheckConstraint(property=text.name, pattern="^[a-z]*"))
    return out


def _embed(draw: st.DrawFn, properties: list[ast.PropertyDecl], fresh: _Names) -> None:
    source = _pick(draw, properties, lambda kind: kind.is_text and kind.enum_values is None)
    if source is None:
        return
    model = draw(st.sampled_from(((), (("model", "m1"),))))
    properties.append(
        ast.PropertyDecl(
            name=fresh.take("v"),
            type=PropType(scalar=Scalar.VECTOR, vector_dim=3, nullable=draw(st.booleans())),
            annotations=(
                ast.Annotation(name="embed", value=ast.Name(text=source.name), keywords=model),
            ),
        )
    )


def _node(
    draw: st.DrawFn, name: str, fresh: _Names, interfaces: list[ast.InterfaceDecl]
) -> ast.NodeDecl:
    properties = _properties(draw, fresh)
    constraints = _node_constraints(draw, properties)
    _embed(draw, properties, fresh)
    key_size = draw(st.integers(0, 2))
    keys = [
        _property(draw, fresh.take("k"), draw(_kinds(key=True)), index=False)
        for _ in range(key_size)
    ]
    if keys:
        constraints.append(ast.KeyConstraint(names=tuple(item.name for item in keys)))
    chosen = draw(st.lists(st.sampled_from(interfaces), unique=True)) if interfaces else []
    return ast.NodeDecl(
        name=name,
        annotations=tuple(draw(_METADATA)),
        implements=tuple(ast.TypeRef(name=item.name) for item in chosen),
        properties=tuple(draw(st.permutations([*properties, *keys]))),
        constraints=tuple(constraints),
    )


def _edge(draw: st.DrawFn, name: str, fresh: _Names, nodes: list[str]) -> ast.EdgeDecl:
    properties = _properties(draw, fresh, most=2)
    low = draw(st.integers(0, 2))
    card = draw(
        st.none()
        | st.builds(ast.Card, low=st.just(low), high=st.none() | st.integers(low, low + 3))
    )
    is_unique = draw(st.booleans())
    return ast.EdgeDecl(
        name=name,
        from_type=ast.TypeRef(name=draw(st.sampled_from(nodes))),
        to_type=ast.TypeRef(name=draw(st.sampled_from(nodes))),
        card=card,
        annotations=tuple(draw(_METADATA)),
        properties=tuple(properties),
        constraints=(ast.UniqueConstraint(names=("src", "dst")),) if is_unique else (),
    )


@st.composite
def schema_declarations(draw: st.DrawFn, *, min_edges: int = 0) -> tuple[ast.Declaration, ...]:
    """Declarations that compile together: interfaces, one to three nodes, some edges."""
    fresh = _Names()
    interfaces = [
        ast.InterfaceDecl(name=f"I{number}", properties=tuple(_properties(draw, fresh, most=2)))
        for number in range(draw(st.integers(0, 2)))
    ]
    nodes = [
        _node(draw, f"N{number}", fresh, interfaces) for number in range(draw(st.integers(1, 3)))
    ]
    names = [item.name for item in nodes]
    # An edge may share a node's name; the two live in separate namespaces.
    words = draw(
        st.lists(
            st.sampled_from(["Knows", "WorksAt", "Has", "Of", "Contains", names[0]]),
            min_size=min_edges,
            max_size=4,
            unique=True,
        )
    )
    edges = [_edge(draw, word, fresh, names) for word in words]
    return tuple(draw(st.permutations([*interfaces, *nodes, *edges])))


def schemas(*, min_edges: int = 0) -> st.SearchStrategy[GeneratedSchema]:
    """Schemas that compile."""
    return schema_declarations(min_edges=min_edges).map(schema_of)
