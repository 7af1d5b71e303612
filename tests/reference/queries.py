"""Random read queries that check against the schema of a graph, with their parameters.

One seed is one query. What a query uses is noted in its features, so that a test can tell whether
the generator still reaches everything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded

from tests.reference.clauses import ClauseWriter, Column, Scope
from tests.reference.constants import Constants, write_literal
from tests.reference.evaluator import ReferenceGraph
from tests.reference.graphs import POOLS

from omnigraph.errors import QueryInvalid
from omnigraph.lang import PropType, QueryIR, Scalar, compile_query

_TEXT = PropType(scalar=Scalar.STRING)
_COUNT = PropType(scalar=Scalar.I64)
_BOOL = PropType(scalar=Scalar.BOOL)
_LIST = PropType(scalar=Scalar.I64, is_list=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedQuery:
    """A query as a caller has it."""

    seed: str
    text: str
    params: Mapping[str, object]
    features: frozenset[str]


@dataclass(slots=True)
class Compiled:
    """Generated queries that compile, and how many did not."""

    discarded: list[GeneratedQuery] = field(default_factory=list)
    accepted: int = 0

    def queries(
        self, graph: ReferenceGraph, seed: int, count: int
    ) -> Iterator[tuple[GeneratedQuery, QueryIR]]:
        """The first `count` queries of a graph's seed that compile."""
        number, left = 0, count
        while left:
            query = generate_query(graph, f"{seed}/{number}")
            number += 1
            try:
                compiled = compile_query(graph.catalog, query.text, expect_mutation=False).ir
            except QueryInvalid:
                self.discarded.append(query)
                continue
            self.accepted += 1
            left -= 1
            if isinstance(compiled, QueryIR):
                yield query, compiled


def generate_query(graph: ReferenceGraph, seed: str) -> GeneratedQuery:
    """The query of a seed for a graph."""
    rng = Random(f"query {seed}")  # noqa: S311 - no secret
    constants = Constants(rng=rng, graph=graph)
    clauses = ClauseWriter(rng=rng, graph=graph, constants=constants)
    scope, match = clauses.match()
    tail = _Tail(clauses=clauses, rng=rng, scope=scope)
    if rng.random() < 0.3:
        tail.aggregate()
    elif rng.random() < 0.15:
        tail.rank()
    elif rng.random() < 0.15:
        tail.distinct_rows()
    elif rng.random() < 0.1:
        tail.without_properties()
    else:
        tail.plain()
    lines = ["  ".join(("", *match)), *tail.lines()]
    source = f"query q({constants.declarations()}) {{ match {{ {lines[0]} }}\n" + "\n".join(
        (*lines[1:], "}")
    )
    return GeneratedQuery(
        seed=seed,
        text=source,
        params=constants.given,
        features=frozenset(constants.features),
    )


