"""Hints for habits that people bring from other languages.

A syntax error at a word or sign of SQL, Cypher or a host language says what to write here instead
of listing what the grammar expects. The tables hold what was seen; an unknown mistake gets no hint.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from omnigraph.lang.condition_hints import AND, IN, NULL, OR, find_condition_hint, is_in_where, own
from omnigraph.lang.place_hints import find_place_hint
from omnigraph.lang.statement_hints import find_own_hint, find_statement_hint
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import BASE_SCALARS

_PROPERTY = re.compile(r"\$[a-z_]\w*\.[a-z_]\w*\s*\Z")
_PREVIOUS_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|\S)\s*\Z")

_QUOTES = 'text stands in double quotes: `"…"`'
_COMMENT = "a comment starts with `//`, or stands between `/*` and `*/`"
_NOT = "`not { … }` holds clauses, `not ( … )` a condition; a Bool is compared: `$p.x = false`"
_WHERE = "there is no `where` in `match`; write the condition alone"
_PATH = "a traversal is written `$a knows $b`; its direction comes from the types"
_DISTINCT = "write `return distinct { … }`, or `count(distinct $p.x)`"
_ORDER = "an order is written `order { $p.x desc }`, after `return` and before `limit`"
_POWER = "there are no powers; multiply: `$p.x * $p.x`"
_FILE = "a file holds queries: `query name() { match { … } return { … } }`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The tables of one language."""

    words: Mapping[str, str]
    """By the offending word or sign, lower case."""
    after: Mapping[str, str]
    """By the word before the offending one, lower case."""
    pairs: Mapping[str, str]
    """By the offending sign together with the one before it."""


QUERY_HABITS = Habits(
    words={
        "'": _QUOTES,
        "\u201c": _QUOTES,
        "\u201d": _QUOTES,
        "\u2018": _QUOTES,
        "\u2019": _QUOTES,
        "`": _QUOTES,
        "#": _COMMENT,
        ";": "nothing ends with `;`; remove it",
        "and": AND,
        "&": AND,
        "or": OR,
        "|": OR,
        "is": NULL,
        "like": 'use `starts_with "…"` or `contains "…"`',
        "ilike": 'use `search($p.x, "…")`, or `contains "…"`',
        "in": IN,
        "between": "write two comparisons: `$p.x >= 5` and `$p.x <= 10`",
        "ends_with": "there is no `ends_with`; use `contains`",
        "matches": 'there are no patterns here; use `contains "…"` or `search`',
        "where": _WHERE,
        "(": _PATH,
        "by": _ORDER,
        "order": _ORDER,
        "offset": "`offset n` stands last, after `limit`",
        "limit": "`limit n` stands after `order`; `offset n` stands last",
        "skip": "skipping is written `offset n`, after `limit`",
        "having": "`having { … }` stands after `return`, before `order`",
        "group": "grouping is implied: beside an aggregate every other column is a group key",
        "distinct": _DISTINCT,
        "match": _FILE,
        "select": _FILE,
        "with": _FILE,
        "create": _FILE,
        "from": "name the type alone: `delete Person where …`",
        "into": "name the type alone: `insert Person { … }`",
        "*": "there is no `*`; name each column, and count a variable: `count($p)`",
        "^": _POWER,
        "-": "a minus right before a digit belongs to the number; subtract with a blank: `a - 1`",
        "true": "write `true` in lower case",
        "false": "write `false` in lower case",
        "null": "`null` is assigned, or tested with `is null`; nothing equals it",
        "!": "not equal is `!=`; negation is `not { … }`; a Bool is compared: `$p.x = false`",
        "~": 'there are no patterns here; use `contains "…"` or `search`',
    },
    after={
        "and": AND,
        "or": OR,
        "where": _WHERE,
        "is": NULL,
        "in": IN,
        "not": _NOT,
        "return": "close `match {` with `}` before `return`",
    },
    pairs={
        "==": "equality is `=`, not `==`",
        "=<": "at most is `<=`",
        "=>": "at least is `>=`",
        "**": _POWER,
        "<>": "not equal is `!=`",
        "--": _COMMENT,
        "-[": _PATH,
        "[:": _PATH,
        "->": _PATH,
        ")-": _PATH,
        "<-": _PATH,
        "&&": AND,
        "||": OR,
    },
)

SCHEMA_HABITS = Habits(
    words={
        "'": _QUOTES,
        "\u201c": _QUOTES,
        "\u201d": _QUOTES,
        "#": _COMMENT,
        ";": "nothing ends with `;`; remove it",
        ",": "properties are separated by blanks; remove the comma",
        "!": "a type without `?` is required; remove the `!`",
        "not": "a type without `?` is required; remove the words",
        "null": "a nullable type ends in `?`: `String?`",
        "primary": "a key is written `@key`",
        "default": "a default is written `@default(…)`",
        "unique": "uniqueness is written `@unique`",
        "[": "a list is written `[String]`, a vector `Vector(3)`",
        '"': "enum values are bare words: `enum(a, b)`",
        "@": "annotations stand right after the name of a type, before `implements`",
        "=": "a default is written `@default(…)`",
        "extends": "there is no inheritance; a node may implement interfaces: `implements Named`",
        "<": "a list is written `[String]`",
        "type": "declare `node Name { … }` or `edge Name: From -> To`",
        "table": "declare `node Name { … }` or `edge Name: From -> To`",
        "create": "declare `node Name { … }` or `edge Name: From -> To`",
    },
    after={},
    pairs={"--": _COMMENT, "[]": "a list is written `[String]`"},
)


