"""Which graph a command acts on, found anew for each call.

The first hit wins: an address on the command line, the profile, the defaults of the operator
config, the project's file in the working folder. Two addresses are an error, and nothing is sticky.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from omnigraph.cli.env_file import read_env_file
from omnigraph.cli.global_options import AS, CLUSTER, GRAPH, SERVER, STORE, TARGET
from omnigraph.cli.operator_config import Binding, OperatorConfig, read_operator_config
from omnigraph.cli.pandas_on_demand import start_arrow
from omnigraph.cli.project_config import ProjectConfig, read_project_config
from omnigraph.cli.served_place import ServedPlace, Server
from omnigraph.errors import SettingInvalid, UsageError
from omnigraph.settings import TOKEN_PREFIX, list_variables, load_settings, token_variable
from omnigraph.settings.server_address import parse_server_address

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from typing import TypeAlias

    import typer

    from omnigraph.api import Graph
    from omnigraph.cli.row_style import RowStyle
    from omnigraph.cli.session import Session
    from omnigraph.graph.graph_like import GraphLike
    from omnigraph.settings import Secret, Settings

    Place: TypeAlias = "str | ServedPlace"

_B = TypeVar("_B", str, "str | None")

URI: Final = "URI"
URI_OPTION: Final = "--uri"
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_WAYS: Final = (
    "no graph is addressed; give {own}--store URI, --server NAME|URL with --graph ID, --profile"
    " NAME, set defaults.store or defaults.server in the operator config, or name one as cli.graph"
    " in omnigraph.yaml"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One graph, in storage or behind a server, and whose writes it will record."""

    uri: str
    settings: Settings
    actor: str | None = None
    place: ServedPlace | None = None
    """Where it is served, if `uri` is no storage."""
    roots: tuple[Path, ...] = ()
    """Where files of queries are looked for, beside the working folder."""
    branch: str | None = None
    """The branch that the project's file says for its graphs."""

    @property
    def is_local(self) -> bool:
        """Whether it is a path or a `file://` address."""
        scheme = _SCHEME.match(self.uri)
        return scheme is None or scheme[1].lower() == "file"

    @property
    def access(self) -> str:
        """How the graph is reached, for people."""
        if self.place is not None:
            return "served"
        return "direct, local" if self.is_local else "direct, remote"

    def open(self, *, writes: bool = False) -> Graph:
        """The graph for a command that needs its storage; read-only unless the command writes.

        Raises:
            UsageError: it is behind a server.
        """
        if self.place is not None:
            raise UsageError(
                f"{self.uri} is behind a server, and this command needs the storage of the graph;"
                f" give {STORE} URI instead"
            )
        start_arrow()
        from omnigraph import Graph

        return Graph.open(
            self.uri,
            mode="read_write" if writes else "read_only",
            actor=self.actor,
            settings=self.settings,
        )

    def reach(self, *, writes: bool = False) -> GraphLike:
        """The graph, wherever it is; of an open one read-only unless the command writes."""
        start_arrow()
        return self.open(writes=writes) if self.place is None else self.place.open()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The files that say where commands go, and the settings with what the files add to them."""

    operator: OperatorConfig
    project: ProjectConfig | None
    settings: Settings
    environ: Mapping[str, str] = field(default_factory=dict)
    """The variables of the process, and below them those of the project's env file."""

    @property
    def row_style(self) -> RowStyle:
        """How rows are printed: as the operator says, else as the project says."""
        project = None if self.project is None else self.project.row_style
        is_usual = self.operator.row_style == OperatorConfig().row_style
        return project if project is not None and is_usual else self.operator.row_style

    @property
    def actor(self) -> str | None:
        """Who writes: the operator, else the actor of the project."""
        project = None if self.project is None else self.project.actor
        return self.operator.actor or project

    @property
    def roots(self) -> tuple[Path, ...]:
        """Where files of queries are looked for, beside the working folder."""
        return () if self.project is None else self.project.roots

    def server(self, name: str, origin: str) -> Server:
        """A server by its name or its address, with the token for it.

        Raises:
            UsageError: no server has that name.
            SettingInvalid: the credentials cannot be used.
        """
        from omnigraph.client.credentials import token_for

        servers = self.operator.servers
        if is_url(name):
            url = name
            try:
                parse_server_address(url)
            except ValueError as error:
                raise UsageError(f"{origin}: {error}") from None
        elif name in servers:
            url = servers[name]
        else:
            listed = ", ".join(sorted(servers)) or "none"
            raise UsageError(
                f"{origin}: {name!r} is no http(s):// address and not under servers of the"
                f" operator config ({listed})"
            )
        return Server(url=url.rstrip("/"), token=token_for(url, servers, self.settings.client))


