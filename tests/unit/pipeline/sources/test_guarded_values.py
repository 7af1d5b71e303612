"""Which parts of an expression forgive what they cannot take."""

from __future__ import annotations

import pytest

from omnigraph.pipeline.sources.guarded_values import forgiving_calls


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("cast(a as int)", []),
        ("retry_cast(a)", []),
        ("1 + TRY_CAST (a as int)", ["TRY_CAST (a as int)"]),
        ("coalesce(try_cast(a as int), try_add(b, 1))", ["try_cast(a as int)", "try_add(b, 1)"]),
        ("try_to_date(concat(a, ')', `b)`), 'y(')", ["try_to_date(concat(a, ')', `b)`), 'y(')"]),
        (
            "try_add(try_cast(a as int), 1)",
            ["try_add(try_cast(a as int), 1)", "try_cast(a as int)"],
        ),
        ("transform(a, x -> try_cast(x as int))", ["transform(a, x -> try_cast(x as int))"]),
        ("try_cast(a as int", ["try_cast(a as int"]),
    ],
)
def test_calls_that_forgive_are_found_with_their_arguments(sql: str, calls: list[str]) -> None:
    assert forgiving_calls(sql) == calls
