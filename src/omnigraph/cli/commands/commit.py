"""`omnigraph commit`: the history of a graph."""

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.change_text import KindOption, OpOption, TypeOption
from omnigraph.cli.commit_text import (
    decisions_text,
    merge_text,
    pipeline_text,
    rows_text,
)
from omnigraph.cli.options import (
    BranchOption,
    JsonOption,
    LimitOption,
    PageTokenOption,
    UriArgument,
    UriOption,
    require_commit,
)
from omnigraph.cli.session import begin_command, name_of
from omnigraph.errors import UsageError

_LIST_HELP = """List the commits of a branch, newest first.

\b
Example:
  omnigraph commit list papers.omni --limit 10

Everything that the branch's head reaches, through merges too. With --limit the last line on stderr
tells the --page-token of the next page; with --json it is next_cursor. Rows are those that a commit
added (+), changed (~) and removed (-); of a run, its pipeline and cursors come last. Commits of
maintenance (kinds index and optimize), which change no row, are listed with --all or --filter.
"""
_SHOW_HELP = """Show one commit of any live branch.

\b
Example:
  omnigraph commit show --uri papers.omni $(omnigraph commit list papers.omni --limit 1 | cut -c-26)

The id is what `commit list` shows first in a line.
"""
_CHANGES_HELP = """Show what a commit changed.

\b
Example:
  omnigraph commit changes --uri papers.omni $(omnigraph commit list papers.omni | head -c26)

The commit is compared with its first parent. A line begins with + for an inserted entity, with ~
for an updated and with - for a deleted one; then come its type, its id, and what differs. With
--json each page is one line, with every entity before and after. With --limit or --page-token one
page is printed, and the --page-token of the next one is told.
"""
_REVERT_HELP = """Undo what one commit changed, as a new commit.

\b
Example:
  omnigraph commit revert $(omnigraph commit list papers.omni | head -c26) --uri papers.omni

What the commit inserted is deleted, what it deleted comes back, and what it updated gets its values
from before. Refused, with every conflict, if later commits changed the same entities or need them.
Exits with 4 if the condition of --if-commit does not hold.
"""
COMMIT_HELP = "The commit: its id, a tag, its number, or a time."
_FILTERS: Final = ("actor", "kind", "operation")


def register(app: typer.Typer) -> None:
    """Add the group `commit`."""
    group = typer.Typer(rich_markup_mode=None, help="Look at the history.")
    group.command("list", help=_LIST_HELP)(list_)
    group.command("show", help=_SHOW_HELP)(show)
    group.command("changes", help=_CHANGES_HELP)(changes)
    group.command("revert", help=_REVERT_HELP)(revert)
    app.add_typer(group, name="commit")


