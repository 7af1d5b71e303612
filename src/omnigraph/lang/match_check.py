"""Checking of `match`: bindings, traversals with their directions, filters, negations.

Within one clause list bindings are collected first; then traversals are read top to bottom and
give types to the variables they reach; then filters and negations see everything that is bound.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import EdgeType
from omnigraph.lang.checked import Block, BoundNode, Scope, Typed, Walk
from omnigraph.lang.comparisons import check_in, in_enum
from omnigraph.lang.conditions import check_condition, conjuncts
from omnigraph.lang.diagnostics import join_names
from omnigraph.lang.expressions import ExprChecker, check_count, date_literal_hint
from omnigraph.lang.interfaces import is_beyond_interface
from omnigraph.lang.source import Extent
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.walk_calls import bind_walk
from omnigraph.limits import MAX_HOPS


def check_block(checker: ExprChecker, clauses: Sequence[ast.Clause], extent: Extent) -> Block:
    """The checked clause list, in the scope that `checker` has; binds its variables there."""
    block = _BlockChecker(checker)
    clauses = [as_membership(clause, checker.scope.params) for clause in clauses]
    for clause in clauses:
        if isinstance(clause, ast.Binding):
            block.bind(clause)
    optional: set[str] = set()
    for clause in clauses:
        match clause:
            case ast.Traversal():
                if not block.reuses_optional(clause, optional):
                    block.walk(clause)
            case ast.Optional():
                optional |= {name for name in names_in(clause) if not checker.scope.is_bound(name)}
    for clause in clauses:
        if isinstance(clause, ast.Optional):
            block.optionals.append(check_inner(checker, clause))
    for clause in clauses:
        block.check(clause)
    return Block(
        nodes=tuple(
            BoundNode(
                var=var,
                type_name=type_name,
                types=checker.scope.types(var),
                filters=tuple(block.matches.get(var, ())),
            )
            for var, type_name in block.bound.items()
        ),
        walks=tuple(block.walks),
        filters=tuple(block.filters),
        negations=tuple(block.negations),
        exists=tuple(block.exists),
        optionals=tuple(block.optionals),
        outer_vars=tuple(sorted(checker.scope.mentioned)),
        bound_vars=checker.scope.own,
        narrowed=tuple(block.narrowed.items()),
        extent=extent,
    )


_BLOCK_WORDS = {
    ast.Negation: "not",
    ast.Exists: "exists",
    ast.Optional: "optional",
    ast.CountBlock: "count",
}


def check_inner(checker: ExprChecker, clause: ast.InnerBlock | ast.CountBlock) -> Block:
    """The checked clauses of a block, which see what is bound around it."""
    outer = checker.scope
    inner = outer.child()
    checker.scope = inner
    block = check_block(checker, clause.clauses, clause.extent)
    checker.scope = outer
    for name in inner.mentioned:
        outer.mention(name)
    if not inner.mentioned:
        checker.report(
            "T9",
            "negation_uncorrelated",
            f"`{_BLOCK_WORDS[type(clause)]} {{ … }}` mentions no variable bound outside it; name "
            "one, so that it says something about each row",
            clause.extent,
        )
    if isinstance(clause, ast.Optional):
        inner.leave_optional()
    return block


def names_in(block: ast.InnerBlock) -> Iterator[str]:
    """Variables that a block may bind."""
    for clause in block.clauses:
        match clause:
            case ast.Binding():
                yield clause.var
            case ast.Traversal():
                yield from (clause.left, clause.right)
                if clause.edge_var is not None:
                    yield clause.edge_var
            case ast.Optional():
                yield from names_in(clause)
            case _:
                pass


def as_membership(clause: ast.Clause, params: Container[str]) -> ast.Clause:
    """`$a in $list` and `$list contains $a` read as traversals; of a parameter they are none."""
    match clause:
        case ast.Traversal(edge_word="in", right=listed, undirected=False, edge_var=None):
            op = ast.CompareOp.IN
        case ast.Traversal(edge_word="contains", left=listed, undirected=False, edge_var=None):
            op = ast.CompareOp.CONTAINS
        case _:
            return clause
    if listed not in params or (clause.min_hops, clause.max_hops) != (1, 1):
        return clause
    return ast.Comparison(
        left=ast.Var(name=clause.left, extent=clause.left_extent),
        op=op,
        right=ast.Var(name=clause.right, extent=clause.right_extent),
        extent=clause.extent,
    )


def _bounds_fit(low: int | ast.Var, high: int | ast.Var) -> bool:
    """Whether hop bounds can be right; a parameter is looked at when it has a value."""
    known = [bound for bound in (low, high) if isinstance(bound, int)]
    return all(1 <= bound <= MAX_HOPS for bound in known) and known == sorted(known)


@dataclass(slots=True)
class _BlockChecker:
    checker: ExprChecker
    bound: dict[str, str] = field(default_factory=dict)
    """Variables that binding clauses of this list declare, in order."""
    matches: dict[str, list[ir.Condition]] = field(default_factory=dict)
    narrowed: dict[str, str] = field(default_factory=dict)
    """Outer variables of several types, and the one that a traversal of this list needs."""
    walks: list[Walk] = field(default_factory=list)
    filters: list[ir.Condition] = field(default_factory=list)
    negations: list[Block] = field(default_factory=list)
    exists: list[Block] = field(default_factory=list)
    optionals: list[Block] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        return self.checker.scope

    def report(self, code: str, reason: str, detail: str, extent: Extent) -> None:
        self.checker.report(code, reason, detail, extent)

    def check(self, clause: ast.Clause) -> None:
        """What a clause says once the list's variables are bound."""
        match clause:
            case ast.Binding():
                self.match(clause)
            case ast.Negation():
                self.negations.append(check_inner(self.checker, clause))
            case ast.Exists():
                self.exists.append(check_inner(self.checker, clause))
            case ast.Traversal() | ast.Optional():
                pass
            case _:
                self.filters += conjuncts(check_condition(self.checker, clause))

    def bind(self, clause: ast.Binding) -> None:
        var, types = clause.var, self.types_of(clause)
        self.scope.mention(var)
        if not types:
            self.unknown_type(clause)
        elif self.scope.edge(var) is not None:
            self.misused_edge(var, "bound again", clause.extent)
        elif (problem := self.binding_problem(clause)) is not None:
            self.report("T25", *problem, clause.extent)
        else:
            self.scope.bind_node(var, clause.type_name, types)
            self.bound.setdefault(var, clause.type_name)
            if self.scope.is_optional(var):
                self.filters.append(ir.Negated(ir.NullTest(ir.NodeId(var))))
            return
        self.scope.mark_broken(var)

    def binding_problem(self, clause: ast.Binding) -> tuple[str, str] | None:
        """Reason and text of T25, when the variable cannot be bound to the type."""
        var = clause.var
        if var == ast.ANONYMOUS:
            return "anonymous_bound", "`$_` cannot be bound; give the variable a name"
        if var in self.scope.params:
            return "parameter_rebound", f"`${var}` is a parameter; bind another name"
        known = self.scope.node(var)
        if known is not None and known != clause.type_name:
            return (
                "variable_rebound",
                f"`${var}` is a `{known}` already; it cannot also be a `{clause.type_name}`",
            )
        return None

    def types_of(self, clause: ast.Binding) -> tuple[str, ...]:
        """The node types that a binding names: one, or those of an interface; none is unknown."""
        catalog, name = self.checker.catalog, clause.type_name
        return (name,) if name in catalog.node_types else catalog.implementing.get(name, ())

    def unknown_type(self, clause: ast.Binding) -> None:
        catalog, name = self.checker.catalog, clause.type_name
        if name in catalog.interfaces:
            self.report(
                "T39",
                "interface_misuse",
                f"interface `{name}` is implemented by no node type, so nothing can be bound; "
                f"write `implements {name}` in the schema, or bind a node type",
                clause.type_extent,
            )
            return
        if name in catalog.edge_types:
            word = name[0].lower() + name[1:]
            tail = f"; it is an edge type, walk it: `$a {word} $b`"
        else:
            known = [*catalog.node_types, *catalog.interfaces]
            tail = did_you_mean(name, known, otherwise="node types")
        self.report("T1", "unknown_type", f"unknown node type `{name}`{tail}", clause.type_extent)

    def match(self, clause: ast.Binding) -> None:
        """Property matches of a binding whose type is known."""
        type_name = self.scope.node(clause.var)
        if type_name != clause.type_name or clause.var not in self.bound:
            return
        properties = self.checker.catalog.readable(type_name)
        for item in clause.matches:
            value = self.checker.check_value(item.value)
            declared = properties.get(item.property)
            if declared is None:
                if is_beyond_interface(self.checker, type_name, item.property, item.extent):
                    continue
                self.report(
                    "T2",
                    "unknown_property",
                    f"type `{type_name}` has no property `{item.property}`"
                    f"{did_you_mean(item.property, properties, otherwise='it has')}",
                    item.extent,
                )
            elif value is not None:
                column = Typed(ir.Prop(clause.var, item.property, declared.type), declared.type)
                self.match_value(type_name, clause.var, item, column, value)

    def match_value(
        self, type_name: str, var: str, item: ast.PropMatch, column: Typed, value: Typed
    ) -> None:
        kind = column.type
        if item.is_one_of:
            extent = item.value.extent
            test = check_in(self.checker, column, value, negated=False, extent=extent)
            if test is not None:
                self.matches.setdefault(var, []).append(test)
            return
        is_member = kind.is_list and value.type.is_plain
        target = kind.item if is_member else kind
        if (
            not target.is_plain
            or not value.type.is_plain
            or not target.is_compatible_with(value.type)
        ):
            hint = date_literal_hint(kind, value.type)
            if kind.is_list and not hint:
                hint = "; match one member of a list, or use `contains`"
            self.report(
                "T3",
                "match_type",
                f"`{type_name}.{item.property}` is {kind} and cannot equal a value of type "
                f"{value.type}{hint}",
                item.value.extent,
            )
            return
        if in_enum(self.checker, kind, value, item.value.extent):
            op = ir.FilterOp.LIST_CONTAINS if is_member else ir.FilterOp.EQ
            self.matches.setdefault(var, []).append(ir.Filter(column.expr, op, value.expr))

    def reuses_optional(self, clause: ast.Traversal, optional: set[str]) -> bool:
        """True, with T38, for an end of a required traversal that an optional block binds."""
        before = len(self.checker.findings)
        for name, extent in (
            (clause.left, clause.left_extent),
            (clause.right, clause.right_extent),
        ):
            if name in optional and name != ast.ANONYMOUS and not self.scope.is_bound(name):
                self.report(
                    "T38",
                    "optional_required",
                    f"`${name}` is bound by an `optional` block above and may be nothing; put the "
                    "traversal into the block, or into an `optional` block of its own",
                    extent,
                )
                self.scope.mark_broken(clause.left, clause.right)
        return len(self.checker.findings) > before

    def walk(self, clause: ast.Traversal) -> None:
        edge = self.edge(clause)
        left_fits = self.usable_end(clause.left, clause.left_extent)
        right_fits = self.usable_end(clause.right, clause.right_extent)
        direction: ir.ExpandDirection | None = None
        if edge is not None and self.shape_fits(clause, edge) and left_fits and right_fits:
            direction = self.direction(clause, edge)
        if edge is None or direction is None:
            names = {clause.left, clause.right, clause.edge_var or clause.left}
            self.scope.mark_broken(*(names - {ast.ANONYMOUS}))
            return
        low = check_count(self.checker, "a hop bound", clause.min_hops)
        high = check_count(self.checker, "a hop bound", clause.max_hops)
        left_type, right_type = edge.from_type, edge.to_type
        if direction is ir.ExpandDirection.IN:
            left_type, right_type = right_type, left_type
        for name, type_name in ((clause.left, left_type), (clause.right, right_type)):
            if name != ast.ANONYMOUS:
                self.narrow(name, type_name)
                self.scope.bind_node(name, type_name)
        edge_var = self.bind_edge(clause, edge)
        self.walks.append(
            Walk(
                left=clause.left,
                right=clause.right,
                left_type=left_type,
                right_type=right_type,
                edge=edge.name,
                direction=direction,
                min_hops=low if isinstance(low, int) else 1,
                max_hops=high if isinstance(high, int) else MAX_HOPS,
                edge_var=edge_var,
                min_param=low if isinstance(low, ir.Param) else None,
                max_param=high if isinstance(high, ir.Param) else None,
                walk_var=bind_walk(self.checker, clause, edge),
            )
        )

    def narrow(self, name: str, type_name: str) -> None:
        """From here on a variable of an interface is of the type that the edge joins."""
        if len(self.scope.types(name)) < 2:
            return
        if not self.scope.is_own(name):
            self.narrowed[name] = type_name
        self.scope.narrow(name, type_name)

    def edge(self, clause: ast.Traversal) -> EdgeType | None:
        catalog = self.checker.catalog
        name = catalog.edge_by_word.get(clause.edge_word.casefold())
        if name is not None:
            return catalog.edge_types[name]
        words = [edge[0].lower() + edge[1:] for edge in catalog.edge_types]
        tail = did_you_mean(clause.edge_word, words, otherwise="edges are")
        self.report(
            "T4", "unknown_edge", f"unknown edge `{clause.edge_word}`{tail}", clause.edge_extent
        )
        return None

    def usable_end(self, name: str, extent: Extent) -> bool:
        self.scope.mention(name)
        if name in self.scope.params:
            self.report(
                "T25",
                "parameter_rebound",
                f"`${name}` is a parameter; an end of a traversal is a node variable",
                extent,
            )
            return False
        if self.scope.edge(name) is not None:
            self.misused_edge(name, "an end of a traversal", extent)
            return False
        return True

    def shape_fits(self, clause: ast.Traversal, edge: EdgeType) -> bool:
        fits = True
        low, high = (
            f"${bound.name}" if isinstance(bound, ast.Var) else bound
            for bound in (clause.min_hops, clause.max_hops)
        )
        if clause.undirected and edge.from_type != edge.to_type:
            fits = False
            self.report(
                "T22",
                "undirected_types",
                f"`<{clause.edge_word}>` needs an edge between equal types; `{edge.name}` goes "
                f"from `{edge.from_type}` to `{edge.to_type}`",
                clause.edge_extent,
            )
        if clause.max_hops is None:
            fits = False
            self.report(
                "T15",
                "hop_bounds",
                f"`{clause.edge_word}{{{low},}}`: hop bounds need an upper end: "
                f"`{{{low},{MAX_HOPS}}}`",
                clause.extent,
            )
        elif not _bounds_fit(clause.min_hops, clause.max_hops):
            fits = False
            self.report(
                "T15",
                "hop_bounds",
                f"`{clause.edge_word}{{{low},{high}}}`: hop bounds are 1 ≤ min ≤ max ≤ {MAX_HOPS}",
                clause.extent,
            )
        return fits and self.edge_binding_fits(clause)

    def edge_binding_fits(self, clause: ast.Traversal) -> bool:
        var = clause.edge_var
        if var is None or var == ast.ANONYMOUS:
            return True
        if (clause.min_hops, clause.max_hops) != (1, 1):
            self.report(
                "T23",
                "edge_binding_hops",
                f"edge variable `${var}` names one edge; it cannot be used with hop bounds",
                clause.edge_var_extent,
            )
            return False
        taken = var in (clause.left, clause.right) or self.scope.is_taken(var)
        if taken:
            self.report(
                "T23",
                "edge_binding_taken",
                f"`${var}` is taken; an edge variable needs a fresh name",
                clause.edge_var_extent,
            )
        return not taken

    def misused_edge(self, var: str, use: str, extent: Extent) -> None:
        self.report(
            "T23",
            "edge_binding_misused",
            f"edge variable `${var}` cannot be {use}; it is read by its properties only",
            extent,
        )

    def bind_edge(self, clause: ast.Traversal, edge: EdgeType) -> str | None:
        var = clause.edge_var
        if var is None or var == ast.ANONYMOUS:
            return None
        self.scope.bind_edge(var, edge.name)
        return var

    def direction(self, clause: ast.Traversal, edge: EdgeType) -> ir.ExpandDirection | None:
        """The direction seen from the left end, from the types known so far; None with T5 or T39.

        Of the types of an interface one stands at each end: where either could be the source, it is
        the left one.
        """
        left = self.scope.types(clause.left)
        right = self.scope.types(clause.right)
        is_loop = clause.left == clause.right != ast.ANONYMOUS
        if is_loop and not left:
            left = right = (edge.from_type,)
        ends = (
            (ir.ExpandDirection.OUT, edge.from_type, edge.to_type),
            (ir.ExpandDirection.IN, edge.to_type, edge.from_type),
        )
        for direction, left_type, right_type in ends:
            if is_loop and left_type != right_type:
                continue
            if (not left or left_type in left) and (not right or right_type in right):
                return ir.ExpandDirection.BOTH if clause.undirected else direction
        self.report_endpoint(clause, edge, left, right)
        return None

    def report_endpoint(
        self,
        clause: ast.Traversal,
        edge: EdgeType,
        left: tuple[str, ...],
        right: tuple[str, ...],
    ) -> None:
        wrong_left = bool(left) and not {edge.from_type, edge.to_type} & {*left}
        name, types, extent = (
            (clause.left, left, clause.left_extent)
            if wrong_left or not right
            else (clause.right, right, clause.right_extent)
        )
        goes = f"edge `{edge.name}` goes from `{edge.from_type}` to `{edge.to_type}`"
        kind = self.scope.node(name)
        if kind is not None and kind in self.checker.catalog.interfaces:
            self.report(
                "T39",
                "interface_misuse",
                f"`${name}` is a `{kind}`, here of {join_names(types)}, and none of these fits: "
                f"{goes}",
                extent,
            )
            return
        self.report(
            "T5",
            "not_an_endpoint",
            f"`${name}` is a `{types[0]}`, which does not fit here: {goes}",
            extent,
        )
