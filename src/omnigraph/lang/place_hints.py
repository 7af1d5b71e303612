"""Hints for what cannot stand at its place: in braces of a binding, lists, blocks, counts, `where`.

A place is known by the words before it. The text is read back a little way only.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

_BRACES = re.compile(r"\$[a-z_]\w*\s*:\s*[A-Z]\w*\s*\{[^{}]*\Z")
_OF_BRACES = frozenset({"or", "and", "is", "null", "in", "contains", "starts_with"})
_COMPARES = ("<", ">", "!")
_IN_BRACES = (
    "braces hold equal values and lists: `{ x: 1 }`, `{ x: in [1, 2] }`; write any other condition "
    "after them: `$p.x > 3 or $p.x is null`"
)

_LONE_WORD = re.compile(r"(?<![\w$.])(?P<word>[a-z_]\w*)\s*\Z")
_ENDS = frozenset(",]}")
_NO_NULL = "nothing equals `null`; write the test as a condition: `$p.x is null`"

_IS_NOT = re.compile(r"\bis\s+not\s*\Z")
_NULL = "a test for null is written `$p.x is null` or `$p.x is not null`"

_BLOCK = re.compile(r"(?<![\w$.])(?P<word>optional|exists)\s*\(?\s*(?:\$[a-z_]\w*\s*)?\Z")
_BLOCK_AS_VALUE = re.compile(r"(?<![\w$.])(?:exists|not|optional)\s*\Z")
_NO_VALUE = "a block is no value; count its solutions: `if(count { $p knows $_ } > 0, 1, 0)`"

_COUNT = re.compile(r"(?<![\w$.])(?P<word>limit|offset)\s+(?:[0-9]+|\$[a-z_]\w*)?\s*\Z")
_SIGNS = frozenset('-+*/.,("[')

_BARE_PROPERTY = re.compile(r"\$[a-z_]\w*\.[a-z_]\w*\s*\Z")
_BOOL = "a value is compared: `$p.x = true`"

_OWN_COUNT = re.compile(r"(?<![\w$.])count\s*\Z")
_OWN_CALL = re.compile(
    r"(?<![\w$.])(?P<name>search|match_text|fuzzy|bm25|nearest)\s*\([^()]*\)\s*\Z"
)
_ONE_ROW = "`where` of a mutation looks at one row; name the rows with `in`"

_LOOK_BACK = 400


@dataclass(frozen=True, slots=True)
class _Place:
    """The offending word or sign, what stands before it, and the terminals that could be here."""

    word: str
    before: str
    accepted: Collection[str]


def find_place_hint(text: str, start: int, end: int, accepted: Collection[str]) -> str | None:
    """What to write where a sign cannot stand, if its place is a known one."""
    before = text[max(0, start - _LOOK_BACK) : start]
    place = _Place(text[start:end].casefold(), before, accepted)
    return next((hint for find in _PLACES if (hint := find(place))), None)


def find_own_hint(text: str, start: int, end: int) -> str | None:
    """The same in `where` of a mutation: blocks and searches look at more than the row."""
    before = text[max(0, start - _LOOK_BACK) : start]
    is_block = text[start:end] == "{" and _OWN_COUNT.search(before)
    return _ONE_ROW if is_block or _OWN_CALL.search(before) else None


def _in_braces(place: _Place) -> str | None:
    is_condition = place.word in _OF_BRACES or place.word.startswith(_COMPARES)
    return _IN_BRACES if is_condition and _BRACES.search(place.before) else None


def _lone_word(place: _Place) -> str | None:
    """A word that could only be a function."""
    match = _LONE_WORD.search(place.before)
    if [*place.accepted] != ["LPAR"] or match is None or place.word not in _ENDS:
        return None
    name = match["word"]
    return _NO_NULL if name == "null" else f'text stands in double quotes: `"{name}"`'


def _is_not(place: _Place) -> str | None:
    return _NULL if _IS_NOT.search(place.before) else None


def _without_braces(place: _Place) -> str | None:
    match = _BLOCK.search(place.before)
    if match is None or place.word == "{":
        return None
    name = match["word"]
    return f"`{name}` takes clauses in braces: `{name} {{ $p knows $f }}`"


def _block_as_value(place: _Place) -> str | None:
    is_block = place.word == "{" and "_AS" in place.accepted
    return _NO_VALUE if is_block and _BLOCK_AS_VALUE.search(place.before) else None


def _count(place: _Place) -> str | None:
    match = _COUNT.search(place.before)
    if match is None or place.word[:1] not in _SIGNS:
        return None
    return f"`{match['word']}` takes a whole number or a parameter: `limit 10 offset $skipped`"


def _bare_value(place: _Place) -> str | None:
    is_joined = place.word in ("and", "or")
    return _BOOL if is_joined and _BARE_PROPERTY.search(place.before) else None


_PLACES: tuple[Callable[[_Place], str | None], ...] = (
    _in_braces,
    _lone_word,
    _is_not,
    _without_braces,
    _block_as_value,
    _count,
    _bare_value,
)
