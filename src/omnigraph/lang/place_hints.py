"""Hints for what cannot stand at its place: in braces of a binding, lists, blocks, bounds, counts.

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

_NO_VALUE_BEFORE = re.compile(r"[<>=]\s*\Z|\$[a-z_]\w*\s*<\s*[a-z_]\w*\s*\Z")
_TWO = "one comparison stands between two values; write two: `3 < $p.x and $p.x < 5`"

_LIST = re.compile(r"\[[^\[\]{}]*\Z")
_LITERALS = "a list holds literals only; a list of other values is a parameter: `$p.x in $list`"

_BEFORE_BOUNDS = re.compile(r"\$[a-z_]\w*\s+[a-z_]\w*\s*\Z")
_BOUNDS = "bounds stand in braces: `$a knows{1,3} $b`"
_ONE_BOUND = re.compile(r"[a-z_>]\s*\{\s*(?P<bound>[0-9]+|\$[a-z_]\w*)\s*\Z")

_CALLED_COUNT = re.compile(r"(?<![\w$.])count\s*\(\s*\$[a-z_]\w*\s*\Z")
_COUNTED = "solutions are counted in braces: `count { $p knows $f }`"

_NOT = re.compile(r"(?<![\w$.])not\s*\Z")
_NOTHING = "`not { … }` alone says that there is no solution: `not { $p knows $_ }`"

_AFTER_TYPE = re.compile(r":\s*[A-Z]\w*\s*\(\s*[a-z_]\w*\s*\Z")
_IN_PATTERN = re.compile(r"\(\s*[a-z_]\w*\s*\Z")
_BINDING = (
    "a node is bound by `$p: Person { x: 1 }`, and a traversal is written `$p knows $f`; "
    "neither stands in brackets"
)

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
    ends = place.word in ("and", "or", "}") or place.word.startswith("$")
    is_clause = ends and "CMP" in place.accepted and "_AS" not in place.accepted
    return _BOOL if is_clause and _BARE_PROPERTY.search(place.before) else None


def _compared_twice(place: _Place) -> str | None:
    return _TWO if is_compared_twice(place.word, place.before, place.accepted) else None


def is_compared_twice(word: str, before: str, accepted: Collection[str]) -> bool:
    """Whether a comparison is compared again."""
    ends = "_AND" in accepted and "CMP" not in accepted
    return ends and word[:1] in ("<", ">", "=", "!") and not _NO_VALUE_BEFORE.search(before)


def _item(place: _Place) -> str | None:
    is_value = place.word[:1] in ("$", "+", "*", "/", "%") or place.word == "-"
    is_in_list = "VAR" not in place.accepted and _LIST.search(place.before)
    return _LITERALS if is_value and is_in_list else None


def _bound(place: _Place) -> str | None:
    if place.word[:1] == "*" and "VAR" in place.accepted:
        return _BOUNDS if _BEFORE_BOUNDS.search(place.before) else None
    one = _ONE_BOUND.search(place.before)
    if one is None or place.word != "}" or "COMMA" not in place.accepted:
        return None
    return f"both bounds are needed: `{{{one['bound']},{one['bound']}}}`"


def _called_count(place: _Place) -> str | None:
    is_walk = place.word.isidentifier() and _CALLED_COUNT.search(place.before)
    return _COUNTED if is_walk else None


def _not_exists(place: _Place) -> str | None:
    return _NOTHING if place.word == "exists" and _NOT.search(place.before) else None


def _pattern(place: _Place) -> str | None:
    """A node in brackets, as in Cypher, or the properties of one."""
    if place.word != ":":
        return None
    is_node = _AFTER_TYPE.search(place.before) or _IN_PATTERN.search(place.before)
    return _BINDING if is_node else None


def _comma(place: _Place) -> str | None:
    is_clause = place.word == "," and "_OPTIONAL" in place.accepted
    return "clauses stand one after the other, without commas" if is_clause else None


def _joined_texts(place: _Place) -> str | None:
    is_value = "PLUS" in place.accepted and not {"_OR", "CMP"} & {*place.accepted}
    return "texts are joined by `+`" if is_value and place.word[:1] == "|" else None


_PLACES: tuple[Callable[[_Place], str | None], ...] = (
    _in_braces,
    _lone_word,
    _is_not,
    _without_braces,
    _block_as_value,
    _count,
    _bare_value,
    _compared_twice,
    _item,
    _bound,
    _called_count,
    _not_exists,
    _pattern,
    _comma,
    _joined_texts,
)
