"""Text for a terminal: made harmless, measured in cells, cut and wrapped.

What a value holds moves no cursor, adds no line and turns no text around. A wide character takes
two cells, a combining one none.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

ELLIPSIS: Final = "…"

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_COMBINING: Final = frozenset({"Mn", "Me", "Cf"})
# Format characters too, but some scripts cannot be spelled without them.
_JOINERS: Final = frozenset({"\u200c", "\u200d"})
# Vowels and finals of old Hangul are drawn in the cells of the consonant before them.
_FIRST_JAMO_VOWEL: Final = "\u1160"
_LAST_JAMO_FINAL: Final = "\u11ff"


def harmless(text: str) -> str:
    """The text with control and format characters escaped, as Python escapes them."""
    return text if text.isprintable() else "".join(map(_harmless_char, text))


def cell_width(text: str) -> int:
    """How many terminal cells a harmless text takes."""
    if text.isascii():
        return len(text)
    return len(text) + sum(_char_width(char) - 1 for char in _BEYOND_ASCII.findall(text))


def cut(text: str, width: int) -> str:
    """The text within `width` cells, with `…` in place of what is left out."""
    if cell_width(text) <= width:
        return text
    return text[: _fitting(text, 0, width - 1)] + ELLIPSIS


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells; a character that is wider has its own line."""
    if cell_width(text) <= width:
        return [text]
    lines, start = [], 0
    while start < len(text):
        end = max(start + 1, _fitting(text, start, width))
        lines.append(text[start:end])
        start = end
    return lines


def padded(text: str, width: int) -> str:
    """The text with spaces up to `width` cells."""
    return text + " " * (width - cell_width(text))


def _harmless_char(char: str) -> str:
    if unicodedata.category(char) not in _ESCAPED or char in _JOINERS:
        return char
    return char.encode("unicode_escape").decode()


def _fitting(text: str, start: int, width: int) -> int:
    """Where the longest part from `start` within `width` cells ends."""
    if text.isascii():
        return min(start + width, len(text))
    for at in range(start, len(text)):
        width -= _char_width(text[at])
        if width < 0:
            return at
    return len(text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in _COMBINING or _FIRST_JAMO_VOWEL <= char <= _LAST_JAMO_FINAL:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
