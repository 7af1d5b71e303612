"""The reference itself, on examples whose answers were written by hand."""

from datetime import UTC, date, datetime
from fractions import Fraction

import pytest
from tests.reference import text
from tests.reference.comparison import Operand, compare, nearest_f32, truth
from tests.reference.evaluator import ReferenceGraph, evaluate

from omnigraph.lang import PropType, QueryIR, Scalar, compile_query
from omnigraph.lang.ir import FilterOp

_SCHEMA = """
node P { n: I64?  t: String?  f: F64?  v: Vector(2)?  l: [I64]? }
node T { n: I64? }
edge Knows: P -> P { w: I64? }
edge In: P -> T
"""
_EMPTY = {"n": None, "t": None, "f": None, "v": None, "l": None}
_TWO_53 = 2**53


def _graph(knows: str = "", member: str = "", **nodes: dict[str, object]) -> ReferenceGraph:
    """Edges as `a>b` with ids in written order; nodes as they are named, or given with values."""
    pairs = [tuple(each.split(">")) for each in knows.split()]
    across = [tuple(each.split(">")) for each in member.split()]
    names = {end for pair in pairs for end in pair} | {left for left, _ in across} | set(nodes)
    return ReferenceGraph(
        schema=_SCHEMA,
        nodes={
            "P": [{"id": name} | _EMPTY | nodes.get(name, {}) for name in sorted(names)],
            "T": [{"id": name, "n": None} for name in sorted({right for _, right in across})],
        },
        edges={
            "Knows": [
                {"id": f"e{at}", "src": a, "dst": b, "w": at} for at, (a, b) in enumerate(pairs)
            ],
            "In": [{"id": f"m{at}", "src": a, "dst": b} for at, (a, b) in enumerate(across)],
        },
    )


def _run(
    graph: ReferenceGraph, match: str, tail: str, params: str = "", **given: object
) -> list[tuple[object, ...]]:
    source = f"query q({params}) {{ match {{ {match} }} return {tail} }}"
    compiled = compile_query(graph.catalog, source).ir
    assert isinstance(compiled, QueryIR)
    return evaluate(compiled, graph, given)


def _reached(knows: str, walk: str, start: str = "a") -> list[object]:
    """Ids that a walk from one node gives, in the order of ids."""
    match = f'$s: P $s = "{start}" $s {walk} $d'
    return [found for (found,) in _run(_graph(knows), match, "{ $d }")]


@pytest.mark.parametrize(
    ("knows", "walk", "expected"),
    [
        # A destination appears at most once per input row.
        ("a>b a>c b>d c>d", "knows{1,2}", ["b", "c", "d"]),
        ("a>b a>b", "knows", ["b"]),
        ("a>b b>a", "<knows>", ["b"]),
        # Hop distance is the shortest distance.
        ("a>b a>c c>b", "knows{2,3}", []),
        ("a>b a>c c>b b>d", "knows{2,3}", ["d"]),
        ("a>b b>c c>d d>e", "knows{2,3}", ["c", "d"]),
        # A cycle never returns the source, except through a self loop on it.
        ("a>b b>c c>a", "knows{1,5}", ["b", "c"]),
        ("a>b b>a", "knows{2,2}", []),
        ("a>a", "knows", ["a"]),
        ("a>a a>b b>a", "knows{1,3}", ["a", "b"]),
        ("a>a", "knows{2,3}", []),
        # A self loop leads nowhere new, but it is one more hop to where it stands.
        ("a>b b>b", "knows{2,2}", ["b"]),
        ("a>b b>b", "knows{3,3}", []),
        ("a>b b>b", "<knows>{2,2}", ["b"]),
        # No edge in that direction.
        ("b>a", "knows", []),
    ],
)
def test_walk_gives_each_destination_once_at_its_shortest_distance(
    knows: str, walk: str, expected: list[str]
) -> None:
    assert _reached(knows, walk) == expected


def test_equal_ids_of_two_types_mean_nothing_and_have_no_second_hop() -> None:
    graph = _graph(member="a>a a>b")
    assert _run(graph, "$p: P $p in $t", "{ $t }") == [("a",), ("b",)]
    assert _run(graph, "$p: P $p in{1,3} $t", "{ $t }") == [("a",), ("b",)]
    assert _run(graph, "$p: P $p in{2,3} $t", "{ $t }") == []


