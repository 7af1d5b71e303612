"""Which graph a command acts on, found anew for each call.

The first hit wins: an address on the command line, the profile, the defaults of the operator
config. Two addresses are an error, and nothing is ever guessed from the working folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.cli.global_options import CLUSTER, GRAPH, SERVER, STORE
from omnigraph.cli.operator_config import Binding, OperatorConfig, read_operator_config
from omnigraph.errors import UsageError
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from omnigraph.api import Graph
    from omnigraph.cli.row_style import RowStyle
    from omnigraph.cli.session import Session
    from omnigraph.settings import Settings

URI: Final = "URI"
URI_OPTION: Final = "--uri"
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_WAYS: Final = (
    "no graph is addressed; give {own}{store} URI, --profile NAME, or set defaults.store in the "
    "operator config"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The storage of one graph, and whose writes it will record."""

    uri: str
    settings: Settings
    actor: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is a path or a `file://` address."""
        scheme = _SCHEME.match(self.uri)
        return scheme is None or scheme[1].lower() == "file"

    @property
    def access(self) -> str:
        """How the graph is reached, for people."""
        return "direct, local" if self.is_local else "direct, remote"

    def open(self, *, writes: bool = False) -> Graph:
        """The graph; read-only unless the command writes."""
        from omnigraph import Graph

        return Graph.open(
            self.uri,
            mode="read_write" if writes else "read_only",
            actor=self.actor,
            settings=self.settings,
        )


def find_target(
    session: Session, uri: str | None, *, name: str = URI, is_job: bool = False
) -> Target:
    """The graph to read; `name` says how the command spells its own address.

    A job may run on Spark, which the operator config sets up too; other reads of a graph with an
    address do without that file.

    Raises:
        UsageError: no address, more than one, or one that this version cannot use.
        SettingInvalid: a variable or the operator config is malformed.
    """
    settings = session.require_settings()
    address = _given_address(session, uri, name)
    if address is not None and not is_job:
        return Target(uri=address, settings=settings)
    config, settings = _read_config(session, settings)
    if address is None:
        address = _configured_address(session, config, settings, name)
    return Target(uri=address, settings=settings)


def find_write_target(session: Session, uri: str | None, *, name: str | None = URI) -> Target:
    """The graph to write, with the actor of the option or of the operator config.

    `name` is None for a command whose arguments cannot name a graph.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    settings = session.require_settings()
    address = _given_address(session, uri, name)
    config, settings = _read_config(session, settings)
    if address is None:
        address = _configured_address(session, config, settings, name)
    return _to_write(session, config, settings, address)


def find_run_target(session: Session, named: str | None) -> Target:
    """The graph of a pipeline: the one of `--store` or `--profile`, else the one that it names.

    A pipeline that names none is run on the configured graph. What a file names is not redirected
    by a profile that happens to be in the environment.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    settings = session.require_settings()
    address = _given_address(session, None, None)
    config, settings = _read_config(session, settings)
    if address is None and named is not None and session.scope.profile is None:
        _require_storage(named, "`graph` of the pipeline")
        address = named
    if address is None:
        address = _configured_address(session, config, settings, "`graph`")
    return _to_write(session, config, settings, address)


def find_query_target(session: Session) -> tuple[Target, RowStyle]:
    """The graph to query, which no argument can name, and how its rows are printed.

    Raises:
        UsageError, SettingInvalid: as `find_target`.
    """
    settings = session.require_settings()
    address = _given_address(session, None, None)
    config, settings = _read_config(session, settings)
    if address is None:
        address = _configured_address(session, config, settings, None)
    return Target(uri=address, settings=settings), config.row_style


def configured_store(
    config: OperatorConfig, settings: Settings, profile: str | None = None
) -> str | None:
    """The graph of a profile, the one in the environment if none is named, or of the defaults.

    Raises:
        UsageError: the profile does not exist, or leads to what this version cannot use.
    """
    name = profile or settings.client.profile
    if name is not None:
        return _store_of(_profile(config, name), f"profile {name!r}")
    if config.defaults != Binding():
        return _store_of(config.defaults, "defaults of the operator config")
    return None


def announce_write(session: Session, command: str, target: Target) -> None:
    """Say where a write goes before it goes there."""
    session.output.announce(f"omnigraph {command} → {target.uri} ({target.access})")


def _read_config(session: Session, settings: Settings) -> tuple[OperatorConfig, Settings]:
    """The operator config, and the settings with its sections below the variables."""
    config = read_operator_config(settings.client.home)
    merged = load_settings(session.environ, config.settings) if config.settings else settings
    known = set(settings.warnings)
    for warning in (
        *config.warnings,
        *(warning for warning in merged.warnings if warning not in known),
    ):
        session.output.warn(warning)
    return config, merged


def _to_write(session: Session, config: OperatorConfig, settings: Settings, address: str) -> Target:
    actor = session.scope.actor
    return Target(uri=address, settings=settings, actor=config.actor if actor is None else actor)


def _given_address(session: Session, uri: str | None, name: str | None) -> str | None:
    """The address on the command line, or None if there is none."""
    options = session.scope.given()
    addresses = {name: uri} if uri is not None and name is not None else {}
    addresses |= {
        option: options[option] for option in (STORE, SERVER, CLUSTER) if option in options
    }
    if len(addresses) > 1:
        listed = " and ".join(f"{option} {value!r}" for option, value in addresses.items())
        raise UsageError(f"more than one address is given: {listed}; give one of them")
    for option in (SERVER, CLUSTER):
        if option in addresses:
            raise UsageError(f"{option} is not in this version; give {STORE} URI instead")
    address = next(iter(addresses.values()), None)
    if address is not None:
        _require_storage(address, next(iter(addresses)))
    if session.scope.graph is not None:
        raise UsageError(
            f"{GRAPH} picks a graph of a server or a cluster, and a store is one graph; leave it "
            "out (servers and clusters are not in this version)"
        )
    return address


def _configured_address(
    session: Session, config: OperatorConfig, settings: Settings, name: str | None
) -> str:
    store = configured_store(config, settings, session.scope.profile)
    if store is None:
        own = "" if name is None else f"its {name}, "
        raise UsageError(_WAYS.format(own=own, store=STORE))
    return store


def _profile(config: OperatorConfig, name: str) -> Binding:
    profile = config.profiles.get(name)
    if profile is None:
        listed = ", ".join(sorted(config.profiles)) or "it has none"
        raise UsageError(f"there is no profile {name!r} in the operator config ({listed})")
    return profile


def _store_of(binding: Binding, origin: str) -> str:
    for kind, value in (("server", binding.server), ("cluster", binding.cluster)):
        if value is not None:
            raise UsageError(
                f"{origin}: the {kind} {value!r} is not usable, {kind}s are not in this version; "
                f"give {STORE} URI instead"
            )
    if binding.store is None:
        raise UsageError(f"{origin}: no store is set; give {STORE} URI")
    _require_storage(binding.store, origin)
    return binding.store


def _require_storage(address: str, origin: str) -> None:
    scheme = _SCHEME.match(address)
    if scheme is not None and scheme[1].lower() in ("http", "https"):
        raise UsageError(
            f"{origin}: {address!r} is a server, not storage; servers are addressed with "
            f"{SERVER} {address}, which is not in this version: give a path, file:// or s3://"
        )
