"""Text of single tokens: strings with escapes, numbers with their range, and back."""

import math
import re
from decimal import Decimal

from lark import Token

from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.grammar import Language, extent_of

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**64 - 1
MAX_COUNT = 2**63 - 1


def read_string(token: Token, language: Language, findings: Findings) -> str:
    """The text of a STRING token; an unknown escape is a finding and stays as written."""
    body = str(token)[1:-1]
    if "\\" not in body:
        return body
    first = extent_of(token)[0] + 1

    def replace(match: re.Match[str]) -> str:
        known = _UNESCAPED.get(match[1])
        if known is None:
            at = first + match.start()
            findings.add(
                language.syntax_code,
                "bad_escape",
                f'unknown escape `{match[0]}`; known are \\" \\\\ \\n \\r \\t',
                (at, at + 2),
            )
            return match[0]
        return known

    return _ESCAPE.sub(replace, body)


def read_count(token: Token) -> int:
    """The value of an INT token, anything too large for every type being one large number."""
    digits = str(token).lstrip("0") or "0"
    # Python refuses to convert very long texts.
    return int(digits) if len(digits) <= 20 else 10**20


def read_integer(
    token: Token,
    language: Language,
    findings: Findings,
    *,
    negative: bool = False,
    largest: int = MAX_INTEGER,
) -> int:
    """The value of an INT token; out of range it is a finding and becomes 0."""
    value = -read_count(token) if negative else read_count(token)
    if MIN_INTEGER <= value <= largest:
        return value
    findings.add(
        language.syntax_code,
        "integer_range",
        f"the integer is out of range; the smallest is {MIN_INTEGER}, the largest {largest}",
        extent_of(token),
    )
    return 0


def read_float(
    token: Token, language: Language, findings: Findings, *, negative: bool = False
) -> float:
    """The value of a FLOAT token; one that is no finite F64 is a finding and becomes 0."""
    value = float(token)
    if not math.isfinite(value):
        findings.add(
            language.syntax_code,
            "integer_range",
            "the number is too large for F64",
            extent_of(token),
        )
        return 0.0
    return -value if negative else value


def write_string(text: str) -> str:
    """A STRING token of the text."""
    return f'"{text.translate(_ESCAPED)}"'


def write_float(value: float) -> str:
    """A FLOAT token, with sign, that reads back to the same value."""
    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"
