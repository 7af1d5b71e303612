"""What the commands on a query are given: the query, its parameters, the state to read, the lane.

The query is text that the caller brings, in a file or on the command line. Parameters are one JSON
object, read strictly: a member that comes twice is refused, an integer keeps every digit.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NoReturn

import typer

from omnigraph.cli.source_files import STDIN, read_params_file, read_source_file
from omnigraph.cli.spark_options import with_spark
from omnigraph.errors import InvalidArgument, QueryInvalid, UsageError
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.cli.addressing import Target
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult

    Executor = Literal["auto", "local", "spark"]

NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        show_default=False,
        help="Which query of the source; may be left out when it has one.",
    ),
]
QueryFileOption = Annotated[
    Path | None,
    typer.Option("--query", metavar="FILE", help="The .gq file; - is standard input."),
]
QueryTextOption = Annotated[
    str | None,
    typer.Option("-e", "--query-string", metavar="GQ", help="The query itself, instead of a file."),
]
ParamsOption = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="The parameters: an object of names and values."),
]
ParamsFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with the parameters; - is standard input."),
]
ReadBranchOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Read the head of this branch; main without it."),
]
SnapshotOption = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help="Read the graph as it was: a commit id, a tag, a number or a time of main.",
    ),
]
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        metavar="|".join(Engine),
        help="Where it runs: in this process or on Spark. Without it OMNIGRAPH_ENGINE, then auto.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="The longest it may run; 0 is no limit. Without it OMNIGRAPH_QUERY_TIMEOUT_MS.",
    ),
]

_SHORTEST_TIMEOUT_S: Final = 0.001
_PLACE_WITHOUT_FILE: Final = re.compile(r"^( *)--> <source>:", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """The options as they were given, checked against each other before anything is read.

    Raises:
        UsageError: two options exclude each other, or the timeout is no time.
    """

    name: str | None
    file: Path | None
    text: str | None
    params: str | None
    params_file: Path | None
    branch: str | None
    timeout_s: float | None
    snapshot: str | None = None
    engine: Engine | None = None

    def __post_init__(self) -> None:
        for first, second, both in (
            ("--query", "-e", (self.file, self.text)),
            ("--params", "--params-file", (self.params, self.params_file)),
            ("--branch", "--snapshot", (self.branch, self.snapshot)),
        ):
            if None not in both:
                raise UsageError(f"both {first} and {second} are given; give one of them")
        if self.file == self.params_file == STDIN:
            raise UsageError(
                "--query and --params-file cannot both be standard input; name a file for one"
            )
        if self.timeout_s is not None:
            _require_timeout(self.timeout_s)

    def read(self, roots: Sequence[Path] = ()) -> QueryInput:
        """The query and its parameters; a file that is not here is looked for below the roots.

        Raises:
            UsageError: there is no query, or `--params` is no JSON object.
            InvalidArgument: a file cannot be read, or that of the parameters is no JSON object.
        """
        source, path = self._read_source(roots)
        return QueryInput(source=source, path=path, params=self._read_params())

    def names_stored(self, target: Target) -> bool:
        """Whether the name, without a source, is that of a stored query of the server."""
        has_source = self.text is not None or self.file is not None
        return target.place is not None and self.name is not None and not has_source

    def invoke(
        self,
        target: Target,
        *,
        expect_mutation: bool,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> QueryResult | MutationResult:
        """What the stored query of that name gives.

        Raises:
            UsageError, InvalidArgument: the parameters cannot be read.
        """
        if target.place is None or self.name is None:
            raise TypeError("a stored query has a name, and a server")
        params = self._read_params()
        with target.place.open() as graph:
            return graph.queries.invoke(
                self.name,
                params,
                branch=self.branch,
                snapshot=self.snapshot,
                if_commit=if_commit,
                idempotency_key=idempotency_key,
                expect_mutation=expect_mutation,
                timeout_s=self.timeout_s,
            )

    def apply(self, target: Target) -> Target:
        """The target with the timeout of the option, if it is given, and a quiet Spark."""
        if target.place is None:
            target = with_spark(
                target, engine=self.engine, master=None, remote=None, conf=None, command="query"
            )
        if self.timeout_s is None:
            return target
        queries = replace(target.settings.queries, timeout_ms=round(self.timeout_s * 1_000))
        return replace(target, settings=replace(target.settings, queries=queries))

    @property
    def executor(self) -> Executor:
        """The lane that is asked for; that of the environment is known to the graph."""
        return "auto" if self.engine is None else self.engine.value

    def _read_source(self, roots: Sequence[Path]) -> tuple[str, str | None]:
        if self.text is not None:
            return self.text, None
        if self.file is not None:
            path = find_below(self.file, roots)
            data = read_source_file(path, "--query", allows_stdin=True)
            # What is no UTF-8 goes on as it is: the language reports it with its place.
            return data.decode(errors="surrogateescape"), _shown(path)
        if self.name is None:
            raise UsageError("no query is given; give --query FILE or -e GQ")
        raise UsageError(
            f"{self.name!r} without a source names a stored query, and stored queries live on a "
            "server, not in a store; give --query FILE or -e GQ"
        )

    def _read_params(self) -> dict[str, object] | None:
        if self.params is not None:
            try:
                return parse_params(self.params)
            except ValueError as error:
                raise UsageError(f"--params {error}") from error
        if self.params_file is None:
            return None
        try:
            return parse_params(read_params_file(self.params_file, "--params-file"))
        except ValueError as error:
            raise InvalidArgument(
                f"--params-file {_shown(self.params_file)!r} {error}", path=str(self.params_file)
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryInput:
    """A query and its parameters; `path` is where the text comes from, for messages."""

    source: str
    path: str | None
    params: dict[str, object] | None

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Give errors of the query the name of its file, beside the line and the column.

        Raises:
            QueryInvalid: as it was raised inside, with the path.
        """
        try:
            yield
        except QueryInvalid as error:
            if self.path is None:
                raise
            place = f"--> {self.path}:"
            message = _PLACE_WITHOUT_FILE.sub(lambda match: f"{match[1]}{place}", error.message)
            raise QueryInvalid(message, **(error.details | {"path": self.path})) from error


def find_below(path: Path, roots: Sequence[Path]) -> Path:
    """The file as it is named, or the first of that name below a root."""
    if path == STDIN or path.is_absolute() or path.exists():
        return path
    return next((root / path for root in roots if (root / path).is_file()), path)


def parse_params(text: str | bytes) -> dict[str, object]:
    """The object that a JSON text holds.

    Raises:
        ValueError: the text is something else; the message says what is wrong and goes on after
            the name of the option.
    """
    try:
        value = json.loads(
            text.decode("utf-8-sig") if isinstance(text, bytes) else text,
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"is not JSON: {error.msg} at {place}") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply; no parameter is") from error
    if not isinstance(value, dict):
        raise ValueError('is not an object of names and values; write it as {"name": value}')
    return value


def _members(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"has {twice!r} twice; give each name once")
    return members


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # more digits than the interpreter converts
        raise ValueError(f"has a number of {len(digits):,} digits, which no type holds") from error


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"is not JSON: it has no number {word}")


def _require_timeout(timeout_s: float) -> None:
    if not math.isfinite(timeout_s) or (timeout_s and timeout_s < _SHORTEST_TIMEOUT_S):
        raise UsageError(
            f"--timeout {timeout_s:g} is no time; give seconds, at least {_SHORTEST_TIMEOUT_S}, or "
            "0 for no limit"
        )


def _shown(path: Path) -> str:
    return "<stdin>" if path == STDIN else str(path)
