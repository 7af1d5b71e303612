"""Parsing with the `.lark` grammars: one parser per language, errors as findings.

A file that does not parse yields one syntax finding per broken declaration: after an error the
parser goes on with the next declaration. Nesting is bounded before parsing, so no later
recursion over the tree can run deep.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lark import Lark, TextSlice, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.lexer import Pattern, PatternStr
from lark.parsers.lalr_interactive_parser import InteractiveParser
from lark.parsers.lalr_parser_state import ParserState

from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.foreign_syntax import QUERY_HABITS, SCHEMA_HABITS, Habits, find_hint
from omnigraph.lang.grammar_tables import parser_of
from omnigraph.lang.source import Extent, Source, SourceUnreadable
from omnigraph.lang.suggest import did_you_mean
from omnigraph.limits import MAX_NESTING

Node = Tree[Token]

# Comments and strings, unclosed ones to the end of the text: a pattern that failed there would be
# tried again at every mark behind it.
_SKIPPED = r'//[^\n]*|/\*.*?(?:\*/|\Z)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_BRACKETS = re.compile(rf"(?s){_SKIPPED}|(?P<opens>[\[({{])|(?P<closes>[\])}}])")
_WORD = re.compile(r"\$?[A-Za-z0-9_]+")
_TOKEN_WORDS = {
    "TYPE": "a type name (upper-case first letter)",
    "NAME": "a name (lower-case first letter)",
    "VAR": "a variable (`$name`)",
    "INT": "an integer",
    "FLOAT": "a number",
    "STRING": "a string",
    "TRUE": "`true`",
    "FALSE": "`false`",
    "ENUMVAL": "an enum value",
    "CMP": "a comparison",
    "NOT_IN": "`not in`",
    "NEGATIVE": "a negative number",
    "$END": "the end of the file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """What the parser of one language needs to know beside its grammar."""

    grammar: str
    syntax_code: str
    declaration: re.Pattern[str]
    """Finds where a declaration starts, in group `declaration`; steps over strings and comments."""
    habits: Habits


def _starts_with(declaration: str) -> re.Pattern[str]:
    return re.compile(rf"(?s){_SKIPPED}|(?P<declaration>(?<![A-Za-z0-9_$@.]){declaration})")


SCHEMA_LANGUAGE = Language(
    grammar="schema.lark",
    syntax_code="S000",
    declaration=_starts_with(r"(?:node|edge|interface)[ \t\r\n]+[A-Z]"),
    habits=SCHEMA_HABITS,
)
QUERY_LANGUAGE = Language(
    grammar="query.lark",
    syntax_code="Q000",
    declaration=_starts_with(r"query[ \t\r\n]+[a-z_][A-Za-z0-9_]*[ \t\r\n]*\("),
    habits=QUERY_HABITS,
)


def read_source(data: str | bytes, path: str | None, language: Language) -> Findings:
    """Decode a source and open its findings; unreadable text is recorded as a syntax finding."""
    try:
        return Findings(Source.decode(data, path))
    except SourceUnreadable as error:
        findings = Findings(error.source)
        findings.add(language.syntax_code, "syntax", error.message, error.extent)
        return findings


def parse_trees(language: Language, findings: Findings) -> list[Node]:
    """The parse trees of the declarations of the findings' source.

    A declaration that does not parse is left out and recorded as a syntax finding.
    """
    text = findings.source.text
    if findings or not _is_shallow(text, language, findings):
        return []
    parser = parser_of(language.grammar)
    try:
        return child_trees(parser.parse(text))
    except UnexpectedInput:
        return _parse_each(language, findings, parser)


def _parse_each(language: Language, findings: Findings, parser: Lark) -> list[Node]:
    """Parse the declarations of a broken source one by one."""
    text = findings.source.text
    starts = [0, *_declaration_starts(language, text), len(text)]
    trees: list[Node] = []
    for start, end in pairwise(starts):
        try:
            trees += child_trees(parser.parse(TextSlice(text, start, end)))
        except UnexpectedInput as error:
            extent, detail = _explain(error, text, end, language, parser)
            findings.add(language.syntax_code, "syntax", detail, extent)
    return trees


def child_trees(tree: Node) -> list[Node]:
    """The children of a tree that are trees."""
    return [child for child in tree.children if not isinstance(child, Token)]


def child_tokens(tree: Node) -> list[Token]:
    """The children of a tree that are tokens."""
    return [child for child in tree.children if isinstance(child, Token)]


def extent_of(item: Node | Token) -> Extent:
    """Character range of a token or a tree."""
    if isinstance(item, Token):
        return item.start_pos or 0, item.end_pos or 0
    if item.meta.empty:
        return 0, 0
    return item.meta.start_pos, item.meta.end_pos


def _is_shallow(text: str, language: Language, findings: Findings) -> bool:
    if text.count("[") + text.count("{") + text.count("(") <= MAX_NESTING:
        return True
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match["opens"]:
            depth += 1
        elif match["closes"]:
            depth = max(0, depth - 1)
        if depth > MAX_NESTING:
            findings.add(
                language.syntax_code,
                "syntax",
                f"brackets nest deeper than {MAX_NESTING}; split the query or flatten the value",
                match.span(),
            )
            return False
    return True


def _declaration_starts(language: Language, text: str) -> list[int]:
    return [
        match.start()
        for match in language.declaration.finditer(text)
        if match["declaration"] is not None and match.start() > 0
    ]


def _explain(
    error: UnexpectedInput, text: str, end: int, language: Language, parser: Lark
) -> tuple[Extent, str]:
    """Where a syntax error is, and what to say about it."""
    expected = _accepted(error, parser)
    if isinstance(error, UnexpectedToken):
        if error.token.type == "$END":
            what = "source" if end == len(text) else "declaration"
            end = len(text[:end].rstrip())
            return (end, end), f"the {what} ends too early" + _expected(expected, "", parser)
        extent = extent_of(error.token)
    else:
        at = end if error.pos_in_stream is None else error.pos_in_stream
        unclosed = _unclosed(text, at)
        if unclosed is not None:
            return (at, at + len(unclosed[0])), unclosed[1]
        word = _WORD.match(text, at)
        extent = (at, word.end() if word else at + 1)
    token = text[extent[0] : extent[1]]
    shown = token if len(token) <= 40 else token[:39] + "…"
    hint = find_hint(language.habits, text, *extent, expected)
    tail = f"; {hint}" if hint else _expected(expected, token, parser)
    return extent, f"unexpected `{shown}`{tail}"


def _accepted(error: UnexpectedInput, parser: Lark) -> list[str]:
    """Names of the terminals that could really stand at the error.

    What the lexer was willing to read is wider: it includes look-aheads of other places.
    """
    state = error.state
    if isinstance(state, ParserState):
        cursor = InteractiveParser(parser.parser.parser, state, state.lexer)
        accepted: set[str] = cursor.accepts()  # type: ignore[no-untyped-call]  # lark has no types here
        return sorted(accepted)
    if isinstance(error, UnexpectedToken):
        return sorted(error.accepts or error.expected)
    return []


def _unclosed(text: str, at: int) -> tuple[str, str] | None:
    if text.startswith("/*", at):
        return "/*", "the comment is not closed; end it with `*/`"
    if text.startswith('"', at):
        return '"', 'the string is not closed; end it with `"`'
    return None


_GROUPS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a value", frozenset({"STRING", "FLOAT", "INT", "TRUE", "FALSE", "NEGATIVE", "LSQB"})),
    ("an operator", frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"})),
    ("a comparison", frozenset({"CMP", "LESS", "GREATER", "CONTAINS", "STARTS_WITH"})),
)


def _expected(names: Iterable[str], token: str, parser: Lark) -> str:
    """The tail of a syntax message: a near keyword, or what may stand here."""
    patterns = {terminal.name: terminal.pattern for terminal in parser.terminals}
    left = set(names)
    keywords = sorted(
        name.strip("_").lower()
        for name in left
        if name not in _TOKEN_WORDS and not isinstance(patterns.get(name), PatternStr)
    )
    near = did_you_mean(token, keywords) if token else ""
    if near:
        return near
    words: list[str] = []
    for group, members in _GROUPS:
        if len(members & left) > 2:
            words.append(group)
            left -= members
    words += sorted(_token_word(name, patterns.get(name)) for name in left)
    if not words:
        return ""
    return f"; expected {words[0]}" if len(words) == 1 else f"; expected one of {', '.join(words)}"


def _token_word(name: str, pattern: Pattern | None) -> str:
    if name in _TOKEN_WORDS:
        return _TOKEN_WORDS[name]
    if isinstance(pattern, PatternStr):
        return f"`{pattern.value}`"
    return f"`{name.strip('_').lower()}`"
