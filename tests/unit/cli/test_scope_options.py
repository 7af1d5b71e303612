"""Every command with every global option of a scope: it is used, or refused by name."""

from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.global_options import RULES
from omnigraph.cli.main import app

Door = Callable[..., CompletedProcess[str]]

OPTIONS = ("--server", "--cluster", "--graph", "--store", "--as", "--profile")
# The table of the contract: what each class takes, with the exceptions that it names.
ANY = {"--server", "--graph", "--store", "--profile"}
LINT = {"--cluster", "--graph", "--store", "--profile"}
TAKEN = {
    "init": set[str](),
    "snapshot": ANY,
    "query": ANY,
    "read": ANY,
    "mutate": ANY | {"--as"},
    "change": ANY | {"--as"},
    "load": ANY | {"--as"},
    "ingest": ANY | {"--as"},
    "explain": ANY,
    "export": ANY,
    "blob get": ANY,
    "blob stat": ANY,
    "branch create": ANY | {"--as"},
    "branch list": ANY,
    "branch merge": ANY | {"--as"},
    "branch delete": ANY | {"--as"},
    "commit list": ANY,
    "commit show": ANY,
    "commit changes": ANY,
    "commit revert": ANY | {"--as"},
    "changes poll": ANY,
    "changes baseline": ANY,
    "diff": {"--store", "--profile"},
    "embed": {"--store"},
    "ensure-indices": LINT,
    "recovery list": {"--store", "--profile"},
    "run": {"--store", "--profile", "--as"},
    "schema show": ANY,
    "schema get": ANY,
    "schema plan": {"--store", "--profile"},
    "lint": LINT,
    "check": LINT,
    "query lint": LINT,
    "query check": LINT,
    "version": set[str](),
    "doctor": set[str](),
}
NEEDED = {
    "init": ["g", "--schema", "s.pg"],
    "load": ["--data", "d.ndjson", "--mode", "merge"],
    "ingest": ["--data", "d.ndjson"],
    "run": ["pipeline.yaml"],
    "blob get": ["node", "T", "id", "p"],
    "blob stat": ["node", "T", "id", "p"],
    "branch create": ["name"],
    "branch merge": ["name"],
    "branch delete": ["name"],
    "commit show": ["id"],
    "commit changes": ["id"],
    "commit revert": ["id"],
    "changes baseline": ["--out", "f"],
    "diff": ["main", "main"],
    "schema plan": ["--schema", "s.pg"],
    "lint": ["--query", "q.gq"],
    "check": ["--query", "q.gq"],
    "query lint": ["--query", "q.gq"],
    "query check": ["--query", "q.gq"],
}


def walk(group: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(group, TyperGroup):
        yield " ".join(path)
    else:
        for name, command in group.commands.items():
            yield from walk(command, (*path, name))


COMMANDS = list(walk(get_command(app)))


def test_every_command_has_its_rule_and_the_table_is_that_of_the_contract() -> None:
    assert sorted(COMMANDS) == sorted(RULES) == sorted(TAKEN)
    assert {name: set(rule.takes) for name, rule in RULES.items()} == TAKEN


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_a_command_cannot_use_is_refused_by_name(
    call: Door, command: str, option: str
) -> None:
    result = call(*command.split(), *NEEDED.get(command, []), option, "x")
    refusal = f"{command!r} takes no {option}: it is a"
    if option in TAKEN[command]:
        assert refusal not in result.stderr
    else:
        error = result.stderr.splitlines()[-1]
        assert (result.returncode, result.stdout) == (2, "")
        assert refusal in error
        assert error.endswith(("out", "instead", "the argument", "operator config instead"))
