"""Random clause lists: bindings, traversals, filters and negations that check against a schema."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded
from typing import Any

from tests.reference.constants import Constants, write_literal
from tests.reference.evaluator import Entity, ReferenceGraph
from tests.reference.graphs import phrase
from tests.reference.value_texts import degree, value_of

from omnigraph.lang import EdgeType, PropType, Scalar
from omnigraph.lang.catalog import Property

_COMPARE = ("=", "!=", "<", "<=", ">", ">=")
_THRESHOLDS = ("0.25", "0.61", "0.95", "1.1", "1.45")
"""Distances that no two vectors of the graphs have."""
_NAMES = (
    *("a", "b", "c", "d", "x", "y", "z", "aB", "ab", "_v", "zz", "n1", "node"),
    *("count", "limit", "e2", "k", "m", "q", "r", "s", "t", "u", "v", "w"),
)


_HOPS = PropType(scalar=Scalar.I64)
_NAME = PropType(scalar=Scalar.STRING)
_PATH = PropType(scalar=Scalar.STRING, is_list=True)


class _Walk(str):
    """A traversal; its place among others of its clause list has a meaning."""

    __slots__ = ()


@dataclass(slots=True)
class Scope:
    """Variables in force and their types; `own` are those of the innermost clause list."""

    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    walks: list[tuple[str, str, bool]] = field(default_factory=list)
    """Ends of the traversals in force, and whether both are of one type; none for a bound edge."""
    narrowed: dict[str, str] = field(default_factory=dict)
    """The type that a traversal leaves of an interface."""

    def child(self) -> "Scope":
        """The scope of a clause list inside this one."""
        narrowed = dict(self.narrowed)
        return Scope(dict(self.nodes), dict(self.edges), set(), list(self.walks), narrowed)

    def bind(self, var: str, type_name: str) -> None:
        """Bind a node variable of this clause list."""
        self.nodes[var] = type_name
        self.own.add(var)

    @property
    def outer(self) -> list[str]:
        """Node variables that an enclosing clause list binds."""
        return [var for var in self.nodes if var not in self.own]


@dataclass(frozen=True, slots=True)
class Column:
    """A property of a variable, or a node variable itself, which is its id."""

    text: str
    type: PropType
    seen: Sequence[object]
    """The values that it takes."""

    @property
    def is_plain(self) -> bool:
        """It can be compared, sorted by and grouped by."""
        return self.type.is_plain


@dataclass(slots=True, kw_only=True)
class ClauseWriter:
    """Writes clauses; what it used is in `features` of the constants."""

    rng: Random
    graph: ReferenceGraph
    constants: Constants
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = self.rng.sample(_NAMES, len(_NAMES))

    def note(self, feature: str) -> None:
        self.constants.features.add(feature)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def match(self) -> tuple[Scope, list[str]]:
        """The clauses of a match and what they bind."""
        scope = Scope()
        clauses = [self.root(scope)]
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 3))):
            clauses += self.walk(scope, self.rng.choice(list(scope.nodes)))
        if self.chance(0.12):
            self.note("match: cross product")
            clauses.append(self.binding(scope, self.kind()))
        clauses += self.filters(scope, self.rng.choice((0, 0, 0, 1, 1, 2)))
        written = set(scope.nodes)
        clauses += self.negations(scope, depth=0)
        if set(scope.nodes) - written and self.chance(0.4):
            self.note("filter: after an optional block")
            clauses += self.filters(scope, 1)
        return scope, self.ordered(clauses)

    def ordered(self, clauses: list[str]) -> list[str]:
        """Bindings and filters may stand anywhere; traversals keep their order."""
        movable = [each for each in clauses if not isinstance(each, _Walk)]
        written: list[str] = [each for each in clauses if isinstance(each, _Walk)]
        for clause in movable:
            written.insert(self.rng.randint(0, len(written)), clause)
        return written

    def root(self, scope: Scope) -> str:
        if self.chance(0.15) and self.graph.edges:
            self.note("walk: no end bound")
            edge = self.rng.choice(list(self.graph.catalog.edge_types.values()))
            left, right = self.fresh(), self.fresh()
            scope.bind(left, edge.from_type)
            scope.bind(right, edge.to_type)
            return _Walk(f"${left} {_word(edge)} ${right}")
        return self.binding(scope, self.kind())

    def kind(self) -> str:
        """A node type, or now and then an interface."""
        interfaces = list(self.graph.catalog.interfaces)
        if interfaces and self.chance(0.25):
            self.note("interface")
            return self.rng.choice(interfaces)
        return self.rng.choice(list(self.graph.nodes))

    def types(self, scope: Scope, var: str) -> tuple[str, ...]:
        """The node types that a variable may be of."""
        if var in scope.narrowed:
            return (scope.narrowed[var],)
        return self.graph.catalog.implementing.get(scope.nodes[var], (scope.nodes[var],))

    def narrow(self, scope: Scope, var: str, type_name: str) -> None:
        """What a traversal leaves of a variable."""
        if var in scope.nodes and len(self.types(scope, var)) > 1:
            self.note("interface: walk" + ("" if var in scope.own else " in a block"))
            scope.narrowed[var] = type_name

    def binding(self, scope: Scope, type_name: str, var: str | None = None) -> str:
        if var is None:
            var = self.fresh()
            scope.bind(var, type_name)
        matches = self.matches(type_name) if self.chance(0.12) else []
        return f"${var}: {type_name}" + (f" {{ {', '.join(matches)} }}" if matches else "")

    def matches(self, type_name: str) -> list[str]:
        """Property matches of a binding: equality, or membership in a list."""
        rows = self.graph.rows_of(type_name)
        found = []
        for name, kind in self.rng.sample(_types(self.graph.catalog.readable(type_name)), 1):
            if kind.scalar is Scalar.VECTOR:
                continue
            target = kind.item if kind.is_list else kind
            seen = [item for value in _seen(rows, name) for item in _items(value)]
            if not kind.is_list and self.chance(0.3):
                self.note("match: one of a list")
                found.append(f"{name}: in {self.constants.members(target, seen)}")
                continue
            self.note("match: list member" if kind.is_list else "match: property")
            found.append(f"{name}: {self.constants.of_kind(target, seen)}")
        return found

    def fresh(self) -> str:
        return self.names.pop()

    def walk(self, scope: Scope, start: str) -> list[str]:
        """A traversal from a variable in force, and perhaps a binding of its other end."""
        rng, types = self.rng, self.types(scope, start)
        edges = [
            (edge, end)
            for edge in self.graph.catalog.edge_types.values()
            for end in ("from", "to")
            if (edge.from_type if end == "from" else edge.to_type) in types
        ]
        if not edges:
            return []
        edge, end = rng.choice(edges)
        # Where either end could be the start, the written order decides.
        is_open = edge.from_type != edge.to_type and {edge.from_type, edge.to_type} <= {*types}
        other_type = edge.to_type if end == "from" else edge.from_type
        one_type = edge.from_type == edge.to_type
        other, is_new = self.other_end(scope, start, other_type)
        undirected = one_type and self.chance(0.25)
        left, right = (start, other) if end == "from" else (other, start)
        if (undirected or not one_type) and not is_open and self.chance(0.5):
            left, right = right, left
        self.note("walk: undirected" if undirected else f"walk: {end} the bound end")
        word = f"<{_word(edge)}>" if undirected else _word(edge)
        known_edges = len(scope.edges)
        middle = self.edge_part(scope, edge, word)
        # An edge variable makes the walk one that tells nothing, and the pair one that cannot ask.
        told = 1 if len(scope.edges) == known_edges else 2
        scope.walks += [(left, right, one_type)] * told
        clauses: list[str] = [_Walk(f"${left} {middle} ${right}")]
        self.narrow(scope, start, edge.from_type if end == "from" else edge.to_type)
        if is_new:
            scope.bind(other, other_type)
            if self.chance(0.3):
                item = self.graph.catalog.node_types[other_type]
                scope.nodes[other] = rng.choice((other_type, *item.implements))
                clauses.append(self.binding(scope, scope.nodes[other], other))
        self.narrow(scope, other, other_type)
        return clauses

    def other_end(self, scope: Scope, start: str, type_name: str) -> tuple[str, bool]:
        """The variable at the other end, and whether it is new."""
        known = [
            var
            for var in scope.nodes
            if type_name in (types := self.types(scope, var)) and (var != start or len(types) == 1)
        ]
        roll = self.rng.random()
        if roll < 0.15:
            self.note("walk: anonymous end")
            return "_", False
        if known and roll < 0.28:
            other = self.rng.choice(known)
            self.note("walk: from a node to itself" if other == start else "walk: both ends bound")
            return other, False
        return self.fresh(), True

    def edge_part(self, scope: Scope, edge: EdgeType, word: str) -> str:
        """What stands between the ends."""
        one_type = edge.from_type == edge.to_type
        if self.chance(0.35 if one_type else 0.08):
            low = self.rng.choice((1, 1, 2, 3))
            high = low + self.rng.choice((0, 1, 1, 2))
            self.note("walk: hops" if one_type else "walk: hops between two types")
            bounds = [self.bound(each) for each in (low, high)]
            return f"{word}{{{','.join(bounds)}}}"
        if self.chance(0.04):
            self.note("walk: anonymous edge")
            return f"$_:{word}"
        if self.chance(0.3):
            var = self.fresh()
            scope.edges[var] = edge.name
            self.note("walk: edge variable")
            return f"${var}:{word}"
        return word

    def bound(self, hops: int) -> str:
        """A bound of a walk, written or given as a parameter."""
        if not self.chance(0.2):
            return str(hops)
        self.note("walk: a bound as a parameter")
        return self.constants.declare(PropType(scalar=Scalar.I32), hops)

    def filters(self, scope: Scope, count: int) -> list[str]:
        found = [self.condition(list(self.columns(scope)), scope) for _ in range(count)]
        return [each for each in found if each is not None]

    def condition(self, columns: list[Column], scope: Scope, depth: int = 0) -> str | None:
        """One condition: mostly a filter, else filters under `and`, `or` and `not`."""
        roll = self.rng.random()
        if depth == 3 or roll > 0.45:
            return self.filter(columns, scope)
        if roll < 0.15:
            part = self.condition(columns, scope, depth + 1)
            if part is None:
                return None
            self.note("condition: not")
            return f"not ({part})"
        word = self.rng.choice(("and", "or", "or"))
        wanted = (self.condition(columns, scope, depth + 1) for _ in range(self.rng.choice((2, 3))))
        parts = [part for part in wanted if part is not None]
        if not parts:
            return None
        self.note(f"condition: {word}")
        joined = f" {word} ".join(f"({part})" if self.chance(0.6) else part for part in parts)
        return f"({joined})" if depth and self.chance(0.8) else joined

    def null_test(self, columns: list[Column]) -> str | None:
        column = self.pick(columns, lambda _: True)
        if column is None:
            return None
        word = self.rng.choice(("is null", "is not null"))
        self.note(f"filter: {word}")
        return f"{column.text} {word}"

    def membership(self, columns: list[Column]) -> str | None:
        """A column in a list of constants, in a list parameter, or in another column."""
        column = self.pick(columns, lambda each: each.is_plain)
        if column is None:
            return None
        word = self.rng.choice(("in", "not in"))
        lists = self.pick(
            columns,
            lambda each: each.type.is_list and column.type.is_compatible_with(each.type.item),
        )
        if lists is not None and self.chance(0.4):
            self.note(f"filter: {word} a column")
            return f"{column.text} {word} {lists.text}"
        self.note(f"filter: {word} constants")
        return f"{column.text} {word} {self.constants.members(column.type, column.seen)}"

    def columns(self, scope: Scope) -> Iterator[Column]:
        """Every property in force, and now and then a value that is computed from one."""
        found = list(self.properties(scope))
        yield from found
        if found and self.chance(0.4):
            column = self.rng.choice(found)
            value = value_of(self.rng, column.text, column.type)
            if value is not None:
                self.note("value")
                yield Column(value[0], value[1], [])
        if found and self.chance(0.1):
            yield from self.chosen(found, scope)
        if scope.nodes and self.chance(0.15):
            counted = self.degree(scope, self.rng.choice(sorted(scope.nodes)))
            if counted is not None:
                self.note("value: count")
                yield Column(counted, PropType(scalar=Scalar.I64), [])
        if scope.nodes and self.chance(0.1):
            yield from self.solutions(scope)

    def chosen(self, columns: list[Column], scope: Scope) -> Iterator[Column]:
        """A value that a condition chooses."""
        column = self.pick(columns, lambda each: each.is_plain)
        condition = self.condition(columns, scope, 2)
        if column is None or condition is None:
            return
        self.note("value: by a condition")
        other = self.pick(columns, lambda each: each.type.scalar == column.type.scalar)
        if other is None or not other.is_plain:
            other = column
        yield Column(f"if({condition}, {column.text}, {other.text})", column.type, column.seen)

    def solutions(self, outer: Scope) -> Iterator[Column]:
        """How many solutions a block has, which walks and filters; its names are free again."""
        names, scope = list(self.names), outer.child()
        clauses = self.walk(scope, self.rng.choice(scope.outer))
        if clauses:
            found = [self.filter(list(self.properties(scope)), scope) for _ in range(2)]
            clauses += [each for each in found if each is not None]
            if self.chance(0.3) and scope.own:
                clauses += self.linked(scope, self.rng.choice(sorted(scope.own)))
            self.note("value: count of a block")
            text = f"count {{ {' '.join(self.ordered(clauses))} }}"
            yield Column(text, PropType(scalar=Scalar.I64), [])
        self.names = names

    def degree(self, scope: Scope, var: str) -> str | None:
        """The number of edges of some type at a node; None if its type has none."""
        edges = list(self.graph.catalog.edge_types.values())
        return degree(self.rng, var, self.rng.choice(self.types(scope, var)), edges)

    def properties(self, scope: Scope) -> Iterator[Column]:
        """Every property in force."""
        catalog, graph = self.graph.catalog, self.graph
        for var, type_name in scope.nodes.items():
            for name, kind in _types(catalog.readable(type_name)):
                yield Column(f"${var}.{name}", kind, _seen(graph.rows_of(type_name), name))
            if type_name in catalog.interfaces:
                yield Column(f"type(${var})", _NAME, list(graph.nodes))
        for var, type_name in scope.edges.items():
            for name, kind in _types(catalog.edge_types[type_name].properties):
                yield Column(f"${var}.{name}", kind, _seen(graph.edges[type_name], name))
        pairs = [frozenset((left, right)) for left, right, _ in scope.walks]
        for left, right, one_type in scope.walks:
            if "_" not in (left, right) and pairs.count(frozenset((left, right))) == 1:
                self.note("walk: told")
                yield Column(f"hops(${left}, ${right})", _HOPS, [1, 2, 3])
                if one_type:
                    yield Column(f"path(${left}, ${right})", _PATH, [["a"]])
                    yield Column(f"path(${right}, ${left})", _PATH, [["a"]])

    def filter(self, columns: list[Column], scope: Scope) -> str | None:
        """One filter on the columns, or None when the kind that was drawn has no operands."""
        writers: list[tuple[int, Callable[[], str | None]]] = [
            (8, lambda: self.with_constant(columns)),
            (4, lambda: self.with_column(columns)),
            (3, lambda: self.null_test(columns)),
            (3, lambda: self.membership(columns)),
            (2, lambda: self.list_member(columns)),
            (1, lambda: self.in_constant_list(columns)),
            (2, lambda: self.text_part(columns)),
            (2, lambda: self.ids(scope)),
            (1, lambda: self.text_call(scope)),
            (1, lambda: self.near(scope)),
            (1, self.of_constants),
        ]
        choices = [writer for weight, writer in writers for _ in range(weight)]
        return self.rng.choice(choices)()

    def with_constant(self, columns: list[Column]) -> str | None:
        column = self.pick(columns, lambda each: each.is_plain)
        if column is None:
            return None
        op = self.rng.choice(_COMPARE)
        constant = self.constants.of_kind(column.type, column.seen)
        self.note(f"filter: {column.type.scalar} {op}")
        if self.chance(0.2):
            self.note("filter: constant on the left")
            return f"{constant} {op} {column.text}"
        return f"{column.text} {op} {constant}"

    def with_column(self, columns: list[Column]) -> str | None:
        left = self.pick(columns, lambda each: each.is_plain)
        if left is None:
            return None
        right = self.pick(
            columns,
            lambda each: (
                each.is_plain and each.text != left.text and each.type.is_compatible_with(left.type)
            ),
        )
        if right is None:
            return None
        if left.type.scalar != right.type.scalar:
            floats = left.type.scalar.is_float or right.type.scalar.is_float
            self.note(f"filter: columns of two types, {'as floats' if floats else 'integers'}")
        same = left.text.split(".")[0] == right.text.split(".")[0]
        self.note(f"filter: columns of {'one variable' if same else 'two variables'}")
        return f"{left.text} {self.rng.choice(_COMPARE)} {right.text}"

    def list_member(self, columns: list[Column]) -> str | None:
        items = self.pick(columns, lambda each: each.type.is_list)
        if items is None:
            return None
        member = self.pick(
            columns, lambda each: each.is_plain and each.type.is_compatible_with(items.type.item)
        )
        if member is not None and self.chance(0.3):
            self.note("filter: a list contains a column")
            return f"{items.text} contains {member.text}"
        self.note("filter: a list contains a constant")
        seen = [item for value in items.seen for item in _items(value)]
        return f"{items.text} contains {self.constants.of_kind(items.type.item, seen)}"

    def in_constant_list(self, columns: list[Column]) -> str | None:
        column = self.pick(columns, lambda each: each.is_plain)
        if column is None:
            return None
        self.note("filter: a constant list contains a column")
        members = self.constants.members(column.type, column.seen)
        return f"{members} contains {column.text}"

    def text_part(self, columns: list[Column]) -> str | None:
        column = self.pick(columns, lambda each: each.type.is_text)
        if column is None:
            return None
        op = self.rng.choice(("contains", "starts_with"))
        self.note(f"filter: {op} of a text")
        other = self.pick(columns, lambda each: each.type.is_text and each.text != column.text)
        if other is not None and self.chance(0.25):
            return f"{column.text} {op} {other.text}"
        whole = str(self.rng.choice([value for value in column.seen if value] or ["a"]))
        at = 0 if op == "starts_with" else self.rng.randint(0, len(whole))
        part = whole[at : at + self.rng.randint(0, 3)]
        if self.chance(0.15):
            self.note("filter: a constant text contains a column")
            return f"{write_literal(whole + part)} {op} {column.text}"
        if self.chance(0.2):
            kind = PropType(scalar=Scalar.STRING, nullable=self.chance(0.5))
            return f"{column.text} {op} {self.constants.declare(kind, part)}"
        return f"{column.text} {op} {write_literal(part)}"

    def ids(self, scope: Scope) -> str | None:
        """Node variables compared by their ids, also those of two types."""
        if not scope.nodes:
            return None
        self.note("filter: ids")
        left, right = self.rng.choice(list(scope.nodes)), self.rng.choice(list(scope.nodes))
        op = self.rng.choice(_COMPARE)
        if left != right and self.chance(0.7):
            return f"${left} {op} ${right}"
        known = _seen(self.graph.rows_of(scope.nodes[left]), "id")
        if known and self.chance(0.2):
            # With the variable on the left this would be a traversal.
            return f"{write_literal(self.rng.choice(known))} starts_with ${left}"
        kind = PropType(scalar=Scalar.STRING)
        return f"${left} {op} {self.constants.of_kind(kind, known)}"

    def text_call(self, scope: Scope) -> str | None:
        call = self.text_predicate(scope)
        if call is None or self.chance(0.6):
            return call
        self.note("search: compared with a Bool")
        return f"{call} = {self.rng.choice(('true', 'false'))}"

    def text_predicate(self, scope: Scope) -> str | None:
        """A call of `search`, `match_text` or `fuzzy` on text of the vocabulary."""
        fields = [each for each in self.node_columns(scope) if _has_vocabulary(each)]
        if not fields:
            return None
        searched = self.rng.choice(fields)
        name = self.rng.choice(("search", "match_text", "fuzzy"))
        self.note(f"search: {name}")
        query = phrase(self.rng)
        if name != "fuzzy":
            return f"{name}({searched.text}, {self.text_operand(query)})"
        at = self.rng.randint(0, len(query))
        query = (
            query[:at] + self.rng.choice(("x", "", "oz")) + query[at + self.rng.choice((0, 1)) :]
        )
        edits = self.rng.choice(("", ", 0", ", 1", ", 2"))
        return f"fuzzy({searched.text}, {self.text_operand(query)}{edits})"

    def text_operand(self, query: str) -> str:
        if self.chance(0.3):
            return self.constants.declare(PropType(scalar=Scalar.STRING), query)
        return write_literal(query)

    def near(self, scope: Scope) -> str | None:
        call = self.nearest(scope)
        if call is None:
            return None
        self.note("search: nearest in a filter")
        op = self.rng.choice(("<", ">", "<=", ">="))
        return f"{call} {op} {self.rng.choice(_THRESHOLDS)}"

    def nearest(self, scope: Scope, var: str | None = None) -> str | None:
        """A call of `nearest`, on that variable if one is given."""
        vectors = [
            each
            for each in self.node_columns(scope)
            if each.type.scalar is Scalar.VECTOR
            and (var is None or each.text.startswith(f"${var}."))
        ]
        if not vectors:
            return None
        return f"nearest({self.rng.choice(vectors).text}, {self.constants.query_vector()})"

    def node_columns(self, scope: Scope) -> list[Column]:
        return list(self.columns(Scope(scope.nodes)))

    def of_constants(self) -> str:
        """A comparison that no row takes part in; a null parameter makes it unknown."""
        self.note("filter: constants only")
        kind = PropType(scalar=Scalar.I64, nullable=True)
        param = self.constants.declare(kind, self.rng.choice((0, 1, 2)))
        return f"{param} {self.rng.choice(_COMPARE)} 1"

    def negations(self, scope: Scope, depth: int) -> list[str]:
        count = self.rng.choice((0, 0, 0, 1, 1, 2) if depth == 0 else (0, 0, 0, 1))
        found = [self.negation(scope, depth) for _ in range(count)]
        return [each for each in found if each is not None]

    def negation(self, outer: Scope, depth: int) -> str | None:
        """A negation that mentions an outer variable; its names are free again after it."""
        names = list(self.names)
        scope = outer.child()
        writer = self.rng.choice(
            (
                *(self.negated_walk, self.negated_walk, self.negated_walk, self.negated_walk),
                *(self.negated_filter, self.negated_join, self.negated_binding),
            )
        )
        clauses = writer(scope)
        if not clauses:
            return None
        if self.chance(0.3):
            clauses += self.filters(scope, 1)
        if depth < 2:
            inner = self.negations(scope, depth + 1)
            if inner:
                self.note("negation: nested")
            clauses += inner
        word = self.rng.choice(("not", "not", "exists", "optional", "optional"))
        joined = {frozenset(walk[:2]) for walk in outer.walks}
        if any(frozenset(walk[:2]) in joined for walk in scope.walks[len(outer.walks) :]):
            # A second traversal between two variables would leave `hops` of them without a meaning.
            word = "exists" if word == "optional" else word
        self.note(f"block: {word}")
        if word == "optional":
            outer.walks = list(scope.walks)
            outer.nodes |= {var: scope.nodes[var] for var in scope.own}
            outer.edges |= scope.edges
            outer.narrowed |= {var: scope.narrowed[var] for var in scope.own & {*scope.narrowed}}
            outer.own |= scope.own
        else:
            self.names = names
        return f"{word} {{ {' '.join(self.ordered(clauses))} }}"

    def negated_walk(self, scope: Scope) -> list[str]:
        self.note("negation: walk")
        clauses = self.walk(scope, self.rng.choice(scope.outer))
        if clauses and self.chance(0.4):
            clauses += self.walk(scope, self.rng.choice(list(scope.nodes)))
        if clauses and self.chance(0.3) and scope.own:
            clauses += self.linked(scope, self.rng.choice(sorted(scope.own)))
        return clauses

    def negated_filter(self, scope: Scope) -> list[str]:
        """Only filters, and all of them on outer variables."""
        found = self.filters(scope, self.rng.choice((1, 1, 2)))
        found = [each for each in found if any(f"${var}" in each for var in scope.nodes)]
        if found:
            self.note("negation: filter on an outer variable")
        return found

    def negated_join(self, scope: Scope) -> list[str]:
        """An inner variable that a comparison ties to an outer one."""
        clause = self.binding(scope, self.kind())
        (inner,) = scope.own
        linked = self.linked(scope, inner)
        if not linked:
            return []
        self.note("negation: join by a comparison")
        return [clause, *linked]

    def linked(self, scope: Scope, inner: str) -> list[str]:
        """A comparison of an inner variable with an outer one."""
        outer = self.rng.choice(scope.outer)
        mine = [each for each in self.columns(scope) if each.text.startswith(f"${inner}.")]
        theirs = [each for each in self.columns(scope) if each.text.startswith(f"${outer}.")]
        left = self.pick(mine, lambda each: each.is_plain)
        if left is None or self.chance(0.3):
            return [f"${inner} {self.rng.choice(_COMPARE)} ${outer}"]
        right = self.pick(
            theirs, lambda each: each.is_plain and each.type.is_compatible_with(left.type)
        )
        if right is None:
            return []
        self.note("negation: compares inner and outer variables")
        return [f"{left.text} {self.rng.choice(_COMPARE)} {right.text}"]

    def negated_binding(self, scope: Scope) -> list[str]:
        """The outer variable bound again, with property matches that the row must not have."""
        var = self.rng.choice(scope.outer)
        matches = self.matches(scope.nodes[var])
        if not matches:
            return []
        self.note("negation: outer variable bound again")
        return [f"${var}: {scope.nodes[var]} {{ {', '.join(matches)} }}"]

    def pick(self, columns: list[Column], fits: Callable[[Column], bool]) -> Column | None:
        fitting = [each for each in columns if fits(each)]
        return self.rng.choice(fitting) if fitting else None


def _word(edge: EdgeType) -> str:
    return edge.name[0].lower() + edge.name[1:]


def _types(properties: Mapping[str, Property]) -> list[tuple[str, PropType]]:
    return [(name, each.type) for name, each in properties.items()]


def _seen(rows: Sequence[Entity], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


def _items(value: object) -> list[object]:
    """The items of a list, or the value that is none."""
    return [item for item in value if item is not None] if isinstance(value, list) else [value]


def _has_vocabulary(column: Column) -> bool:
    return column.text.endswith(".words") or column.type.enum_values is not None
