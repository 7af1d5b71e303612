"""`omnigraph query`: every form of a result, every source of a query, every way to be refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.process_sessions import wait_until_it_sleeps

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]
PROGRAM = Path(sys.executable).with_name("omnigraph")

ALL = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
FIND = "query find($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
AGED = "query aged($n: I64) { match { $p: Person $p.age = $n } return { $p.name } }"
# 3^10 rows: far beyond a millisecond, far below the limit of rows.
SLOW = "query slow() {{ match {{ {} }} return {{ $a.name }} }}".format(
    " ".join(f"${var}: Person" for var in "abcdefghij")
)
ADD = 'query add() { insert Person { name: "x" } }'


@pytest.fixture(scope="module")
def three_people(tmp_path_factory: pytest.TempPathFactory, _empty_graph: Path) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graphs") / "people.omni"
    shutil.copytree(_empty_graph, path)
    with Graph.open(path) as graph, graph.write() as writer:
        ages = pa.array([36, None, 17], pa.int32())
        writer.append("Person", pa.table({"name": ["Ada", 'Grace "G", x', "李雷"], "age": ages}))
        made = writer.commit()
    assert made is not None
    return path, made.graph_commit_id


@pytest.fixture
def people(tmp_path: Path, three_people: tuple[Path, str]) -> Path:
    """A graph of three people, at `people.omni` in the folder of the test."""
    return Path(shutil.copytree(three_people[0], tmp_path / "people.omni"))


@pytest.fixture
def commit(three_people: tuple[Path, str]) -> str:
    """The commit that added the people."""
    return three_people[1]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / ".omnigraph" / "config.yaml"
    path.parent.mkdir()
    return path


@pytest.fixture
def ask(call: Door, people: Path) -> Door:
    """`omnigraph query` on the three people."""

    def run(*words: str | Path, **options: object) -> CompletedProcess[str]:
        return call("query", "--store", people, *words, **options)

    return run


TABLE = """\
3 rows from branch main via all
p.name       | p.age
-------------+------
Ada          | 36
Grace "G", x | null
李雷         | 17
"""
KV = """\
3 rows from branch main via all

row 1
p.name: Ada
p.age: 36

row 2
p.name: Grace "G", x
p.age: null

