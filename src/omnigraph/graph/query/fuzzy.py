"""`fuzzy`: words within a few edits of each other, without any index.

Texts are split at every character that is no letter or digit, lowered and folded to ASCII; nothing
is stemmed or left out. Each distinct word is compared once, however often it occurs.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import encode, text_array

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Ids, Mask
    from omnigraph.graph.query.budget import Budget

WORDS_BETWEEN_CHECKS = 4_096

_SEPARATORS = r"[^\p{L}\p{N}]+"

_FOLDED = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ł": "l",
        "ħ": "h",
        "\u0131": "i",
        "ŧ": "t",
        "ŋ": "n",
        "ĸ": "q",
        "\u017f": "s",
    }
)
"""Letters that no decomposition leads to ASCII."""


def fold(word: str) -> str:
    """A word in lower case, with ASCII letters where it has them with marks."""
    if word.isascii():
        return word.lower()
    lowered = word.lower().translate(_FOLDED)
    parts = unicodedata.normalize("NFKD", lowered)
    return "".join(letter for letter in parts if not unicodedata.combining(letter)).lower()


def words_of(text: str) -> list[str]:
    """The words of a query, folded."""
    words = pc.list_flatten(pc.split_pattern_regex(pa.array([text], pa.string()), _SEPARATORS))
    return [fold(word) for word in words.to_pylist() if word]


def fuzzy_matches(texts: Ids, query: str, max_edits: int, budget: Budget) -> Mask:
    """For each text whether one of its words is near one of the query's; null is not."""
    mask = np.zeros(len(texts), bool)
    wanted = set(words_of(query))
    if not wanted or not len(texts):
        return mask
    split = pc.split_pattern_regex(texts, _SEPARATORS)
    words, codes = encode(pc.list_flatten(split))
    is_near = np.zeros(len(words), np.bool_)
    for at, text in enumerate(text_array(words).to_pylist()):
        if at % WORDS_BETWEEN_CHECKS == 0:
            budget.check()
        if text:
            word = fold(text)
            is_near[at] = any(is_within(word, other, max_edits) for other in wanted)
    if is_near.any():
        owners = pc.list_parent_indices(split).to_numpy()
        mask[owners[is_near[codes]]] = True
    return mask


def is_within(first: str, second: str, max_edits: int) -> bool:
    """Whether at most this many insertions, deletions and replacements lead from one to the other.

    Only the cells near the diagonal can stay within the bound, so only they are computed.
    """
    if len(first) > len(second):
        first, second = second, first
    if len(second) - len(first) > max_edits:
        return False
    if first == second:
        return True
    if not max_edits:
        return False
    too_many = max_edits + 1
    before = [min(at, too_many) for at in range(len(second) + 1)]
    for row, left in enumerate(first, 1):
        low, high = max(1, row - max_edits), min(len(second), row + max_edits)
        here = [too_many] * (len(second) + 1)
        here[0] = min(row, too_many)
        for at in range(low, high + 1):
            if left == second[at - 1]:
                here[at] = before[at - 1]
            else:
                here[at] = min(before[at - 1], before[at], here[at - 1]) + 1
        if min(here[low - 1 : high + 1]) > max_edits:
            return False
        before = here
    return before[-1] <= max_edits
