"""The global options of one call, and which commands can use them.

An option that a command cannot use is an error, never ignored. `RULES` has one row for each
command; a command without a row cannot run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STORE: Final = "--store"
SERVER: Final = "--server"
CLUSTER: Final = "--cluster"
GRAPH: Final = "--graph"
PROFILE: Final = "--profile"
TARGET: Final = "--target"
AS: Final = "--as"


class CommandClass(StrEnum):
    """What a command needs; the value completes the sentence "it is …"."""

    ANY = "a graph command"
    SERVED = "a command on a server"
    DIRECT = "a direct command, which needs the storage of the graph"
    LOCAL = "a local command, which acts on no graph"
    CONTROL = "a control command, which reads what a deployment declares"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The options that say where a command acts and in whose name, as they were given."""

    store: str | None = None
    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    profile: str | None = None
    actor: str | None = None
    target: str | None = None
    config: Path | None = None
    """The project's file, instead of the one in the working folder."""

    def given(self) -> dict[str, str]:
        """Option to value, for those that were given."""
        options = {
            STORE: self.store,
            SERVER: self.server,
            CLUSTER: self.cluster,
            GRAPH: self.graph,
            PROFILE: self.profile,
            TARGET: self.target,
            AS: self.actor,
        }
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRule:
    """The class of a command, and the global options that it can use."""

    kind: CommandClass
    takes: frozenset[str] = frozenset()
    instead: str | None = None
    """The command that a deprecated one gave way to."""


_READ: Final = CommandRule(
    kind=CommandClass.ANY, takes=frozenset({STORE, SERVER, GRAPH, PROFILE, TARGET})
)
_WRITE: Final = CommandRule(kind=CommandClass.ANY, takes=_READ.takes | {AS})
_DIRECT: Final = CommandRule(kind=CommandClass.DIRECT, takes=frozenset({STORE, PROFILE, TARGET}))
_SERVED: Final = CommandRule(kind=CommandClass.SERVED, takes=frozenset({SERVER, PROFILE}))
_LINT: Final = CommandRule(kind=CommandClass.DIRECT, takes=_DIRECT.takes | {CLUSTER, GRAPH})
_MAINTENANCE: Final = _LINT
_LOCAL: Final = CommandRule(kind=CommandClass.LOCAL)
_CONTROL: Final = CommandRule(kind=CommandClass.CONTROL, takes=frozenset({CLUSTER, GRAPH, PROFILE}))
_OLD_LINT: Final = replace(_LINT, instead="lint")

RULES: Final[Mapping[str, CommandRule]] = {
    "init": CommandRule(kind=CommandClass.DIRECT),
    "clone": CommandRule(kind=CommandClass.DIRECT, takes=frozenset({AS})),
    "snapshot": _READ,
    "query": _READ,
    "read": replace(_READ, instead="query"),
    "mutate": _WRITE,
    "change": replace(_WRITE, instead="mutate"),
    "load": _WRITE,
    "ingest": replace(_WRITE, instead="load"),
    "explain": _READ,
    "export": _READ,
    "blob get": _READ,
    "blob stat": _READ,
    "branch create": _WRITE,
    "branch list": _READ,
    "branch merge": _WRITE,
    "branch delete": _WRITE,
    "tag create": _WRITE,
    "tag list": _READ,
    "tag delete": _WRITE,
    "commit list": _READ,
    "commit show": _READ,
    "commit changes": _READ,
    "commit revert": _WRITE,
    "diff": _READ,
    "changes poll": _READ,
    "changes baseline": _READ,
    "analytics": replace(_DIRECT, takes=_DIRECT.takes | {AS}),
    "embed": replace(_LOCAL, takes=frozenset({STORE})),
    "ensure-indices": _MAINTENANCE,
    "optimize": _MAINTENANCE,
    "cleanup": _MAINTENANCE,
    "repair": _MAINTENANCE,
    "recovery list": _DIRECT,
    "verify": _DIRECT,
    "run": replace(_DIRECT, takes=_DIRECT.takes | {AS}),
    "serve": CommandRule(kind=CommandClass.DIRECT, takes=frozenset({STORE, GRAPH, TARGET})),
    "schema show": _READ,
    "schema get": _READ,
    "schema plan": _READ,
    "schema apply": _WRITE,
    "lint": _LINT,
    "check": _LINT,
    "query lint": _OLD_LINT,
    "query check": _OLD_LINT,
    "policy validate": _CONTROL,
    "policy test": _CONTROL,
    "policy explain": _CONTROL,
    "graphs list": _SERVED,
    "alias": _LOCAL,
    "login": _LOCAL,
    "logout": _LOCAL,
    "profile list": _LOCAL,
    "profile show": _LOCAL,
    "config migrate": _LOCAL,
    "version": _LOCAL,
    "doctor": _LOCAL,
}


def refuse_unusable(command: str, scope: Scope) -> None:
    """Refuse the first global option that the command cannot use.

    Raises:
        UsageError: with the command's class, the option, and what to pass instead.
    """
    rule = RULES[command]
    for option in scope.given():
        if option not in rule.takes:
            raise UsageError(
                f"{command!r} takes no {option}: it is {rule.kind}; {_instead(command, option)}"
            )


def _instead(command: str, option: str) -> str:
    rule = RULES[command]
    if option == AS:
        if command in ("init", "embed", "ensure-indices", "optimize", "cleanup", "repair"):
            return "set operator.actor in the operator config instead"
        return "it writes nothing in anybody's name, leave the option out"
    if rule.kind in (CommandClass.LOCAL, CommandClass.CONTROL):
        return "leave the option out"
    if rule.kind is CommandClass.SERVED:
        return f"give {SERVER} NAME|URL instead"
    if command == "clone":
        return "give SRC and DST as arguments instead"
    if command == "init":
        return "give the URI of the new graph as the argument"
    return f"give {STORE} URI instead"