def find_target(
    session: Session, uri: str | None, *, name: str = URI, is_job: bool = False
) -> Target:
    """The graph to read; `name` says how the command spells its own address.

    A job may run on Spark, which the operator config sets up too; other reads of storage with an
    address do without any file.

    Raises:
        UsageError: no address, more than one, or one that this version cannot use.
        SettingInvalid: a variable or a file of configuration is malformed.
    """
    settings = session.require_settings()
    store = _given_store(session, uri, name)
    if store is not None and not is_job:
        return Target(uri=store, settings=settings)
    configuration = read_configuration(session, settings)
    target = _target(_place(session, configuration, uri, name), configuration)
    return _on_branch(target, session, configuration, uri)


def find_write_target(session: Session, uri: str | None, *, name: str | None = URI) -> Target:
    """The graph to write, with the actor of the option or of the configuration.

    `name` is None for a command whose arguments cannot name a graph.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    settings = session.require_settings()
    _given_store(session, uri, name)
    configuration = read_configuration(session, settings)
    target = _to_write(session, configuration, _place(session, configuration, uri, name))
    return _on_branch(target, session, configuration, uri)


def find_run_target(session: Session, named: str | None) -> Target:
    """The graph of a pipeline: the one of `--store` or `--profile`, else the one that it names.

    A pipeline that names none is run on the configured graph. What a file names is not redirected
    by a profile that happens to be in the environment.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    settings = session.require_settings()
    store = _given_store(session, None, None)
    configuration = read_configuration(session, settings)
    if store is None and named is not None and session.scope.profile is None:
        require_storage(named, "`graph` of the pipeline")
        return _to_write(session, configuration, named)
    return _to_write(session, configuration, _place(session, configuration, None, "`graph`"))


def find_query_target(session: Session) -> tuple[Target, RowStyle]:
    """The graph to query, which no argument can name, and how its rows are printed.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    settings = session.require_settings()
    _given_store(session, None, None)
    configuration = read_configuration(session, settings)
    target = _target(_place(session, configuration, None, None), configuration)
    return _on_branch(target, session, configuration, None), configuration.row_style


def find_measured_target(
    session: Session, uri: str | None, *, writes: bool
) -> tuple[Target, RowStyle]:
    """The graph of a job that reads, or writes what it found, and how rows are printed.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    settings = session.require_settings()
    _given_store(session, uri, URI)
    configuration = read_configuration(session, settings)
    place = _place(session, configuration, uri, URI)
    target = _to_write(session, configuration, place) if writes else _target(place, configuration)
    return _on_branch(target, session, configuration, uri), configuration.row_style


