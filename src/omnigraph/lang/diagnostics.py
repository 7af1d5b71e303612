"""Findings of the compilers: one shape, one order, one rendering.

A `Diagnostic` has a stable code and reason, a message that says what to do, and a span. `Findings`
collects them for one source; nothing in `lang/` raises on the first error. Rendering draws the
source line with a caret, as compilers do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from omnigraph.errors import InputError, JsonValue
from omnigraph.lang.source import Extent, Source, Span
from omnigraph.limits import MAX_DIAGNOSTICS


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding that makes a source unusable."""

    code: str
    reason: str
    detail: str
    span: Span

    @property
    def message(self) -> str:
        """The text people read, code first."""
        return f"{self.code}: {self.detail}"

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON form of error bodies and reports."""
        return {
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
            "span": self.span.to_dict(),
        }


class FindingsFull(Exception):
    """So many findings that nobody reads on; checking stops here.

    Never reaches a caller: every entry point of the compilers stops at it.
    """


class Findings:
    """The diagnostics of one source, in the order of the text once sorted.

    It holds `MAX_DIAGNOSTICS` at most, which also bounds the time that a hostile source can cost.
    """

    __slots__ = ("_found", "is_cut", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.is_cut = False
        self._found: dict[tuple[int, str, str], Diagnostic] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, code: str, reason: str, detail: str, extent: Extent) -> None:
        """Record a finding; the same finding at the same place is kept once.

        Raises:
            FindingsFull: there is no room for another.
        """
        span = self.source.span(extent)
        key = (span.start, code, detail)
        if key in self._found:
            return
        if len(self._found) >= MAX_DIAGNOSTICS:
            self.is_cut = True
            raise FindingsFull
        self._found[key] = Diagnostic(code=code, reason=reason, detail=detail, span=span)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """All findings by position, then code."""
        return tuple(self._found[key] for key in sorted(self._found))


def raise_findings(error: type[InputError], findings: Findings) -> NoReturn:
    """Raise `error` with every finding: rendered in the message, as data in `details`."""
    diagnostics = findings.sorted()
    raise error(
        render_all(findings),
        diagnostics=[diagnostic.to_dict() for diagnostic in diagnostics],
        total=len(diagnostics),
        **({"path": findings.source.path} if findings.source.path else {}),
    )


def render_all(findings: Findings) -> str:
    """Every diagnostic with its source line and caret."""
    blocks = [render(diagnostic, findings.source) for diagnostic in findings.sorted()]
    if findings.is_cut:
        blocks.append(f"more than {MAX_DIAGNOSTICS} errors; the rest is not shown")
    return "\n".join(blocks)


_EXCERPT_WIDTH = 100


def render(diagnostic: Diagnostic, source: Source) -> str:
    """One diagnostic as text: message, place, source line, caret."""
    return f"{diagnostic.message}\n{render_excerpt(source, diagnostic.span)}"


def render_excerpt(source: Source, span: Span) -> str:
    """The place of a span, its source line (or a window of a long one), and a caret below it."""
    gutter = " " * len(str(span.line))
    first = span.column - 1
    begin, line = source.line_window(span.line, first, _EXCERPT_WIDTH)
    is_one_line = span.end_line == span.line
    last = span.end_column - 1 if is_one_line else max(begin + len(line), first + 1)
    shown = "".join(character if character.isprintable() else " " for character in line)
    caret = "^" * max(1, min(last, begin + _EXCERPT_WIDTH) - first)
    return "\n".join(
        (
            f"{gutter}--> {source.path or '<source>'}:{span.line}:{span.column}",
            f"{gutter} |",
            f"{span.line} | {shown}",
            f"{gutter} | {' ' * (first - begin)}{caret}",
        )
    )


def render_reported(diagnostics: Sequence[Mapping[str, Any]], text: str) -> str:
    """Diagnostics in their JSON form (Any) as they are rendered where their source was compiled."""
    source = Source(text)
    blocks = [
        f"{each['message']}\n{render_excerpt(source, Span(**each['span']))}" for each in diagnostics
    ]
    return "\n".join(blocks)


def join_names(names: Iterable[str]) -> str:
    """Names in backquotes, comma separated, for messages."""
    return ", ".join(f"`{name}`" for name in names)
