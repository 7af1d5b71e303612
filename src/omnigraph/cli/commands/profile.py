"""`omnigraph profile`: the named places of the operator config."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import Session, begin_command
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.cli.operator_config import Binding, OperatorConfig

_LIST_HELP: Final = """List the profiles of the operator config.

\b
Example:
  omnigraph profile list

The active one is that of OMNIGRAPH_PROFILE.
"""
_SHOW_HELP: Final = """Show where a profile leads.

\b
Example:
  omnigraph profile show staging

Without a name it is the active profile.
"""


def register(app: typer.Typer) -> None:
    """Add the group `profile`."""
    group = typer.Typer(rich_markup_mode=None, help="Look at the profiles of the operator config.")
    group.command("list", help=_LIST_HELP)(list_)
    group.command("show", help=_SHOW_HELP)(show)
    app.add_typer(group, name="profile")


def list_(context: typer.Context, *, as_json: JsonOption = False) -> int:
    """Print every profile."""
    session = begin_command(context)
    config, active = _configured(session)
    rows = [_row(config, name, active) for name in sorted(config.profiles)]
    if as_json:
        session.output.write_json({"profiles": rows})
        return exit_codes.OK
    session.output.write_table(
        ("profile", "kind", "target", "graph", "active"),
        [
            (
                str(row["name"]),
                str(row["scope_kind"]),
                str(row["target"]),
                str(row["default_graph"] or "-"),
                "yes" if row["active"] else "",
            )
            for row in rows
        ],
    )
    return exit_codes.OK


def show(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", show_default=False, help="The profile.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> int:
    """Print one profile."""
    session = begin_command(context)

    from omnigraph.cli.addressing import profile_of

    config, active = _configured(session)
    chosen = name or active
    if chosen is None:
        raise UsageError("no profile is active; give a NAME, or set OMNIGRAPH_PROFILE")
    profile_of(config, chosen)
    row = _row(config, chosen, active)
    if as_json:
        session.output.write_json(row)
    else:
        session.output.write_facts(row)
    return exit_codes.OK


def _configured(session: Session) -> "tuple[OperatorConfig, str | None]":
    from omnigraph.cli.operator_config import read_operator_config

    settings = session.require_settings()
    return read_operator_config(settings.client.home), settings.client.profile


def _row(config: "OperatorConfig", name: str, active: str | None) -> dict[str, object]:
    binding = config.profiles[name]
    target, error = _target(config, binding)
    return {
        "name": name,
        "binding": getattr(binding, binding.kind or "store"),
        "scope_kind": binding.kind,
        "target": target,
        "default_graph": binding.default_graph,
        "active": name == active,
        "valid": error is None,
        "error": error,
    }


def _target(config: "OperatorConfig", binding: "Binding") -> tuple[str | None, str | None]:
    """The address that a profile stands for, or what is wrong with it."""
    if binding.server is not None:
        return config.servers.get(binding.server, binding.server), None
    if binding.cluster is not None:
        return binding.cluster, "clusters are not in this version"
    return binding.store, None