row 3
p.name: 李雷
p.age: 17
"""
CSV = """\
p.name,p.age
Ada,36
"Grace ""G"", x",
李雷,17
"""
JSONL = """\
{"kind":"metadata","query_name":"all","target":{"branch":"main","snapshot":null},"row_count":3}
{"p.name":"Ada","p.age":36}
{"p.name":"Grace \\"G\\", x","p.age":null}
{"p.name":"李雷","p.age":17}
"""
JSON = """\
{{
  "query_name": "all",
  "target": {{
    "branch": "main",
    "snapshot": null
  }},
  "row_count": 3,
  "columns": [
    "p.name",
    "p.age"
  ],
  "rows": [
    {{
      "p.name": "Ada",
      "p.age": 36
    }},
    {{
      "p.name": "Grace \\"G\\", x",
      "p.age": null
    }},
    {{
      "p.name": "李雷",
      "p.age": 17
    }}
  ],
  "graph_commit_id": "{commit}"
}}
"""


@pytest.mark.parametrize(
    ("form", "text"), [("table", TABLE), ("kv", KV), ("csv", CSV), ("jsonl", JSONL)]
)
def test_each_format_is_written_as_the_contract_shows_it(ask: Door, form: str, text: str) -> None:
    result = ask("-e", ALL, "--format", form)
    assert (result.returncode, result.stdout, result.stderr) == (0, text, "")


@pytest.mark.parametrize("words", [["--json"], ["--format", "json"]])
def test_json_is_the_body_of_the_contract(ask: Door, commit: str, words: list[str]) -> None:
    result = ask("-e", ALL, *words)
    expected = JSON.format(commit=commit)
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")


@pytest.mark.parametrize(("form", "text"), thinned([("csv", CSV), ("jsonl", JSONL)]))
def test_forms_for_programs_are_utf_8_in_every_locale(
    start: Door, people: Path, form: str, text: str
) -> None:
    latin = {"PYTHONIOENCODING": "latin-1"}
    words = ("query", "--store", people.name, "-e", ALL, "--format", form)
    assert start(*words, environ=latin).stdout == text


def test_no_rows_are_said_to_people_and_are_a_header_for_programs(ask: Door) -> None:
    nobody = ("-e", FIND, "--params", '{"n": "Bob"}')
    heading = "0 rows from branch main via find\n(no rows)\n"
    assert ask(*nobody).stdout == ask(*nobody, "--format", "kv").stdout == heading
    assert ask(*nobody, "--format", "csv").stdout == "p.age\n"


@pytest.mark.parametrize(
    ("words", "output", "first"),
    [
        (["--format", "csv", "--json"], "kv", "p.name,p.age"),
        (["--json"], "csv", "{"),
        ([], "csv", "p.name,p.age"),
        ([], "json", "{"),
        ([], None, "3 rows from branch main via all"),
    ],
)
def test_the_option_beats_json_which_beats_the_operator_config(
    ask: Door, config: Path, words: list[str], output: str | None, first: str
) -> None:
    config.write_text(f"defaults: {{output: {output}}}\n" if output else "", encoding="utf-8")
    assert ask("-e", ALL, *words).stdout.splitlines()[0] == first


@pytest.mark.parametrize(
    ("layout", "cells"),
    [
        ("truncate", ["Ada    | 36", "Grace… | null", "李雷   | 17"]),
        ("wrap", ["Ada    | 36", "Grace  | null", '"G", x |', "李雷   | 17"]),
    ],
)
def test_the_width_and_the_layout_of_a_table_are_those_of_the_config(
    ask: Door, config: Path, layout: str, cells: list[str]
) -> None:
    config.write_text(
        f"defaults: {{table_max_column_width: 6, table_cell_layout: {layout}}}\n", encoding="utf-8"
    )
    assert ask("-e", ALL).stdout.splitlines()[3:] == cells


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("output: xml", "defaults.output: expected one of table, kv, csv, jsonl, json, not 'xml'"),
        ("table_max_column_width: 0", "defaults.table_max_column_width: expected a number"),
        ("table_max_column_width: true", "defaults.table_max_column_width: expected a number"),
        ("table_cell_layout: [wrap]", "defaults.table_cell_layout: expected one of truncate, wrap"),
    ],
)
def test_a_bad_value_of_the_config_ends_with_2_and_names_its_key(
    ask: Door, config: Path, setting: str, named: str
) -> None:
    config.write_text(f"defaults: {{{setting}}}\n", encoding="utf-8")
    result = ask("-e", ALL)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert named in result.stderr


def test_the_query_may_be_text_a_file_or_standard_input(ask: Door, tmp_path: Path) -> None:
    expected = ask("-e", ALL).stdout
    file = tmp_path / "people.gq"
    file.write_text(f"\ufeff{FIND}\n{ALL}\n", encoding="utf-8")
    assert ask("--query-string", ALL).stdout == expected
    assert ask("all", "--query", file).stdout == expected
    assert ask("--query", file, "all").stdout == expected
    piped = ask("all", "--query", "-", stdin=file.read_bytes())
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, expected, "")


@pytest.mark.parametrize("params", ['{"n": "Ada"}', '{"$n": "Ada"}', '\n{ "n" : "\\u0041da" }'])
def test_parameters_are_an_object_on_the_command_line_or_in_a_file(
    ask: Door, tmp_path: Path, params: str
) -> None:
    file = tmp_path / "params.json"
    file.write_text(params, encoding="utf-8")
    for words in (["--params", params], ["--params-file", file]):
        result = ask("-e", FIND, *words, "--format", "csv")
        assert (result.stdout, result.stderr) == ("p.age\n36\n", "")


def test_parameters_may_come_from_standard_input(people: Path) -> None:
    words = ("query", "--store", people, "-e", FIND, "--params-file", "-", "--format", "csv")
    result = subprocess.run(
        [PROGRAM, *words], input=b'{"n": "Ada"}', capture_output=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"p.age\n36\n", b"")


@pytest.mark.parametrize("number", ["9007199254740993", '"9007199254740993"'])
def test_a_large_integer_reaches_the_query_with_every_digit(ask: Door, number: str) -> None:
    echo = "query echo($n: I64) { match { $p: Person } return { $n as n } limit 1 }"
    result = ask("-e", echo, "--params", f'{{"n": {number}}}', "--format", "csv")
    assert result.stdout == "n\n9007199254740993\n"


def test_a_branch_and_a_commit_are_read_as_they_are(ask: Door, people: Path, commit: str) -> None:
    with Graph.open(people) as opened:
        opened.branches.create("draft")
        with opened.write("draft") as writer:
            writer.append("Person", pa.table({"name": ["Bob"], "age": pa.array([1], pa.int32())}))
            writer.commit()
    count = "query people() { match { $p: Person } return { count($p) as n } }"
    for words, n, target in (
        ([], 3, {"branch": "main", "snapshot": None}),
        (["--branch", "draft"], 4, {"branch": "draft", "snapshot": None}),
        (["--snapshot", commit], 3, {"branch": None, "snapshot": commit}),
    ):
        body = json.loads(ask("-e", count, *words, "--json").stdout)
        assert (body["rows"], body["target"]) == ([{"n": n}], target)
        assert (body["graph_commit_id"] == commit) is (words[:1] != ["--branch"])


def test_the_graph_may_be_that_of_the_operator_config(
    call: Door, config: Path, people: Path
) -> None:
    config.write_text(f"defaults:\n  store: {people}\n", encoding="utf-8")
    assert call("query", "-e", ALL).stdout == TABLE
    config.write_text(f"profiles:\n  p:\n    store: {people}\n", encoding="utf-8")
    assert call("query", "-e", ALL, "--profile", "p").stdout == TABLE


def test_the_deprecated_name_works_and_warns_once(call: Door, people: Path) -> None:
    warning = "warning: 'omnigraph read' is deprecated; use 'omnigraph query'\n"
    result = call("read", "--store", people, "-e", ALL)
    assert (result.returncode, result.stdout, result.stderr) == (0, TABLE, warning)
    result = call("read", "--store", people, "-e", ALL, "--json")
    assert (result.returncode, result.stderr) == (0, warning)


@pytest.mark.parametrize("name", ["lint", "check"])
def test_a_query_may_have_the_name_of_a_deprecated_form(ask: Door, name: str) -> None:
    source = f"query {name}() {{ match {{ $p: Person }} return {{ count($p) as n }} }}"
    assert ask("-e", source, name, "--format", "csv").stdout == "n\n3\n"


@pytest.mark.parametrize("engine", ["auto", "local"])
def test_the_lane_in_this_process_may_be_named(ask: Door, engine: str) -> None:
    environ = {"OMNIGRAPH_ENGINE": "spark"}
    assert ask("-e", ALL, "--engine", engine).stdout == TABLE
    assert ask("-e", ALL, "--engine", engine, environ=environ).stdout == TABLE


def test_a_timeout_replaces_that_of_the_settings(ask: Door) -> None:
    words, environ = ("-e", SLOW, "--format", "csv"), {"OMNIGRAPH_QUERY_TIMEOUT_MS": "1"}
    assert ask(*words, environ=environ).returncode == 75
    for seconds in ("0", "0.0", "60.5"):
        result = ask(*words, "--timeout", seconds, environ=environ)
        assert (result.returncode, result.stdout.count("\n")) == (0, 3**10 + 1)


class Case:
    """Words that are refused, with the exit code, the reason and a part of the message."""

    def __init__(self, code: int, reason: str, message: str, *words: str, **environ: str) -> None:
        self.code, self.reason, self.message = code, reason, message
        self.words, self.environ = words, environ

    def __repr__(self) -> str:
        return f"{self.reason} {self.message}"


CASES = [
    Case(1, "branch_not_found", "'mian'", "-e", ALL, "--branch", "mian"),
    Case(1, "commit_not_found", "'nope'", "-e", ALL, "--snapshot", "nope"),
    Case(1, "parameter_error", "`$n` of type String is missing", "-e", FIND),
    Case(1, "parameter_error", "null", "-e", FIND, "--params", '{"n": null}'),
    Case(1, "parameter_error", "unknown parameter `$m`", "-e", FIND, "--params", '{"m": 1}'),
    Case(1, "parameter_error", "boolean true", "-e", AGED, "--params", '{"n": true}'),
    Case(1, "parameter_error", "inf", "-e", AGED, "--params", '{"n": 1e400}'),
    Case(1, "query_selection", "`add` is a mutation; run it with `mutate`", "-e", ADD),
    Case(1, "query_selection", "name the query", "-e", f"{ALL} {FIND}"),
    Case(1, "query_selection", "no query `al` in the source", "al", "-e", ALL),
    Case(1, "invalid_argument", "--query 'no.gq': no such file", "--query", "no.gq"),
    Case(1, "invalid_argument", "'.': is a folder", "-e", FIND, "--params-file", "."),
    Case(75, "deadline_exceeded", "longer than 1 ms", "-e", SLOW, "--timeout", "0.001"),
    Case(1, "resource_limit", "9 rows", "-e", SLOW, OMNIGRAPH_MAX_BINDING_ROWS="5"),
    Case(2, "setting_invalid", "'soon'", "-e", ALL, OMNIGRAPH_QUERY_TIMEOUT_MS="soon"),
    Case(2, "usage", "stored queries live on a server", "all"),
    Case(2, "usage", "--query FILE or -e GQ"),
    Case(2, "usage", "both --query and -e", "--query", "q.gq", "-e", ALL),
    Case(2, "usage", "both --query and -e", "--query", "q.gq", "--query-string", ALL),
    Case(2, "usage", "both --branch and", "-e", ALL, "--branch", "a", "--snapshot", "b"),
    Case(2, "usage", "both --params and", "-e", ALL, "--params", "{}", "--params-file", "p"),
    Case(2, "usage", "standard input", "--query", "-", "--params-file", "-"),
    Case(2, "usage", "--params has 'n' twice", "-e", FIND, "--params", '{"n": 1, "n": 2}'),
    Case(2, "usage", "--params is not JSON", "-e", FIND, "--params", "n=1"),
    Case(2, "usage", "--timeout nan is no time", "-e", ALL, "--timeout", "nan"),
    Case(2, "usage", "--timeout inf is no time", "-e", ALL, "--timeout", "inf"),
    Case(2, "usage", "--timeout -1 is no time", "-e", ALL, "--timeout", "-1"),
    Case(2, "usage", "--timeout 0.0001 is no time", "-e", ALL, "--timeout", "0.0001"),
    Case(2, "usage", "'soon' is not a valid float", "-e", ALL, "--timeout", "soon"),
    Case(2, "usage", "'xml' is not one of", "-e", ALL, "--format", "xml"),
    Case(2, "usage", "'gpu' is not one of", "-e", ALL, "--engine", "gpu"),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_what_cannot_run_is_one_line_with_its_exit_code(ask: Door, case: Case) -> None:
    text = ask(*case.words, environ=case.environ)
    envelope = ask(*case.words, "--json", environ=case.environ)
    for result in (text, envelope):
        assert (result.returncode, result.stdout) == (case.code, "")
        assert result.stderr.count("\n") == 1
    body = json.loads(envelope.stderr)
    assert body["reason"] == case.reason
    assert case.message in body["error"]
    assert text.stderr == f"error: {body['error']}\n"


def test_a_budget_is_named_in_the_envelope(ask: Door) -> None:
    late = ask("-e", SLOW, "--timeout", "0.001", "--json")
    assert json.loads(late.stderr)["deadline_exceeded"] == {"limit_ms": 1, "phase": "query"}
    large = ask("-e", SLOW, "--json", environ={"OMNIGRAPH_MAX_BINDING_ROWS": "5"})
    assert json.loads(large.stderr)["resource_limit"] == {
        "resource": "query_binding_rows",
        "limit": 5,
        "actual": 9,
    }


def test_a_file_of_parameters_that_is_no_object_is_named(ask: Door, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    for data, what in (
        (b'{"n": 1', "is not JSON: Expecting ',' delimiter at line 1, column 8"),
        (b"[]", "is not an object of names and values"),
        (b"\xff{}", "is not UTF-8 (byte 0); save it as UTF-8"),
        (b" " * (1 << 20) + b"{}", "larger than 1,048,576 bytes, the limit of a request"),
    ):
        file.write_bytes(data)
        result = ask("-e", FIND, "--params-file", file)
        assert (result.returncode, result.stdout) == (1, "")
        assert f"error: --params-file '{file}'" in result.stderr
        assert what in result.stderr


WRONG = "query q() {\n  match { $p: Persn }\n  return { $p.name }\n}\n"
EXCERPT = """\
error: T1: unknown node type `Persn`; did you mean `Person`?
 --> {}:2:15
  |
