"""Every fenced block of the documentation is run or checked, so that no example is wrong.

The language of a fence says what happens, the words after it what is expected:

    pg         compiles; `error=S003,S004`: gives exactly these codes; `file=old.pg`: console blocks
               of the page find it under this name
    gq         compiles against the last `pg` block of the page; `schema=papers`: against the
               sample; `clause`: the body of a `match`; `error=T6`: gives exactly these codes;
               `lint=L202`: gives exactly these lint codes; `file=` as above
    python     runs, all blocks of a page one after another
    text       what the `python` block right before it prints; free anywhere else
    console    `$ omnigraph …` runs and prints the lines that follow, if any do
    yaml       `bundle`: is a policy that compiles; `cases`: they hold for the last bundle in a
               file; `file=` as above; `pipeline`: is a pipeline file, or sources or mappings of one
    ndjson     parses line by line; `file=` as above
    json       parses; `descriptor`, `stored`, `plan`: is that of the last `gq` block
    bash       names files and `make` targets that exist
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.docs.markdown import ROOT, Block, list_pages, read_page

from omnigraph.cli.main import main
from omnigraph.errors import SchemaInvalid
from omnigraph.lang import Catalog, CompiledQuery, compile_query, compile_schema, lint
from omnigraph.pipeline.spec.pipeline_file import parse_pipeline
from omnigraph.policy import load_policy
from omnigraph.policy.cases import find_mismatches, read_cases

OMNIGRAPH = Path(sys.executable).parent / "omnigraph"
_BLOCKS = [block for page in list_pages() for block in read_page(page).blocks]
_OPTIONS = {
    "pg": {"error", "file"},
    "gq": {"schema", "clause", "error", "lint", "file"},
    "python": set[str](),
    "text": set[str](),
    "console": set[str](),
    "json": {"descriptor", "stored", "plan"},
    "ndjson": {"file"},
    "yaml": {"bundle", "cases", "file", "pipeline"},
    "bash": set[str](),
}
_SCHEMAS = {"papers": ROOT / "examples" / "papers" / "schema.pg"}
_MAKE_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def _yaml(*, is_pipeline: bool) -> list[object]:
    found = [block for block in _BLOCKS if block.language == "yaml"]
    return [
        pytest.param(block, id=block.id)
        for block in found
        if ("pipeline" in block.options) is is_pipeline
    ]


def blocks_in(*languages: str) -> list[object]:
    """The blocks of some languages as parameters with their place as id."""
    return [pytest.param(block, id=block.id) for block in _BLOCKS if block.language in languages]


def _is_python(block: Block) -> bool:
    return block.language == "python"


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command with the lines shown below it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0] == "", "a console block starts with a command"
    for part in parts[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _programs() -> list[object]:
    """The console blocks for the installed program; those of many commands take long."""
    blocks = [block for block in _BLOCKS if block.language == "console"]
    return [
        pytest.param(
            block,
            id=block.id,
            marks=[pytest.mark.extended] if len(list(_commands(block))) > 1 else [],
        )
        for block in blocks
    ]


@pytest.mark.parametrize("block", [pytest.param(block, id=block.id) for block in _BLOCKS])
def test_the_fence_is_closed_and_its_words_are_known(block: Block) -> None:
    assert block.is_closed, "the fence is not closed"
    assert block.language in _OPTIONS, f"nothing checks `{block.info}` blocks"
    unknown = set(block.options) - _OPTIONS[block.language]
    assert not unknown, f"nothing reads {unknown}"


@pytest.mark.parametrize("block", blocks_in("pg"))
def test_a_schema_compiles_or_gives_the_codes_it_shows(block: Block) -> None:
    assert _schema_codes(block.text) == _listed(block, "error")


@pytest.mark.parametrize("block", blocks_in("gq"))
def test_a_query_compiles_or_gives_the_codes_it_shows(block: Block) -> None:
    report = lint(_catalog_of(block), _query_text(block))
    own = [item.code for result in report.results for item in result.diagnostics]
    unparsed = [item.code for item in report.findings if item.severity == "error"]
    assert sorted({*own, *unparsed}) == _listed(block, "error"), report.render()
    if "lint" in block.options:
        found = {item.code for item in report.findings if item.severity != "error"}
        assert sorted(found) == _listed(block, "lint"), report.render()


@pytest.mark.parametrize("page", sorted({block.page for block in _BLOCKS if _is_python(block)}))
def test_python_runs_and_prints_the_text_below_it(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocks = [block for block in _BLOCKS if block.page == page and _is_python(block)]
    _lay_out(blocks[0], tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page}
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, block.id, "exec"), namespace)  # noqa: S102 - our own pages
        shown = _text_below(block)
        assert shown is None or printed.getvalue() == shown, block.id


@pytest.mark.parametrize("block", blocks_in("console"))
def test_a_command_prints_the_lines_below_it(
    block: Block, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each command in this process, because the program takes a second to start."""
    # A session that tests on Spark left active would take every load to it.
    monkeypatch.setattr("omnigraph.pipeline.spark.session.find_active_session", lambda: None)
    monkeypatch.chdir(tmp_path)
    environment = _clean_environment() | {"HOME": str(tmp_path)}

    def run(words: list[str]) -> tuple[int, str]:
        printed = io.BytesIO()
        stream = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            code = main(words, environment)
        return code, printed.getvalue().decode()

    _require_output(block, tmp_path, run)


