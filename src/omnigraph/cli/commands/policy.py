"""`omnigraph policy`: check the bundle of a file, test it, and ask it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import Session, begin_command
from omnigraph.cli.source_files import read_source_file
from omnigraph.errors import InvalidArgument, UsageError

if TYPE_CHECKING:
    from omnigraph.policy import CompiledPolicy
    from omnigraph.policy.bundle import Bundle, Rule

_VALIDATE_HELP = """Check a policy bundle: every mistake with its line, then what looks like one.

\b
Example:
  omnigraph policy validate --file examples/papers/policy.yaml

Prints the rules, the groups and the actors. Exits with 1 if the bundle cannot be used; warnings
change nothing.
"""
_TEST_HELP = """Run the cases of a file against a policy bundle, and list every mismatch.

\b
Example:
  omnigraph policy test --file examples/papers/policy.yaml --tests examples/papers/policy.tests.yaml

Exits with 1 if a case gets another answer than it expects.
"""
_EXPLAIN_HELP = """Say whether an actor may do something, and which rule allows it.

\b
Example:
  omnigraph policy explain --file examples/papers/policy.yaml --actor act-bob --action read

With --cedar the compiled policies are printed too.
"""
_DEFAULT_GRAPH: Final = "default"
"""What the graph is called in the policies, if --graph does not say it."""

_FileOption = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The bundle, a YAML file.")
]
_SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="Hold the bundle against this schema, too."),
]


def register(app: typer.Typer) -> None:
    """Add the group `policy`."""
    group = typer.Typer(rich_markup_mode=None, help="Check, test and explain policy bundles.")
    group.command("validate", help=_VALIDATE_HELP)(validate)
    group.command("test", help=_TEST_HELP)(run_cases)
    group.command("explain", help=_EXPLAIN_HELP)(explain)
    app.add_typer(group, name="policy")


def validate(
    context: typer.Context,
    *,
    file: _FileOption = None,
    schema: _SchemaOption = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The tokens of a server, JSON; warns of actors in no group."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print what the bundle says, and warnings."""
    session = begin_command(context)
    policy = _load(session, file, schema)

    from omnigraph.policy.review import review

    bundle = policy.bundle
    warnings = review(bundle, () if tokens is None else _token_actors(tokens))
    if as_json:
        session.output.write_json(_bundle_body(bundle) | {"warnings": warnings})
        return exit_codes.OK
    session.output.write(
        f"{bundle.name}: a {bundle.kind} bundle, {len(bundle.rules)} rules,"
        f" {len(bundle.groups)} groups, {len(bundle.actors)} actors"
    )
    session.output.write_table(
        ("rule", "group", "actions", "branches"),
        [(rule.id, rule.group, _allowed(rule), str(rule.scope)) for rule in bundle.rules],
    )
    session.output.write_lines(
        [
            *(f"group {name}: {', '.join(bundle.groups[name])}" for name in sorted(bundle.groups)),
            f"protected branches: {', '.join(sorted(bundle.protected_branches)) or 'none'}",
            *(f"warning: {warning}" for warning in warnings),
        ]
    )
    return exit_codes.OK


def run_cases(
    context: typer.Context,
    *,
    file: _FileOption = None,
    schema: _SchemaOption = None,
    tests: Annotated[Path, typer.Option(metavar="FILE", help="The cases, a YAML file.")],
    as_json: JsonOption = False,
) -> int:
    """Print the cases that got another answer; 1 if there are any."""
    session = begin_command(context)
    policy = _load(session, file, schema)

    from omnigraph.policy.cases import find_mismatches, read_cases

    cases = read_cases(tests)
    mismatches = list(find_mismatches(policy, cases))
    if as_json:
        session.output.write_json(
            {
                "file": policy.bundle.name,
                "tests": str(tests),
                "total": len(cases),
                "passed": len(cases) - len(mismatches),
                "mismatches": [each.to_dict() for each in mismatches],
            }
        )
    else:
        session.output.write_lines(
            [
                *(
                    f"{each.case.id}: expected {each.case.expect}, got {each.got}: {each.message}"
                    for each in mismatches
                ),
                f"{len(cases)} cases, {len(mismatches)} mismatches",
            ]
        )
    return exit_codes.FAILED if mismatches else exit_codes.OK


