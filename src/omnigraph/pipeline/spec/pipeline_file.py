"""`pipeline.yaml` to a `PipelineSpec`; pure, and without Spark.

The file is checked as a whole and every mistake in it is reported, each with its key, its line and
its column. What only the data can tell (columns, their types, SQL) is checked when the run is
planned. Variables come from the mapping that is given; a secret in the file is refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from zoneinfo import available_timezones

from omnigraph.errors import InvalidBranchName, SettingInvalid
from omnigraph.graph.history.branch_names import parse_branch_name
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.reject_options import ErrorAction
from omnigraph.ids import MAIN_BRANCH
from omnigraph.lang.source import Source, SourceUnreadable
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.yaml_tree import (
    Problems,
    ProblemsFull,
    YamlList,
    YamlMap,
    YamlNode,
    YamlScalar,
    parse_yaml,
)
from omnigraph.limits import MAX_SOURCE_BYTES
from omnigraph.pipeline.spec.coherence import require_coherent
from omnigraph.pipeline.spec.pipeline_spec import (
    Column,
    Cursor,
    CursorType,
    Dedupe,
    EdgeMapping,
    Expression,
    Keep,
    KeyParts,
    NodeMapping,
    OnError,
    PipelineSpec,
    SourceFormat,
    SourceSpec,
    Value,
)
from omnigraph.pipeline.spec.places import filled_of, place_of, places_of
from omnigraph.pipeline.spec.secrets import (
    DAY_US,
    is_column_type,
    is_secret_option,
    parse_duration_us,
    without_secrets,
)
from omnigraph.pipeline.spec.section import ConfigReader, whole_number
from omnigraph.settings.values import parse_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from omnigraph.pipeline.spec.section import Section

VERSION: Final = 1
_KEYS: Final = (
    *("version", "name", "graph", "branch", "mode", "columns", "on_error", "embed"),
    *("sources", "nodes", "edges"),
)
_ON_ERROR_KEYS: Final = ("action", "rejects", "max_rejects", "max_reject_ratio", "cascade")
_SOURCE_KEYS: Final = (
    *("format", "path", "table", "query", "options", "schema", "cursor", "timezone"),
)
_CURSOR_KEYS: Final = ("column", "type", "lag")
_NODE_KEYS: Final = ("type", "from", "id", "columns", "where", "distinct", "dedupe")
_EDGE_KEYS: Final = (
    *("type", "from", "id", "src", "dst", "columns", "where", "distinct", "dedupe"),
)
_DEDUPE_KEYS: Final = ("by", "keep", "order")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

_ALLOWED: Final[Mapping[SourceFormat, tuple[Sequence[str], Sequence[str]]]] = {
    SourceFormat.NDJSON: (("path",), ()),
    SourceFormat.JSON: (("path",), ("options", "cursor", "timezone")),
    SourceFormat.CSV: (("path",), ("options", "cursor", "schema", "timezone")),
    SourceFormat.PARQUET: (("path",), ("options", "cursor", "timezone")),
    SourceFormat.ORC: (("path",), ("options", "cursor", "timezone")),
    SourceFormat.JDBC: (("options",), ("cursor", "timezone")),
    SourceFormat.TABLE: (("table",), ("options", "cursor", "timezone")),
    SourceFormat.SQL: (("query",), ("cursor", "timezone")),
}
"""What a format needs beside its name, and what it may have."""


def read_pipeline(path: Path, environ: Mapping[str, str]) -> PipelineSpec:
    """The pipeline of a file.

    Raises:
        SettingInvalid: it cannot be read, or something in it is wrong; details `diagnostics`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise SettingInvalid(
            f"the pipeline {str(path)!r} cannot be read ({error.strerror}); check its path",
            name=str(path),
        ) from error
    return parse_pipeline(data, environ, path=str(path))


def parse_pipeline(
    data: str | bytes, environ: Mapping[str, str], *, path: str | None = None
) -> PipelineSpec:
    """The pipeline that a text describes, with its variables taken from `environ`.

    Raises:
        SettingInvalid: with everything that is wrong; details `diagnostics`.
    """
    try:
        source = Source.decode(data, path)
    except SourceUnreadable as error:
        raise SettingInvalid(
            f"the pipeline {path or '<source>'!r}: {error.message}", name=path or "<source>"
        ) from error
    problems = Problems(source, "the pipeline")
    try:
        root = parse_yaml(source, problems)
        section = ConfigReader(problems, environ).section(root, "", _KEYS)
        spec = None if section is None else _read(section)
    except ProblemsFull:
        spec = None
    if spec is None or problems:
        problems.throw()
    return spec


