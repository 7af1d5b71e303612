"""Hints for the statements of mutations: what stands where, and what `where` looks at.

A place is known by the words before it. The text is read back a little way only.
"""

import re
from collections.abc import Collection

from omnigraph.lang.place_hints import is_compared_twice

_COUNT = re.compile(r"(?<![\w$.])count\s*\Z")
_CALL = re.compile(r"(?<![\w$.])(?P<name>search|match_text|fuzzy|bm25|nearest)\s*\([^()]*\)\s*\Z")
_ONE_ROW = "`where` of a mutation looks at one row; name the rows with `in`"

_WHERE = re.compile(r"(?<![\w$.])where\s*\Z")
_NO_CONDITION = "`where` takes a condition on the row: `where x = 1`"

_VARIABLE = re.compile(r"(?<![\w.])\$?[a-z_]\w*\s*\Z")
_NEXT_NAME = re.compile(r"\s*([a-z_]\w*)")

_BARE_NAME = re.compile(r"(?<![\w$.])(?:where|and|or|not|\()\s*(?P<name>[a-z_]\w*)\s*\Z")
_ENDS = frozenset({"and", "or", "}", ")", "update", "delete", "insert"})
_TWO = "one comparison stands between two values; write two: `3 < x and x < 5`"

_TYPE = re.compile(r"(?<![\w$.])(?:insert|update)\s+[A-Z]\w*\s*\Z")
_BRACES = "values stand in braces: `insert Person { x: 1 }`"
_ABSENT = re.compile(r"\s+absent\b")
_IF_ABSENT = "`if absent` stands after the type: `insert Person if absent { … }`"
_COLON = "a colon stands between a property and its value: `{ x: 1 }`"

_LOOK_BACK = 400


def find_own_hint(text: str, start: int, end: int, accepted: Collection[str]) -> str | None:
    """What to write in `where` of a mutation, which looks at the properties of one row."""
    before, word = text[max(0, start - _LOOK_BACK) : start], text[start:end]
    if (word == "{" and _COUNT.search(before)) or _CALL.search(before):
        return _ONE_ROW
    if word in ("{", "}") and _WHERE.search(before):
        return _NO_CONDITION
    if word == "." and _VARIABLE.search(before):
        name = _NEXT_NAME.match(text, end)
        return f"a property of the row is written alone: `{name[1] if name else 'x'}`"
    if is_compared_twice(word, before, accepted):
        return _TWO
    bare = _BARE_NAME.search(before)
    if bare is None or word not in _ENDS:
        return None
    is_name = bare["name"] not in ("true", "false")
    return f"a value is compared: `{bare['name']} = true`" if is_name else _NO_CONDITION


def find_statement_hint(text: str, start: int, end: int, accepted: Collection[str]) -> str | None:
    """What to write in a statement where a sign or a word of another language stands."""
    before, word = text[max(0, start - _LOOK_BACK) : start], text[start:end]
    if word == "if" and _ABSENT.match(text, end):
        return _IF_ABSENT
    if word == "(" and _TYPE.search(before):
        return _BRACES
    return _COLON if [*accepted] == ["COLON"] and word[:1] in ("=", "+", "-") else None