2 |   match {{ $p: Persn }}
  |               ^^^^^
"""


def test_a_query_that_does_not_compile_shows_its_line_in_its_file(
    ask: Door, tmp_path: Path
) -> None:
    file = tmp_path / r"q\1.gq"
    file.write_text(WRONG, encoding="utf-8")
    result = ask("--query", file)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == EXCERPT.format(file)
    assert ask("-e", WRONG).stderr == EXCERPT.format("<source>")
    piped = ask("--query", "-", stdin=WRONG.encode())
    assert piped.stderr == EXCERPT.format("<stdin>")


def test_a_query_that_does_not_compile_is_an_envelope_with_path_and_diagnostics(
    ask: Door, tmp_path: Path
) -> None:
    file = tmp_path / "q.gq"
    file.write_bytes(WRONG.encode() + b"\xff")
    [finding] = (envelope := json.loads(ask("--query", file, "--json").stderr))["diagnostics"]
    assert (envelope["reason"], envelope["path"]) == ("query_invalid", str(file))
    assert finding["code"] == "Q000"
    file.write_text(WRONG, encoding="utf-8")
    [finding] = json.loads(ask("--query", file, "--json").stderr)["diagnostics"]
    assert (finding["code"], finding["span"]["line"]) == ("T1", 2)


def test_without_an_address_the_ways_to_give_one_have_no_argument(call: Door) -> None:
    result = call("query", "-e", ALL)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: no graph is addressed; give --store URI, --server NAME|URL with --graph ID, "
        "--profile NAME, set defaults.store or defaults.server in the operator config, or name one "
        "as cli.graph in omnigraph.yaml\n"
    )


@pytest.mark.parametrize("form", thinned(["csv", "table"]))
def test_a_closed_pipe_ends_quietly_with_0(people: Path, form: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [PROGRAM, "query", "--store", people, "-e", SLOW, "--format", form],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_interrupt_ends_with_130(people: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "q.gq"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [PROGRAM, "query", "--store", people, "--query", fifo],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with fifo.open("wb"):  # returns when the program opens the query, and keeps it waiting
        wait_until_it_sleeps(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "error: interrupted\n")
