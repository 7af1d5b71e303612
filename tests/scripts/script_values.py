"""Values and tables of script files: one spelling for each value; equal texts are equal values.

A value is written as JSON writes it, with these rules: a float has a point or an exponent (`3.0`,
never `3`), and `NaN`, `inf`, `-inf`, dates (`2024-02-29`), moments in UTC
(`2024-02-29T12:00:00.001Z`) and bytes (`x"6869"`) stand bare. A line of a table has bars between
its cells; a bar inside a text divides nothing.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | bytes | date | datetime | list[Value] | None"

_TOKEN = re.compile(
    r'(?P<bytes>x"[0-9a-f]*")'
    r'|(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"
    r"|(?P<day>\d{4}-\d\d-\d\d)"
    r"|(?P<number>-?(?:inf|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?))"
    r"|(?P<word>null|true|false|NaN)"
    r"|(?P<mark>[\[\],])"
)
_WORDS: dict[str, Value] = {"null": None, "true": True, "false": False, "NaN": math.nan}
_CELL = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^"|])*')


class SpellingError(ValueError):
    """A text that spells no value, or a line that is no line of a table."""


def parse_value(text: str) -> Value:
    """The value that a text spells.

    Raises:
        SpellingError: it spells none, or more than one.
    """
    tokens = _tokens(text)
    value = _value(tokens, text)
    if next(tokens, None) is not None:
        raise SpellingError(f"one value is expected, not `{text}`")
    return value


def _tokens(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        if text[position] == " ":
            position += 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise SpellingError(f"no value is spelled `{text[position:]}`")
        yield match
        position = match.end()


def _value(tokens: Iterator[re.Match[str]], text: str) -> Value:
    token = next(tokens, None)
    if token is None:
        raise SpellingError(f"a value is missing in `{text}`")
    return _items(tokens, text) if token["mark"] == "[" else _scalar(token)


def _items(tokens: Iterator[re.Match[str]], text: str) -> list[Value]:
    """The items up to the closing bracket; the opening one is read."""
    items: list[Value] = []
    for token in tokens:
        if token["mark"] == "]" and not items:
            return items
        items.append(_items(tokens, text) if token["mark"] == "[" else _scalar(token))
        follows = next(tokens, None)
        if follows is not None and follows["mark"] == "]":
            return items
        if follows is None or follows["mark"] != ",":
            break
    raise SpellingError(f"a list does not end in `{text}`")


def _scalar(match: re.Match[str]) -> Value:
    spelled = match.group()
    try:
        match match.lastgroup:
            case "bytes":
                return bytes.fromhex(spelled[2:-1])
            case "text":
                return str(json.loads(spelled))
            case "moment":
                return datetime.fromisoformat(spelled).astimezone(UTC)
            case "day":
                return date.fromisoformat(spelled)
            case "number":
                return int(spelled) if spelled.lstrip("-").isdigit() else float(spelled)
            case "word":
                return _WORDS[spelled]
            case _:
                raise SpellingError(f"a value is expected, not `{spelled}`")
    except ValueError as error:
        raise SpellingError(f"no value is spelled `{spelled}`") from error


def spell_value(value: object) -> str:
    """The one spelling of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case str():
            return _spell_text(value)
        case bytes():
            return f'x"{value.hex()}"'
        case datetime():
            return _spell_moment(value)
        case date():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(spell_value, value))}]"
        case _:
            raise TypeError(f"a {type(value).__name__} is no value of a script: {value!r}")


def _spell_moment(value: datetime) -> str:
    plain = value.astimezone(UTC).replace(tzinfo=None)
    return plain.isoformat(timespec="milliseconds" if plain.microsecond else "seconds") + "Z"


def _spell_text(value: str) -> str:
    """JSON, with what an editor would not show, or would join to its neighbour, escaped."""
    plain = json.dumps(value, ensure_ascii=False)
    return "".join(
        each if each.isprintable() and not unicodedata.combining(each) else json.dumps(each)[1:-1]
        for each in plain
    )


def cells_of(line: str) -> list[str]:
    """The cells of a line of a table, without the spaces around them."""
    cells: list[str] = []
    position = 0
    while True:
        match = _CELL.match(line, position)
        end = position if match is None else match.end()
        if end < len(line) and line[end] != "|":
            raise SpellingError(f"a text does not end in `{line}`")
        cells.append(line[position:end].strip())
        if end >= len(line):
            return cells
        position = end + 1


def render_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its cells under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
