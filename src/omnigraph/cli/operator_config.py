"""`config.yaml` of the operator: who acts, where commands go that name no graph, how rows look.

One person's file in the folder of `OMNIGRAPH_HOME`; no file means no defaults. It is checked as a
whole when it is read: a value of the wrong shape and a scope that contradicts itself are errors
that name the key, a key that nobody knows is a warning. It holds no secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from omnigraph.cli.known_keys import unknown_keys
from omnigraph.cli.row_style import RowFormat, RowStyle
from omnigraph.errors import SettingInvalid
from omnigraph.settings.server_address import parse_server_address

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from omnigraph.cli.known_keys import Level

    # Any: what a YAML file holds; the readers below are where its shape is checked.
    Section = Mapping[str, Any]

_MAX_BYTES: Final = 1 << 20
_BINDINGS: Final = ("server", "cluster", "store")
_SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "operator": ("actor",),
    "defaults": (
        *("server", "store", "default_graph", "output"),
        *("table_max_column_width", "table_cell_layout"),
    ),
}
_NAMED_SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "servers": ("url",),
    "clusters": ("root",),
    "profiles": (*_BINDINGS, "default_graph"),
    "aliases": ("server", "graph", "query", "args", "params", "format"),
}
_SETTINGS: Final = ("spark", "pipeline")
_KEYS: Final = (*_SECTIONS, *_NAMED_SECTIONS, *_SETTINGS)

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Where a profile or the defaults lead: exactly one of the three, or nowhere."""

    server: str | None = None
    cluster: str | None = None
    store: str | None = None
    default_graph: str | None = None
    """The graph of the server or the cluster."""

    @property
    def kind(self) -> str | None:
        """Which of the three it is."""
        return next((kind for kind in _BINDINGS if getattr(self, kind) is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name for a stored query of a server, with some of its parameters."""

    query: str
    server: str | None = None
    graph: str | None = None
    args: tuple[str, ...] = ()
    """Names of the parameters that the words after the alias are the values of."""
    params: Mapping[str, object] = field(default_factory=dict)
    format: RowFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """What the file says that the command line uses, and what to warn of."""

    actor: str | None = None
    defaults: Binding = Binding()
    profiles: Mapping[str, Binding] = field(default_factory=dict)
    servers: Mapping[str, str] = field(default_factory=dict)
    """Name to address."""
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    row_style: RowStyle = field(default_factory=RowStyle)
    settings: Mapping[str, object] = field(default_factory=dict)
    """The sections `spark:` and `pipeline:`, as `load_settings` takes them."""

    warnings: tuple[str, ...] = ()


def read_operator_config(home: Path | None) -> OperatorConfig:
    """The operator's file; without one, a config that says nothing.

    Raises:
        SettingInvalid: the file cannot be read, or a key of it is wrong.
    """
    if home is None:
        return OperatorConfig()
    path = home / "config.yaml"
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return OperatorConfig()
    except OSError as error:
        raise _invalid(path, f"cannot be read ({error.strerror})") from error
    if len(data) > _MAX_BYTES:
        raise _invalid(path, f"is larger than {_MAX_BYTES:,} bytes")
    try:
        return _interpret(_parse(data))
    except SettingInvalid as error:
        raise _invalid(path, error.message) from error


def _parse(data: bytes) -> Section:
    import msgspec

    try:
        content = msgspec.yaml.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingInvalid(f"is not YAML: {' '.join(str(error).split())}") from error
    return _section({"the file": content}, "the file")


def _interpret(content: Section) -> OperatorConfig:
    sections = {name: _section(content, name) for name in _SECTIONS}
    named = {
        name: {str(key): _section(entries, key, within=name) for key in entries}
        for name in _NAMED_SECTIONS
        for entries in [_section(content, name)]
    }
    servers = named["servers"].keys()
    for kind in ("profiles", "aliases"):
        for name, entry in named[kind].items():
            _require_known_server(f"{kind}.{name}", entry, servers)
    return OperatorConfig(
        actor=_text(sections["operator"], "actor", within="operator"),
        defaults=_defaults(sections["defaults"]),
        profiles={name: _profile(name, entry) for name, entry in named["profiles"].items()},
        servers={name: _server(name, entry) for name, entry in named["servers"].items()},
        aliases={name: _alias(name, entry) for name, entry in named["aliases"].items()},
        row_style=_row_style(sections["defaults"]),
        settings={name: content[name] for name in _SETTINGS if name in content},
        warnings=tuple(_unknown_keys(content, sections, named)),
    )


def _defaults(section: Section) -> Binding:
    store, server = (_text(section, key, within="defaults") for key in ("store", "server"))
    for other, value in (("server", server), ("default_graph", section.get("default_graph"))):
        if store is not None and value is not None:
            raise SettingInvalid(f"defaults has both store and {other}; keep one of them")
    graph = _text(section, "default_graph", within="defaults")
    return Binding(server=server, store=store, default_graph=graph)


def _server(name: str, entry: Section) -> str:
    url = _text(entry, "url", within=f"servers.{name}")
    try:
        parse_server_address(url)
    except ValueError as error:
        raise SettingInvalid(f"servers.{name}.url: {error}") from error
    return str(url).rstrip("/")


def _alias(name: str, entry: Section) -> Alias:
    within = f"aliases.{name}"
    query = _text(entry, "query", within=within)
    if query is None:
        raise SettingInvalid(f"{within}.query: expected the name of a stored query")
    args = entry.get("args") or ()
    if not isinstance(args, list | tuple) or not all(isinstance(arg, str) for arg in args):
        raise SettingInvalid(f"{within}.args: expected names of parameters, not {args!r:.60}")
    form = _text(entry, "format", within=within)
    if form is not None and form not in list(RowFormat):
        raise SettingInvalid(f"{within}.format: expected one of {', '.join(RowFormat)}")
    return Alias(
        query=query,
        server=_text(entry, "server", within=within),
        graph=_text(entry, "graph", within=within),
        args=tuple(args),
        params=_section(entry, "params", within=within),
        format=None if form is None else RowFormat(form),
    )


def _row_style(section: Section) -> RowStyle:
    usual = RowStyle()
    return RowStyle(
        format=_one_of(section, "output", usual.format),
        table_max_column_width=_width(section, usual.table_max_column_width),
        table_cell_layout=_one_of(section, "table_cell_layout", usual.table_cell_layout),
    )


def _one_of(section: Section, key: str, default: _Word) -> _Word:
    value = section.get(key)
    words = type(default)
    if value is None:
        return default
    if value not in list(words):
        listed = ", ".join(words)
        raise SettingInvalid(f"defaults.{key}: expected one of {listed}, not {value!r:.60}")
    return words(value)


def _width(section: Section, default: int) -> int:
    value = section.get("table_max_column_width")
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingInvalid(
            "defaults.table_max_column_width: expected a number of terminal cells, at least 1, not "
            f"{value!r:.60}"
        )
    return value


def _profile(name: str, entry: Section) -> Binding:
    bound = [key for key in _BINDINGS if entry.get(key) is not None]
    if len(bound) != 1:
        listed = " and ".join(bound) or "none"
        raise SettingInvalid(
            f"profiles.{name} must bind exactly one of {', '.join(_BINDINGS)}, and binds {listed}"
        )
    within = f"profiles.{name}"
    graph = _text(entry, "default_graph", within=within)
    if graph is not None and bound == ["store"]:
        raise SettingInvalid(f"{within} has both store and default_graph; keep one of them")
    return Binding(**{bound[0]: _text(entry, bound[0], within=within), "default_graph": graph})


def _require_known_server(within: str, entry: Section, known: Collection[str]) -> None:
    name = _text(entry, "server", within=within)
    # A literal address needs no entry.
    if name is not None and "://" not in name and name not in known:
        listed = ", ".join(known) or "none"
        raise SettingInvalid(f"{within}.server: {name!r} is not under servers ({listed})")


def _section(parent: Section, key: str, *, within: str = "") -> Section:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SettingInvalid(f"{_dotted(within, key)}: expected keys and values, not {value!r:.60}")
    return value


def _text(section: Section, key: str, *, within: str = "") -> str | None:
    value = section.get(key)
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise SettingInvalid(f"{_dotted(within, key)}: expected a text, not {value!r:.60}")
    return value


def _dotted(within: str, key: object) -> str:
    return f"{within}.{key}" if within else str(key)


def _unknown_keys(
    content: Section, sections: Mapping[str, Section], named: Mapping[str, Mapping[str, Section]]
) -> Iterator[str]:
    levels: list[Level] = [("", content, _KEYS)]
    levels += [(name, entry, _SECTIONS[name]) for name, entry in sections.items()]
    levels += [
        (f"{kind}.{name}", entry, _NAMED_SECTIONS[kind])
        for kind, entries in named.items()
        for name, entry in entries.items()
    ]
    return unknown_keys(levels, "the operator config")


def _invalid(path: Path, what: str) -> SettingInvalid:
    return SettingInvalid(f"operator config {str(path)!r}: {what}", name=str(path))
