"""`omnigraph diff`: what differs between two states of a graph."""

from itertools import islice
from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.change_text import KindOption, OpOption, TypeOption
from omnigraph.cli.options import JsonOption, LimitOption, UriOption
from omnigraph.cli.session import begin_command

_HELP = """Show what differs between two states: heads of branches, commits or tags.

\b
Example:
  omnigraph diff main draft --uri papers.omni

A line begins with + for an entity that only the second state has, with - for one that only the
first has, and with ~ for one that both have otherwise; then come its type, its id, and what
differs. Nodes come before edges. What was only rewritten is no difference.
"""


def register(app: typer.Typer) -> None:
    """Add `diff`."""
    app.command("diff", help=_HELP)(diff)


def diff(
    context: typer.Context,
    from_: Annotated[
        str, typer.Argument(metavar="FROM", help="The state before: a branch, a commit or a tag.")
    ],
    to: Annotated[
        str, typer.Argument(metavar="TO", help="The state after: a branch, a commit or a tag.")
    ],
    *,
    uri: UriOption = None,
    kinds: KindOption = None,
    types: TypeOption = None,
    ops: OpOption = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print the changes that lead from one state to the other."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, find_target
    from omnigraph.cli.change_text import change_line

    with find_target(session, uri, name=URI_OPTION).reach() as graph:
        changes = graph.diff(from_, to, kinds=kinds, types=types, ops=ops)
        chosen = islice(changes, limit)
        if as_json:
            session.output.write_json(
                {
                    "from": changes.from_commit_id,
                    "to": changes.to_commit_id,
                    "changes": [change.to_dict() for change in chosen],
                    "stats": changes.stats,
                }
            )
            return exit_codes.OK
        session.output.write_each(map(change_line, chosen))
        counts = changes.stats
    total = sum(sum(ops.values()) for ops in counts.values())
    session.output.announce(f"{total} changes" if total != 1 else "1 change")
    return exit_codes.OK
