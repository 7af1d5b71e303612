"""How a failure looks from outside: the text or the envelope, and the exit code.

The one place that renders errors for people. The envelope is the error body of the HTTP contract,
which the server gives too. A traceback appears only on request.
"""

import contextlib
import re
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import typer

from omnigraph.cli.exit_codes import exit_code_of
from omnigraph.cli.output import Output
from omnigraph.errors import (
    InternalError,
    InvalidArgument,
    OmnigraphError,
    SchemaRefused,
    UsageError,
)
from omnigraph.graph.results.envelope import envelope_of, one_line
from omnigraph.graph.results.terminal_text import harmless

_SHOWN_VIOLATIONS: Final = 20
_SHOWN_OF_A_KIND: Final = 3
"""So many of each rule and type are shown, before more of the same."""

_UNKNOWN_COMMAND: Final = re.compile(r"No such command '([^']+)'")
_PLANNED_COMMANDS: Final = frozenset(
    {
        "cluster",
        "queries",
    }
)


def report(
    error: OmnigraphError, output: Output, *, is_repeatable: bool = False, log: Path | None = None
) -> int:
    """Show an error and return the exit code of the process.

    `is_repeatable`: the command has an idempotency key. `log`: where Spark has logged what failed,
    if it has. The exit code stands even when nobody can
    be told: standard error may be closed or full.
    """
    with contextlib.suppress(OSError):
        if output.is_json:
            output.fail_json(envelope_of(error))
        elif "diagnostics" in error.details and not isinstance(error, SchemaRefused):
            output.fail(error.message)
        else:
            output.fail(harmless(one_line(error.message)))
            for line in _further(error):
                output.explain(f"  {harmless(one_line(line))}")
            if log is not None and log.is_file():
                output.explain(f"  what Spark logged is in {log}")
    return exit_code_of(error, is_repeatable=is_repeatable)


def translate(error: Exception) -> OmnigraphError:
    """Our error for anything that ended a command: a wrong command line, a full disk, a bug."""
    if isinstance(error, OmnigraphError):
        return error
    if isinstance(error, typer.TyperException):
        return UsageError(_explain_usage(error))
    if isinstance(error, OSError) and error.filename is None:
        # Whoever reads or writes a file translates its failures, so this is one of our streams.
        return InvalidArgument(
            f"cannot write the output: {error.strerror}; free some space or redirect it elsewhere"
        )
    return InternalError(
        f"unexpected {type(error).__name__}: {error}; this is a bug in omnigraph, please report it "
        "with the output of the same command under --log-level debug"
    )


def render_traceback(error: Exception) -> str:
    """The way to an error, for `--log-level debug`."""
    return "".join(traceback.format_exception(error)).rstrip("\n")


def _further(error: OmnigraphError) -> Iterator[str]:
    """What follows the message."""
    yield from _further_violations(error)
    yield from _further_refusals(error)
    mistakes = error.details.get("mistakes")
    if isinstance(mistakes, list):
        yield from (f"{each['message']}" for each in mistakes[1:] if isinstance(each, dict))


def _further_violations(error: OmnigraphError) -> Iterator[str]:
    """What follows the message, which has the first violation; nothing if that was the only one."""
    violations = error.details.get("violations")
    if not isinstance(violations, list) or len(violations) < 2:
        return
    is_written = error.details.get("rejects_uri") is not None
    shown = _examples([each for each in violations if isinstance(each, dict)])
    if not is_written:
        yield from (_placed(violation) for violation in shown[1:])
    total, counts = error.details.get("total"), error.details.get("counts")
    if isinstance(total, int) and total > len(shown) and not is_written:
        yield f"and {total - len(shown):,} more"
    if isinstance(counts, dict):
        yield "in all: " + ", ".join(f"{code} {count:,}" for code, count in counts.items())


def _examples(violations: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Some of every kind first, then those that come first; in their order."""
    met: Counter[tuple[object, object]] = Counter()
    ranked: list[tuple[bool, int]] = []
    for number, violation in enumerate(violations):
        kind = (violation.get("code"), violation.get("type"))
        met[kind] += 1
        ranked.append((met[kind] > _SHOWN_OF_A_KIND, number))
    chosen = sorted(number for _, number in sorted(ranked)[:_SHOWN_VIOLATIONS])
    return [violations[number] for number in chosen]


def _further_refusals(error: OmnigraphError) -> Iterator[str]:
    """What else refuses a schema, and rows that break a rule that it adds."""
    diagnostics = error.details.get("diagnostics")
    if not isinstance(error, SchemaRefused) or not isinstance(diagnostics, list):
        return
    for number, diagnostic in enumerate(diagnostics):
        if not isinstance(diagnostic, dict):
            continue
        if number:
            yield f"{diagnostic['message']}"
        examples = diagnostic.get("examples")
        if isinstance(examples, list):
            shown = [example for example in examples if isinstance(example, dict)]
            yield from (f"{each['entity_id']}: {each['message']}" for each in shown)


def _placed(violation: Mapping[str, object]) -> str:
    """A violation with the line or row of the input, or else the type, that it is about."""
    line, kind, source = (violation.get(name) for name in ("input_line", "type", "source"))
    parts = [] if line is None else [f"{violation.get('input_unit', 'line')} {line}"]
    if parts and source is not None:
        parts.insert(0, f"{source}")
    if violation["code"] == "orphan_edge":
        # Its message names the node that is missing, not the edge that lacks it.
        parts.append(f"edge {kind}")
    elif line is None and kind is not None:
        parts.append(f"{kind}")
    message = f"{violation['message']}"
    return f"{', '.join(parts)}: {message}" if parts else message


def _explain_usage(error: typer.TyperException) -> str:
    message = one_line(error.format_message()).rstrip(".")
    unknown = _UNKNOWN_COMMAND.match(message)
    if unknown is not None and unknown[1] in _PLANNED_COMMANDS:
        return f"'{unknown[1]}' is not in this version"
    context = getattr(error, "ctx", None)
    program = "omnigraph" if context is None else context.command_path
    return f"{message[:1].lower()}{message[1:]}; see '{program} --help'"
