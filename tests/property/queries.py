"""Strategies for queries that check against a catalog, reads in every shape and mutations.

A read is grown clause list by clause list. `_Clauses` knows what the checker will know at each
traversal (every binding of the list, and what earlier traversals gave a type), so a traversal is
written against the edge's direction only where a known end makes that legal.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as st
from tests.property import names as n

from omnigraph.lang import Catalog, Property
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.query_printer import print_queries
from omnigraph.lang.types import DATETIME, INTEGER_RANGES, PropType, Scalar

_ORDER_OPS = (*"=<>", "!=", "<=", ">=")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryShape:
    """How large and how varied a generated read is."""

    max_walks: int = 4
    max_negations: int = 2
    max_depth: int = 2
    max_hops: int = 3
    search: bool = True
    parameters: bool = True


DEFAULT_SHAPE = QueryShape()


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedQuery:
    """A query that checks: its tree and its text."""

    query: ast.Query
    source: str


@dataclass(slots=True)
class _Parameters:
    """Parameters of the query that is being written; new ones are declared as they are used."""

    found: dict[str, PropType] = field(default_factory=dict)

    def declare(self, kind: PropType) -> ast.Var:
        name = f"arg{len(self.found)}"
        self.found[name] = kind
        return ast.Var(name=name)

    def written(self) -> tuple[ast.Param, ...]:
        return tuple(
            ast.Param(
                name=name,
                type=ast.ParamType(
                    name=kind.scalar.value,
                    is_list=kind.is_list,
                    nullable=kind.nullable,
                    vector_dim=kind.vector_dim,
                ),
            )
            for name, kind in self.found.items()
        )


def scalar_literals(kind: PropType, *, fitting: bool = False) -> st.SearchStrategy[ast.ScalarLit]:
    """Literals that a plain type is compared with; `fitting`, that it can hold."""
    if kind.enum_values is not None:
        return st.builds(ast.StringLit, value=st.sampled_from(kind.enum_values))
    match kind.scalar:
        case Scalar.STRING:
            return st.builds(ast.StringLit, value=n.texts)
        case Scalar.BOOL:
            return st.builds(ast.BoolLit, value=st.booleans())
        case Scalar.DATE:
            return st.builds(ast.DateLit, value=n.days)
        case Scalar.DATETIME:
            return st.builds(ast.DateTimeLit, value=n.milliseconds)
        case Scalar.F32 | Scalar.F64 if fitting:
            return st.builds(ast.FloatLit, value=st.floats(-1e30, 1e30))
        case scalar if fitting:
            return st.builds(ast.IntLit, value=st.integers(*INTEGER_RANGES[scalar]))
        case _:
            return st.one_of(
                st.builds(ast.IntLit, value=n.integers), st.builds(ast.FloatLit, value=n.floats)
            )


def _chance(draw: st.DrawFn, one_in: int) -> bool:
    return draw(st.integers(1, one_in)) == 1


def _scalar_value(draw: st.DrawFn, kind: PropType, params: _Parameters | None) -> ast.Value:
    """A literal, a parameter or `now()` that a plain type is compared with."""
    if kind.scalar is Scalar.DATETIME and _chance(draw, 4):
        return ast.Call(function=ast.Function.NOW, args=())
    if params is not None and _chance(draw, 3):
        declared = PropType(scalar=kind.scalar, nullable=draw(st.booleans()))
        return params.declare(declared)
    return draw(scalar_literals(kind))


def _edge_word(draw: st.DrawFn, name: str) -> str:
    word = name[0].lower() + name[1:]
    return word.lower() if _chance(draw, 4) else word


@dataclass(slots=True, kw_only=True)
class _Clauses:
    """One clause list while it is written."""

    draw: st.DrawFn
    catalog: Catalog
    shape: QueryShape
    params: _Parameters
    outer: dict[str, str] = field(default_factory=dict)
    outer_edges: dict[str, str] = field(default_factory=dict)
    depth: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    """Every node variable of this list, with its type."""
    edges: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """What the checker knows at the next traversal: bindings, outer variables, earlier ends."""
    bindings: list[ast.Binding] = field(default_factory=list)
    walks: list[ast.Traversal] = field(default_factory=list)
    others: list[ast.Clause] = field(default_factory=list)

    def all_nodes(self) -> dict[str, str]:
        return self.outer | self.nodes

    def all_edges(self) -> dict[str, str]:
        return self.outer_edges | self.edges

    def fresh(self, prefix: str) -> str:
        # Names are counted per list, so two sibling negations use the same ones.
        taken = len(self.all_nodes()) + len(self.all_edges())
        return f"{prefix}{taken}"

    def bind(self, type_name: str) -> str:
        var = self.fresh("n")
        self.nodes[var] = type_name
        self.declare(var)
        return var

    def declare(self, var: str) -> None:
        """Write a binding clause for a variable of this list or an outer one."""
        type_name = self.all_nodes()[var]
        properties = self.catalog.node_types[type_name].properties.values()
        wanted = [item for item in properties if _is_matchable(item.type)]
        chosen = self.draw(st.lists(st.sampled_from(wanted), max_size=2)) if wanted else []
        self.bindings.append(
            ast.Binding(
                var=var, type_name=type_name, matches=tuple(self.match(item) for item in chosen)
            )
        )
        self.known.add(var)

    def match(self, item: Property) -> ast.PropMatch:
        kind = item.type.item if item.type.is_list else item.type
        return ast.PropMatch(
            property=item.name,
            value=_scalar_value(self.draw, kind, self.params if self.shape.parameters else None),
        )

    def end(self, type_name: str, *, anchor: bool) -> str:
        """A variable of the type: one that exists, a new one, or `$_`."""
        existing = [var for var, kind in self.all_nodes().items() if kind == type_name]
        outer = [var for var in existing if var in self.outer]
        if anchor and outer:
            return self.draw(st.sampled_from(outer))
        choice = self.draw(st.integers(0, 9))
        if existing and choice < 5:
            return self.draw(st.sampled_from(existing))
        if choice == 9:
            return ast.ANONYMOUS
        if choice >= 7:
            return self.bind(type_name)
        var = self.fresh("n")
        self.nodes[var] = type_name
        return var

    def walk(self, *, anchored: bool = False) -> None:
        edges = list(self.catalog.edge_types.values())
        if anchored:
            types = set(self.outer.values())
            edges = [edge for edge in edges if {edge.from_type, edge.to_type} & types]
        if not edges:
            return
        edge = self.draw(st.sampled_from(edges))
        anchor_from = anchored and edge.from_type in self.outer.values()
        source = self.end(edge.from_type, anchor=anchor_from)
        target = self.end(edge.to_type, anchor=anchored and not anchor_from)
        loops = edge.from_type == edge.to_type
        undirected = loops and self.draw(st.booleans())
        low, high = self.bounds()
        edge_var = self.edge_variable(edge) if (low, high) == (1, 1) else None
        left, right = source, target
        # Between equal types the written order decides, so a flip is another query there.
        ends_known = {left, right} & self.known
        if (loops or bool(ends_known)) and self.draw(st.booleans()):
            left, right = right, left
        self.walks.append(
            ast.Traversal(
                left=left,
                right=right,
                edge_word=_edge_word(self.draw, edge.name),
                undirected=undirected,
                min_hops=low,
                max_hops=high,
                edge_var=edge_var,
            )
        )
        self.known |= {left, right} - {ast.ANONYMOUS}

    def bounds(self) -> tuple[int, int]:
        if self.shape.max_hops < 2 or self.draw(st.booleans()):
            return 1, 1
        low, high = sorted(
            self.draw(st.tuples(*(st.integers(1, self.shape.max_hops) for _ in "ab")))
        )
        return low, high

    def edge_variable(self, edge: EdgeType) -> str | None:
        choice = self.draw(st.integers(0, 4))
        if choice == 0:
            return ast.ANONYMOUS
        if choice > 2:
            return None
        var = self.fresh("w")
        self.edges[var] = edge.name
        return var

    def accesses(self) -> list[tuple[ast.PropAccess, PropType]]:
        """Every property that may be read here."""
        nodes, edges = self.catalog.node_types, self.catalog.edge_types
        owners: list[tuple[str, NodeType | EdgeType]] = [
            *((var, nodes[kind]) for var, kind in self.all_nodes().items()),
            *((var, edges[kind]) for var, kind in self.all_edges().items()),
        ]
        return [
            (ast.PropAccess(var=var, property=item.name), item.type)
            for var, owner in owners
            for item in owner.properties.values()
            if item.type.scalar is not Scalar.BLOB
        ]

    def filter(self, *, about_outer: bool = False) -> None:
        accesses = [
            found
            for found in self.accesses()
            if _is_matchable(found[1])
            and (not about_outer or found[0].var in (self.outer | self.outer_edges))
        ]
        if not accesses:
            if self.all_nodes():
                self.others.append(self.identity())
            return
        left, kind = self.draw(st.sampled_from(accesses))
        params = self.params if self.shape.parameters else None
        if kind.is_list:
            value = _scalar_value(self.draw, kind.item, params)
            self.others.append(ast.Comparison(left=left, op=ast.CompareOp.CONTAINS, right=value))
            return
        right: ast.Expr = _scalar_value(self.draw, kind, params)
        partners = [other for other, other_kind in accesses if _are_comparable(kind, other_kind)]
        if bool(partners) and self.draw(st.booleans()):
            right = self.draw(st.sampled_from(partners))
        words: list[ast.CompareOp] = [ast.CompareOp(op) for op in _ORDER_OPS]
        if kind.is_text:
            words += [ast.CompareOp.CONTAINS, ast.CompareOp.STARTS_WITH]
        op = self.draw(st.sampled_from(words))
        sides: list[ast.Expr] = [left, right]
        if not isinstance(right, ast.Var) and self.draw(st.booleans()):
            sides.reverse()
        self.others.append(ast.Comparison(left=sides[0], op=op, right=sides[1]))

    def identity(self) -> ast.Comparison:
        """`$a = $b`: the ids of two node variables."""
        variables = sorted(self.outer or self.nodes), sorted(self.all_nodes())
        left, right = (self.draw(st.sampled_from(found)) for found in variables)
        op = self.draw(st.sampled_from((ast.CompareOp.EQ, ast.CompareOp.NE)))
        return ast.Comparison(left=ast.Var(name=left), op=op, right=ast.Var(name=right))

    def search(self) -> None:
        call = self.rank_or_text()
        if call is None:
            return
        if call.function in ast.TEXT_PREDICATES:
            self.others.append(ast.CallClause(call=call))
        else:
            self.others.append(
                ast.Comparison(left=call, op=ast.CompareOp.GT, right=ast.FloatLit(value=0.5))
            )

    def rank_or_text(self) -> ast.Call | None:
        """A search call on some property of a node variable, `rrf` not among them."""
        fields = [
            (access, kind)
            for access, kind in self.accesses()
            if access.var in self.all_nodes()
            and (kind.is_text or (kind.scalar is Scalar.VECTOR and not kind.is_list))
        ]
        if not fields:
            return None
        access, kind = self.draw(st.sampled_from(fields))
        if kind.scalar is Scalar.VECTOR:
            parts = tuple(ast.IntLit(value=1) for _ in range(kind.vector_dim or 0))
            vector = PropType(scalar=Scalar.VECTOR, vector_dim=kind.vector_dim)
            choices: list[ast.Expr] = [ast.ListLit(items=parts), ast.StringLit(value="text")]
            if self.shape.parameters and self.draw(st.booleans()):
                choices = [self.params.declare(vector)]
            query = self.draw(st.sampled_from(choices))
            return ast.Call(function=ast.Function.NEAREST, args=(access, query))
        function = self.draw(st.sampled_from(sorted({*ast.TEXT_PREDICATES, ast.Function.BM25})))
        query = ast.StringLit(value=self.draw(n.texts))
        extra = (ast.IntLit(value=1),) if function is ast.Function.FUZZY else ()
        return ast.Call(function=function, args=(access, query, *extra))

    def negate(self) -> None:
        inner = _Clauses(
            draw=self.draw,
            catalog=self.catalog,
            shape=self.shape,
            params=self.params,
            outer=self.all_nodes(),
            outer_edges=self.all_edges(),
            depth=self.depth + 1,
            known=set(self.all_nodes()),
        )
        inner.grow()
        clauses = inner.written()
        if clauses:
            self.others.append(ast.Negation(clauses=clauses))

    def grow(self) -> None:
        """Write clauses; the first of a negation mentions a variable bound outside."""
        if self.outer:
            self.anchor()
        elif self.draw(st.booleans()) or not self.catalog.edge_types:
            self.bind(self.draw(st.sampled_from(sorted(self.catalog.node_types))))
        else:
            self.walk()
        for _ in range(self.draw(st.integers(0, self.shape.max_walks - self.depth))):
            self.walk()
        if self.nodes and _chance(self.draw, 4):
            self.declare(self.draw(st.sampled_from(sorted(self.nodes))))
        if _chance(self.draw, 6):
            self.bind(self.draw(st.sampled_from(sorted(self.catalog.node_types))))
        for _ in range(self.draw(st.integers(0, 2))):
            self.filter()
        if self.shape.search and _chance(self.draw, 4):
            self.search()
        if self.depth < self.shape.max_depth and self.all_nodes():
            for _ in range(self.draw(st.integers(0, self.shape.max_negations))):
                self.negate()

    def anchor(self) -> None:
        choice = self.draw(st.integers(0, 4))
        if choice == 0:
            self.declare(self.draw(st.sampled_from(sorted(self.outer))))
            return
        if choice > 1:
            self.walk(anchored=True)
        if not self.walks:
            self.filter(about_outer=True)

    def written(self) -> tuple[ast.Clause, ...]:
        """The clauses, mixed; traversals keep their order, which inference reads."""
        others: list[ast.Clause] = [*self.bindings, *self.others]
        clauses: list[ast.Clause] = list(self.walks)
        for clause in others:
            clauses.insert(self.draw(st.integers(0, len(clauses))), clause)
        return tuple(clauses)


def _is_matchable(kind: PropType) -> bool:
    return kind.is_plain or (kind.is_list and kind.scalar is not Scalar.BLOB)


def _are_comparable(left: PropType, right: PropType) -> bool:
    return left.is_plain and right.is_plain and left.is_compatible_with(right)


def _aggregates(access: ast.PropAccess, kind: PropType) -> list[ast.Call]:
    functions = [ast.Function.COUNT]
    if kind.scalar.is_numeric and not kind.is_list:
        functions += [ast.Function.SUM, ast.Function.AVG]
    if kind.is_plain and kind.scalar is not Scalar.BOOL:
        functions += [ast.Function.MIN, ast.Function.MAX]
    return [ast.Call(function=function, args=(access,)) for function in functions]


def _returns(draw: st.DrawFn, clauses: _Clauses) -> tuple[ast.Projection, ...]:
    """Columns with distinct names, sometimes grouped."""
    accesses = clauses.accesses()
    columns: list[ast.Expr] = [ast.Var(name=var) for var in clauses.nodes]
    is_grouped = draw(st.booleans())
    columns += [access for access, kind in accesses if kind.is_plain or not is_grouped]
    if not columns:
        return (ast.Projection(expr=ast.IntLit(value=1), alias="one"),)
    chosen = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3))
    if is_grouped:
        calls = [call for access, kind in accesses for call in _aggregates(access, kind)]
        calls += [
            ast.Call(function=ast.Function.COUNT, args=(ast.Var(name=var),))
            for var in clauses.nodes
        ]
        chosen += draw(st.lists(st.sampled_from(calls), min_size=1, max_size=2))
    return tuple(
        ast.Projection(expr=expr, alias=f"c{position}") for position, expr in enumerate(chosen)
    )


def _order(
    draw: st.DrawFn, clauses: _Clauses, returned: tuple[ast.Projection, ...]
) -> tuple[ast.Ordering, ...]:
    kinds = dict(clauses.accesses())
    sortable = [
        ast.AliasRef(name=item.alias or "")
        for item in returned
        if not isinstance(item.expr, ast.PropAccess) or kinds[item.expr].is_plain
    ]
    if not sortable:
        return ()
    keys = draw(st.lists(st.sampled_from(sortable), max_size=2, unique=True))
    return tuple(
        ast.Ordering(expr=key, direction=draw(st.none() | st.sampled_from(ast.Direction)))
        for key in keys
    )


def _rank(draw: st.DrawFn, clauses: _Clauses) -> tuple[ast.Ordering, ...]:
    call = clauses.rank_or_text()
    if (
        call is None
        or call.function not in (ast.Function.NEAREST, ast.Function.BM25, ast.Function.RRF)
        or call.args[0] not in {access for access, _ in clauses.accesses()}
    ):
        return ()
    if draw(st.booleans()):
        call = ast.Call(function=ast.Function.RRF, args=(call, call))
    return (ast.Ordering(expr=call),)


@st.composite
def reads(draw: st.DrawFn, catalog: Catalog, shape: QueryShape = DEFAULT_SHAPE) -> GeneratedQuery:
    """Read queries that check against the catalog."""
    params = _Parameters()
    clauses = _Clauses(draw=draw, catalog=catalog, shape=shape, params=params)
    clauses.grow()
    returned = _returns(draw, clauses)
    order = _order(draw, clauses, returned)
    limit = draw(st.none() | st.integers(0, 20))
    is_grouped = any(isinstance(item.expr, ast.Call) for item in returned)
    if shape.search and not is_grouped and _chance(draw, 5):
        order, limit = (*_rank(draw, clauses), *order), limit or 5
    body = ast.ReadBody(clauses=clauses.written(), projections=returned, order=order, limit=limit)
    return _generated(ast.Query(name="q", params=params.written(), body=body))


def _generated(query: ast.Query) -> GeneratedQuery:
    return GeneratedQuery(query=query, source=print_queries((query,)))


def _assigned(draw: st.DrawFn, kind: PropType, params: _Parameters) -> ast.Value | ast.NullLit:
    """A value that an assignment to the type takes."""
    if kind.nullable and _chance(draw, 5):
        return ast.NullLit()
    if kind.scalar is Scalar.VECTOR and _chance(draw, 2):
        parts = (ast.FloatLit(value=0.5) for _ in range(kind.vector_dim or 0))
        return ast.ListLit(items=tuple(parts))
    if kind.scalar in (Scalar.VECTOR, Scalar.BLOB) or _chance(draw, 3):
        plain = PropType(scalar=kind.scalar, is_list=kind.is_list, vector_dim=kind.vector_dim)
        return params.declare(plain.as_nullable(nullable=kind.nullable))
    if kind.is_list:
        items = draw(st.lists(scalar_literals(kind.item, fitting=True), max_size=3))
        return ast.ListLit(items=tuple(items))
    if kind == DATETIME and _chance(draw, 2):
        return ast.Call(function=ast.Function.NOW, args=())
    return draw(scalar_literals(kind, fitting=True))


def _assign(
    draw: st.DrawFn, properties: list[Property], params: _Parameters
) -> list[ast.Assignment]:
    return [
        ast.Assignment(property=item.name, value=_assigned(draw, item.type, params))
        for item in properties
    ]


def _selection(
    draw: st.DrawFn, owner: NodeType | EdgeType, params: _Parameters, depth: int = 2
) -> ast.Condition:
    """A condition on the properties of a row."""
    if depth and _chance(draw, 3):
        parts = tuple(_selection(draw, owner, params, depth - 1) for _ in range(2))
        is_any = draw(st.booleans())
        whole: ast.Condition = ast.AnyOf(parts=parts) if is_any else ast.AllOf(parts=parts)
        return ast.NotCondition(part=whole) if draw(st.booleans()) else whole
    kinds = {name: item.type for name, item in owner.properties.items() if item.type.is_plain}
    kinds["id"] = PropType(scalar=Scalar.STRING)
    if isinstance(owner, EdgeType):
        kinds |= dict.fromkeys(("from", "to"), PropType(scalar=Scalar.STRING))
    name = draw(st.sampled_from(sorted(kinds)))
    own = ast.AliasRef(name=name)
    if _chance(draw, 5):
        return ast.NullTest(expr=own, negated=draw(st.booleans()))
    alike = [other for other, kind in kinds.items() if kind.is_compatible_with(kinds[name])]
    if _chance(draw, 5):
        # Texts that are all in the enum, or all in none, can be compared.
        alike = [other for other in alike if kinds[other].enum_values == kinds[name].enum_values]
        right: ast.Expr = ast.AliasRef(name=draw(st.sampled_from(sorted(alike))))
    elif _chance(draw, 5):
        members = st.lists(scalar_literals(kinds[name], fitting=True), max_size=3)
        op = draw(st.sampled_from([ast.CompareOp.IN, ast.CompareOp.NOT_IN]))
        return ast.Comparison(left=own, op=op, right=ast.ListLit(items=tuple(draw(members))))
    else:
        right = _scalar_value(draw, kinds[name], params)
    op = draw(st.sampled_from([ast.CompareOp(word) for word in _ORDER_OPS]))
    return ast.Comparison(left=own, op=op, right=right)


def _insert(
    draw: st.DrawFn, owner: NodeType | EdgeType, params: _Parameters
) -> ast.InsertStmt | None:
    required = [item for item in owner.properties.values() if item.must_be_given]
    optional = [item for item in owner.properties.values() if not item.must_be_given]
    extra = (
        draw(st.lists(st.sampled_from(optional), unique_by=lambda item: item.name))
        if (optional)
        else []
    )
    assignments = _assign(draw, [*required, *extra], params)
    if isinstance(owner, EdgeType):
        text = PropType(scalar=Scalar.STRING)
        assignments += [
            ast.Assignment(property=end, value=_assigned(draw, text, params))
            for end in ("from", "to")
        ]
    if not assignments:
        return None
    is_keyed = isinstance(owner, NodeType) and owner.key is not None
    return ast.InsertStmt(
        type_name=owner.name,
        assignments=tuple(draw(st.permutations(assignments))),
        if_absent=is_keyed and _chance(draw, 3),
    )


def _update(
    draw: st.DrawFn, owner: NodeType | EdgeType, params: _Parameters
) -> ast.UpdateStmt | None:
    key = (owner.key or ()) if isinstance(owner, NodeType) else ()
    settable = [item for name, item in owner.properties.items() if name not in key]
    if not settable:
        return None
    chosen = draw(st.lists(st.sampled_from(settable), min_size=1, unique_by=lambda item: item.name))
    return ast.UpdateStmt(
        type_name=owner.name,
        assignments=tuple(_assign(draw, chosen, params)),
        selection=_selection(draw, owner, params),
    )


def _delete(
    draw: st.DrawFn, owner: NodeType | EdgeType, params: _Parameters
) -> ast.DeleteStmt | None:
    return ast.DeleteStmt(type_name=owner.name, selection=_selection(draw, owner, params))


@st.composite
def mutations(draw: st.DrawFn, catalog: Catalog) -> GeneratedQuery:
    """Mutations that check against the catalog: inserts and updates, or deletes."""
    params = _Parameters()
    # A name that node and edge share means the node; leave the edge to targeted tests.
    owners: list[NodeType | EdgeType] = [
        *catalog.node_types.values(),
        *(edge for name, edge in catalog.edge_types.items() if name not in catalog.node_types),
    ]
    deletes = draw(st.booleans())
    statements: list[ast.Statement] = []
    for owner in draw(st.lists(st.sampled_from(owners), min_size=1, max_size=4)):
        write = _delete if deletes else draw(st.sampled_from((_insert, _update)))
        statement = write(draw, owner, params)
        if statement is not None:
            statements.append(statement)
    if not statements:
        return draw(reads(catalog))
    body = ast.MutationBody(statements=tuple(statements))
    return _generated(ast.Query(name="q", params=params.written(), body=body))


def well_typed(
    catalog: Catalog, shape: QueryShape = DEFAULT_SHAPE
) -> st.SearchStrategy[GeneratedQuery]:
    """Reads and mutations that check against the catalog."""
    return st.one_of(reads(catalog, shape), mutations(catalog))