def find_hint(
    habits: Habits, text: str, start: int, end: int, accepted: Collection[str]
) -> str | None:
    """What to write instead of the offending word at `start`, if it is a known habit.

    `accepted` are the terminals that could stand there.
    """
    if habits is not QUERY_HABITS:
        return _find_habit(habits, text, start, end)
    if is_in_where(text, start):
        hint = find_own_hint(text, start, end, accepted)
    else:
        hint = find_place_hint(text, start, end, accepted)
    hint = hint or find_statement_hint(text, start, end, accepted)
    hint = hint or find_condition_hint(text, start, end, accepted)
    if hint is not None:
        return hint
    if any(name.strip("_") == text[start:end].upper() for name in accepted):
        return None  # a keyword that is not in lower case; the nearest one is proposed
    hint = _find_habit(habits, text, start, end)
    return None if hint is None else own(hint, is_own=is_in_where(text, start))


def _find_habit(habits: Habits, text: str, start: int, end: int) -> str | None:
    word = text[start:end]
    if word.startswith('"'):
        word = word[:1]
    before = text[max(0, start - 60) : start]
    found = _PREVIOUS_WORD.search(before)
    previous = found[1].casefold() if found else ""
    for pair in (text[start - 1 : start + 1], text[start : start + 2]):
        if pair in habits.pairs:
            return habits.pairs[pair]
    return (
        habits.after.get(previous)
        or habits.words.get(word.casefold())
        or _shape_hint(habits, word, before, previous)
    )


def _shape_hint(habits: Habits, word: str, before: str, previous: str) -> str | None:
    """Hints by the shape of a word and of what is before it, in queries."""
    if habits is not QUERY_HABITS:
        return None
    if word == "." and _PROPERTY.search(before):
        return "a property has no parts; call a function of it: `length($p.x)`"
    if word == "." and previous.isidentifier():
        return f"a variable starts with `$`: `${previous}.…`"
    if word == ".":
        return "write a number with digits on both sides of the point; hop bounds are `{1,3}`"
    if re.fullmatch("e[0-9]+", previous):
        return "numbers have no exponent; write all the digits"
    if word.isupper() and word.isidentifier():
        return f"names, functions and edges start in lower case: `{word.lower()}`"
    if previous.isidentifier() and word[:1].isupper():
        return f"an edge starts in lower case: `{word[0].lower()}{word[1:]}`"
    return None


_TYPE_ALIASES: dict[str, str] = {
    "I64` or `I32": "int integer int64 int32 int16 int8 i16 i8 i128 long bigint smallint serial",
    "U64` or `U32": "uint uint64 uint32 unsigned u16 u8",
    "F64` or `F32": "float float64 float32 double real number numeric decimal",
    "String": "str text varchar char character uuid url uri json keyword",
    "Bool": "boolean bit flag",
    "DateTime": "timestamp timestamptz datetime64 time instant",
    "Blob": "bytes binary bytea byte",
    "[String]` or another list in brackets, `[I64]": "list array set",
    "Vector(384)": "embedding tensor",
}
_BY_ALIAS = {alias: name for name, aliases in _TYPE_ALIASES.items() for alias in aliases.split()}


def suggest_type(name: str) -> str:
    """A tail for a message about an unknown type: what it is called here."""
    alias = _BY_ALIAS.get(name.casefold())
    if alias is not None:
        return f"; use `{alias}`"
    known = [*BASE_SCALARS, "Vector"]
    near = did_you_mean(name, known)
    return near or f"; known are {', '.join(f'`{item}`' for item in known)} and `enum(…)`"


_ANNOTATIONS = (
    "key",
    "unique",
    "index",
    "range",
    "check",
    "embed",
    "default",
    "rename_from",
    "description",
    "instruction",
    "card",
)
_ANNOTATION_ALIASES = {
    "primary_key": "`@key`",
    "primarykey": "`@key`",
    "pk": "`@key`",
    "id": "`@key`",
    "unique_key": "`@unique`",
    "indexed": "`@index`",
    "required": "a type without `?`",
    "not_null": "a type without `?`",
    "nullable": "a type with `?`",
    "optional": "a type with `?`",
    "renamed_from": "`@rename_from`",
    "doc": "`@description`",
    "comment": "`@description`",
}


def is_annotation(name: str) -> bool:
    """Whether an annotation of this name means something."""
    return name in _ANNOTATIONS


def suggest_annotation(name: str) -> str | None:
    """What a free annotation was probably meant to be; None if it is known or like no other."""
    if name in _ANNOTATIONS:
        return None
    alias = _ANNOTATION_ALIASES.get(name)
    near = get_close_matches(name[:40], _ANNOTATIONS, n=1, cutoff=0.75)
    # Two letters that changed places make a short name look unlike.
    near = near or [known for known in _ANNOTATIONS if sorted(known) == sorted(name)]
    return alias or (f"`@{near[0]}`" if near else None)
