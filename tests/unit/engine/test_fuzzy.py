"""The words of `fuzzy`: folded, and within a few edits of each other."""

from random import Random  # noqa: TID251 - seeded

import pytest

from omnigraph.graph.query.fuzzy import fold, is_within


def distance(first: str, second: str) -> int:
    """The textbook table, whole."""
    row = list(range(len(second) + 1))
    for at, left in enumerate(first, 1):
        before, row[0] = row[0], at
        for place, right in enumerate(second, 1):
            step = min(row[place] + 1, row[place - 1] + 1, before + (left != right))
            before, row[place] = row[place], step
    return row[-1]


def test_the_bounded_distance_agrees_with_the_whole_table() -> None:
    rng = Random(7)  # noqa: S311 - no secret
    for _ in range(4_000):
        first = "".join(rng.choices("abé", k=rng.randrange(8)))
        second = "".join(rng.choices("abé", k=rng.randrange(8)))
        for edits in (0, 1, 2):
            wanted = distance(first, second) <= edits
            assert is_within(first, second, edits) == wanted, (first, second, edits)


@pytest.mark.parametrize(
    ("word", "folded"),
    [
        ("Straße", "strasse"),
        ("ÉCOLE", "ecole"),
        ("Łódź", "lodz"),
        ("œuvre", "oeuvre"),
        ("ﬁn", "fin"),
    ],
)
def test_a_word_is_lowered_and_folded(word: str, folded: str) -> None:
    assert fold(word) == folded
