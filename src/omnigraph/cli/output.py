"""Everything that the command line writes.

Standard output carries the result and nothing else; what is meant for people goes to standard
error. A terminal gets tables and colour, a pipe gets plain lines. JSON is UTF-8 whatever the locale
says. With `--json` a failure leaves exactly one line on standard error, so warnings are held back
until the command has succeeded.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Final

import typer

JsonObject = Mapping[str, object]

_COLORS = {
    "ok": typer.colors.GREEN,
    "warning": typer.colors.YELLOW,
    "missing": typer.colors.RED,
    "invalid": typer.colors.RED,
    "error": typer.colors.RED,
}


class ColorMode(StrEnum):
    """When to write colour: by the look of the stream, or whatever it is."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(slots=True, kw_only=True)
class Output:
    """The two streams of one command, and how they may look.

    `is_json` is the choice of the caller for errors, known before the options are parsed.
    """

    is_json: bool = False
    color: ColorMode = ColorMode.AUTO
    allows_color: bool = True
    is_quiet: bool = False
    shows_progress: bool = True
    _held: list[tuple[str, str]] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Write a result for people to standard output."""
        self._emit(text, to_stderr=False)

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines for people; what a terminal would not print is escaped."""
        self.write("\n".join(map(_printable, lines)))

    def write_each(self, lines: Iterable[str]) -> None:
        """Write lines for people one by one, as they come; no lines write nothing."""
        for line in lines:
            self.write(_printable(line))

    def write_data(self, data: bytes) -> None:
        """Write a result for programs to standard output as it is, its last line end included."""
        typer.echo(data, nl=False)

    def write_json(self, value: JsonObject) -> None:
        """Write a result for programs to standard output."""
        self._emit(_encode(value, indent=2), to_stderr=False)

    def write_json_line(self, value: JsonObject) -> None:
        """Write one of several results for programs to standard output, on one line."""
        self._emit(_encode(value, indent=None), to_stderr=False)

    def write_facts(self, facts: Mapping[str, object]) -> None:
        """Write names and values, one to a line; what is None is left out."""
        shown = {name: str(value) for name, value in facts.items() if value is not None}
        width = max(map(len, shown), default=0)
        for name, value in shown.items():
            self.write(f"{name.ljust(width)}  {_printable(value)}")

    def write_table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write rows as a table that fits the terminal, or as aligned lines to a pipe.

        The first column is coloured if it is a word such as `ok` or `warning`. What a terminal
        would not print is escaped: a value that somebody stored moves no cursor and adds no line.
        """
        rows = [[_printable(cell) for cell in row] for row in rows]
        if not rows:
            self.write("(no rows)")
        elif sys.stdout is not None and sys.stdout.isatty():
            self.write(self._render_table(header, rows))
        else:
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for row in rows:
                padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
                padded[0] = self._paint(row[0], padded[0], to_stderr=False)
                self.write("  ".join(padded).rstrip())

    def warn(self, message: str) -> None:
        """Write a warning to standard error; with `--json` only once `finish` is reached."""
        if self.is_json:
            self._held.append(("warning", message))
        else:
            self._complain("warning", message)

    def announce(self, text: str) -> None:
        """Say on standard error what is about to happen, unless that is not wanted.

        With `--json` it waits until `finish`, as a warning does.
        """
        if self.is_quiet:
            return
        if self.is_json:
            self._held.append(("", text))
        else:
            self.explain(text)

    def fail(self, message: str) -> None:
        """Write an error for people to standard error."""
        self._complain("error", message)

    def fail_json(self, envelope: JsonObject) -> None:
        """Write an error for programs to standard error, on one line."""
        self._emit(_encode(envelope, indent=None), to_stderr=True)

    def explain(self, text: str) -> None:
        """Write a text for people to standard error as it is."""
        self._emit(text, to_stderr=True)

    def finish(self) -> None:
        """Write what was held back."""
        while self._held:
            kind, message = self._held.pop(0)
            if kind:
                self._complain(kind, message)
            else:
                self.explain(message)

    def _complain(self, kind: str, message: str) -> None:
        self._emit(f"{self._paint(kind, f'{kind}:', to_stderr=True)} {message}", to_stderr=True)

    def _paint(self, kind: str, text: str, *, to_stderr: bool) -> str:
        if not self._has_color(sys.stderr if to_stderr else sys.stdout):
            return text
        return typer.style(text, fg=_COLORS.get(kind), bold=kind == "error")

    def _has_color(self, stream: IO[str] | None) -> bool:
        if self.color is ColorMode.AUTO:
            return self.allows_color and stream is not None and stream.isatty()
        return self.color is ColorMode.ALWAYS

    def _render_table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        # What nothing is known of takes no room from what a line is read for.
        told = [at for at in range(len(header)) if not rows or any(row[at] != "-" for row in rows)]
        header = [header[at] for at in told]
        rows = [[row[at] for at in told] for row in rows]
        for at, name in enumerate(header):
            # An id that is cut is none, nor is a time.
            is_id = any(_WHOLE.fullmatch(row[at]) for row in rows)
            table.add_column(name, no_wrap=is_id, overflow="ignore" if is_id else "fold")
            if is_id:
                table.columns[at].min_width = max(len(row[at]) for row in rows)
        for row in rows:
            first = Text.from_ansi(self._paint(row[0], row[0], to_stderr=False))
            table.add_row(first, *map(Text, row[1:]))
        has_color = self._has_color(sys.stdout)
        console = Console(no_color=not has_color, force_terminal=has_color, highlight=False)
        with console.capture() as capture:
            console.print(table)
        return capture.get().rstrip("\n")

    def _emit(self, text: str | bytes, *, to_stderr: bool) -> None:
        stream = sys.stderr if to_stderr else sys.stdout
        typer.echo(text, err=to_stderr, color=self._has_color(stream))


_WHOLE: Final = re.compile(
    r"[0-9A-HJKMNP-TV-Z]{26}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z"
)
"""The id of a commit or an operation, or a time: what is copied from a table."""


def prepare_streams() -> None:
    """Let text that the locale cannot spell appear escaped instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def settle_streams() -> None:
    """Throw away what a closed or full stream did not take.

    Otherwise the interpreter would try to write it once more at exit, and complain.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, stream.fileno())
            os.close(sink)


def _encode(value: JsonObject, *, indent: int | None) -> bytes:
    # A file name may hold bytes that are no UTF-8; as `\udcff` they stay valid JSON.
    return json.dumps(value, ensure_ascii=False, indent=indent).encode(errors="backslashreplace")


def _printable(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