def find_project_target(session: Session, configuration: Configuration, name: str | None) -> Target:
    """A graph of the project's file by its name; without one, the graph of any other command.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    if name is None:
        target = _target(_place(session, configuration, None, None), configuration)
        return _on_branch(target, session, configuration, None)
    target = _target(_project_place(configuration, name, None), configuration)
    return (
        target
        if configuration.project is None
        else replace(target, branch=configuration.project.branch)
    )


def find_server(session: Session) -> Server:
    """The server that a command asks about itself.

    Raises:
        UsageError: no server is addressed.
    """
    configuration = read_configuration(session, session.require_settings())
    if session.scope.server is not None:
        return configuration.server(session.scope.server, SERVER)
    binding, origin = _binding(configuration, session.scope.profile)
    if binding is None or binding.server is None:
        raise UsageError(f"no server is addressed; give {SERVER} NAME|URL, or a profile of one")
    return configuration.server(binding.server, origin)


def configured_store(
    config: OperatorConfig, settings: Settings, profile: str | None = None
) -> str | None:
    """The storage of a profile, the one in the environment if none is named, or of the defaults.

    `None` if there is no profile and no default, or it leads to a server.

    Raises:
        UsageError: the profile does not exist, or leads to a cluster.
    """
    configuration = Configuration(operator=config, project=None, settings=settings)
    binding, origin = _binding(configuration, profile)
    if binding is None or binding.server is not None:
        return None
    if binding.store is None:
        raise UsageError(f"{origin}: no store is set; give {STORE} URI")
    require_storage(binding.store, origin)
    return binding.store


def choose_branch(context: typer.Context, target: Target, branch: _B) -> _B | str:
    """The branch of the option; without it the one that the project says for its graphs."""
    source = context.get_parameter_source("branch")
    is_given = source is not None and source.name == "COMMANDLINE"
    return branch if is_given or target.branch is None else target.branch


def announce_write(session: Session, command: str, target: Target) -> None:
    """Say where a write goes before it goes there."""
    session.output.announce(f"omnigraph {command} → {target.uri} ({target.access})")


def read_configuration(session: Session, settings: Settings) -> Configuration:
    """The operator config and the project's file, and the settings with what they add below them.

    Raises:
        SettingInvalid: a file is malformed.
    """
    project = read_project_config(
        session.scope.config, is_ignored=settings.client.no_project_config
    )
    environ = session.environ
    if project is not None and project.env_file is not None:
        environ = {**read_env_file(project.env_file, environ), **environ}
    operator = read_operator_config(settings.client.home)
    is_same = not operator.settings and environ is session.environ
    merged = settings if is_same else load_settings(environ, operator.settings)
    known = set(settings.warnings)
    for warning in (
        *operator.warnings,
        *(warning for warning in merged.warnings if warning not in known),
    ):
        session.output.warn(warning)
    return Configuration(operator=operator, project=project, settings=merged, environ=environ)


def _target(place: Place, configuration: Configuration, actor: str | None = None) -> Target:
    settings, roots = configuration.settings, configuration.roots
    if isinstance(place, str):
        return Target(uri=place, settings=settings, actor=actor, roots=roots)
    return Target(uri=place.url, settings=settings, place=place, roots=roots)


def _on_branch(
    target: Target, session: Session, configuration: Configuration, uri: str | None
) -> Target:
    """The target with the branch of the project's file, if it is one of its graphs."""
    project, scope = configuration.project, session.scope
    if project is None or project.branch is None:
        return target
    is_elsewhere = uri is not None or scope.store is not None or scope.server is not None
    is_default = not is_elsewhere and _binding(configuration, scope.profile)[0] is None
    is_project = scope.target is not None or is_default
    return replace(target, branch=project.branch) if is_project else target


def _to_write(session: Session, configuration: Configuration, place: Place) -> Target:
    actor = session.scope.actor
    if actor is not None and not isinstance(place, str):
        raise UsageError(
            f"{AS} {actor!r} cannot be used on {place.url}: a server takes the actor from the token"
        )
    return _target(place, configuration, configuration.actor if actor is None else actor)


def _given_addresses(session: Session, uri: str | None, name: str | None) -> dict[str, str]:
    """What the command line says of the place, of which there may be one."""
    options = session.scope.given()
    addresses = {name: uri} if uri is not None and name is not None else {}
    addresses |= {
        option: options[option] for option in (STORE, SERVER, CLUSTER, TARGET) if option in options
    }
    if len(addresses) > 1:
        listed = " and ".join(f"{option} {value!r}" for option, value in addresses.items())
        raise UsageError(f"more than one address is given: {listed}; give one of them")
    return addresses


def _given_store(session: Session, uri: str | None, name: str | None) -> str | None:
    """The storage on the command line, or None if there is none."""
    addresses = _given_addresses(session, uri, name)
    if CLUSTER in addresses:
        raise UsageError(f"{CLUSTER} is not in this version; give {STORE} URI instead")
    stores = {option: value for option, value in addresses.items() if option not in _INDIRECT}
    for option, value in stores.items():
        require_storage(value, option)
    if stores and session.scope.graph is not None:
        raise UsageError(
            f"{GRAPH} picks a graph of a server or a cluster, and a store is one graph; leave it"
            " out"
        )
    return next(iter(stores.values()), None)


_INDIRECT: Final = (SERVER, CLUSTER, TARGET)


def _place(
    session: Session, configuration: Configuration, uri: str | None, name: str | None
) -> Place:
    store = _given_store(session, uri, name)
    if store is not None:
        return store
    scope = session.scope
    if scope.server is not None:
        server = configuration.server(scope.server, SERVER)
        defaults = configuration.operator.defaults
        is_default = defaults.server is not None and scope.server == defaults.server
        return server.place(scope.graph or (defaults.default_graph if is_default else None))
    if scope.target is not None:
        return _project_place(configuration, scope.target, scope.graph)
    binding, origin = _binding(configuration, scope.profile)
    if binding is not None:
        return _bound_place(configuration, binding, origin, scope.graph)
    if configuration.project is not None and configuration.project.graph is not None:
        return _project_place(configuration, configuration.project.graph, scope.graph)
    own = "" if name is None else f"its {name}, "
    raise UsageError(_WAYS.format(own=own))


