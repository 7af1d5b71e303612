"""`omnigraph schema`: the schema in force, what a change of it would do, and doing it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.source_files import read_source_file
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.session import Session
    from omnigraph.graph.schema_apply.applied import SchemaApplied
    from omnigraph.lang import SchemaPlan

_SHOW_HELP = """Print the schema of a graph, as it was accepted.

\b
Example:
  omnigraph schema show papers.omni

With --at, the schema that was in force at a commit: its id, a tag, or a number or time of main.
"""
_PLAN_HELP = """Show the steps from one schema to another.

\b
Example:
  omnigraph schema plan --from-schema /dev/null --schema examples/papers/schema.pg

Changes nothing. Plans against the schema and the rows of a graph, or with --from-schema against a
file, where every type counts as empty. Exits with 1 if a step is not supported.
"""
_APPLY_HELP = """Bring a graph to a schema, as one commit.

\b
Example:
  omnigraph schema apply --schema examples/papers/schema.pg papers.omni

The steps are shown first; `schema plan` shows them without applying. What the new schema does not
declare is hidden, and older commits still show it; with --allow-data-loss it is removed for good.
Refused as a whole if a step is not supported, if rows break a new constraint, or while other
branches live.
"""


_NO_ROWS = "note: every type was taken as empty; existing rows may add checks or refuse a step"


def register(app: typer.Typer) -> None:
    """Add the group `schema`."""
    schema = typer.Typer(rich_markup_mode=None, help="Show a schema, plan and apply changes of it.")
    schema.command("show", help=_SHOW_HELP)(show)
    schema.command("get", help=_SHOW_HELP, hidden=True)(show)
    schema.command("plan", help=_PLAN_HELP)(plan)
    schema.command("apply", help=_APPLY_HELP)(apply)
    app.add_typer(schema, name="schema")


def show(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    at: Annotated[
        str | None, typer.Option(metavar="TARGET", help="The state to look at; the head without.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the source of the schema."""
    session = begin_command(context)

    from omnigraph.cli.addressing import find_target

    with find_target(session, uri).reach() as graph:
        source = graph.schema.show(at=at)
    if as_json:
        session.output.write_json({"schema_source": source})
    else:
        session.output.write(source.removesuffix("\n"))
    return exit_codes.OK


SchemaOption = Annotated[
    Path, typer.Option("--schema", metavar="FILE", help="The desired schema, a .pg file.")
]


def plan(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    schema: SchemaOption,
    from_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The .pg file to take as the accepted schema."),
    ] = None,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Plan drops that remove data for good.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Print the plan; 1 if it is not supported."""
    session = begin_command(context)

    from omnigraph.graph.bodies import schema_plan_body

    if from_schema is None:
        migration = _plan_on_graph(session, uri, schema, allow_data_loss=allow_data_loss)
    else:
        _refuse_graph(session, uri)
        migration = _plan_between(session, from_schema, schema, allow_data_loss=allow_data_loss)
    if as_json:
        session.output.write_json(schema_plan_body(migration))
    else:
        session.output.write(migration.render())
        if migration.steps and from_schema is not None:
            session.output.write(_NO_ROWS)
    return exit_codes.OK if migration.supported else exit_codes.FAILED


def _refuse_graph(session: "Session", uri: str | None) -> None:
    given = [*session.scope.given(), *(["the URI"] if uri is not None else [])]
    if given:
        raise UsageError(f"--from-schema needs no graph; leave {given[0]} out")


def _plan_on_graph(
    session: "Session", uri: str | None, schema: Path, *, allow_data_loss: bool
) -> "SchemaPlan":
    from omnigraph.cli.addressing import find_target

    target = find_target(session, uri)
    source = _compiled_source(schema)
    with target.reach() as graph:
        return graph.schema.plan(source, allow_data_loss=allow_data_loss)


def _plan_between(
    session: "Session", from_schema: Path, schema: Path, *, allow_data_loss: bool
) -> "SchemaPlan":
    session.require_settings()

    from omnigraph.lang import compile_schema, plan_migration

    return plan_migration(
        compile_schema(read_source_file(from_schema, "--from-schema"), path=str(from_schema)),
        compile_schema(read_source_file(schema, "--schema"), path=str(schema)),
        allow_data_loss=allow_data_loss,
    )


def _compiled_source(schema: Path) -> str:
    """The text of a schema that compiles; one that does not is told with its path."""
    from omnigraph.lang import compile_schema

    source = read_source_file(schema, "--schema")
    compile_schema(source, path=str(schema))
    return source.decode("utf-8")


def _apply(
    session: "Session", target: "Target", source: str, *, allow_data_loss: bool
) -> "tuple[SchemaApplied, int]":
    """What was done, and the version of the head then; a server plans and applies in one step."""
    if target.place is not None:
        with target.place.open() as remote:
            applied = remote.schema.apply(source, allow_data_loss=allow_data_loss)
            session.output.announce(applied.plan.render())
            return applied, remote.snapshot().seq
    with target.open(writes=True) as graph:
        planned = graph.schema.plan(source, allow_data_loss=allow_data_loss)
        session.output.announce(planned.render())
        return graph.schema.apply(planned), graph.snapshot().seq


def apply(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    schema: SchemaOption,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Drops remove data for good.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Show the steps, then apply them."""
    session = begin_command(context)

    from omnigraph.cli.addressing import announce_write, find_write_target
    from omnigraph.cli.consent import require_consent
    from omnigraph.graph.bodies import schema_apply_body

    target = find_write_target(session, uri)
    source = _compiled_source(schema)
    announce_write(session, name_of(context), target)
    if allow_data_loss:
        require_consent(session, target, "removing what the new schema drops, for good,")
    applied, version = _apply(session, target, source, allow_data_loss=allow_data_loss)
    for kept in applied.kept_data:
        session.output.warn(f"the data of {kept.table_key} is not removed yet: {kept.reason}")
    if as_json:
        session.output.write_json(schema_apply_body(applied, target.uri, version))
        return exit_codes.OK
    commit = applied.commit
    session.output.write_facts(
        {
            "applied": "yes" if applied.applied else "no, the graph has this schema already",
            "steps": len(applied.steps),
            "commit": None if commit is None else commit.graph_commit_id,
        }
    )
    return exit_codes.OK