@dataclass(slots=True, kw_only=True)
class _Tail:
    """The part of a query after `match`."""

    clauses: ClauseWriter
    rng: Random
    scope: Scope
    returns: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    sortable: list[str] = field(default_factory=list)
    """Result columns to sort by: their alias, or the expression again."""
    order: list[str] = field(default_factory=list)
    limit: int | None = None
    distinct: bool = False
    counts: list[str] = field(default_factory=list)
    """Returned counts, as `having` names them."""

    def lines(self) -> list[str]:
        lines = [f"return {'distinct ' * self.distinct}{{ {', '.join(self.returns)} }}"]
        if self.counts and self.rng.random() < 0.3:
            self.clauses.note("having")
            lines.append(f"having {{ {self.group_condition(self.rng.choice(self.counts))} }}")
        if self.order:
            self.clauses.note("order")
            lines.append(f"order {{ {', '.join(self.order)} }}")
        if self.limit is not None:
            self.clauses.note("limit 0" if self.limit == 0 else "limit")
            lines.append(f"limit {self.counted(self.limit)}")
        if self.rng.random() < 0.2:
            self.clauses.note("offset")
            lines.append(f"offset {self.counted(self.rng.choice((0, 1, 3, 50)))}")
        return lines

    def group_condition(self, count: str) -> str:
        """A condition on a returned count."""
        if self.rng.random() < 0.3:
            members = self.clauses.constants.members(_COUNT, (1, 2, 3))
            return f"{count} in {members} or {count} > 5"
        forms = ("not ({0} = 1) or {0} is null", "{0} % 2 = 1 and {0} < 9", "if({0} > 2, 1, 0) = 1")
        return self.rng.choice(forms).format(count)

    def counted(self, count: int) -> str:
        """A count, written or given as a parameter."""
        if self.rng.random() < 0.7:
            return str(count)
        self.clauses.note("count: parameter")
        return self.clauses.constants.declare(PropType(scalar=Scalar.I64), count)

    def plain(self) -> None:
        """Columns of the rows of the match."""
        for _ in range(self.rng.choice((1, 2, 2, 3, 4))):
            self.add_column()
        keys = [*self.sortable, *self.unprojected()]
        for key in self.rng.sample(keys, min(len(keys), self.rng.choice((0, 0, 1, 1, 2, 3)))):
            self.order.append(self.directed(key))
        if self.rng.random() < 0.4:
            self.limit = self.rng.choice((0, 1, 2, 5, 10, 10, 20, 100))

    def add_column(self) -> None:
        roll = self.rng.random()
        columns = list(self.clauses.columns(self.scope))
        if roll < 0.3:
            self.add_node(self.rng.choice(list(self.scope.nodes)))
        elif roll < 0.4:
            self.add_constant()
        elif roll < 0.45 and (call := self.clauses.text_predicate(self.scope)) is not None:
            self.clauses.note("return: text predicate")
            self.add(call, "call", _BOOL, aliased=True)
        elif roll < 0.5 and (call := self.clauses.nearest(self.scope)) is not None:
            self.clauses.note("return: nearest")
            self.add(call, "call", _LIST, aliased=True)
        elif columns:
            column = self.rng.choice(columns)
            self.clauses.note(f"return: {_shown(column.type)}")
            self.add(
                column.text,
                column.text[1:],
                column.type,
                aliased=not column.text.startswith("$"),
            )
        else:
            self.add_constant()

    def add_node(self, var: str) -> None:
        self.clauses.note("return: node variable")
        self.add(f"${var}", var, _TEXT)

    def add_constant(self) -> None:
        """A literal of any kind, or a parameter."""
        scalar = self.rng.choice(list(POOLS))
        value = self.rng.choice(POOLS[scalar])
        roll = self.rng.random()
        if roll < 0.4:
            self.clauses.note("return: parameter")
            kind = PropType(scalar=scalar, nullable=self.rng.random() < 0.5)
            text = self.clauses.constants.declare(kind, value)
        elif roll < 0.5:
            self.clauses.note("return: list parameter")
            kind = PropType(scalar=scalar, is_list=True, nullable=self.rng.random() < 0.5)
            text = self.clauses.constants.declare(kind, [value, value])
        elif roll < 0.6:
            self.clauses.note("return: list literal")
            text = write_literal([value, value])
        else:
            self.clauses.note("return: literal")
            text = write_literal(value)
        self.add(text, "literal", _LIST, aliased=True)

    def add(self, text: str, name: str, kind: PropType, *, aliased: bool = False) -> None:
        """A result column, with an alias where its own name is taken or one is wanted."""
        if aliased or name in self.names or self.rng.random() < 0.3:
            alias = self.rng.choice((f"c{len(self.returns)}", f"_{len(self.returns)}"))
            self.returns.append(f"{text} as {alias}")
            self.names.add(alias)
            key = alias
        else:
            self.returns.append(text)
            self.names.add(name)
            key = text
        if kind.is_plain:
            self.sortable.append(key)

    def unprojected(self) -> list[str]:
        """Sort keys that need not be columns of the result."""
        columns = [each.text for each in self.clauses.columns(self.scope) if each.is_plain]
        return [
            *self.rng.sample(columns, min(2, len(columns))),
            *(f"${v}" for v in self.scope.nodes),
        ]

    def directed(self, key: str) -> str:
        direction = self.rng.choice(("", " asc", " desc", " desc"))
        if direction == " desc":
            self.clauses.note("order: descending")
        return key + direction

    def distinct_rows(self) -> None:
        """Columns whose rows are made distinct."""
        self.distinct = True
        self.clauses.note("distinct")
        for _ in range(self.rng.choice((1, 2, 3))):
            self.add_group_key(list(self.clauses.columns(self.scope)))
        for key in self.rng.sample(self.sortable, min(len(self.sortable), self.rng.choice((0, 1)))):
            self.order.append(self.directed(key))
        if self.rng.random() < 0.3:
            self.limit = self.rng.choice((0, 1, 3, 20))

    def without_properties(self) -> None:
        """Groups that look at nodes by their types and the numbers of their edges only."""
        self.clauses.note("aggregate: of no property")
        values = [f"type(${var})" for var in self.scope.nodes]
        degrees = (self.clauses.degree(self.scope, var) for var in self.scope.nodes)
        values += [text for text in degrees if text is not None]
        self.distinct = self.rng.random() < 0.3
        for text in self.rng.sample(values, min(len(values), self.rng.choice((1, 2)))):
            self.add(text, text, _TEXT, aliased=True)
        if not self.distinct:
            var = self.rng.choice(list(self.scope.nodes))
            func = self.rng.choice(("count", "min", "max"))
            what = f"${var}" if func == "count" else self.rng.choice(values)
            self.add(f"{func}({what})", func, _COUNT)

    def aggregate(self) -> None:
        """Group keys and aggregates, in any order."""
        columns = list(self.clauses.columns(self.scope))
        steps = [self.add_group_key] * self.rng.choice((0, 1, 1, 2))
        steps += [self.add_aggregate] * self.rng.choice((1, 1, 2, 3))
        self.clauses.note("aggregate: no keys" if len(steps) == 1 else "aggregate: with others")
        self.rng.shuffle(steps)
        for step in steps:
            step(columns)
        for key in self.rng.sample(
            self.sortable, min(len(self.sortable), self.rng.choice((0, 1, 2)))
        ):
            self.clauses.note("aggregate: ordered")
            self.order.append(self.directed(key))
        if self.rng.random() < 0.3:
            self.limit = self.rng.choice((0, 1, 3, 20))

    def add_group_key(self, columns: list[Column]) -> None:
        plain = [each for each in columns if each.is_plain]
        if not plain or self.rng.random() < 0.25:
            self.clauses.note("group: node variable")
            self.add_node(self.rng.choice(list(self.scope.nodes)))
            return
        column = self.rng.choice(plain)
        self.clauses.note(f"group: {_shown(column.type)}")
        is_call = not column.text.startswith("$")
        self.add(column.text, column.text[1:], column.type, aliased=is_call)

    def add_aggregate(self, columns: list[Column]) -> None:
        func = self.rng.choice(("count", "count", "sum", "avg", "min", "max", "collect"))
        if self.rng.random() < 0.15:
            plain = [f"${var}" for var in self.scope.nodes]
            plain += [each.text for each in columns if each.is_plain]
            func = self.rng.choice(("count", "collect"))
            lists = [each.text for each in columns if each.type.is_list]
            if lists and func == "count" and self.rng.random() < 0.5:
                self.clauses.note("aggregate: count of distinct lists")
                plain = lists
            self.clauses.note(f"aggregate: {func} of distinct values")
            kind = _COUNT if func == "count" else _LIST
            self.add(f"{func}(distinct {self.rng.choice(plain)})", func, kind)
            return
        arguments = [each for each in columns if _takes(func, each.type)]
        if func == "count" and (not arguments or self.rng.random() < 0.4):
            self.clauses.note("aggregate: count of a node variable")
            counted = f"count(${self.rng.choice(list(self.scope.nodes))})"
            self.counts.append(counted)
            self.add(counted, "count", _COUNT)
        elif not arguments:
            self.add(f"count(${self.rng.choice(list(self.scope.nodes))})", "count", _COUNT)
        else:
            chosen = self.rng.choice(arguments)
            self.clauses.note(f"aggregate: {func} of {chosen.type.scalar}")
            # Sums of floats may differ in the last digits, which would decide the order.
            is_inexact = func in ("sum", "avg") and chosen.type.scalar.is_float
            kind = _LIST if is_inexact or func == "collect" else _COUNT
            self.add(f"{func}({chosen.text})", func, kind)

    def rank(self) -> None:
        """An order by distance, directly or by an alias, or by two of them fused."""
        self.limit = self.rng.choice((0, 1, 2, 5, 8, 20, 50))
        self.add_column()
        call = self.clauses.nearest(self.scope)
        if call is None:
            self.plain()
            return
        var = call.split("$")[1].split(".")[0]
        roll = self.rng.random()
        if roll < 0.25:
            second = self.clauses.nearest(self.scope, var)
            k = self.rng.choice(("", ", 60", ", 1", ", 2.5"))
            call = f"rrf({call}, {second}{k})"
            self.clauses.note("rank: rrf")
        else:
            self.clauses.note("rank: nearest")
        if self.rng.random() < 0.4:
            self.clauses.note("rank: by an alias")
            self.returns.append(f"{call} as rank")
            self.order.append("rank" + (" desc" if call.startswith("rrf") else ""))
        else:
            self.order.append(call)
        if self.rng.random() < 0.3:
            self.clauses.note("rank: and another key")
            self.order.append(self.directed(self.rng.choice(self.unprojected())))


def _takes(func: str, kind: PropType) -> bool:
    match func:
        case "count":
            return True
        case "sum" | "avg":
            return kind.scalar.is_numeric and not kind.is_list
        case _:
            return kind.is_plain and kind.scalar is not Scalar.BOOL


def _shown(kind: PropType) -> str:
    return f"[{kind.scalar}]" if kind.is_list else str(kind.scalar)
