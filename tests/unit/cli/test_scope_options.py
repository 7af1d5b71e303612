"""Every command with every global option of a scope: it is used, or refused by name."""

from collections.abc import Callable, Iterator
from itertools import product
from subprocess import CompletedProcess

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.global_options import RULES
from omnigraph.cli.main import app

Door = Callable[..., CompletedProcess[str]]

OPTIONS = ("--server", "--cluster", "--graph", "--store", "--as", "--profile", "--target")
# The table of the contract: what each class takes, with the exceptions that it names.
ANY = {"--server", "--graph", "--store", "--profile", "--target"}
LINT = {"--cluster", "--graph", "--store", "--profile", "--target"}
DIRECT = {"--store", "--profile", "--target"}
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
    "tag create": ANY | {"--as"},
    "tag list": ANY,
    "tag delete": ANY | {"--as"},
    "commit list": ANY,
    "commit show": ANY,
    "commit changes": ANY,
    "commit revert": ANY | {"--as"},
    "changes poll": ANY,
    "changes baseline": ANY,
    "diff": ANY,
    "embed": {"--store"},
    "clone": {"--as"},
    "ensure-indices": LINT,
    "optimize": LINT,
    "cleanup": LINT,
    "repair": LINT,
    "recovery list": DIRECT,
    "verify": DIRECT,
    "run": DIRECT | {"--as"},
    "analytics": DIRECT | {"--as"},
    "serve": {"--store", "--graph", "--target"},
    "schema show": ANY,
    "schema get": ANY,
    "schema plan": ANY,
    "schema apply": ANY | {"--as"},
    "lint": LINT,
    "check": LINT,
    "query lint": LINT,
    "query check": LINT,
    "policy validate": {"--cluster", "--graph", "--profile"},
    "policy test": {"--cluster", "--graph", "--profile"},
    "policy explain": {"--cluster", "--graph", "--profile"},
    "graphs list": {"--server", "--profile"},
    "alias": set[str](),
    "login": set[str](),
    "logout": set[str](),
    "profile list": set[str](),
    "profile show": set[str](),
    "config migrate": set[str](),
    "version": set[str](),
    "doctor": set[str](),
}
NEEDED = {
    "alias": ["name"],
    "login": ["name", "--token", "t"],
    "logout": ["name"],
    "policy validate": ["--file", "p.yaml"],
    "policy test": ["--file", "p.yaml", "--tests", "t.yaml"],
    "policy explain": ["--file", "p.yaml", "--actor", "a", "--action", "read"],
    "init": ["g", "--schema", "s.pg"],
    "clone": ["g", "h"],
    "load": ["--data", "d.ndjson", "--mode", "merge"],
    "ingest": ["--data", "d.ndjson"],
    "run": ["pipeline.yaml"],
    "analytics": ["degree", "--edge", "E"],
    "serve": ["--unauthenticated"],
    "blob get": ["node", "T", "id", "p"],
    "blob stat": ["node", "T", "id", "p"],
    "branch create": ["name"],
    "branch merge": ["name"],
    "branch delete": ["name"],
    "tag create": ["name"],
    "tag delete": ["name"],
    "commit show": ["id"],
    "commit changes": ["id"],
    "commit revert": ["id"],
    "changes baseline": ["--out", "f"],
    "diff": ["main", "main"],
    "schema plan": ["--schema", "s.pg"],
    "schema apply": ["--schema", "s.pg"],
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
EXTENDED = pytest.mark.extended


def test_every_command_has_its_rule_and_the_table_is_that_of_the_contract() -> None:
    assert sorted(COMMANDS) == sorted(RULES) == sorted(TAKEN)
    assert {name: set(rule.takes) for name, rule in RULES.items()} == TAKEN


@pytest.mark.parametrize(
    ("command", "option"),
    [
        # Every command with one of them, every option with many commands.
        pytest.param(command, option, marks=() if number % len(OPTIONS) == 0 else EXTENDED)
        for number, (option, command) in enumerate(product(OPTIONS, COMMANDS))
    ],
)
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
