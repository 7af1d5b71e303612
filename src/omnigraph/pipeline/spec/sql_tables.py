"""What a query of Spark SQL names in the places of tables: other sources, files, and all else.

Read without Spark, word by word, so that a pipeline file can be checked before anything starts. A
name counts after FROM, JOIN and TABLE and after the commas of a FROM; texts and comments do not. A
name too many only makes a query wait for a source that it does not need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_TOKEN: Final = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | [rR]'[^']*' | [rR]"[^"]*"
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"
    | (?P<name>`(?:[^`]|``)*`) | (?P<word>\w+) | (?P<sign>[(),.;])""",
    re.VERBOSE | re.DOTALL,
)
_OPENS: Final = frozenset({"FROM", "JOIN", "TABLE"})
_CLOSES: Final = frozenset(
    {
        *("SELECT", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "UNION", "EXCEPT"),
        *("INTERSECT", "MINUS", "WINDOW", "SORT", "CLUSTER", "DISTRIBUTE", "QUALIFY"),
    }
)
_FILE_FORMATS: Final = frozenset(
    {"csv", "json", "parquet", "orc", "text", "xml", "avro", "binaryfile"}
)
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The name that it is, without its quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind == "name" else self.text


@dataclass(frozen=True, slots=True)
class TableName:
    """A name in the place of a table."""

    parts: tuple[str, ...]
    start: int
    """Where its last part starts in the query."""
    end: int
    is_call: bool


@dataclass(slots=True)
class _Level:
    """What stands between two brackets."""

    is_from: bool = False
    expects: bool = False


@dataclass(slots=True)
class _Scan:
    """Walks over the words of a query."""

    tokens: list[_Token]
    levels: list[_Level] = field(default_factory=lambda: [_Level()])
    at: int = 0

    def tables(self) -> Iterator[TableName]:
        while self.at < len(self.tokens):
            token, level = self.tokens[self.at], self.levels[-1]
            if token.word in _OPENS:
                level.is_from = level.expects = True
            elif token.word in _CLOSES:
                level.is_from = level.expects = False
            elif token.text == "(":
                self.levels.append(_Level(is_from=level.expects, expects=level.expects))
                level.expects = False
            elif token.text == ")":
                self.levels = self.levels[:-1] or [_Level()]
            elif token.text == ",":
                level.expects = level.is_from
            elif level.expects and token.kind != "sign" and token.word != "LATERAL":
                level.expects = False
                yield self._name()
            self.at += 1

    def _name(self) -> TableName:
        parts = [self.tokens[self.at]]
        while self._text(1) == "." and self.at + 2 < len(self.tokens):
            self.at += 2
            parts.append(self.tokens[self.at])
        return TableName(
            parts=tuple(each.name for each in parts),
            start=parts[-1].start,
            end=parts[-1].end,
            is_call=self._text(1) == "(",
        )

    def _text(self, ahead: int) -> str:
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""


def tables_of(query: str) -> list[TableName]:
    """The names in the places of tables, in their order."""
    return list(_Scan(_tokens(query)).tables())


def named_in(query: str, names: Collection[str]) -> list[str]:
    """Which of these names the query reads, in the order of the names."""
    found = {each.parts[0] for each in tables_of(query) if _is_plain(each)}
    return [name for name in names if name in found]


def reads_only(query: str, names: Collection[str]) -> bool:
    """Whether the query reads nothing but these names and what it defines itself."""
    known = {*names, *_defined(_tokens(query))}
    tables = tables_of(query)
    return bool(tables) and all(_is_plain(each) and each.parts[0] in known for each in tables)


def with_files_from(query: str, folder: Path) -> str:
    """The query with the relative paths of its files taken from a folder."""
    parts, at = [], 0
    for table in tables_of(query):
        if len(table.parts) != 2 or table.parts[0].lower() not in _FILE_FORMATS:
            continue
        path = table.parts[1]
        if table.is_call or ":" in path or path.startswith("/"):
            continue
        # The folder is one folder, whatever its name; the rest may be a pattern.
        start = _PATTERN.sub(r"\\\g<0>", str(folder))
        quoted = f"file://{start}/{path}".replace("`", "``")
        parts += [query[at : table.start], f"`{quoted}`"]
        at = table.end
    return "".join([*parts, query[at:]])


def within_brackets(query: str) -> str:
    """The query as a part of another one: without a semicolon at its end."""
    tokens = _tokens(query)
    while tokens and tokens[-1].text == ";":
        end = tokens.pop()
        query = query[: end.start] + query[end.end :]
    return f"(\n{query}\n)"


def _tokens(query: str) -> list[_Token]:
    return [
        _Token(match.lastgroup, match.group(), match.start(), match.end())
        for match in _TOKEN.finditer(query)
        if match.lastgroup is not None
    ]


def _is_plain(table: TableName) -> bool:
    return len(table.parts) == 1 and not table.is_call


def _defined(tokens: list[_Token]) -> Iterator[str]:
    """The names that `WITH name AS (…)` gives."""
    for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if one.kind != "sign" and two.word == "AS" and three.text == "(":
            yield one.name
