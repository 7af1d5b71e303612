"""What a `pipeline.yaml` says, checked and resolved: sources, and what their rows become.

Frozen values without any file or Spark behind them. Variables of the environment are filled in
where a value is used; what identifies a mapping is kept as it was written, so that a changed
password is no changed pipeline, and no hash is made of a secret.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from omnigraph.errors import InvalidArgument
from omnigraph.graph.load.reject_options import ErrorAction
from omnigraph.pipeline.spec.sql_tables import named_in, with_files_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.jobs.report import LoadMode

_DIGEST_BYTES: Final = 16
ALL_COLUMNS: Final = re.compile(r"[(,.]\s*\*\s*[,)]")
"""`*` as an argument in an expression of Spark."""
WHERE: Final = ":where"
"""The condition of a mapping, among the names of its values: no property has such a name."""
DEDUPE: Final = ":dedupe"
"""So it is with what says which rows are the same."""


class SourceFormat(StrEnum):
    """How the rows of a source are stored."""

    NDJSON = "ndjson"
    """The graph format: each line names its own type, so nothing is mapped."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    ORC = "orc"
    JDBC = "jdbc"
    TABLE = "table"
    SQL = "sql"


class CursorType(StrEnum):
    """How values of a cursor column compare."""

    TIMESTAMP = "timestamp"
    DATE = "date"
    INTEGER = "integer"
    STRING = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the source, by its name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Spark SQL over the columns of the source; parsed by Spark, never seen by Lance."""

    sql: str


Value: TypeAlias = Column | Expression
Places: TypeAlias = "Mapping[str, str]"
"""Where the parts of a mapping stand: file, line and column.