@pytest.mark.extended
@pytest.mark.parametrize("block", _programs())
def test_the_program_prints_the_lines_below_a_command(block: Block, tmp_path: Path) -> None:
    def run(words: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            [OMNIGRAPH, *words],
            cwd=tmp_path,
            env=_clean_environment() | {"HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=50,
        )
        return done.returncode, done.stdout

    _require_output(block, tmp_path, run)


@pytest.mark.parametrize("block", blocks_in("json"))
def test_json_parses_and_is_what_the_query_above_gives(block: Block) -> None:
    shown = json.loads(block.text)
    if block.options:
        compiled = _last_query(block)
        found = {
            "descriptor": compiled.operation.to_dict,
            "stored": compiled.stored().to_dict,
            "plan": compiled.ir.to_dict,
        }[next(iter(block.options))]()
        assert shown == found


@pytest.mark.parametrize("block", blocks_in("ndjson"))
def test_every_line_parses(block: Block) -> None:
    assert [json.loads(line) for line in block.text.splitlines()]


@pytest.mark.parametrize("block", _yaml(is_pipeline=False))
def test_a_policy_compiles_and_its_cases_hold(block: Block, tmp_path: Path) -> None:
    bundle = block
    if "cases" in block.options:
        bundle = [other for other in _before(block) if {"bundle", "file"} <= set(other.options)][-1]
    (tmp_path / "policy.yaml").write_text(bundle.text, encoding="utf-8")
    policy = load_policy(tmp_path / "policy.yaml")
    if "cases" in block.options:
        (tmp_path / "cases.yaml").write_text(block.text, encoding="utf-8")
        cases = read_cases(tmp_path / "cases.yaml")
        assert cases
        assert list(find_mismatches(policy, cases)) == []


@pytest.mark.parametrize("block", _yaml(is_pipeline=True))
def test_a_pipeline_is_one_that_a_run_takes(block: Block) -> None:
    text = block.text
    if not text.startswith("version:"):
        text = f"version: 1\nname: example\nmode: merge\n{text}"
    if "sources:" not in text:
        named = dict.fromkeys(re.findall(r"\bfrom: (\w+)", text))
        listed = "".join(f"  {name}: {{format: csv, path: {name}.csv}}\n" for name in named)
        text += f"sources:\n{listed}"
    if "nodes:" not in text:
        named = dict.fromkeys(re.findall(r"^  (\w+):", text, re.MULTILINE))
        listed = "".join(
            f"  - {{type: Row, from: {name}, columns: {{name: name}}}}\n" for name in named
        )
        text += f"nodes:\n{listed}"
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "jdbc:derby:db")
    assert parse_pipeline(text, variables).nodes


@pytest.mark.parametrize("block", blocks_in("bash"))
def test_a_shell_block_names_what_exists(block: Block) -> None:
    targets = set(_MAKE_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "make":
            assert set(words[1:2]) <= targets, line
        for word in words[:2]:
            if "/" in word and not word.startswith("-"):
                assert (ROOT / word).exists(), line


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")}


def _listed(block: Block, option: str) -> list[str]:
    return sorted(filter(None, block.options.get(option, "").split(",")))


def _schema_codes(source: str) -> list[str]:
    try:
        compile_schema(source)
    except SchemaInvalid as error:
        found = error.details["diagnostics"]
        assert isinstance(found, list)
        return sorted({str(item["code"]) for item in found})
    return []


def _before(block: Block) -> list[Block]:
    return [other for other in read_page(block.page).blocks if other.line < block.line]


def _catalog_of(block: Block) -> Catalog:
    if "schema" in block.options:
        source = _SCHEMAS[block.options["schema"]].read_text(encoding="utf-8")
        return compile_schema(source)
    schemas = [
        other for other in _before(block) if other.language == "pg" and "error" not in other.options
    ]
    assert schemas, "no schema stands above the query; add one, or name one with `schema=`"
    return compile_schema(schemas[-1].text)


def _query_text(block: Block) -> str:
    if "clause" in block.options:
        return f"query q() {{ match {{ {block.text} }} return {{ 1 }} }}"
    return block.text


def _last_query(block: Block) -> CompiledQuery:
    query = [other for other in _before(block) if other.language == "gq"][-1]
    return compile_query(_catalog_of(query), _query_text(query))


def _text_below(block: Block) -> str | None:
    blocks = read_page(block.page).blocks
    below = next((other for other in blocks if other.line > block.line), None)
    if below is None or below.language != "text" or not below.follows_at_once:
        return None
    return below.text


def _lay_out(block: Block, folder: Path) -> None:
    """The sample and the files of the page, where its examples expect them."""
    (folder / "examples").symlink_to(ROOT / "examples")
    for other in read_page(block.page).blocks:
        if "file" in other.options:
            (folder / other.options["file"]).write_text(other.text, encoding="utf-8")


def _require_output(
    block: Block, folder: Path, run: Callable[[list[str]], tuple[int, str]]
) -> None:
    """Every command ends and prints as shown; `run` gives its exit code and all that it printed."""
    _lay_out(block, folder)
    for command, shown in _commands(block):
        words = shlex.split(command)
        assert words[0] == "omnigraph", f"only omnigraph is run, not {command!r}"
        code, printed = run(words[1:])
        if shown:
            assert printed == shown, command
        else:
            assert code in (0, 1), f"{command}: {printed}"