def test_two_input_rows_with_one_source_both_expand() -> None:
    rows = _run(_graph("a>b a>c c>d"), "$x knows $y $x knows $z", "{ $x, $y, $z }")
    assert rows == [
        ("a", "b", "b"),
        ("a", "b", "c"),
        ("a", "c", "b"),
        ("a", "c", "c"),
        ("c", "d", "d"),
    ]


def test_a_filter_on_the_destination_does_not_stop_the_walk() -> None:
    graph = _graph("a>b b>c", b={"n": 1}, c={"n": 2})
    assert _run(graph, '$s: P $s = "a" $s knows{1,2} $d $d.n = 2', "{ $d }") == [("c",)]


def test_a_bound_edge_gives_one_row_per_stored_edge() -> None:
    assert _run(_graph("a>b a>b a>c"), "$x: P $x $w:knows $y", "{ $x, $y, $w.w }") == [
        ("a", "b", 0),
        ("a", "b", 1),
        ("a", "c", 2),
    ]


def test_a_bound_edge_without_direction_shows_a_loop_once_and_others_from_both_ends() -> None:
    assert _run(_graph("b>a a>a"), "$x: P $x $w:<knows> $y", "{ $w.w, $x, $y }") == [
        (0, "a", "b"),
        (0, "b", "a"),
        (1, "a", "a"),
    ]


def test_both_ends_bound_is_a_join_and_an_anonymous_end_counts_each_neighbour() -> None:
    graph = _graph("a>b b>c c>a a>c")
    triangle = "$x knows $y $y knows $z $z knows $x"
    assert _run(graph, triangle, "{ $x, $y, $z }") == [
        ("a", "b", "c"),
        ("b", "c", "a"),
        ("c", "a", "b"),
    ]
    assert _run(graph, "$x: P $x knows $_", "{ $x }") == [("a",), ("a",), ("b",), ("c",)]


def test_negation_keeps_rows_without_an_inner_row_also_when_unknown() -> None:
    graph = _graph("a>b b>c", a={"n": 5}, b={"n": 1})
    assert _run(graph, "$p: P not { $p knows $_ }", "{ $p }") == [("c",)]
    assert _run(graph, "$p: P not { $p.n > 3 }", "{ $p }") == [("b",), ("c",)]


def test_nested_negations_and_negations_of_two_variables_look_at_one_row_each() -> None:
    graph = _graph("a>b b>c c>a a>c")
    # Whoever knows only nodes that know somebody: everyone here.
    match = "$p: P not { $p knows $q not { $q knows $_ } }"
    assert _run(graph, match, "{ $p }") == [("a",), ("b",), ("c",)]
    match = "$p knows $q not { $q knows $p }"
    assert _run(graph, match, "{ $p, $q }") == [("a", "b"), ("b", "c")]
    match = "$p knows $q not { $p knows $r $r knows $q }"
    assert _run(graph, match, "{ $p, $q }") == [("a", "b"), ("b", "c"), ("c", "a")]


def _column(scalar: Scalar, value: object) -> Operand:
    return Operand(value=value, type=PropType(scalar=scalar), is_column=True)


def _constant(scalar: Scalar, value: object) -> Operand:
    return Operand(value=value, type=PropType(scalar=scalar), is_column=False)


_F32_TENTH = 0.10000000149011612


@pytest.mark.parametrize(
    ("column", "stored", "literal", "true_ops"),
    [
        (Scalar.I32, 5, 5, "eq le ge"),
        (Scalar.I32, 5, 2**31, "ne lt le"),
        (Scalar.U32, 5, -1, "ne gt ge"),
        (Scalar.I64, 2**63 - 1, 2.0**63, "ne lt le"),
        (Scalar.U64, 2**64 - 1, 1e300, "ne lt le"),
        (Scalar.I64, 5, 5.0, "eq le ge"),
        (Scalar.I64, _TWO_53 + 1, 2.0**53, "ne gt ge"),
        (Scalar.I32, 1, 1.5, "ne lt le"),
        (Scalar.I32, 2, 1.5, "ne gt ge"),
        (Scalar.I32, -2, -1.5, "ne lt le"),
        # Equality rounds the literal to F32, order does not.
        (Scalar.F32, _F32_TENTH, 0.1, "eq gt ge"),
        (Scalar.F32, 16777216.0, 16777217, "eq lt le"),
        (Scalar.F32, 0.0, 1e-46, "eq lt le"),
        (Scalar.F32, 1.0, 3.5e38, "ne lt le"),
        (Scalar.F64, 2.0**53, _TWO_53 + 1, "eq le ge"),
        (Scalar.F64, 0.1, 0.1, "eq le ge"),
        (Scalar.F64, 0.0, -0.0, "eq le ge"),
    ],
)
def test_a_literal_is_fitted_to_its_column(
    column: Scalar, stored: object, literal: float, true_ops: str
) -> None:
    kind = Scalar.F64 if isinstance(literal, float) else Scalar.I64
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
    ops = [each for each in FilterOp if each in ("eq", "ne", "lt", "le", "gt", "ge")]
    for op in ops:
        wanted = op.value in true_ops.split()
        left, right = _column(column, stored), _constant(kind, literal)
        assert compare(op, left, right) is wanted, op
        assert compare(FilterOp(mirrored.get(op, op)), right, left) is wanted, op