def _read(root: Section) -> PipelineSpec:
    _check_version(root)
    mode = root.needed_word("mode", LoadMode) or LoadMode.MERGE
    is_partial = _is_partial(root, mode)
    keeps_values = is_partial or mode is LoadMode.UPDATE
    sources = dict(_sources(root, mode))
    spec = PipelineSpec(
        name=_name(root),
        mode=mode,
        sources=sources,
        partial=is_partial,
        nodes=tuple(_nodes(root, sources)),
        edges=tuple(_edges(root, sources, keeps_values=keeps_values)),
        graph=root.text("graph"),
        branch=_branch(root),
        on_error=_on_error(root),
        embed=root.flag("embed"),
    )
    require_coherent(root, spec)
    return spec


def _is_partial(root: Section, mode: LoadMode) -> bool:
    """Whether a merge changes only the columns that are mapped."""
    given = root.text("columns")
    if given is None:
        return False
    if given != "only":
        root.refuse("columns", "value", "expected `only`: a merge keeps what is not mapped")
    if not mode.upserts:
        root.refuse("columns", "not_allowed", f"mode {mode} writes whole rows; use merge or update")
        return False
    return True


def _check_version(root: Section) -> None:
    node = root.need("version")
    if node is not None and not (isinstance(node, YamlScalar) and node.text == str(VERSION)):
        root.refuse("version", "value", f"expected {VERSION}, the only version there is")


def _name(root: Section) -> str:
    name = root.needed_text("name")
    if name and not _NAME.fullmatch(name):
        root.refuse(
            "name", "value", "expected letters, digits, '_', '.' and '-', at most 100 of them"
        )
    return name


def _branch(root: Section) -> str:
    branch = root.text("branch") or MAIN_BRANCH
    if branch != MAIN_BRANCH:
        try:
            parse_branch_name(branch)
        except InvalidBranchName as error:
            root.refuse("branch", "value", error.message)
    return branch


def _on_error(root: Section) -> OnError:
    node = root.get("on_error")
    reader = root.reader
    if isinstance(node, YamlScalar):
        on_error = OnError(action=reader.word(node, "on_error", ErrorAction) or ErrorAction.FAIL)
    else:
        section = reader.section(node, "on_error", _ON_ERROR_KEYS)
        if section is None:
            return OnError()
        most, ratio = section.get("max_rejects"), section.get("max_reject_ratio")
        on_error = OnError(
            action=section.needed_word("action", ErrorAction) or ErrorAction.FAIL,
            rejects=section.text("rejects"),
            max_rejects=None
            if most is None
            else reader.parsed(most, section.path("max_rejects"), whole_number, 0),
            max_reject_ratio=None
            if ratio is None
            else reader.parsed(ratio, section.path("max_reject_ratio"), parse_ratio, 0.0),
            cascade=section.flag("cascade"),
        )
    if on_error.action is ErrorAction.QUARANTINE and on_error.rejects is None:
        root.refuse(
            "on_error",
            "missing_key",
            "quarantine needs `rejects`, where the bad rows go: {action: quarantine, rejects: …}",
        )
    return on_error


def _sources(root: Section, mode: LoadMode) -> Iterator[tuple[str, SourceSpec]]:
    if root.need("sources") is None:
        return
    count = 0
    for name, node, key in root.entries("sources"):
        count += 1
        if not _NAME.fullmatch(name):
            root.reader.refuse(
                node, key, "value", "the name of a source has letters, digits, '_', '.' and '-'"
            )
        section = root.reader.section(node, key, _SOURCE_KEYS)
        if section is None:
            yield name, SourceSpec(name=name, format=SourceFormat.PARQUET)
        else:
            yield name, _source(name, section, mode)
    if count == 0:
        root.refuse("sources", "value", "expected at least one source")