def explain(
    context: typer.Context,
    *,
    file: _FileOption = None,
    schema: _SchemaOption = None,
    actor: Annotated[str, typer.Option(metavar="ACTOR", help="Who asks.")],
    action: Annotated[str, typer.Option(metavar="ACTION", help="What is to be done.")],
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="The branch that is read or written.")
    ] = None,
    target_branch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The branch that is made, changed or removed."),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="The stored query, for invoke_query.")
    ] = None,
    cedar: Annotated[
        bool, typer.Option("--cedar", help="Print the compiled policies too.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Print the decision."""
    session = begin_command(context)
    policy = _load(session, file, schema)

    from omnigraph.graph.access import Action

    if action not in set(Action):
        raise UsageError(f"there is no action {action!r}; there are {', '.join(Action)}")
    decision = policy.authorize(actor, Action(action), branch, target_branch, query)
    facts: dict[str, object] = {
        "decision": "allow" if decision.allowed else "deny",
        "actor": actor,
        "action": action,
        "branch": branch,
        "target_branch": target_branch,
        **({} if query is None else {"query": query}),
        "matched_rule": decision.rule_id,
        "message": decision.message,
    }
    if as_json:
        session.output.write_json(facts | ({"cedar": policy.cedar_text} if cedar else {}))
        return exit_codes.OK
    session.output.write_facts(facts)
    if cedar:
        session.output.write_lines(policy.cedar_text.splitlines())
    return exit_codes.OK


def _load(session: Session, file: Path | None, schema: Path | None) -> "CompiledPolicy":
    """The bundle of a file, for whatever it guards, held against a schema if there is one."""
    if session.scope.cluster is not None or session.scope.profile is not None:
        raise UsageError("policies of a cluster are not in this version; give --file FILE alone")
    if file is None:
        raise UsageError("no bundle is given; give --file FILE")
    session.require_settings()

    from omnigraph.lang import compile_schema
    from omnigraph.policy import CompiledPolicy
    from omnigraph.policy.bundle_reader import read_bundle

    policy = CompiledPolicy(read_bundle(file), session.scope.graph or _DEFAULT_GRAPH)
    if schema is not None:
        policy.bind(compile_schema(read_source_file(schema, "--schema"), path=str(schema)))
    return policy


def _token_actors(path: Path) -> list[str]:
    """Whom a file of tokens names; the tokens are not looked at, and never shown."""
    content = read_source_file(path, "--tokens")
    try:
        actors = json.loads(content)
    except ValueError:
        actors = None
    if not isinstance(actors, dict):
        raise InvalidArgument(f"--tokens {path} is no JSON object of actors and their tokens")
    return [actor.strip() for actor in actors]


def _allowed(rule: "Rule") -> str:
    named = "" if rule.queries is None else f" ({', '.join(rule.queries)})"
    return ", ".join(rule.actions) + named


def _bundle_body(bundle: "Bundle") -> dict[str, object]:
    return {
        "file": bundle.name,
        "kind": str(bundle.kind),
        "rules": [
            {
                "id": rule.id,
                "group": rule.group,
                "actions": [str(action) for action in rule.actions],
                "scope": str(rule.scope),
                **({} if rule.queries is None else {"queries": list(rule.queries)}),
                "line": rule.line,
            }
            for rule in bundle.rules
        ],
        "groups": {name: list(bundle.groups[name]) for name in sorted(bundle.groups)},
        "actors": {actor: list(groups) for actor, groups in bundle.actors.items()},
        "protected_branches": sorted(bundle.protected_branches),
    }
