"""`omnigraph changes`: the change feed of a branch."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.change_text import KindOption, OpOption, TypeOption
from omnigraph.cli.options import (
    BranchOption,
    JsonOption,
    LimitOption,
    PageTokenOption,
    UriOption,
)
from omnigraph.cli.session import begin_command

_POLL_HELP = """Show what happened on a branch since a cursor, commit by commit.

\b
Example:
  omnigraph changes poll --uri papers.omni --start beginning

The last line on stderr is the cursor for the next poll, also with --quiet; with --json each page is
one line, and the last one has the cursor. Store it with what you have applied: a commit may come
twice, never in part. Without --cursor and --start nothing is replayed, and the cursor of now is
told. With --limit or --page-token one page is printed.
"""
_BASELINE_HELP = """Write every entity of a branch to a file, and tell the cursor to poll from.

\b
Example:
  omnigraph changes baseline --uri papers.omni --out papers.ndjson

The file has the entities in the load format and one last record with the cursor. It is there
complete or not at all.
"""


def register(app: typer.Typer) -> None:
    """Add the group `changes`."""
    group = typer.Typer(rich_markup_mode=None, help="Follow what happens on a branch.")
    group.command("poll", help=_POLL_HELP)(poll)
    group.command("baseline", help=_BASELINE_HELP)(baseline)
    app.add_typer(group, name="changes")


def poll(
    context: typer.Context,
    *,
    branch: BranchOption = "main",
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Where the last poll ended.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="now|beginning|after:TARGET",
            help="Where to begin without a cursor: now, or after a commit id, tag, number or time.",
        ),
    ] = None,
    kinds: KindOption = None,
    types: TypeOption = None,
    ops: OpOption = None,
    limit: LimitOption = None,
    page_token: PageTokenOption = None,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print the blocks of a poll, page by page, and then its cursor."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, choose_branch, find_target
    from omnigraph.cli.change_text import block_lines

    is_one_page = limit is not None or page_token is not None
    begun: str | None = None
    target = find_target(session, uri, name=URI_OPTION)
    branch = choose_branch(context, target, branch)
    with target.reach() as graph:
        while True:
            page = graph.changes.poll(
                branch=branch,
                cursor=cursor,
                start=start,
                page_token=page_token,
                kinds=kinds,
                types=types,
                ops=ops,
                **({} if limit is None else {"limit": limit}),
            )
            if as_json:
                session.output.write_json_line(page.to_dict())
            else:
                session.output.write_each(block_lines(page, begun=begun))
                begun = page.blocks[-1].cause.graph_commit_id if page.blocks else None
            page_token, cursor, start = page.next_page_token, None, None
            if page_token is None or is_one_page:
                break
    if not as_json:
        if page.caught_up is False:
            session.output.announce("more commits are there: poll again from this cursor")
        if page.cursor is not None:
            session.output.explain(f"cursor: {page.cursor}")
        else:
            session.output.explain(f"more: --page-token {page_token}")
    return exit_codes.OK


def baseline(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="The file to write.")],
    branch: BranchOption = "main",
    kinds: KindOption = None,
    types: TypeOption = None,
    ops: OpOption = None,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write the file, and only then tell its commit and its cursor."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, choose_branch, find_target
    from omnigraph.cli.replaced_file import replacing

    target = find_target(session, uri, name=URI_OPTION)
    branch = choose_branch(context, target, branch)
    with target.reach() as graph:
        stream = graph.changes.baseline(branch=branch, kinds=kinds, types=types, ops=ops)
        with replacing(out) as file:
            for chunk in stream:
                file.write(chunk)
    if as_json:
        session.output.write_json(stream.baseline.to_dict())
    else:
        session.output.write_facts(
            {
                "commit": stream.baseline.snapshot_commit_id,
                "cursor": stream.baseline.resume_cursor,
            }
        )
    return exit_codes.OK