def _source(name: str, section: Section, mode: LoadMode) -> SourceSpec:
    form = section.needed_word("format", SourceFormat)
    if form is not None:
        _check_source_keys(section, form)
    options = {
        option: section.reader.option(node, key, option)
        for option, node, key in section.entries("options")
    }
    if form is SourceFormat.JDBC:
        _check_jdbc(section, options)
    return SourceSpec(
        name=name,
        format=form or SourceFormat.PARQUET,
        path=section.text("path"),
        table=section.text("table"),
        query=section.text("query"),
        options=options,
        schema=_schema(section),
        cursor=_cursor(section, mode),
        timezone=_timezone(section),
        definition=_definition(section, without="cursor.lag"),
        filled=filled_of(section, "query"),
    )


def _check_source_keys(section: Section, form: SourceFormat) -> None:
    needed, allowed = _ALLOWED[form]
    for key in needed:
        section.need(key)
    for key in section.node.keys:
        if key in _SOURCE_KEYS and key not in ("format", *needed, *allowed):
            section.refuse(key, "not_allowed", f"a source of format {form} has no `{key}`")


def _check_jdbc(section: Section, options: Mapping[str, str]) -> None:
    if "url" not in options:
        section.refuse("options", "missing_key", "a jdbc source needs the option `url`")
    if ("dbtable" in options) == ("query" in options):
        section.refuse(
            "options", "missing_key", "a jdbc source needs one of the options `dbtable`, `query`"
        )


def _schema(section: Section) -> Mapping[str, str] | None:
    if section.get("schema") is None:
        return None
    schema: dict[str, str] = {}
    for column, node, key in section.entries("schema"):
        schema[column] = section.reader.text(node, key)
        if schema[column] and not is_column_type(schema[column]):
            section.reader.refuse(
                node, key, "value", "expected a type of Spark, such as string, bigint or date"
            )
    return schema


def _timezone(section: Section) -> str | None:
    zone = section.text("timezone")
    if zone and zone not in available_timezones():
        hint = did_you_mean(zone, available_timezones()) or "; a name is like Europe/Berlin"
        section.refuse("timezone", "value", f"there is no time zone {zone!r}{hint}")
    return zone


def _cursor(section: Section, mode: LoadMode) -> Cursor | None:
    cursor = section.section("cursor", _CURSOR_KEYS)
    if cursor is None:
        return None
    if mode is LoadMode.OVERWRITE:
        section.refuse(
            "cursor",
            "not_allowed",
            "a cursor reads what is new, and overwrite would put it in the place of all rows; use"
            " merge or append",
        )
    kind = cursor.needed_word("type", CursorType)
    column = cursor.needed_text("column")
    node, place = cursor.get("lag"), place_of(cursor, "column")
    if node is None or kind is None:
        return Cursor(column=column, type=kind or CursorType.TIMESTAMP, place=place)
    if not mode.upserts:
        cursor.refuse(
            "lag", "not_allowed", f"a lag reads rows again, which mode {mode} refuses; use merge"
        )
    return Cursor(column=column, type=kind, lag=_lag(cursor, node, kind), place=place)


def _lag(cursor: Section, node: YamlNode, kind: CursorType) -> int:
    reader, key = cursor.reader, cursor.path("lag")
    match kind:
        case CursorType.STRING:
            cursor.refuse("lag", "not_allowed", "a cursor of type string cannot have a lag")
            return 0
        case CursorType.INTEGER:
            return reader.parsed(node, key, whole_number, 0)
        case CursorType.TIMESTAMP:
            return reader.parsed(node, key, parse_duration_us, 0)
        case CursorType.DATE:
            lag_us = reader.parsed(node, key, parse_duration_us, 0)
            if lag_us % DAY_US:
                cursor.refuse("lag", "value", "the lag of a date is whole days, such as 2d")
            return lag_us // DAY_US


def _nodes(root: Section, sources: Mapping[str, SourceSpec]) -> Iterator[NodeMapping]:
    for node, key in root.reader.items(root.get("nodes"), "nodes"):
        section = root.reader.section(node, key, _NODE_KEYS)
        if section is None:
            continue
        if "columns" not in section.node.keys and "id" not in section.node.keys:
            section.need("columns")
        yield NodeMapping(
            type=section.needed_text("type"),
            source=_source_name(section, sources),
            columns=_columns(section),
            id=_optional_value(section, "id"),
            where=section.text("where"),
            distinct=section.flag("distinct"),
            dedupe=_dedupe(section),
            definition=_definition(section),
            places=places_of(section),
            filled=filled_of(section),
        )