def list_(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: BranchOption = "main",
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            help="Only commits with this actor, kind or operation; repeat for more keys.",
        ),
    ] = None,
    all_kinds: Annotated[
        bool, typer.Option("--all", help="List commits of maintenance too.")
    ] = False,
    limit: LimitOption = None,
    page_token: PageTokenOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print a page of the history, or all of it."""
    session = begin_command(context)
    wanted = parse_filters(filters or ())

    from omnigraph.cli.addressing import choose_branch, find_target
    from omnigraph.graph.bodies import commit_page_body
    from omnigraph.graph.history.target_texts import time_text

    target = find_target(session, uri)
    with target.reach() as graph:
        page = graph.commits.list(
            branch=choose_branch(context, target, branch),
            all=all_kinds,
            limit=limit or sys.maxsize,
            cursor=page_token,
            **wanted,
        )
    if as_json:
        session.output.write_json(commit_page_body(page))
        return exit_codes.OK
    session.output.write_table(
        ("commit", "version", "kind", "branch", "actor", "committed at", "rows", "pipeline"),
        [
            (
                commit.graph_commit_id,
                str(commit.graph_manifest_version),
                f"{commit.kind} (recovered)" if commit.recovered else commit.kind,
                commit.graph_branch,
                commit.actor_id or "-",
                time_text(commit.committed_at),
                rows_text(commit),
                pipeline_text(commit),
            )
            for commit in page
        ],
    )
    if page.next_cursor is not None:
        session.output.explain(f"more: --page-token {page.next_cursor}")
    return exit_codes.OK


def show(
    context: typer.Context,
    commit: Annotated[str, typer.Argument(metavar="ID", help=COMMIT_HELP)],
    *,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print one commit."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, find_target
    from omnigraph.graph.bodies import show_time, shown_commit_body
    from omnigraph.graph.history.target_texts import time_text

    with find_target(session, uri, name=URI_OPTION).reach() as graph:
        graph_commit = graph.commits.get(commit)
    if as_json:
        session.output.write_json(shown_commit_body(graph_commit))
        return exit_codes.OK
    session.output.write_facts(
        {
            "commit": graph_commit.graph_commit_id,
            "kind": graph_commit.kind,
            "branch": graph_commit.graph_branch,
            "version": graph_commit.graph_manifest_version,
            "parent": graph_commit.parent_commit_id,
            "merged parent": graph_commit.merged_parent_commit_id,
            "actor": graph_commit.actor_id,
            "made at": show_time(graph_commit.created_at),
            "committed at": time_text(graph_commit.committed_at),
            "rows": rows_text(graph_commit),
            "merged": merge_text(graph_commit),
            "decided": decisions_text(graph_commit),
            "reverted": graph_commit.stats.get("revert", {}).get("commit"),
            "pipeline": pipeline_text(graph_commit) if "pipeline" in graph_commit.stats else None,
            "operation": graph_commit.operation_id,
            "schema": graph_commit.schema_hash or None,
        }
    )
    return exit_codes.OK


def changes(
    context: typer.Context,
    commit: Annotated[str, typer.Argument(metavar="ID", help=COMMIT_HELP)],
    *,
    uri: UriOption = None,
    kinds: KindOption = None,
    types: TypeOption = None,
    ops: OpOption = None,
    limit: LimitOption = None,
    page_token: PageTokenOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print what a commit changed, page by page."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, find_target
    from omnigraph.cli.change_text import change_line

    is_one_page = limit is not None or page_token is not None
    with find_target(session, uri, name=URI_OPTION).reach() as graph:
        while True:
            page = graph.commits.changes(
                commit,
                kinds=kinds,
                types=types,
                ops=ops,
                page_token=page_token,
                **({} if limit is None else {"limit": limit}),
            )
            if as_json:
                session.output.write_json_line(page.to_dict())
            else:
                session.output.write_each(map(change_line, page))
            page_token = page.next_page_token
            if page_token is None or is_one_page:
                break
    if page_token is not None and not as_json:
        session.output.explain(f"more: --page-token {page_token}")
    return exit_codes.OK


def revert(
    context: typer.Context,
    commit: Annotated[str, typer.Argument(metavar="ID", help=COMMIT_HELP)],
    *,
    branch: Annotated[
        str, typer.Option(metavar="NAME", help="The branch that gets the new commit.")
    ] = "main",
    if_commit: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Revert only while this commit is the head."),
    ] = None,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Undo a commit and say by which one."""
    session = begin_command(context)
    require_commit(if_commit)

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_write_target
    from omnigraph.graph.bodies import revert_body

    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    with target.reach(writes=True) as graph:
        made = graph.commits.revert(commit, branch=branch, if_commit=if_commit)
    if as_json:
        session.output.write_json(revert_body(commit, branch, made))
    elif made is None:
        session.output.write(f"nothing of commit {commit} is left to undo on {branch}")
    else:
        session.output.write(f"reverted {commit} on {branch}: commit {made.graph_commit_id}")
    return exit_codes.OK


def parse_filters(texts: Sequence[str]) -> dict[str, str]:
    """What `--filter` asks for, by key.

    Raises:
        UsageError: a filter is malformed, its key is unknown, or a key comes twice.
    """
    wanted: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not value or key not in _FILTERS:
            forms = ", ".join(f"{name}=VALUE" for name in _FILTERS)
            raise UsageError(f"--filter {text!r} is none of {forms}")
        if key in wanted:
            raise UsageError(f"--filter {key}=… is given twice; give each key once")
        wanted[key] = value
    return wanted
