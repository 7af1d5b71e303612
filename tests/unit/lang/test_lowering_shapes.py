"""Each shape of a clause list, and the operators it becomes."""

import pytest

from omnigraph.lang import QueryIR, compile_query, compile_schema, ir

_CATALOG = compile_schema(
    """
    node Person { name: String @key  age: I32?  tags: [String]? }
    node Team { slug: String @key  size: I32? }
    edge Knows: Person -> Person { since: Date? }
    edge MemberOf: Person -> Team
    edge Parent: Team -> Team
    """
)


def _ops(clauses: str, params: str = "") -> tuple[ir.Op, ...]:
    source = f"query q({params}) {{ match {{ {clauses} }} return {{ 1 as one }} }}"
    lowered = compile_query(_CATALOG, source).ir
    assert isinstance(lowered, QueryIR)
    return lowered.ops


def _shown(ops: tuple[ir.Op, ...]) -> list[str]:
    """Operators in one line each: scans by type, walks by arrow, filters by variable."""
    return [_op(op) for op in ops]


def _op(op: ir.Op) -> str:
    match op:
        case ir.NodeScan():
            return f"{op.var}:{op.type}" + "?" * len(op.filters)
        case ir.Expand():
            arrow = {"out": "->", "in": "<-", "both": "--"}[op.direction.value]
            hops = (
                "" if (op.min_hops, op.max_hops) == (1, 1) else f"{{{op.min_hops},{op.max_hops}}}"
            )
            edge = f"{op.edge_var}:{op.edge}" if op.edge_var else op.edge
            edge += "?" * len(op.edge_filters)
            filters = "?" * len(op.dst_filters)
            return f"{op.src_var} {arrow}{edge}{hops} {op.dst_var}:{op.dst_type}{filters}"
        case ir.Where():
            assert isinstance(op.filter, ir.Filter)
            return f"{_expr(op.filter.left)} {op.filter.op} {_expr(op.filter.right)}"
        case _:
            word = {ir.AntiJoin: "not", ir.SemiJoin: "exists", ir.Optional: "optional"}[type(op)]
            return f"{word}({','.join(op.outer_vars)}: {'; '.join(_shown(op.inner))})"


def _expr(expr: ir.Expr) -> str:
    match expr:
        case ir.NodeId():
            return expr.var
        case ir.Prop():
            return f"{expr.var}.{expr.property}"
        case ir.Lit():
            return repr(expr.value)
        case _:
            return type(expr).__name__


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("$a: Person", ["a:Person"]),
        ('$a: Person { name: "x" }', ["a:Person?"]),
        ("$a: Person $a.age > 3", ["a:Person?"]),
        ('$a: Person { name: "x" } $a: Person { age: 3 }', ["a:Person??"]),
        ("$a knows $b", ["a:Person", "a ->Knows b:Person"]),
        ("$a: Person $a knows $b", ["a:Person", "a ->Knows b:Person"]),
        ("$b: Person $a knows $b", ["b:Person", "b <-Knows a:Person"]),
        ("$t: Team $t memberOf $p", ["t:Team", "t <-MemberOf p:Person"]),
        ("$t: Team $p memberOf $t", ["t:Team", "t <-MemberOf p:Person"]),
        ("$a <knows> $b $b: Person", ["b:Person", "b --Knows a:Person"]),
        ("$a knows{2,3} $b", ["a:Person", "a ->Knows{2,3} b:Person"]),
        ("$a $w:knows $b", ["a:Person", "a ->w:Knows b:Person"]),
        ("$a $_:knows $b", ["a:Person", "a ->Knows b:Person"]),
        (
            "$a knows $b $b memberOf $t",
            ["a:Person", "a ->Knows b:Person", "b ->MemberOf t:Team"],
        ),
        (
            '$t: Team { slug: "x" } $a knows $b $b memberOf $t',
            ["t:Team?", "t <-MemberOf b:Person", "b <-Knows a:Person"],
        ),
        (
            "$a: Person $a knows $b $b: Person { age: 3 }",
            ["a:Person", "a ->Knows b:Person?"],
        ),
        ("$a: Person $t: Team", ["a:Person", "t:Team"]),
        (
            "$t: Team $a knows $b",
            ["t:Team", "a:Person", "a ->Knows b:Person"],
        ),
        ("$p: Person 1 = 1", ["p:Person", "1 eq 1"]),
    ],
)
def test_a_clause_list_becomes_operators(clauses: str, expected: list[str]) -> None:
    assert _shown(_ops(clauses)) == expected