def test_two_columns_compare_as_floats_if_one_is_a_float_and_exactly_otherwise() -> None:
    big, float_big = _column(Scalar.I64, _TWO_53 + 1), _column(Scalar.F64, 2.0**53)
    assert compare(FilterOp.EQ, big, float_big) is True
    assert compare(FilterOp.EQ, big, _column(Scalar.U64, _TWO_53)) is False
    assert compare(FilterOp.LT, _column(Scalar.I64, -1), _column(Scalar.U64, 2**64 - 1)) is True


def test_null_makes_a_comparison_unknown_and_a_containment_false() -> None:
    null = _column(Scalar.I64, None)
    assert compare(FilterOp.NE, null, _constant(Scalar.I64, 1)) is None
    assert compare(FilterOp.EQ, _column(Scalar.I64, 1), _constant(Scalar.I64, None)) is None
    items = Operand(value=[None, 3], type=PropType(scalar=Scalar.I64, is_list=True), is_column=True)
    assert truth(FilterOp.LIST_CONTAINS, items, _constant(Scalar.F64, 3.0))
    assert not truth(FilterOp.LIST_CONTAINS, items, _constant(Scalar.I64, None))
    assert not truth(
        FilterOp.STARTS_WITH, _column(Scalar.STRING, None), _constant(Scalar.STRING, "")
    )


def test_text_is_compared_by_its_bytes_in_utf8() -> None:
    left, right = _column(Scalar.STRING, "\uff5a"), _column(Scalar.STRING, "😀")
    assert compare(FilterOp.LT, left, right) is True
    assert compare(FilterOp.LT, _column(Scalar.STRING, "Z"), _column(Scalar.STRING, "a")) is True


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        (Fraction(1, 10), _F32_TENTH),
        (Fraction(2**24 + 1), 2.0**24),
        (Fraction(2**24 + 3), 2.0**24 + 4),
        (Fraction(2) ** 128, float("inf")),
        (-(Fraction(2) ** 128), float("-inf")),
        (Fraction(2) ** 128 - Fraction(2) ** 103, float("inf")),
        (Fraction(2) ** 128 - Fraction(2) ** 103 - 1, 3.4028234663852886e38),
        (Fraction(1, 2**150), 0.0),
        (Fraction(3, 2**150), 2.0**-148),
    ],
)
def test_the_nearest_f32_is_found_with_ties_to_even(exact: Fraction, rounded: float) -> None:
    assert nearest_f32(exact) == rounded


def test_aggregates_count_values_add_integers_exactly_and_group_nulls() -> None:
    graph = _graph(
        a={"n": 2**62, "t": "x", "f": 0.1},
        b={"n": 2**62, "t": "x"},
        c={"n": 1, "f": 2.5},
        d={},
    )
    aggregates = "count($p.n) as n, sum($p.n) as s, avg($p.f) as v, min($p.t) as l, max($p.n) as h"
    assert _run(graph, "$p: P", f"{{ $p.t, {aggregates} }}") == [
        (None, 1, 1.0, 2.5, None, 1),
        ("x", 2, 2.0**63, 0.1, "x", 2**62),
    ]
    assert _run(graph, "$p: P $p.n < 0", f"{{ {aggregates} }}") == [(0, None, None, None, None)]
    assert _run(graph, "$p: P $p.n < 0", "{ $p, count($p) as n }") == []


