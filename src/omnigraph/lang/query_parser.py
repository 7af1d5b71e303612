"""From `.gq` text to the syntax tree.

Everything that fails here has code Q000; the reason tells syntax, escapes, ranges, dates,
duplicates, unknown functions and argument counts apart.
"""

from contextlib import suppress
from dataclasses import dataclass

from lark import Token

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import Findings, FindingsFull, join_names
from omnigraph.lang.grammar import (
    QUERY_LANGUAGE,
    Node,
    child_tokens,
    child_trees,
    extent_of,
    parse_trees,
)
from omnigraph.lang.lexemes import MAX_COUNT, read_count, read_float, read_integer, read_string
from omnigraph.lang.source import Extent
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.values import UnfitValue, parse_date, parse_datetime

_FUNCTIONS = {function.value: function for function in ast.Function}
_ANNOTATIONS = ("description", "instruction")


def parse_queries(findings: Findings) -> tuple[ast.Query, ...]:
    """The queries of the findings' source; what does not parse is recorded in `findings`."""
    queries: tuple[ast.Query, ...] = ()
    with suppress(FindingsFull):
        queries = _parse(findings)
    return queries


def _parse(findings: Findings) -> tuple[ast.Query, ...]:
    trees = parse_trees(QUERY_LANGUAGE, findings)
    builder = _Builder(findings)
    queries = tuple(builder.query(tree) for tree in trees)
    seen: dict[str, ast.Query] = {}
    for query in queries:
        if query.name in seen:
            builder.report(
                "duplicate_query", f"query `{query.name}` is declared twice", query.extent
            )
        seen[query.name] = query
    return queries


def _var_name(token: Token) -> str:
    return str(token)[1:]