def _edges(
    root: Section, sources: Mapping[str, SourceSpec], *, keeps_values: bool
) -> Iterator[EdgeMapping]:
    for node, key in root.reader.items(root.get("edges"), "edges"):
        section = root.reader.section(node, key, _EDGE_KEYS)
        if section is not None:
            yield EdgeMapping(
                type=section.needed_text("type"),
                source=_source_name(section, sources),
                src=_endpoint(section, "src", is_needed=not keeps_values),
                dst=_endpoint(section, "dst", is_needed=not keeps_values),
                columns=_columns(section),
                id=_optional_value(section, "id"),
                where=section.text("where"),
                distinct=section.flag("distinct"),
                dedupe=_dedupe(section),
                definition=_definition(section),
                places=places_of(section),
                filled=filled_of(section),
            )


def _dedupe(section: Section) -> Dedupe | None:
    below = section.section("dedupe", _DEDUPE_KEYS)
    if below is None:
        return None
    node = below.need("by")
    names = [
        below.reader.text(each, key) for each, key in below.reader.items(node, below.path("by"))
    ]
    if not names and isinstance(node, YamlList):
        below.refuse("by", "value", "expected the columns whose values say that rows are the same")
    keep = below.get("keep")
    word = None if keep is None else below.reader.word(keep, below.path("keep"), Keep)
    return Dedupe(by=tuple(names), order=below.needed_text("order"), keep=word or Keep.LAST)


def _source_name(section: Section, sources: Mapping[str, SourceSpec]) -> str:
    name = section.needed_text("from")
    source = sources.get(name)
    if name and source is None:
        hint = did_you_mean(name, sources, otherwise="the sources are")
        section.refuse("from", "unknown_source", f"there is no source {name!r:.60}{hint}")
    if source is not None and source.format is SourceFormat.NDJSON:
        section.refuse(
            "from",
            "not_allowed",
            f"the lines of {name!r} name their own types (format ndjson) and cannot be mapped; for"
            " plain JSON lines use format json",
        )
    return name


def _columns(section: Section) -> Mapping[str, Value]:
    return {name: _value(section, node, key) for name, node, key in section.entries("columns")}


def _optional_value(section: Section, name: str) -> Value | None:
    node = section.get(name)
    return None if node is None else _value(section, node, section.path(name))


def _endpoint(section: Section, name: str, *, is_needed: bool) -> Value | KeyParts | None:
    node = section.need(name) if is_needed else section.get(name)
    key = section.path(name)
    if node is None:
        return Column(name="") if is_needed else None
    if not (isinstance(node, YamlMap) and "key" in node.keys):
        return _value(section, node, key, or_key=True)
    below = section.reader.section(node, key, ("key",))
    parts = (
        {}
        if below is None
        else {part: _value(section, value, path) for part, value, path in below.entries("key")}
    )
    if not parts:
        section.refuse(name, "value", "expected the parts of the key: {key: {part: column}}")
    return KeyParts(parts=parts)


def _value(section: Section, node: YamlNode, key: str, *, or_key: bool = False) -> Value:
    reader = section.reader
    if isinstance(node, YamlScalar):
        return Column(name=reader.text(node, key))
    if isinstance(node, YamlMap):
        below = reader.section(node, key, ("expr", "key") if or_key else ("expr",))
        return Expression(sql="" if below is None else below.needed_text("expr"))
    wanted = "a column, {expr: …} or {key: …}" if or_key else "a column or {expr: …}"
    reader.refuse(node, key, "type", f"expected {wanted}, not a list")
    return Column(name="")


def _definition(section: Section, *, without: str = "") -> str:
    """A mapping with its variables filled in, in one spelling whatever the order of its keys.

    How a database is reached says nothing about its rows, and a digest of a secret could be
    guessed: those stay as they are written.
    """
    return json.dumps(_plain(section.node, "", without, section.reader.environ), sort_keys=True)


def _plain(node: YamlNode, key: str, without: str, environ: Mapping[str, str]) -> object:
    match node:
        case YamlScalar():
            return node.text if _is_connection(key) else without_secrets(node.text, environ)
        case YamlMap():
            below = (
                (name, f"{key}.{name}".lstrip("."), value) for name, value in node.values.items()
            )
            return {
                name: _plain(value, path, without, environ)
                for name, path, value in below
                if path != without
            }
        case _:
            return [_plain(item, key, without, environ) for item in node.items]


def _is_connection(key: str) -> bool:
    section, _, name = key.partition(".")
    return section == "options" and (name.lower() in ("url", "user") or is_secret_option(name))