def test_rows_come_by_the_keys_then_by_ids_of_all_variables_in_name_order() -> None:
    graph = _graph("b>a a>b a>b", a={"n": 1}, b={"n": None})
    # Without order: `a`, then the edge `e`, then `z`.
    match = "$z: P $z $e:knows $a"
    assert _run(graph, match, "{ $z, $e.w, $a }") == [("b", 0, "a"), ("a", 1, "b"), ("a", 2, "b")]
    keyed = "{ $z, $e.w } order { $z.n }"
    assert _run(graph, match, keyed) == [("b", 0), ("a", 1), ("a", 2)]
    keyed = "{ $z, $e.w } order { $z.n desc } limit 2"
    assert _run(graph, match, keyed) == [("a", 1), ("a", 2)]
    assert _run(graph, match, "{ $z } limit 0") == []


def test_groups_come_by_the_keys_of_the_order_then_by_all_group_keys() -> None:
    graph = _graph(a={"n": 2, "t": "x"}, b={"n": 1, "t": "x"}, c={"n": None, "t": None})
    tail = "{ $p.t, $p.n, count($p) as c } order { c desc }"
    assert _run(graph, "$p: P", tail) == [(None, None, 1), ("x", 1, 1), ("x", 2, 1)]
    tail = "{ $p.t, count($p) as c } order { $p.t desc }"
    assert _run(graph, "$p: P", tail) == [("x", 2), (None, 1)]


def test_parameters_are_read_as_their_types_hold_them() -> None:
    graph = _graph(a={"n": 1})
    tail = "{ $f as f, $d as d, $t as t, $u as u, $z as z }"
    params = "$f: F32, $d: Date, $t: DateTime, $u: U64, $z: I64?"
    given = {"f": 0.1, "d": "2000-02-29", "t": "1970-01-01T00:00:00.001Z", "u": str(2**64 - 1)}
    moment = datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC)
    assert _run(graph, "$p: P", tail, params, **given) == [
        (_F32_TENTH, date(2000, 2, 29), moment, 2**64 - 1, None)
    ]
    literals = '{ date("1969-12-31") as d, datetime("1970-01-01T00:00:00.001Z") as t }'
    assert _run(graph, "$p: P", literals) == [(date(1969, 12, 31), moment)]
    match = "$p: P $p.n != $z"
    assert _run(graph, match, "{ $p }", "$z: I64?") == []
    assert _run(graph, match, "{ $p }", "$z: I64?", z=2) == [("a",)]


def test_text_is_found_by_any_word_by_phrase_and_by_similar_words() -> None:
    assert text.has_any("Zörb, QUIX", "vuk quix")
    assert not text.has_any("zorb", "")
    assert text.has_phrase("vuk zorb-Quix", "zorb quix")
    assert not text.has_phrase("quix zorb", "zorb quix")
    assert not text.has_phrase("zorb", "…")
    assert text.has_similar("Naïve", "naive", 0)
    assert text.has_similar("zorb", "zrob", 2)
    assert not text.has_similar("zorb", "zrob", 1)
    with pytest.raises(ValueError, match="running"):
        text.has_any("running", "zorb")


def test_rank_drops_rows_without_a_distance_and_breaks_ties_by_id() -> None:
    graph = _graph(
        a={"v": [0.0, 1.0]},
        b={"v": [2.0, 0.0]},
        c={"v": [1.0, 0.0]},
        d={"v": [0.0, 0.0]},
        e={},
        f={"v": [-1.0, 0.0]},
    )
    tail = "{ $p, nearest($p.v, [1.0, 0.0]) as d } order { d } limit 3"
    assert _run(graph, "$p: P", tail) == [("b", 0.0), ("c", 0.0), ("a", 1.0)]
    plain = "{ $p } order { $p desc }"
    assert _run(graph, "$p: P nearest($p.v, [1.0, 0.0]) > 0.5", plain) == [("f",), ("a",)]


def test_fused_ranks_add_the_parts_of_both_arms() -> None:
    graph = _graph(
        a={"v": [1.0, 0.0]}, b={"v": [0.0, 1.0]}, c={"v": [1.0, 1.0]}, d={"v": [-1.0, -1.0]}
    )
    first, second = "nearest($p.v, [1.0, 0.0])", "nearest($p.v, [0.0, 1.0])"
    tail = f"{{ $p, rrf({first}, {second}, 1) as s }} order {{ s desc }} limit 3"
    # First arm a c b, second arm b c a: position in the first arm decides between a and b.
    assert _run(graph, "$p: P", tail) == [
        ("a", 1 / 2 + 1 / 4),
        ("b", 1 / 4 + 1 / 2),
        ("c", 1 / 3 + 1 / 3),
    ]
