"""The options of the Spark data source: which exist, which exclude each other, what they mean.

Spark spells their names in lower case. Values of `storage.*` may be secrets: no error, text form or
plan shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument, SettingInvalid
from omnigraph.graph.changes.entity_change import parse_filter
from omnigraph.graph.history.target_texts import microseconds_of, time_text
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.ids import MAIN_BRANCH, BranchName
from omnigraph.lang.suggest import nearest_names
from omnigraph.settings import list_variables, load_process_settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.changes.entity_change import ChangeFilter
    from omnigraph.settings import StorageSettings

STORAGE_PREFIX: Final = "storage."
_TARGETS: Final = ("type", "edge", "query", "system")
_TIME: Final = "timestampasof"
_READ: Final = (
    *("graph", "branch", "snapshot", _TIME),
    *(*_TARGETS, "params", "columns", "filter", "pushdown"),
)
_WRITE: Final = ("graph", "branch", "type", "edge", "mode")
_STARTS: Final = ("start", "cursor")
_LIMIT: Final = "maxcommitspertrigger"
_STREAM: Final = ("graph", "branch", *_STARTS, "kinds", "types", "ops", _LIMIT)
_SPELLED: Final = {_TIME: "timestampAsOf", _LIMIT: "maxCommitsPerTrigger"}
_FOR_TESTS: Final = ("testing", "failpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is to be read, as it was asked for."""

    graph: str
    table: str | None
    """A type as `node:Person` or `edge:Knows`."""
    system: str | None
    """A system table, instead."""
    branch: str | None = None
    snapshot: str | None = None
    """A commit id, a tag, a number or a time."""
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    pushes_filters: bool = False
    """Filters of Spark go to the table; only for a frame that one query reads once."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the storage that replace those of the process."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read.

    Raises:
        InvalidArgument: one is unknown, missing, empty or excluded by another.
    """
    options = {name.lower(): value for name, value in given.items()}
    storage = _storage_options(options)
    _require_known(options, _READ)
    _require_text(options)
    _refuse_queries(options)
    _require_one(options, [name for name in _TARGETS if name != "query"])
    _refuse_together(options, "branch", "snapshot", "a snapshot names its branch")
    _refuse_together(options, "snapshot", _TIME, "both name a state of the graph")
    for name in ("branch", "snapshot", _TIME, "filter", "pushdown"):
        _refuse_together(options, "system", name, "a system table is read as a whole")
    return ReadOptions(
        graph=_required(options, "graph"),
        table=_table(options),
        system=options.get("system"),
        branch=options.get("branch"),
        snapshot=_time(options) or options.get("snapshot"),
        columns=_names("columns", options.get("columns")),
        filter=options.get("filter"),
        pushes_filters=_flag(options, "pushdown"),
        storage=storage,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Which changes are to be streamed, from where on, as it was asked for."""

    graph: str
    branch: BranchName = MAIN_BRANCH
    start: str | None = None
    cursor: str | None = None
    wanted: ChangeFilter
    most_commits: int | None = None
    """How many commits a batch has at most."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the storage that replace those of the process."""


def names_stream(given: Mapping[str, str]) -> bool:
    """Whether options are those of a stream of changes, which says where it starts."""
    return any(name.lower() in _STARTS for name in given)


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """The options of a stream of changes.

    Raises:
        InvalidArgument: one is unknown, missing, empty or excluded by another.
    """
    options = {name.lower(): value for name, value in given.items()}
    storage = _storage_options(options)
    _require_known(options, _STREAM)
    _require_text(options)
    _require_one(options, _STARTS)
    kinds, types, ops = (_names(name, options.get(name)) for name in ("kinds", "types", "ops"))
    return StreamOptions(
        graph=_required(options, "graph"),
        branch=BranchName(options.get("branch", MAIN_BRANCH)),
        start=options.get("start"),
        cursor=options.get("cursor"),
        wanted=parse_filter(kinds, types, ops),
        most_commits=_most_commits(options),
        storage=storage,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What is to be written to, and how, as it was asked for."""

    graph: str
    table: str
    """A type as `node:Person` or `edge:Knows`."""
    mode: LoadMode
    branch: BranchName = MAIN_BRANCH
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the storage that replace those of the process."""


def write_options(given: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """The options of a write; `overwrite` is the mode that Spark was given.

    Raises:
        InvalidArgument: one is unknown, missing, empty or excluded by another.
    """
    options = {name.lower(): value for name, value in given.items()}
    storage = _storage_options(options)
    _require_known(options, _WRITE)
    _require_text(options)
    _require_one(options, ("type", "edge"))
    return WriteOptions(
        graph=_required(options, "graph"),
        table=_table(options) or "",
        mode=_mode(options, overwrite=overwrite),
        branch=BranchName(options.get("branch", MAIN_BRANCH)),
        storage=storage,
    )


def storage_settings(overrides: Mapping[str, str]) -> StorageSettings:
    """The storage settings of this process, with those that the options replace.

    Raises:
        SettingInvalid: a value is malformed.
    """
    settings = load_process_settings().storage
    variables = _variables()
    try:
        given = load_settings({variables[name]: text for name, text in overrides.items()}).storage
    except SettingInvalid as error:
        raise SettingInvalid(f"an option {STORAGE_PREFIX}*: {error.message}") from error
    return replace(settings, **{name: getattr(given, name) for name in overrides})


def _storage_options(options: dict[str, str]) -> dict[str, str]:
    """Take the options of the storage out of all options."""
    known = _variables()
    values: dict[str, str] = {}
    for option in [each for each in options if each.startswith(STORAGE_PREFIX)]:
        name = option.removeprefix(STORAGE_PREFIX)
        if name not in known:
            raise _unknown(option, [f"{STORAGE_PREFIX}{each}" for each in known])
        values[name] = options.pop(option)
    return values


def _variables() -> dict[str, str]:
    return {
        each.field: each.name
        for each in list_variables()
        if each.section == "storage" and each.field not in _FOR_TESTS
    }


def _require_known(options: Mapping[str, str], known: Sequence[str]) -> None:
    for option in sorted(options):
        if option == "path":
            raise InvalidArgument(
                "the data source omnigraph takes no path; name the graph with the option graph",
                option=option,
            )
        if option not in known:
            raise _unknown(option, known)


def _unknown(option: str, known: Sequence[str]) -> InvalidArgument:
    near = [_spelled(each) for each in nearest_names(option, known)]
    names = [_spelled(each) for each in known]
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names)}"
    return InvalidArgument(
        f"the data source omnigraph has no option {option!r} here; {hint}", option=option
    )


def _spelled(option: str) -> str:
    """An option as the documentation writes it."""
    return _SPELLED.get(option, option)


def _require_text(options: Mapping[str, str]) -> None:
    for option, value in options.items():
        if not value.strip():
            raise InvalidArgument(
                f"the option {_spelled(option)} is empty; give a value or leave it out",
                option=_spelled(option),
            )


def _refuse_queries(options: Mapping[str, str]) -> None:
    for option in ("query", "params"):
        if option in options:
            raise InvalidArgument(
                f"the option {option} is not in this version: Spark asks a data source for its"
                " rows where it has no session; use graph.pipeline(spark).query, which gives a"
                " frame, or read a type or an edge",
                option=option,
            )


def _require_one(options: Mapping[str, str], names: Sequence[str]) -> None:
    given = [name for name in names if name in options]
    if len(given) != 1:
        shown = " and ".join(given) if given else "none"
        hint = "; a stream of changes has start or cursor" if "system" in names else ""
        raise InvalidArgument(
            f"give exactly one of the options {', '.join(names)}; found {shown}{hint}",
            options=given,
        )


def _refuse_together(options: Mapping[str, str], one: str, other: str, why: str) -> None:
    if one in options and other in options:
        raise InvalidArgument(
            f"the options {_spelled(one)} and {_spelled(other)} exclude each other: {why}",
            options=[_spelled(one), _spelled(other)],
        )


def _required(options: Mapping[str, str], name: str) -> str:
    if name not in options:
        raise InvalidArgument(
            f"the option {name} is missing; it names a folder, a file:// or an s3:// address",
            option=name,
        )
    return options[name]


def _time(options: Mapping[str, str]) -> str | None:
    """The moment whose state is read, as text; of several forms that Spark takes."""
    given = options.get(_TIME)
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given.strip().upper())
    except ValueError as error:
        raise InvalidArgument(
            f"the option timestampAsOf is a time, as 2026-01-31T12:00:00Z, not {given!r}",
            option="timestampAsOf",
        ) from error
    return time_text(microseconds_of(moment))


