"""What is said of a filter that is none, in the words of filters."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import InvalidArgument, OmnigraphError, QueryInvalid
from omnigraph.graph.query.predicate_text import compile_predicate
from omnigraph.lang import compile_schema

CATALOG = compile_schema("node P { name: String @key  age: I32?  at: DateTime? }")


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", InvalidArgument, "the filter is empty; leave it out"),
        (" \n", InvalidArgument, "the filter is empty; leave it out"),
        ("P.age > 1", QueryInvalid, "unexpected `P`; a property stands alone: `age`"),
        ('name = "P.x" and $p.age > 1', QueryInvalid, "unexpected `$p`; a property stands alone"),
        ("AGE > 1", QueryInvalid, "unexpected `AGE`"),
        ('lower(name) = "a"', QueryInvalid, "`lower` cannot stand in a filter; a filter compares"),
        ('name contains "a"', QueryInvalid, "a filter takes no `contains`; name the rows with"),
        ("age + 1 > 2", QueryInvalid, "unexpected `+`; a filter compares properties"),
        ("age = 1 }", InvalidArgument, "'age = 1 }' is something else"),
        ("age > 1) or (1 = 1", QueryInvalid, "unexpected `)`; the condition ends before it"),
        ("age > 1 age > 2", QueryInvalid, "unexpected `age`; the condition ends before it"),
        ("count { } > 1", QueryInvalid, "a filter looks at one row"),
        ("age > $least", QueryInvalid, "`$least` is a parameter, and a filter has none"),
        ("at < now()", InvalidArgument, "compares with values: write the time"),
        ("age >", QueryInvalid, "it ends too early"),
        (3, InvalidArgument, "not a int; a column of Spark filters the frame"),
    ],
)
def test_a_filter_that_is_none_is_told_in_its_own_words(
    text: Any,  # noqa: ANN401 - what callers give
    kind: type[OmnigraphError],
    words: str,
) -> None:
    with pytest.raises(kind) as told:
        compile_predicate(CATALOG, CATALOG.node_types["P"], text)
    assert words in told.value.message
    for foreign in ("mutation", "delete", "`where`", "`match`"):
        assert foreign not in told.value.message


def test_the_advice_for_a_pattern_is_a_filter() -> None:
    item = CATALOG.node_types["P"]
    with pytest.raises(QueryInvalid, match="a prefix is a range"):
        compile_predicate(CATALOG, item, 'name like "a%"')
    compile_predicate(CATALOG, item, 'name >= "a" and name < "b"')
