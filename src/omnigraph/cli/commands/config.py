"""`omnigraph config`: a project's file as the two files that it grew into."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import Session, begin_command
from omnigraph.errors import InvalidArgument, UsageError

_MIGRATE_HELP: Final = """Split omnigraph.yaml into cluster.yaml and one's own operator config.

\b
Example:
  omnigraph config migrate

It prints both, and what has no place in either. With --write it writes cluster.yaml beside the
project's file, and adds to the operator config what that does not have, after a copy of it.
"""
_CLUSTER_FILE: Final = "cluster.yaml"
_OPERATOR_FILE: Final = "config.yaml"
_COPY: Final = "config.yaml.before-migrate"


def register(app: typer.Typer) -> None:
    """Add the group `config`."""
    group = typer.Typer(rich_markup_mode=None, help="Move a project's file to newer ones.")
    # A callback keeps the name of the only command in the command line.
    group.callback()(_group)
    group.command("migrate", help=_MIGRATE_HELP)(migrate)
    app.add_typer(group, name="config")


def _group() -> None:
    """Move a project's file to newer ones."""


def migrate(
    context: typer.Context,
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Write the two files; without it nothing is written.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Print the two parts, and write them if that is wanted."""
    session = begin_command(context)
    client = session.require_settings().client

    from omnigraph.cli.project_config import FILE_NAME, read_project_config
    from omnigraph.cli.project_split import split_project

    project = read_project_config(session.scope.config, is_ignored=client.no_project_config)
    if project is None:
        raise UsageError(f"there is no {FILE_NAME} in this folder; give --config FILE")
    split = split_project(project)
    written = []
    if write:
        written.append(_write_cluster(project.folder / _CLUSTER_FILE, split.cluster))
        written += _write_operator(session, split.operator)
    if as_json:
        parts = {"cluster": split.cluster, "operator": split.operator, "notes": list(split.notes)}
        session.output.write_json(parts | {"written": [str(path) for path in written]})
        return exit_codes.OK
    for name, part in ((_CLUSTER_FILE, split.cluster), (_OPERATOR_FILE, split.operator)):
        session.output.write_lines([f"# {name}", *_yaml(part).decode().splitlines()])
    session.output.write_lines(
        [*(f"# {note}" for note in split.notes), *(f"# wrote {path}" for path in written)]
    )
    return exit_codes.OK


def _write_cluster(path: Path, cluster: dict[str, Any]) -> Path:  # Any: values of YAML
    from omnigraph.cli.replaced_file import replacing

    if path.exists():
        raise InvalidArgument(
            f"{path} is there already; move it away, or add to it by hand", path=str(path)
        )
    with replacing(path, option="--write") as file:
        file.write(_yaml(cluster))
    return path


def _write_operator(session: Session, added: dict[str, Any]) -> list[Path]:  # Any: as above
    """Add to the operator config what it has not; what it has is never changed."""
    import msgspec

    from omnigraph.cli.operator_config import read_operator_config
    from omnigraph.cli.project_split import merged
    from omnigraph.cli.replaced_file import replacing

    home = session.require_settings().client.home
    if home is None:
        raise UsageError("this account has no home folder; set OMNIGRAPH_HOME")
    read_operator_config(home)  # One that is malformed is refused, not built upon.
    path = home / _OPERATOR_FILE
    before = path.read_bytes() if path.exists() else b""
    ours = msgspec.yaml.decode(before) or {} if before else {}
    whole = merged(ours, added)
    if whole == ours:
        return []
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = []
    if before:
        with replacing(home / _COPY, option="--write") as file:
            file.write(before)
        written.append(home / _COPY)
    with replacing(path, option="--write") as file:
        file.write(_yaml(whole))
    return [*written, path]


def _yaml(value: dict[str, Any]) -> bytes:  # Any: as above
    import msgspec

    return msgspec.yaml.encode(value) if value else b"{}\n"