@dataclass(frozen=True, slots=True)
class _Builder:
    findings: Findings

    def report(self, reason: str, detail: str, extent: Extent) -> None:
        self.findings.add("Q000", reason, detail, extent)

    def query(self, tree: Node) -> ast.Query:
        name = child_tokens(tree)[0]
        params: dict[str, ast.Param] = {}
        notes: dict[str, str] = {}
        body: ast.ReadBody | ast.MutationBody = ast.MutationBody(statements=())
        for child in child_trees(tree):
            match child.data:
                case "param":
                    self.param(child, params)
                case "qannot":
                    self.annotation(child, notes)
                case "read":
                    body = self.read(child)
                case _:
                    body = ast.MutationBody(
                        statements=tuple(self.statement(item) for item in child_trees(child))
                    )
        return ast.Query(
            name=str(name),
            params=tuple(params.values()),
            body=body,
            description=notes.get("description"),
            instruction=notes.get("instruction"),
            extent=extent_of(name),
        )

    def annotation(self, tree: Node, notes: dict[str, str]) -> None:
        name, text = child_tokens(tree)
        if name not in _ANNOTATIONS:
            tail = did_you_mean(name, _ANNOTATIONS, otherwise="a query takes")
            self.report("syntax", f"unknown annotation `@{name}`{tail}", extent_of(name))
        elif name in notes:
            self.report("duplicate_annotation", f"`@{name}` is given twice", extent_of(name))
        notes.setdefault(str(name), read_string(text, QUERY_LANGUAGE, self.findings))

    def param(self, tree: Node, params: dict[str, ast.Param]) -> None:
        token = child_tokens(tree)[0]
        name = _var_name(token)
        if name in params:
            self.report(
                "duplicate_parameter", f"parameter `${name}` is declared twice", extent_of(token)
            )
        kind = self.param_type(child_trees(tree)[0])
        params[name] = ast.Param(name=name, type=kind, extent=extent_of(token))

    def param_type(self, tree: Node) -> ast.ParamType:
        lists = child_trees(tree)
        words = {
            token.type: token
            for token in (*child_tokens(tree), *(child_tokens(lists[0]) if lists else ()))
        }
        dim = words.get("INT")
        return ast.ParamType(
            name=str(words["TYPE"]),
            is_list=bool(lists),
            nullable="NULLABLE" in words,
            vector_dim=None if dim is None else read_count(dim),
            extent=extent_of(tree),
        )

    def read(self, tree: Node) -> ast.ReadBody:
        clauses: list[ast.Clause] = []
        projections: list[ast.Projection] = []
        order: tuple[ast.Ordering, ...] = ()
        limit: int | None = None
        for child in child_trees(tree):
            match child.data:
                case "projection":
                    projections.append(self.projection(child))
                case "order":
                    order = tuple(self.ordering(item) for item in child_trees(child))
                case "limit":
                    limit = self.integer(child_tokens(child)[0])
                case _:
                    clauses.append(self.clause(child))
        return ast.ReadBody(
            clauses=tuple(clauses), projections=tuple(projections), order=order, limit=limit
        )

    def clause(self, tree: Node) -> ast.Clause:
        match tree.data:
            case "binding":
                return self.binding(tree)
            case "traversal":
                return self.traversal(tree)
            case "negation":
                return self.negation(tree)
            case "filter":
                return self.filter(tree)
            case "var_filter":
                return self.var_filter(tree)
            case _:
                return self.call_clause(tree)

    def binding(self, tree: Node) -> ast.Binding:
        var, type_name = child_tokens(tree)
        matches = [item for block in child_trees(tree) for item in child_trees(block)]
        return ast.Binding(
            var=_var_name(var),
            type_name=str(type_name),
            matches=tuple(self.match(item) for item in matches),
            extent=extent_of(var),
            type_extent=extent_of(type_name),
        )

    def match(self, tree: Node) -> ast.PropMatch:
        name, value = tree.children
        return ast.PropMatch(property=str(name), value=self.value(value), extent=extent_of(name))

    def traversal(self, tree: Node) -> ast.Traversal:
        variables = [token for token in child_tokens(tree) if token.type == "VAR"]
        words = [token for token in child_tokens(tree) if token.type != "VAR"]
        min_hops, max_hops, undirected = 1, 1, False
        open_bound = False
        for child in child_trees(tree):
            if child.data == "bounds":
                bounds = [self.integer(token) for token in child_tokens(child)]
                min_hops, max_hops = bounds[0], bounds[-1]
                open_bound = len(bounds) == 1
            else:
                undirected = True
                words = child_tokens(child)
        left, right = variables[0], variables[-1]
        edge_var = variables[1] if len(variables) == 3 else None
        return ast.Traversal(
            left=_var_name(left),
            right=_var_name(right),
            edge_word=str(words[0]),
            undirected=undirected,
            min_hops=min_hops,
            max_hops=None if open_bound else max_hops,
            edge_var=None if edge_var is None else _var_name(edge_var),
            extent=extent_of(tree),
            left_extent=extent_of(left),
            right_extent=extent_of(right),
            edge_extent=extent_of(words[0]),
            edge_var_extent=extent_of(left if edge_var is None else edge_var),
        )

    def negation(self, tree: Node) -> ast.Negation:
        return ast.Negation(
            clauses=tuple(self.clause(child) for child in child_trees(tree)), extent=extent_of(tree)
        )

    def filter(self, tree: Node) -> ast.Comparison:
        left, op, right = child_trees(tree)
        return ast.Comparison(
            left=self.expr(left),
            op=ast.CompareOp(str(child_tokens(op)[0])),
            right=self.expr(right),
            extent=extent_of(tree),
        )

    def var_filter(self, tree: Node) -> ast.Comparison:
        var, op = child_tokens(tree)
        return ast.Comparison(
            left=ast.Var(name=_var_name(var), extent=extent_of(var)),
            op=ast.CompareOp(str(op)),
            right=self.expr(child_trees(tree)[0]),
            extent=extent_of(tree),
        )

    def call_clause(self, tree: Node) -> ast.Clause:
        extent = extent_of(tree)
        before = len(self.findings)
        expr = self.expr(child_trees(tree)[0])
        if isinstance(expr, ast.Call) and expr.function is not ast.Function.NOW:
            return ast.CallClause(call=expr, extent=extent)
        if len(self.findings) == before:
            self.report(
                "syntax",
                "a value cannot stand alone in `match`; compare it (`… = …`) or drop it",
                extent,
            )
        return ast.Comparison(left=expr, op=ast.CompareOp.EQ, right=expr, extent=extent)

    def projection(self, tree: Node) -> ast.Projection:
        alias = child_tokens(tree)
        return ast.Projection(
            expr=self.expr(child_trees(tree)[0]),
            alias=str(alias[0]) if alias else None,
            extent=extent_of(tree),
        )

    def ordering(self, tree: Node) -> ast.Ordering:
        words = child_tokens(tree)
        expr = self.expr(child_trees(tree)[0])
        if words and isinstance(expr, ast.Call) and expr.function is ast.Function.NEAREST:
            self.report(
                "nearest_direction",
                f"`nearest` takes no `{words[0]}`: the nearest always come first; remove the word",
                extent_of(words[0]),
            )
        return ast.Ordering(
            expr=expr,
            direction=ast.Direction(str(words[0])) if words else None,
            extent=extent_of(tree),
        )

    def expr(self, tree: Node | Token) -> ast.Expr:
        """An expression; the grammar wraps every token of one in a tree."""
        node = _as_tree(tree)
        extent = extent_of(node)
        match node.data:
            case "var":
                return ast.Var(name=_var_name(child_tokens(node)[0]), extent=extent)
            case "prop":
                var, name = child_tokens(node)
                return ast.PropAccess(var=_var_name(var), property=str(name), extent=extent)
            case "alias":
                return ast.AliasRef(name=str(child_tokens(node)[0]), extent=extent)
            case "call":
                return self.call(node)
            case _:
                return self.literal(node)

    def literal(self, node: Node) -> ast.Literal:
        extent = extent_of(node)
        match node.data:
            case "list":
                return self.list_literal(node)
            case "string":
                text = read_string(child_tokens(node)[0], QUERY_LANGUAGE, self.findings)
                return ast.StringLit(value=text, extent=extent)
            case "true" | "false":
                return ast.BoolLit(value=node.data == "true", extent=extent)
            case _:
                return self.number(node)

    def number(self, node: Node) -> ast.IntLit | ast.FloatLit:
        token = child_tokens(node)[0]
        negative = node.data == "negative"
        if token.type == "INT":
            whole = read_integer(token, QUERY_LANGUAGE, self.findings, negative=negative)
            return ast.IntLit(value=whole, extent=extent_of(node))
        value = read_float(token, QUERY_LANGUAGE, self.findings, negative=negative)
        return ast.FloatLit(value=value, extent=extent_of(node))

    def list_literal(self, node: Node) -> ast.ListLit:
        items: list[ast.Literal] = []
        for child in child_trees(node):
            item = self.expr(child)
            if isinstance(item, ast.Call):
                self.report(
                    "syntax",
                    f"`{item.function}` cannot stand in a list; a list holds literals only",
                    item.extent,
                )
            elif not isinstance(item, ast.Var | ast.PropAccess | ast.AliasRef):
                items.append(item)
        return ast.ListLit(items=tuple(items), extent=extent_of(node))

    def call(self, node: Node) -> ast.Expr:
        name = child_tokens(node)[0]
        extent = extent_of(node)
        args = tuple(self.expr(child) for child in child_trees(node))
        function = _FUNCTIONS.get(str(name))
        if function is None:
            self.report(
                "unknown_function",
                f"unknown function `{name}`{did_you_mean(name, _FUNCTIONS)}; "
                f"known are {join_names(_FUNCTIONS)}",
                extent_of(name),
            )
            return ast.BoolLit(value=True, extent=extent)
        low, high = ast.ARGUMENT_COUNTS[function]
        if not low <= len(args) <= high:
            wanted = str(low) if low == high else f"{low} or {high}"
            self.report(
                "argument_count",
                f"`{function}` takes {wanted} argument{'' if wanted == '1' else 's'}, "
                f"got {len(args)}",
                extent,
            )
            return ast.BoolLit(value=True, extent=extent)
        if function is ast.Function.DATE or function is ast.Function.DATETIME:
            return self.date(function, args[0], extent)
        return ast.Call(function=function, args=args, extent=extent)

    def date(self, function: ast.Function, arg: ast.Expr, extent: Extent) -> ast.Literal:
        if not isinstance(arg, ast.StringLit):
            self.report("bad_date", f"`{function}` takes a string literal", arg.extent)
            return ast.DateLit(value=0, extent=extent)
        try:
            if function is ast.Function.DATE:
                return ast.DateLit(value=parse_date(arg.value), extent=extent)
            return ast.DateTimeLit(value=parse_datetime(arg.value), extent=extent)
        except UnfitValue as error:
            self.report("bad_date", str(error), arg.extent)
            return ast.DateLit(value=0, extent=extent)

    def value(self, tree: Node | Token) -> ast.Value:
        """A literal, a variable or `now()`."""
        expr = self.expr(tree)
        match expr:
            case ast.Call(function=ast.Function.NOW) | ast.Var():
                return expr
            case ast.Call() | ast.PropAccess() | ast.AliasRef():
                self.report(
                    "syntax", "expected a literal, a parameter or `now()` here", expr.extent
                )
                return ast.BoolLit(value=True, extent=expr.extent)
            case _:
                return expr

    def statement(self, tree: Node) -> ast.Statement:
        type_name = child_tokens(tree)[0]
        parts = child_trees(tree)
        assignments = tuple(self.assignment(item) for item in parts if item.data == "assign")
        extent, type_extent = extent_of(tree), extent_of(type_name)
        if tree.data == "insert":
            return ast.InsertStmt(
                type_name=str(type_name),
                assignments=assignments,
                extent=extent,
                type_extent=type_extent,
            )
        predicate = self.predicate(parts[-1])
        if tree.data == "update":
            return ast.UpdateStmt(
                type_name=str(type_name),
                assignments=assignments,
                predicate=predicate,
                extent=extent,
                type_extent=type_extent,
            )
        return ast.DeleteStmt(
            type_name=str(type_name), predicate=predicate, extent=extent, type_extent=type_extent
        )

    def assignment(self, tree: Node) -> ast.Assignment:
        name, value = tree.children
        extent = extent_of(name)
        node = _as_tree(value)
        if node.data == "null":
            null = ast.NullLit(extent=extent_of(node))
            return ast.Assignment(property=str(name), value=null, extent=extent)
        return ast.Assignment(property=str(name), value=self.value(node), extent=extent)

    def predicate(self, tree: Node) -> ast.Predicate:
        name, op = child_tokens(tree)
        return ast.Predicate(
            property=str(name),
            op=ast.CompareOp(str(op)),
            value=self.value(child_trees(tree)[0]),
            extent=extent_of(name),
        )

    def integer(self, token: Token) -> int:
        """A count: a limit, a hop bound, a dimension."""
        return read_integer(token, QUERY_LANGUAGE, self.findings, largest=MAX_COUNT)


def _as_tree(item: Node | Token) -> Node:
    if isinstance(item, Token):
        raise TypeError(f"the grammar left a bare {item.type} token in an expression")
    return item
