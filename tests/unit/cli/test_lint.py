import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph.limits import MAX_SOURCE_BYTES

Door = Callable[..., CompletedProcess[str]]

BROKEN = "query q() { match { $p: Persn } return { $p.name } }\n"


def test_good_queries_end_with_0_and_a_report_on_standard_output(
    start: Door, schema: Path, queries: Path
) -> None:
    result = start("lint", "--schema", schema.name, "--query", queries.name)
    assert (result.returncode, result.stderr) == (0, "")
    assert "1 query" in result.stdout


def test_a_query_with_an_error_ends_with_1_and_shows_the_line_and_a_caret(
    start: Door, schema: Path, queries: Path
) -> None:
    queries.write_text(BROKEN, encoding="utf-8")
    result = start("lint", "--schema", schema.name, "--query", queries.name)
    assert (result.returncode, result.stderr) == (1, "")
    assert "T1:" in result.stdout
    assert "queries.gq:1:" in result.stdout
    assert "match { $p: Persn }" in result.stdout
    assert "^^^^^" in result.stdout


@pytest.mark.parametrize(("source", "code"), [(None, 0), (BROKEN, 1)])
def test_json_is_the_report_of_the_contract(
    call: Door, schema: Path, queries: Path, source: str | None, code: int
) -> None:
    if source is not None:
        queries.write_text(source, encoding="utf-8")
    result = call("lint", "--schema", schema, "--query", queries, "--json")
    report = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (code, "")
    assert report["status"] == ("error" if code else "ok")
    assert report["schema_source"] == {"kind": "file", "path": str(schema)}
    assert report["query_path"] == str(queries)
    assert report["queries_processed"] == 1
    assert [row["name"] for row in report["results"]] == ["q" if code else "all"]


def test_a_schema_that_does_not_compile_is_an_error_with_an_excerpt(
    call: Door, schema: Path, queries: Path
) -> None:
    schema.write_text("node Person { name: Strin }\n", encoding="utf-8")
    result = call("lint", "--schema", schema, "--query", queries)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: S")
    assert f"{schema}:1:" in result.stderr
    assert "^^^^^" in result.stderr


def test_a_schema_that_does_not_compile_gives_one_json_line_with_diagnostics(
    start: Door, schema: Path, queries: Path
) -> None:
    schema.write_text("node Person { name: Strin\n  age: Int }\n", encoding="utf-8")
    result = start("lint", "--schema", schema.name, "--query", queries.name, "--json")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    envelope = json.loads(result.stderr)
    assert (envelope["code"], envelope["reason"]) == ("bad_request", "schema_invalid")
    assert "\n" not in envelope["error"]
    assert {"code", "reason", "message", "span"} <= set(envelope["diagnostics"][0])


def test_without_a_schema_and_a_graph_the_command_says_how_to_give_one(
    call: Door, queries: Path
) -> None:
    result = call("lint", "--query", queries)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--schema FILE" in result.stderr
    assert "--store URI" in result.stderr


@pytest.mark.parametrize(("source", "code"), [(None, 0), (BROKEN, 1)])
def test_the_schema_may_be_that_of_a_graph(
    call: Door, graph: Path, queries: Path, source: str | None, code: int
) -> None:
    if source is not None:
        queries.write_text(source, encoding="utf-8")
    for address in ([graph], ["--store", graph]):
        result = call("lint", *address, "--query", queries, "--json")
        assert (result.returncode, result.stderr) == (code, "")
        report = json.loads(result.stdout)
        assert report["schema_source"] == {"kind": "graph", "uri": str(graph)}
        assert report["queries_processed"] == 1


def test_a_schema_and_a_graph_together_are_wrong_usage(
    call: Door, schema: Path, graph: Path, queries: Path
) -> None:
    for address in ([graph], ["--store", graph], ["--profile", "p"]):
        result = call("lint", *address, "--query", queries, "--schema", schema)
        assert (result.returncode, "both are given" in result.stderr) == (2, True)


@pytest.mark.parametrize("option", ["--schema", "--query"])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.name, "no such file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b" " * (MAX_SOURCE_BYTES + 1)), "larger than"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_a_remedy(
    call: Door,
    schema: Path,
    queries: Path,
    tmp_path: Path,
    option: str,
    make: Callable[[Path], object],
    reason: str,
) -> None:
    bad = tmp_path / "bad"
    make(bad)
    files = {"--schema": schema, "--query": queries} | {option: bad}
    words = [word for pair in files.items() for word in pair]
    result = call("lint", *words, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    envelope = json.loads(result.stderr)
    assert envelope["reason"] == "invalid_argument"
    assert envelope["error"].startswith(f"{option} '{bad}': {reason}")


@pytest.mark.parametrize("data", [b"\x00\x01\xff\xfe", b"\x7fELF\x02"])
def test_a_binary_file_is_a_finding_and_never_a_crash(
    call: Door, schema: Path, queries: Path, data: bytes
) -> None:
    queries.write_bytes(data)
    result = call("lint", "--schema", schema, "--query", queries)
    assert result.returncode == 1
    assert "Q000" in result.stdout


def test_an_empty_file_has_no_queries_and_no_errors(
    call: Door, schema: Path, queries: Path
) -> None:
    queries.write_bytes(b"")
    result = call("lint", "--schema", schema, "--query", queries, "--json")
    assert (result.returncode, json.loads(result.stdout)["queries_processed"]) == (0, 0)


def test_check_is_another_name(call: Door, schema: Path, queries: Path) -> None:
    files = ("--schema", schema, "--query", queries)
    first, second = call("lint", *files), call("check", *files)
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, "")


@pytest.mark.parametrize("form", ["lint", "check"])
def test_the_deprecated_forms_work_and_warn_once(
    call: Door, schema: Path, queries: Path, form: str
) -> None:
    result = call("query", form, "--schema", schema, "--query", queries)
    assert result.returncode == 0
    assert result.stdout
    assert result.stderr == (
        f"warning: 'omnigraph query {form}' is deprecated; use 'omnigraph lint'\n"
    )


def test_with_json_a_failure_leaves_no_warning_beside_the_envelope(
    call: Door, schema: Path
) -> None:
    result = call("query", "lint", "--schema", schema, "--query", "nope.gq", "--json")
    assert result.returncode == 1
    assert json.loads(result.stderr)["reason"] == "invalid_argument"


def test_with_json_a_success_still_warns(call: Door, schema: Path, queries: Path) -> None:
    result = call("query", "lint", "--schema", schema, "--query", queries, "--json")
    assert json.loads(result.stdout)["status"] == "ok"
    assert result.stderr.startswith("warning: 'omnigraph query lint' is deprecated")