By property, `id`, `src` and `dst`; `src:part` for a part of a key, `WHERE`, and `""` for the whole.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyParts:
    """The key of a node, part by part; the one key renderer makes the id of it."""

    parts: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnError:
    """What to do with bad rows; None for a limit means the one of the settings."""

    action: ErrorAction = ErrorAction.FAIL
    rejects: str | None = None
    max_rejects: int | None = None
    max_reject_ratio: float | None = None
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The column that tells new rows from old ones.

    `lag` is how far before its last value the next run reads again: microseconds for a timestamp,
    days for a date, a difference for an integer.
    """

    column: str
    type: CursorType
    lag: int = 0
    place: str = field(default="", compare=False, repr=False)
    """Where its column is named: file, line and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """Where rows come from. What may hold a secret is not shown."""

    name: str
    format: SourceFormat
    path: str | None = field(default=None, repr=False)
    table: str | None = None
    query: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: Mapping[str, str] | None = None
    cursor: Cursor | None = None
    timezone: str | None = None
    """Of its timestamps that have none of their own; UTC where it declares none."""
    definition: str = field(default="", repr=False)
    """As it was written, without the lag of the cursor; for `mapping_hash`."""
    filled: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Values of variables in its query; no error shows them."""


class Keep(StrEnum):
    """Which of the rows that share something stays."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedupe:
    """One row of those that are equal in some columns: the one with the least or greatest order."""

    by: tuple[str, ...]
    order: str
    keep: Keep = Keep.LAST


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMapping:
    """Rows of a source that become nodes of one type; `id` is None where the key gives it."""

    type: str
    source: str
    columns: Mapping[str, Value]
    id: Value | None = None
    where: str | None = None
    distinct: bool = False
    dedupe: Dedupe | None = None
    definition: str = field(default="", repr=False)
    places: Places = field(default_factory=dict, compare=False, repr=False)
    filled: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Values of variables in its texts; no error shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeMapping:
    """Rows of a source that become edges of one type; without `id` each edge gets a new one."""

    type: str
    source: str
    src: Value | KeyParts | None
    dst: Value | KeyParts | None
    """`None` where edges that exist keep their ends."""
    columns: Mapping[str, Value]
    id: Value | None = None
    where: str | None = None
    distinct: bool = False
    dedupe: Dedupe | None = None
    definition: str = field(default="", repr=False)
    places: Places = field(default_factory=dict, compare=False, repr=False)
    filled: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Values of variables in its texts; no error shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """A whole file: one run of it is one commit."""

    name: str
    mode: LoadMode
    sources: Mapping[str, SourceSpec]
    partial: bool = False
    """A merge keeps what is not mapped."""
    nodes: tuple[NodeMapping, ...] = ()
    edges: tuple[EdgeMapping, ...] = ()
    graph: str | None = None
    branch: str = "main"
    on_error: OnError = OnError()
    embed: bool = False

    def mapping_hash(self, source: str) -> str:
        """What identifies a source and all that it feeds, in any order of keys and declarations.

        Raises:
            InvalidArgument: there is no such source.
        """
        spec = self.sources.get(source)
        if spec is None:
            raise InvalidArgument(
                f"pipeline {self.name!r} has no source {source!r}; it has {', '.join(self.sources)}"
            )
        known: list[object] = [spec.definition, sorted(self._fed(source))]
        read = sorted(each.definition for each in self._read_below(source))
        return text_digest(json.dumps([*known, read] if read else known))

    def read_by(self, source: str) -> dict[str, SourceSpec]:
        """The other sources that the query of a source names."""
        query = self.sources[source].query
        others = [name for name in self.sources if name != source]
        return {name: self.sources[name] for name in named_in(query or "", others)}

    def feeds_types(self, source: str) -> bool:
        """Whether nodes or edges are made from a source, and not only queries read it."""
        is_graph = self.sources[source].format is SourceFormat.NDJSON
        fed = {each.source for each in self.nodes} | {each.source for each in self.edges}
        return is_graph or source in fed

    def mentions(self, source: str, column: str) -> bool:
        """Whether a source, or what it feeds, has the name of a column as a word anywhere.

        With `*` in an expression every column counts.
        """
        # Definitions are JSON.
        spelled = re.escape(json.dumps(column)[1:-1])
        word = re.compile(rf"(?<!\w){spelled}(?!\w)")
        return any(
            word.search(text) or ALL_COLUMNS.search(text)
            for text in [self.sources[source].definition, *self._fed(source)]
        )

    def _read_below(self, source: str) -> list[SourceSpec]:
        found: dict[str, SourceSpec] = {}
        waiting = [source]
        while waiting:
            for name, spec in self.read_by(waiting.pop()).items():
                if name not in found and name != source:
                    found[name] = spec
                    waiting.append(name)
        return list(found.values())

    def _fed(self, source: str) -> list[str]:
        return [
            *(each.definition for each in self.nodes if each.source == source),
            *(f"edge {each.definition}" for each in self.edges if each.source == source),
        ]


def with_paths_from(spec: PipelineSpec, folder: Path) -> PipelineSpec:
    """The pipeline with relative paths taken from the folder of its file."""

    def resolved(where: str | None) -> str | None:
        if where is None or "://" in where or Path(where).is_absolute():
            return where
        return str(folder / where)

    return replace(
        spec,
        graph=resolved(spec.graph),
        on_error=replace(spec.on_error, rejects=resolved(spec.on_error.rejects)),
        sources={
            name: replace(
                each,
                path=resolved(each.path),
                query=None if each.query is None else with_files_from(each.query, folder),
            )
            for name, each in spec.sources.items()
        },
    )


def text_digest(text: str, *, size_bytes: int = _DIGEST_BYTES) -> str:
    """The same for the same text, in any process; hexadecimal."""
    return _digest(text.encode(), size_bytes)


def list_digest(*texts: str) -> str:
    """The same for the same list of texts, of which no two run together."""
    items = [text.encode(errors="surrogatepass") for text in texts]
    return _digest(b"".join(len(each).to_bytes(8, "little") + each for each in items))


def _digest(data: bytes, size_bytes: int = _DIGEST_BYTES) -> str:
    return hashlib.blake2b(data, digest_size=size_bytes).hexdigest()
