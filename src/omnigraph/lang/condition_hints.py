"""Hints for conditions: where they cannot stand, what they cannot join, and how SQL spells them.

A place is known by what the grammar accepts there, and by the words before it.
"""

import re
from collections.abc import Collection

VALUE = (
    "a condition cannot stand where a value is expected; choose between two values with "
    "`if(condition, a, b)`"
)
NULL = "a test for null is written `$p.x is null` or `$p.x is not null`"
IN = '`in` takes a list: `$p.x in ["a", "b"]`, a list parameter or a list property'
AND = "conditions are joined by `and`, or written one after the other"
OR = (
    "`or` joins conditions, not traversals or blocks; of these count the solutions: "
    "`$p.x = 1 or count { $p knows $_ } > 0`"
)
_JOINED = {
    "or": OR,
    "and": "`and` joins conditions; traversals and blocks are written one after the other, "
    "without `and`",
    "not": "`not ( … )` takes a condition, `not { … }` traversals: `not { $p knows $_ }`",
}
_WORDS = {"is": NULL, "in": IN, "null": NULL, "and": AND, "or": OR}

_OF_CONDITIONS = frozenset(
    {"is", "in", "not in", "not", "and", "or", "contains", "starts_with", "between", "like"}
)
_COMPARES = frozenset("<>=!")
_WALK = re.compile(
    r"\b(?P<word>or|and|not)\b[\s(]*"
    r"(?:\$[a-z_]\w*\s*(?:<\s*)?(?:[a-z_]\w*)?(?:\s*>)?\s*|exists\s*|optional\s*|not\s*)\Z",
    re.IGNORECASE,
)
_SPELT_NOT_IN = re.compile(r"not\s+in\b", re.IGNORECASE)
_PLACE = re.compile(r"\bmatch\s*\{|\bset\s*\{[^{}]*\}\s*where\b|\bdelete\s+[A-Z]\w*\s+where\b")

_LOOK_BACK = 4_000

_OWN_NOT = "`not ( … )` takes a condition: `not (x = 1)`"
_OWN = {
    AND: "conditions are joined by `and`",
    OR: "conditions are joined by `or`",
    IN: '`in` takes a list: `x in ["a", "b"]`, or a list parameter',
}
_OWN_WORDS = {
    "contains": "`where` of a mutation takes no `contains`; name the rows with `in`",
    "starts_with": 'a prefix is a range here: `x >= "a" and x < "b"`',
    "like": 'there are no patterns in `where`; a prefix is a range: `x >= "a" and x < "b"`',
    "between": "write two comparisons: `x >= 5 and x <= 10`",
    ",": "conditions are joined by `and`",
    "(": "a list stands in brackets: `x in [1, 2]`",
    "+": "`where` compares properties as they are, without computing",
}


def find_condition_hint(text: str, start: int, end: int, accepted: Collection[str]) -> str | None:
    """What to write for a condition that is spelt so, or cannot stand or be joined here."""
    word = " ".join(text[start:end].casefold().split())
    before = text[max(0, start - 200) : start]
    if "_AS" in accepted or "ASC" in accepted:
        is_condition = word in _OF_CONDITIONS or word[:1] in _COMPARES
        return VALUE if is_condition else None
    is_own = is_in_where(text, start)
    joined = _WALK.search(before)
    if joined is not None and not is_own and _begins_a_walk(word, before):
        return _JOINED[joined["word"].casefold()]
    if word == "not" and _SPELT_NOT_IN.match(text, start):
        return own("did you mean `not in`? " + IN, is_own=is_own)
    if _is_misspelt(text[start:end], accepted) and word in _WORDS:
        return f"did you mean `{word}`? {own(_WORDS[word], is_own=is_own)}"
    if is_own:
        is_negated = word == "not" or before.rstrip().casefold().endswith(" not")
        return _OWN_NOT if is_negated else _OWN_WORDS.get(word)
    return None


def own(hint: str, *, is_own: bool) -> str:
    """A hint for `where` of a mutation, where a property stands for itself."""
    if not is_own:
        return hint
    for whole, short in _OWN.items():
        hint = hint.replace(whole, short)
    return hint.replace("$p.", "")


def is_in_where(text: str, start: int) -> bool:
    """Whether this place is in the `where` of a mutation."""
    places = list(_PLACE.finditer(text, max(0, start - _LOOK_BACK), start))
    return bool(places) and places[-1][0].endswith("where")


def _begins_a_walk(word: str, before: str) -> bool:
    """Whether the offending sign shows that no condition stands before it."""
    return (
        word.startswith(("$", "{", ":", ">", "<"))
        or before.rstrip()[-1:] in "({"
        or (word.isidentifier() and "$" in before.rsplit("(", 1)[-1])
    )


def _is_misspelt(written: str, accepted: Collection[str]) -> bool:
    return not written.islower() and any(name.strip("_") == written.upper() for name in accepted)
