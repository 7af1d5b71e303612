"""`omnigraph branch`: create, list, merge and delete branches."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.commit_text import rows_text
from omnigraph.cli.merge_text import show_plan, show_result
from omnigraph.cli.options import JsonOption, UriOption, require_commit
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.source_files import read_resolutions_file
from omnigraph.errors import UsageError

_CREATE_HELP = """Create a branch at the head of another one.

\b
Example:
  omnigraph branch create draft --uri papers.omni

Copies no data: the new branch shares every table until it writes one.
"""
_LIST_HELP = """List the branches of a graph.

\b
Example:
  omnigraph branch list --uri papers.omni

Shows each branch with its head, the branch it was made from, when and by whom, and the version, the
time and the rows of its last commit; main comes first.
"""
_DELETE_HELP = """Delete a branch for good.

\b
Example:
  omnigraph branch delete draft --uri papers.omni

Refused while other branches were made from it. In an object store it needs --yes, or a typed yes.
Exits with 4 if the condition of --if-commit does not hold.
"""

_MERGE_HELP = """Merge a branch into another one, as one commit.

\b
Example:
  omnigraph branch merge draft --uri papers.omni --dry-run

A change of one side is taken, and equal changes of both sides are one. Anything else is a conflict:
nothing is merged then, and every conflict is told. --dry-run shows what would happen and writes
nothing. --strategy decides all conflicts for one side: ours is the branch that is merged into,
theirs the other one. --resolutions is a file that decides entity by entity, one JSON object in a
line: {"type": "Author", "id": "ada", "take": "ours"}, or theirs, base, delete, or "row": {...}. A
rule that the merged graph would break is decided in this way only; the dry run tells how.

Exits with 1 if there are conflicts, and with 4 if the condition of --if-commit does not hold.
"""

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.")]


def register(app: typer.Typer) -> None:
    """Add the group `branch`."""
    group = typer.Typer(rich_markup_mode=None, help="Create, list, merge and delete branches.")
    group.command("create", help=_CREATE_HELP)(create)
    group.command("list", help=_LIST_HELP)(list_)
    group.command("merge", help=_MERGE_HELP)(merge)
    group.command("delete", help=_DELETE_HELP)(delete)
    app.add_typer(group, name="branch")


def create(
    context: typer.Context,
    name: _NameArgument,
    *,
    from_: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The branch to start from.")
    ] = "main",
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Create the branch and say so."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_write_target

    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    with target.reach(writes=True) as graph:
        made = graph.branches.create(name, from_=from_)
    if as_json:
        session.output.write_json(
            {"uri": target.uri, "from": from_, "name": made.name, "actor_id": made.actor_id}
        )
    else:
        session.output.write(f"created branch {made.name} from {from_}")
    return exit_codes.OK


def list_(context: typer.Context, *, uri: UriOption = None, as_json: JsonOption = False) -> int:
    """Print the live branches."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, find_target
    from omnigraph.graph.bodies import show_time
    from omnigraph.graph.history.target_texts import time_text

    with find_target(session, uri, name=URI_OPTION).reach() as graph:
        if as_json:
            names = [branch.name for branch in graph.branches.list()]
            session.output.write_json({"branches": names})
            return exit_codes.OK
        rows = []
        for branch in graph.branches.list():
            (head,) = graph.commits.list(branch=branch.name, all=True, limit=1).commits
            rows.append(
                (
                    branch.name,
                    head.graph_commit_id,
                    branch.parent or "-",
                    "-" if branch.created_at is None else show_time(branch.created_at),
                    branch.actor_id or "-",
                    str(head.graph_manifest_version),
                    time_text(head.committed_at),
                    rows_text(head),
                )
            )
    session.output.write_table(
        ("branch", "head", "made from", "made at", "made by", "version", "committed at", "rows"),
        rows,
    )
    return exit_codes.OK


def merge(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The branch whose changes are taken.")
    ],
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="NAME", help="The branch that gets them.")
    ] = "main",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen, and write nothing.")
    ] = False,
    strategy: Annotated[
        str,
        typer.Option(metavar="fail|ours|theirs", help="What becomes of conflicts."),
    ] = "fail",
    resolutions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Decisions for single entities, as NDJSON."),
    ] = None,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source afterwards.")
    ] = False,
    if_commit: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Merge only while this commit is the head of --into."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The same key again gives the first commit."),
    ] = None,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Merge the branch, or show what that would do."""
    session = begin_command(context)
    require_commit(if_commit)
    if dry_run and (delete_branch or if_commit or idempotency_key):
        raise UsageError(
            "--dry-run writes nothing: --delete-branch, --if-commit and --idempotency-key do not"
            " go with it"
        )
    decided = None if resolutions is None else read_resolutions_file(resolutions, "--resolutions")

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_target, find_write_target

    if dry_run:
        with find_target(session, uri, name=URI_OPTION).reach() as graph:
            plan = graph.branches.merge_plan(
                source, into=into, strategy=strategy, resolutions=decided
            )
        return show_plan(session.output, plan, as_json=as_json)
    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    with target.reach(writes=True) as graph:
        result = graph.branches.merge(
            source,
            into=into,
            strategy=strategy,
            resolutions=decided,
            delete_branch=delete_branch,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
        )
    show_result(session.output, result, as_json=as_json)
    return exit_codes.OK


def delete(
    context: typer.Context,
    name: _NameArgument,
    *,
    if_commit: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Delete only while this commit is the head of the branch."),
    ] = None,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Delete the branch, with consent where it is needed, and say so."""
    session = begin_command(context)
    require_commit(if_commit)

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_write_target
    from omnigraph.cli.consent import require_consent

    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    require_consent(session, target, f"deleting branch {name!r}")
    with target.reach(writes=True) as graph:
        graph.branches.delete(name, if_commit=if_commit)
    if as_json:
        session.output.write_json({"uri": target.uri, "name": name, "actor_id": target.actor})
    else:
        session.output.write(f"deleted branch {name}")
    return exit_codes.OK
