"""Findings of the compilers: one shape, one order, one rendering.

A `Diagnostic` has a stable code and reason, a message that says what to do, and a span. `Findings`
collects them for one source; nothing in `lang/` raises on the first error. Rendering draws the
source line with a caret, as compilers do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

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


class Findings:
    """The diagnostics of one source, in the order of the text once sorted."""

    __slots__ = ("_found", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self._found: dict[tuple[int, str, str], Diagnostic] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, code: str, reason: str, detail: str, extent: Extent) -> None:
        """Record a finding; the same finding at the same place is kept once."""
        span = self.source.span(extent)
        key = (span.start, code, detail)
        if key not in self._found:
            self._found[key] = Diagnostic(code=code, reason=reason, detail=detail, span=span)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """All findings by position, then code."""
        return tuple(self._found[key] for key in sorted(self._found))


def raise_findings(error: type[InputError], findings: Findings) -> NoReturn:
    """Raise `error` with every finding: rendered in the message, as data in `details`."""
    found = findings.sorted()
    raise error(
        render_all(found, findings.source),
        diagnostics=[diagnostic.to_dict() for diagnostic in found[:MAX_DIAGNOSTICS]],
        total=len(found),
        **({"path": findings.source.path} if findings.source.path else {}),
    )


def render_all(found: Sequence[Diagnostic], source: Source) -> str:
    """Every diagnostic with its source line and caret, cut at `MAX_DIAGNOSTICS`."""
    blocks = [render(diagnostic, source) for diagnostic in found[:MAX_DIAGNOSTICS]]
    if len(found) > MAX_DIAGNOSTICS:
        blocks.append(f"and {len(found) - MAX_DIAGNOSTICS:,} more")
    return "\n".join(blocks)


_EXCERPT_WIDTH = 100


def render(diagnostic: Diagnostic, source: Source) -> str:
    """One diagnostic as text: message, place, source line, caret."""
    return f"{diagnostic.message}\n{render_excerpt(source, diagnostic.span)}"


def render_excerpt(source: Source, span: Span) -> str:
    """The place of a span, its source line, and a caret below it."""
    gutter = " " * len(str(span.line))
    line, caret = _excerpt(source.line_text(span.line), span)
    return "\n".join(
        (
            f"{gutter}--> {source.path or '<source>'}:{span.line}:{span.column}",
            f"{gutter} |",
            f"{span.line} | {line}",
            f"{gutter} | {caret}",
        )
    )


def _excerpt(line: str, span: Span) -> tuple[str, str]:
    """A printable window of the line around the span, and the caret line below it."""
    first = span.column - 1
    last = span.end_column - 1 if span.end_line == span.line else max(len(line), first + 1)
    begin = max(0, first - _EXCERPT_WIDTH // 2) if len(line) > _EXCERPT_WIDTH else 0
    shown = "".join(
        character if character.isprintable() else " "
        for character in line[begin : begin + _EXCERPT_WIDTH]
    )
    width = max(1, min(last, begin + _EXCERPT_WIDTH) - first)
    return shown, " " * (first - begin) + "^" * width


def join_names(names: Iterable[str]) -> str:
    """Names in backquotes, comma separated, for messages."""
    return ", ".join(f"`{name}`" for name in names)