def _table(options: Mapping[str, str]) -> str | None:
    if "type" in options:
        return f"node:{options['type']}"
    return f"edge:{options['edge']}" if "edge" in options else None


def _mode(options: Mapping[str, str], *, overwrite: bool) -> LoadMode:
    """The mode of Spark, or `merge`, which Spark does not have."""
    given = options.get("mode")
    if given is None:
        return LoadMode.OVERWRITE if overwrite else LoadMode.APPEND
    if given.lower() != LoadMode.MERGE:
        raise InvalidArgument(
            f"the option mode is merge or is left out, not {given!r}; for the others write"
            ' .mode("append") or .mode("overwrite")',
            option="mode",
        )
    if overwrite:
        raise InvalidArgument(
            'the option mode=merge and .mode("overwrite") exclude each other; write .mode("append")'
            " to merge",
            option="mode",
        )
    return LoadMode.MERGE


def _flag(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise InvalidArgument(
            f"the option {name} is true or false, not {options[name]!r}", option=name
        )
    return value == "true"


def _names(option: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(each.strip() for each in text.split(","))
    if "" in names or len(set(names)) < len(names):
        raise InvalidArgument(
            f"the option {option} is {text!r}; give different names, separated by commas",
            option=option,
        )
    return names


def _most_commits(options: Mapping[str, str]) -> int | None:
    text = options.get(_LIMIT)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise InvalidArgument(
            f"the option {_spelled(_LIMIT)} is a whole number above 0, not {text!r}",
            option=_spelled(_LIMIT),
        )
    return int(text)
