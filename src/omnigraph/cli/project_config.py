"""`omnigraph.yaml`: the project's own file, below the operator config, found in the working folder.

It names graphs, and how commands act on them that name none. It redirects no secret: a server that
it names gets the token that its own entry says, or one that the operator keeps for that address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.cli.known_keys import unknown_keys
from omnigraph.cli.row_style import RowFormat, RowStyle
from omnigraph.errors import SettingInvalid
from omnigraph.settings.server_address import parse_server_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.cli.known_keys import Level

    # Any: what a YAML file holds; the readers below are where its shape is checked.
    Section = Mapping[str, Any]

FILE_NAME: Final = "omnigraph.yaml"
_MAX_BYTES: Final = 1 << 20
_SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "project": ("name",),
    "server": ("graph", "bind"),
    "cli": (
        *("graph", "branch", "actor", "output_format"),
        *("table_max_column_width", "table_cell_layout"),
    ),
    "query": ("roots",),
    "auth": ("env_file",),
}
_NAMED_SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "graphs": ("uri", "graph", "bearer_token_env", "queries", "policy"),
    "aliases": (
        *("command", "query", "name", "args", "params"),
        *("graph", "branch", "format"),
    ),
}
_KEYS: Final = (*_SECTIONS, *_NAMED_SECTIONS, "queries", "policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectGraph:
    """An entry of `graphs`: storage, or a graph of a server."""

    uri: str
    graph: str | None = None
    """The id of the graph, where `uri` is a server."""
    bearer_token_env: str | None = None
    queries: tuple[str, ...] = ()
    """Files of stored queries, and folders of them, for a server of it."""
    policy: str | None = None
    """The file of its policy, for the same."""

    @property
    def is_server(self) -> bool:
        """Whether requests are sent to it."""
        return self.uri.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAlias:
    """A query of a file under a name, with some of its parameters."""

    command: str
    query: str
    name: str | None = None
    args: tuple[str, ...] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    graph: str | None = None
    branch: str | None = None
    format: RowFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """What the file says that the command line uses."""

    folder: Path
    name: str | None = None
    """What the project is called."""
    graphs: Mapping[str, ProjectGraph] = field(default_factory=dict)
    graph: str | None = None
    branch: str | None = None
    actor: str | None = None
    row_style: RowStyle | None = None
    roots: tuple[Path, ...] = ()
    env_file: Path | None = None
    aliases: Mapping[str, ProjectAlias] = field(default_factory=dict)
    server_graph: str | None = None
    """What `serve` serves when nothing else is said."""
    server_bind: str | None = None
    unknown: tuple[str, ...] = ()
    """A warning for each key that nobody knows."""

    def path_of(self, text: str) -> str:
        """An address of the file: paths are relative to its folder, addresses stay."""
        return text if "://" in text else str(self.folder / text)


def read_project_config(given: Path | None, *, is_ignored: bool) -> ProjectConfig | None:
    """The file that is given, or that of the working folder; `None` if there is none.

    Raises:
        SettingInvalid: it cannot be read, or a key of it is wrong.
    """
    path = given if given is not None else Path.cwd() / FILE_NAME
    if is_ignored and given is None:
        return None
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        if given is None:
            return None
        raise _invalid(path, "does not exist") from error
    except OSError as error:
        raise _invalid(path, f"cannot be read ({error.strerror})") from error
    if len(data) > _MAX_BYTES:
        raise _invalid(path, f"is larger than {_MAX_BYTES:,} bytes")
    try:
        return _interpret(_parse(data), path.absolute().parent)
    except SettingInvalid as error:
        raise _invalid(path, error.message) from error


def _parse(data: bytes) -> Section:
    import msgspec

    try:
        content = msgspec.yaml.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingInvalid(f"is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise SettingInvalid("expected keys and values")
    return content


def _interpret(content: Section, folder: Path) -> ProjectConfig:
    graphs = {
        name: _graph(name, _section(entries, name, "graphs"), content)
        for entries in [_section(content, "graphs")]
        for name in entries
    }
    cli, query, auth = (_section(content, name) for name in ("cli", "query", "auth"))
    server = _section(content, "server")
    default, served = _text(cli, "graph", "cli"), _text(server, "graph", "server")
    for key, name in (("cli", default), ("server", served)):
        if name is not None and name not in graphs:
            raise SettingInvalid(f"{key}.graph: {name!r} is not under graphs")
    aliases = _section(content, "aliases")
    env_file = _text(auth, "env_file", "auth")
    return ProjectConfig(
        folder=folder,
        name=_text(_section(content, "project"), "name", "project"),
        graphs=graphs,
        graph=default,
        branch=_text(cli, "branch", "cli"),
        actor=_text(cli, "actor", "cli"),
        row_style=_row_style(cli),
        roots=tuple(folder / root for root in _texts(query, "roots", "query")),
        env_file=None if env_file is None else folder / env_file,
        server_graph=served,
        server_bind=_text(server, "bind", "server"),
        aliases={name: _alias(name, _section(aliases, name, "aliases")) for name in aliases},
        unknown=tuple(unknown_keys(_levels(content), "the project's file")),
    )


def _levels(content: Section) -> Iterator[Level]:
    yield "", content, _KEYS
    for name, known in _SECTIONS.items():
        yield name, _section(content, name), known
    for kind, known in _NAMED_SECTIONS.items():
        entries = _section(content, kind)
        for name in entries:
            yield f"{kind}.{name}", _section(entries, name, kind), known


def _graph(name: str, entry: Section, content: Section) -> ProjectGraph:
    """An entry; queries and a policy that it does not have are those of the project."""
    within = f"graphs.{name}"
    uri = _text(entry, "uri", within)
    if uri is None:
        raise SettingInvalid(f"{within}.uri: expected the address of the graph")
    if uri.startswith(("http://", "https://")):
        try:
            parse_server_address(uri)
        except ValueError as error:
            raise SettingInvalid(f"{within}.uri: {error}") from None
    return ProjectGraph(
        uri=uri,
        graph=_text(entry, "graph", within),
        bearer_token_env=_text(entry, "bearer_token_env", within),
        queries=_query_files(entry, within) or _query_files(content, ""),
        policy=_policy_file(entry, within) or _policy_file(content, ""),
    )


def _query_files(parent: Section, within: str) -> tuple[str, ...]:
    """Files and folders: one, a list of them, or `{name: {file: …}}`; each once."""
    dotted = f"{within}.queries" if within else "queries"
    value = parent.get("queries")
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        files = [_text(_section(value, name, dotted), "file", f"{dotted}.{name}") for name in value]
        if None in files:
            raise SettingInvalid(f"{dotted}: every query has a file")
        return tuple(dict.fromkeys(file for file in files if file is not None))
    return _texts(parent, "queries", within or "the file")


def _policy_file(parent: Section, within: str) -> str | None:
    """A file, or `{file: …}`."""
    if isinstance(parent.get("policy"), str):
        return _text(parent, "policy", within or "the file")
    return _text(_section(parent, "policy", within), "file", f"{within}.policy".lstrip("."))


def _alias(name: str, entry: Section) -> ProjectAlias:
    within = f"aliases.{name}"
    command, query = _text(entry, "command", within) or "query", _text(entry, "query", within)
    if command not in ("query", "read"):
        raise SettingInvalid(f"{within}.command: an alias reads; {command!r} is not query")
    if query is None:
        raise SettingInvalid(f"{within}.query: expected a .gq file")
    return ProjectAlias(
        command=command,
        query=query,
        name=_text(entry, "name", within),
        args=_texts(entry, "args", within),
        params=_section(entry, "params", within),
        graph=_text(entry, "graph", within),
        branch=_text(entry, "branch", within),
        format=_format(entry, "format", within),
    )


def _row_style(section: Section) -> RowStyle | None:
    keys = {"output_format", "table_max_column_width", "table_cell_layout"} & set(section)
    if not keys:
        return None
    usual = RowStyle()
    form = _format(section, "output_format", "cli")
    width = section.get("table_max_column_width", usual.table_max_column_width)
    layout = section.get("table_cell_layout", usual.table_cell_layout)
    if not isinstance(width, int) or isinstance(width, bool) or width < 1:
        raise SettingInvalid("cli.table_max_column_width: expected a number, at least 1")
    layouts = type(usual.table_cell_layout)
    if layout not in list(layouts):
        raise SettingInvalid(f"cli.table_cell_layout: expected one of {', '.join(layouts)}")
    return RowStyle(
        format=form or usual.format,
        table_max_column_width=width,
        table_cell_layout=layouts(layout),
    )


def _format(section: Section, key: str, within: str) -> RowFormat | None:
    value = _text(section, key, within)
    if value is None:
        return None
    if value not in list(RowFormat):
        raise SettingInvalid(f"{within}.{key}: expected one of {', '.join(RowFormat)}")
    return RowFormat(value)


def _section(parent: Section, key: str, within: str = "") -> Section:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        dotted = f"{within}.{key}" if within else key
        raise SettingInvalid(f"{dotted}: expected keys and values, not {value!r:.60}")
    return value


def _text(section: Section, key: str, within: str) -> str | None:
    value = section.get(key)
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise SettingInvalid(f"{within}.{key}: expected a text, not {value!r:.60}")
    return value


def _texts(section: Section, key: str, within: str) -> tuple[str, ...]:
    value = section.get(key) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise SettingInvalid(f"{within}.{key}: expected a list of texts, not {value!r:.60}")
    return tuple(value)


def _invalid(path: Path, what: str) -> SettingInvalid:
    return SettingInvalid(f"project file {str(path)!r}: {what}", name=str(path))
