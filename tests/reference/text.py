"""Text analysis for words that no stemmer and no list of stop words touches.

For such words the analyzer of the system is: split at every character that is no letter and no
digit, lower case, fold accents. A word outside the vocabulary is refused rather than guessed;
only `fuzzy`, which knows neither stemming nor stop words, takes any text.
"""

import unicodedata
from collections.abc import Sequence

VOCABULARY = ("zorb", "quix", "fnord", "grak", "plont", "vuk")


def tokens(text: str) -> list[str]:
    """The words of a text, folded, in order."""
    folded = "".join(
        char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char)
    )
    spaced = "".join(char if char.isalnum() else " " for char in folded)
    return spaced.lower().split()


def analyzed(text: str) -> list[str]:
    """The tokens of a text in the vocabulary."""
    found = tokens(text)
    strangers = set(found) - set(VOCABULARY)
    if strangers:
        raise ValueError(f"the reference cannot stem {sorted(strangers)}; use {VOCABULARY}")
    return found


def has_any(field: str, query: str) -> bool:
    """`search`."""
    return bool(set(analyzed(field)) & set(analyzed(query)))


def has_phrase(field: str, query: str) -> bool:
    """`match_text`."""
    words, phrase = analyzed(field), analyzed(query)
    starts = range(len(words) - len(phrase) + 1)
    return bool(phrase) and any(words[at : at + len(phrase)] == phrase for at in starts)


def has_similar(field: str, query: str, max_edits: int) -> bool:
    """`fuzzy`."""
    return any(
        _edits(word, wanted) <= max_edits for word in tokens(field) for wanted in tokens(query)
    )


def _edits(left: Sequence[str], right: Sequence[str]) -> int:
    """Levenshtein distance."""
    row = list(range(len(right) + 1))
    for at, char in enumerate(left, 1):
        above, row = row, [at]
        for column, other in enumerate(right, 1):
            changed = above[column - 1] + (char != other)
            row.append(min(changed, above[column] + 1, row[column - 1] + 1))
    return row[-1]