def _binding(configuration: Configuration, profile: str | None) -> tuple[Binding | None, str]:
    """Where the profile leads, or else the defaults, and what to call that."""
    config = configuration.operator
    name = profile or configuration.settings.client.profile
    if name is not None:
        return profile_of(config, name), f"profile {name!r}"
    origin = "defaults of the operator config"
    return (config.defaults, origin) if config.defaults != Binding() else (None, origin)


def _bound_place(
    configuration: Configuration, binding: Binding, origin: str, graph: str | None
) -> Place:
    if binding.cluster is not None:
        raise UsageError(
            f"{origin}: the cluster {binding.cluster!r} is not usable, clusters are not in this"
            f" version; give {STORE} URI instead"
        )
    if binding.server is not None:
        server = configuration.server(binding.server, origin)
        return server.place(graph or binding.default_graph)
    if binding.store is None:
        raise UsageError(f"{origin}: no store and no server is set; give {STORE} URI")
    require_storage(binding.store, origin)
    if graph is not None:
        raise UsageError(f"{GRAPH} picks a graph of a server, and {origin} is a store")
    return binding.store


def _project_place(configuration: Configuration, name: str, graph: str | None) -> Place:
    """An entry of the project's `graphs`.

    A server of it gets no token that is not meant for it: the file may come from anywhere.
    """
    project = configuration.project
    entry = None if project is None else project.graphs.get(name)
    if project is None or entry is None:
        listed = ", ".join(sorted(project.graphs)) if project is not None else "no omnigraph.yaml"
        raise UsageError(f"{TARGET}: there is no graph {name!r} in the project's file ({listed})")
    if not entry.is_server:
        if graph is not None:
            raise UsageError(f"{GRAPH} picks a graph of a server, and {name!r} is a store")
        return project.path_of(entry.uri)
    token = _project_token(configuration, entry.uri, entry.bearer_token_env)
    return Server(url=entry.uri.rstrip("/"), token=token).place(graph or entry.graph or "default")


def _project_token(configuration: Configuration, url: str, variable: str | None) -> Secret | None:
    from omnigraph.client.credentials import token_for
    from omnigraph.settings import Secret

    same = {
        name: address
        for name, address in configuration.operator.servers.items()
        if address.rstrip("/") == url.rstrip("/")
    }
    if variable is not None:
        _require_free(variable, same)
        value = configuration.environ.get(variable, "").strip()
        return Secret(value) if value else None
    return token_for(url, same, configuration.settings.client, is_general=False)


def _require_free(variable: str, servers: Collection[str]) -> None:
    """Refuse a variable that holds a secret of something else than the servers of these names.

    Raises:
        SettingInvalid: it does, and whoever wrote the project's file would get it.
    """
    own = {token_variable(name) for name in servers} | {"OMNIGRAPH_BEARER_TOKEN"}
    is_kept = variable.startswith((TOKEN_PREFIX, "AWS_")) or variable in {
        known.name for known in list_variables()
    }
    if is_kept and variable not in own:
        raise SettingInvalid(
            f"bearer_token_env of the project's file: {variable} is kept for something else, and no"
            " file of a project may send it elsewhere; name a variable of its own",
            name=variable,
        )


def profile_of(config: OperatorConfig, name: str) -> Binding:
    """A profile by its name.

    Raises:
        UsageError: there is none.
    """
    profile = config.profiles.get(name)
    if profile is None:
        listed = ", ".join(sorted(config.profiles)) or "it has none"
        raise UsageError(f"there is no profile {name!r} in the operator config ({listed})")
    return profile


def is_url(address: str) -> bool:
    """Whether it is the address of a server."""
    scheme = _SCHEME.match(address)
    return scheme is not None and scheme[1].lower() in ("http", "https")


def require_storage(address: str, origin: str) -> None:
    """Refuse the address of a server where one of storage belongs.

    Raises:
        UsageError: it is one.
    """
    if is_url(address):
        raise UsageError(
            f"{origin}: {address!r} is a server, not storage; servers are addressed with "
            f"{SERVER} {address} --graph ID: give a path, file:// or s3://"
        )