def _hidden(ops: tuple[ir.Op, ...]) -> list[str]:
    """Variables that no query can name, in order of their operators."""
    found = [
        op.var if isinstance(op, ir.NodeScan) else op.dst_var
        for op in ops
        if isinstance(op, ir.NodeScan | ir.Expand)
    ]
    return [name for name in found if not name[0].isalpha()]


def test_a_cycle_closes_with_a_comparison_of_ids() -> None:
    ops = _ops("$a: Person $a knows $b $b knows $a")
    (hidden,) = _hidden(ops)
    assert _shown(ops) == [
        "a:Person",
        "a ->Knows b:Person",
        f"b ->Knows {hidden}:Person",
        f"{hidden} eq a",
    ]


def test_a_self_loop_closes_with_a_comparison_of_ids() -> None:
    ops = _ops("$a $w:knows $a")
    (hidden,) = _hidden(ops)
    assert _shown(ops) == ["a:Person", f"a ->w:Knows {hidden}:Person", f"{hidden} eq a"]


def test_parallel_traversals_are_each_walked() -> None:
    ops = _ops("$a knows $b $a knows $b $a <knows> $b")
    assert sum(isinstance(op, ir.Expand) for op in ops) == 3
    assert len(set(_hidden(ops))) == 2


def test_anonymous_ends_join_nothing() -> None:
    ops = _ops("$a: Person $a knows $_ $a memberOf $_ $_ knows $_")
    assert sum(isinstance(op, ir.Expand) for op in ops) == 3
    assert sum(isinstance(op, ir.NodeScan) for op in ops) == 2
    assert len(set(_hidden(ops))) == 4


def test_a_negation_starts_from_the_outer_variable() -> None:
    ops = _ops("$a: Person not { $a knows $b $b memberOf $t }")
    assert _shown(ops) == ["a:Person", "not(a: a ->Knows b:Person; b ->MemberOf t:Team)"]


def test_a_negation_between_two_outer_variables_is_a_join() -> None:
    ops = _ops("$a: Person $b: Person not { $a knows $b }")
    anti = ops[-1]
    assert isinstance(anti, ir.AntiJoin)
    assert anti.outer_vars == ("a", "b")
    (hidden,) = _hidden(anti.inner)
    assert _shown(anti.inner) == [f"a ->Knows {hidden}:Person", f"{hidden} eq b"]


def test_a_filter_on_an_outer_variable_stays_in_the_negation() -> None:
    ops = _ops("$a: Person not { $a.age > 3 }")
    assert _shown(ops) == ["a:Person", "not(a: a.age gt 3)"]


def test_a_repeated_binding_in_a_negation_filters_the_outer_variable() -> None:
    ops = _ops('$a: Person not { $a: Person { name: "x" } }')
    assert _shown(ops) == ["a:Person", "not(a: a.name eq 'x')"]


def test_nested_negations_see_every_outer_variable() -> None:
    ops = _ops("$a: Person not { $a knows $b not { $b knows $a } }")
    outer = ops[-1]
    assert isinstance(outer, ir.AntiJoin)
    assert outer.outer_vars == ("a",)
    inner = outer.inner[-1]
    assert isinstance(inner, ir.AntiJoin)
    assert inner.outer_vars == ("a", "b")


def test_an_unconnected_part_of_a_negation_is_scanned_there() -> None:
    ops = _ops("$a: Person not { $t: Team $t.size = $a.age }")
    assert _shown(ops) == ["a:Person", "not(a: t:Team; t.size eq a.age)"]


def test_a_filter_on_an_edge_variable_moves_to_its_traversal() -> None:
    ops = _ops('$a $w:knows $b $w.since > date("2024-01-01") $b.age > 3')
    assert _shown(ops) == [
        "a:Person",
        "a ->w:Knows? b:Person?",
    ]


def test_contains_is_split_by_the_left_operand() -> None:
    ops = _ops('$a: Person $a.tags contains "x" $a.name contains "y"')
    (scan,) = ops
    assert isinstance(scan, ir.NodeScan)
    assert [item.op for item in scan.filters if isinstance(item, ir.Filter)] == [
        ir.FilterOp.LIST_CONTAINS,
        ir.FilterOp.STR_CONTAINS,
    ]


def test_sibling_negations_may_reuse_a_name_for_another_type() -> None:
    ops = _ops("$a: Person not { $a knows $x } not { $a memberOf $x }")
    kinds = [
        op.dst_type
        for anti in ops
        if isinstance(anti, ir.AntiJoin)
        for op in anti.inner
        if isinstance(op, ir.Expand)
    ]
    assert kinds == ["Person", "Team"]
