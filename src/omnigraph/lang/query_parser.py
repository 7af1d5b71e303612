"""From `.gq` text to the syntax tree.

Everything that fails here has code Q000; the reason tells syntax, escapes, ranges, dates,
duplicates, unknown functions and argument counts apart.
"""

from contextlib import suppress
from dataclasses import dataclass

from lark import Token

from omnigraph.lang import query_ast as ast
from omnigraph.lang.condition_hints import VALUE
from omnigraph.lang.diagnostics import Findings, FindingsFull
from omnigraph.lang.foreign_functions import suggest_function
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
from omnigraph.limits import MAX_VALUE_DEPTH

_FUNCTIONS = {function.value: function for function in ast.Function}
_CONDITIONS = frozenset(
    {"filter", "var_filter", "null_test", "membership", "not_cond", "any_of", "all_of"}
)
_PRODUCTS = frozenset(
    {ast.ArithmeticOp.MULTIPLY, ast.ArithmeticOp.DIVIDE, ast.ArithmeticOp.REMAINDER}
)
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
    queries = tuple(builder.query(tree) for tree in trees if builder.is_shallow(tree))
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

    def is_shallow(self, tree: Node) -> bool:
        """False, with a finding, when too many operators stand inside each other.

        Brackets are counted before; a long chain of operators needs none.
        """
        if sum(map(self.findings.source.text.count, "+-*/%")) <= MAX_VALUE_DEPTH:
            return True
        waiting = [(tree, 0)]
        while waiting:
            node, depth = waiting.pop()
            depth += {"chain": len(node.children) // 2, "neg": 1}.get(node.data, 0)
            if depth > MAX_VALUE_DEPTH:
                self.report(
                    "syntax",
                    f"more than {MAX_VALUE_DEPTH} operators stand inside each other; compute the "
                    "value in several columns",
                    extent_of(node),
                )
                return False
            waiting += [(child, depth) for child in child_trees(node)]
        return True

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
        having: tuple[ast.Condition, ...] = ()
        order: tuple[ast.Ordering, ...] = ()
        limit: int | ast.Var | None = None
        offset: int | ast.Var | None = None
        for child in child_trees(tree):
            match child.data:
                case "projection":
                    projections.append(self.projection(child))
                case "order":
                    order = tuple(self.ordering(item) for item in child_trees(child))
                case "having":
                    having = self.conditions(child)
                case "limit":
                    limit = self.count(child_tokens(child)[0])
                case "offset":
                    offset = self.count(child_tokens(child)[0])
                case _:
                    clauses.append(self.clause(child))
        return ast.ReadBody(
            clauses=tuple(clauses),
            projections=tuple(projections),
            distinct=bool(child_tokens(tree)),
            having=having,
            order=order,
            limit=limit,
            offset=offset,
        )

    def clause(self, tree: Node) -> ast.Clause:
        match tree.data:
            case "binding":
                return self.binding(tree)
            case "traversal":
                return self.traversal(tree)
            case "negation":
                return ast.Negation(clauses=self.clauses(tree), extent=extent_of(tree))
            case "optional":
                return ast.Optional(clauses=self.clauses(tree), extent=extent_of(tree))
            case "exists":
                return ast.Exists(clauses=self.clauses(tree), extent=extent_of(tree))
            case _:
                return self.condition(tree)

    def condition(self, tree: Node) -> ast.Condition:
        extent = extent_of(tree)
        match tree.data:
            case "filter":
                return self.filter(tree)
            case "var_filter":
                return self.var_filter(tree)
            case "any_of" | "first_any":
                return ast.AnyOf(parts=self.conditions(tree), extent=extent)
            case "all_of" | "first_all":
                return ast.AllOf(parts=self.conditions(tree), extent=extent)
            case "not_cond":
                return ast.NotCondition(part=self.conditions(tree)[0], extent=extent)
            case "null_test":
                negated = child_tokens(tree)[-1].type == "NOT"
                tested = self.side(tree.children[0])
                return ast.NullTest(expr=tested, negated=negated, extent=extent)
            case "membership" | "walk_in":
                is_negated = any(token.type == "NOT_IN" for token in child_tokens(tree))
                return ast.Comparison(
                    left=self.side(tree.children[0]),
                    op=ast.CompareOp.NOT_IN if is_negated else ast.CompareOp.IN,
                    right=self.side(tree.children[-1]),
                    extent=extent,
                )
            case "group":
                return self.condition(child_trees(tree)[0])
            case "call_clause":
                return self.condition(child_trees(tree)[0])
            case _:
                return self.call_clause(tree)

    def conditions(self, tree: Node) -> tuple[ast.Condition, ...]:
        return tuple(self.condition(child) for child in child_trees(tree))

    def side(self, item: Node | Token) -> ast.Expr:
        """An operand that may be a bare variable."""
        if isinstance(item, Token):
            return ast.Var(name=_var_name(item), extent=extent_of(item))
        return self.expr(item)

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
        node = _as_tree(value)
        if node.data == "one_of":
            values = self.side(node.children[-1])
            if not isinstance(values, ast.Var | ast.ListLit):
                raise TypeError("the grammar gives a list or a variable after `in`")
            return ast.PropMatch(
                property=str(name), value=values, is_one_of=True, extent=extent_of(name)
            )
        return ast.PropMatch(property=str(name), value=self.value(node), extent=extent_of(name))

    def traversal(self, tree: Node) -> ast.Traversal:
        variables = [token for token in child_tokens(tree) if token.type == "VAR"]
        words = [token for token in child_tokens(tree) if token.type != "VAR"]
        min_hops: int | ast.Var = 1
        max_hops: int | ast.Var = 1
        undirected = open_bound = False
        for child in child_trees(tree):
            if child.data == "bounds":
                bounds = [self.count(token) for token in child_tokens(child)]
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

    def clauses(self, tree: Node) -> tuple[ast.Clause, ...]:
        return tuple(self.clause(child) for child in child_trees(tree))

    def filter(self, tree: Node) -> ast.Comparison:
        left, op, right = child_trees(tree)
        if right.data == "null":
            self.report(
                "syntax",
                "a comparison with null selects nothing; test with `is null` or `is not null`",
                extent_of(right),
            )
            right = left
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

    def call_clause(self, tree: Node) -> ast.Condition:
        extent = extent_of(tree)
        before = len(self.findings)
        expr = self.expr(tree)
        if isinstance(expr, ast.Call) and expr.function is not ast.Function.NOW:
            return ast.CallClause(call=expr, extent=extent)
        if len(self.findings) == before:
            self.report(
                "syntax",
                "a value cannot stand alone where a condition is expected; compare it (`… = …`) or "
                "drop it",
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
            case "chain":
                return self.chain(node)
            case "neg":
                return self.negative(child_trees(node)[0], extent)
            case "group":
                return self.expr(child_trees(node)[0])
            case "count_block":
                return ast.CountBlock(clauses=self.clauses(node), extent=extent)
            case data if data in _CONDITIONS:
                self.report("syntax", VALUE, extent)
                return ast.BoolLit(value=True, extent=extent)
            case _:
                return self.literal(node)

    def chain(self, node: Node) -> ast.Expr:
        """Operands with operators between them: products first, each from left to right."""
        first, *rest = node.children
        start = begun = extent_of(first)[0]
        sums = product = self.expr(first)
        pending: ast.ArithmeticOp | None = None
        end = begun
        for sign, operand in zip(rest[::2], rest[1::2], strict=True):
            op, value = ast.ArithmeticOp(str(sign)), self.expr(operand)
            if op not in _PRODUCTS:
                sums = product if pending is None else _computed(sums, pending, product, start, end)
                pending, product, begun = op, value, extent_of(operand)[0]
            end = extent_of(operand)[1]
            if op in _PRODUCTS:
                product = _computed(product, op, value, begun, end)
        return product if pending is None else _computed(sums, pending, product, start, end)

    def negative(self, value: Node, extent: Extent) -> ast.Expr:
        """A minus and what follows; right before a number it belongs to the number."""
        if value.data == "positive":
            return self.number(value, extent)
        return ast.Negative(value=self.expr(value), extent=extent)

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
                return self.number(node, extent if node.data == "negative" else None)

    def number(self, node: Node, negative: Extent | None = None) -> ast.IntLit | ast.FloatLit:
        """A number; with the extent of the minus before it and of itself, a negative one."""
        token = child_tokens(node)[-1]
        is_negative, extent = negative is not None, negative or extent_of(node)
        if token.type == "INT":
            whole = read_integer(token, QUERY_LANGUAGE, self.findings, negative=is_negative)
            return ast.IntLit(value=whole, extent=extent)
        value = read_float(token, QUERY_LANGUAGE, self.findings, negative=is_negative)
        return ast.FloatLit(value=value, extent=extent)

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
            elif isinstance(item, ast.Literal):
                items.append(item)
        return ast.ListLit(items=tuple(items), extent=extent_of(node))

    def call(self, node: Node) -> ast.Expr:
        name = child_tokens(node)[0]
        extent = extent_of(node)
        given = child_trees(node)
        distinct = [child for child in given if child.data == "distinct"]
        function = _FUNCTIONS.get(str(name))
        if function is ast.Function.IF and len(given) != 3:
            self.report("argument_count", f"`if` takes 3 arguments, got {len(given)}", extent)
            return ast.BoolLit(value=True, extent=extent)
        if function is ast.Function.IF and not distinct:
            return ast.If(
                condition=self.condition(given[0]),
                then=self.expr(given[1]),
                otherwise=self.expr(given[2]),
                extent=extent,
            )
        if str(name) == "not":
            self.report("syntax", VALUE, extent_of(name))
            return ast.BoolLit(value=True, extent=extent)
        args = tuple(
            self.expr(child_trees(child)[0] if child.data == "distinct" else child)
            for child in given
        )
        if function is None:
            self.report(
                "unknown_function",
                f"unknown function `{name}`{suggest_function(name, _FUNCTIONS)}",
                extent_of(name),
            )
            return ast.BoolLit(value=True, extent=extent)
        low, high = ast.ARGUMENT_COUNTS[function]
        if len(args) < low or (high is not None and len(args) > high):
            wanted = f"at least {low}" if high is None else _numbers(low, high)
            self.report(
                "argument_count",
                f"`{function}` takes {wanted} argument{'' if wanted == '1' else 's'}, "
                f"got {len(args)}",
                extent,
            )
            return ast.BoolLit(value=True, extent=extent)
        if distinct and function not in ast.DISTINCT_AGGREGATES:
            self.report(
                "syntax",
                f"`{function}` takes no `distinct`; `count` and `collect` do",
                extent_of(distinct[0]),
            )
        if function is ast.Function.DATE or function is ast.Function.DATETIME:
            return self.date(function, args[0], extent)
        return ast.Call(function=function, args=args, distinct=bool(distinct), extent=extent)

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
            case (
                ast.Call()
                | ast.PropAccess()
                | ast.AliasRef()
                | ast.Arithmetic()
                | ast.Negative()
                | ast.If()
                | ast.CountBlock()
            ):
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
                if_absent=any(token.type == "ABSENT" for token in child_tokens(tree)),
                extent=extent,
                type_extent=type_extent,
            )
        selection = self.condition(parts[-1])
        if tree.data == "update":
            return ast.UpdateStmt(
                type_name=str(type_name),
                assignments=assignments,
                selection=selection,
                extent=extent,
                type_extent=type_extent,
            )
        return ast.DeleteStmt(
            type_name=str(type_name), selection=selection, extent=extent, type_extent=type_extent
        )

    def assignment(self, tree: Node) -> ast.Assignment:
        name, value = tree.children
        extent = extent_of(name)
        node = _as_tree(value)
        if node.data == "null":
            null = ast.NullLit(extent=extent_of(node))
            return ast.Assignment(property=str(name), value=null, extent=extent)
        assigned = self.assigned(self.expr(node))
        return ast.Assignment(property=str(name), value=assigned, extent=extent)

    def assigned(self, value: ast.Expr) -> ast.Expr:
        """A value over the row of a mutation; what asks for other rows is none."""
        match value:
            case ast.PropAccess():
                detail = f"the property of the row itself is written `{value.property}`"
            case ast.Call() if value.function not in ast.VALUE_FUNCTIONS | {ast.Function.NOW}:
                detail = f"`{value.function}` looks at more than the row of a mutation"
            case ast.CountBlock():
                detail = "`count { … }` looks at more than the row of a mutation"
            case _:
                return value
        self.report(
            "syntax", f"{detail}; expected a value of the row and of parameters", value.extent
        )
        return ast.BoolLit(value=True, extent=value.extent)

    def count(self, token: Token) -> int | ast.Var:
        """A limit, an offset or a hop bound: a number or a parameter."""
        if token.type == "VAR":
            return ast.Var(name=_var_name(token), extent=extent_of(token))
        return read_integer(token, QUERY_LANGUAGE, self.findings, largest=MAX_COUNT)


def _computed(
    left: ast.Expr, op: ast.ArithmeticOp, right: ast.Expr, start: int, end: int
) -> ast.Arithmetic:
    return ast.Arithmetic(left=left, op=op, right=right, extent=(start, end))


def _numbers(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} or {high}"


def _as_tree(item: Node | Token) -> Node:
    if isinstance(item, Token):
        raise TypeError(f"the grammar left a bare {item.type} token in an expression")
    return item
