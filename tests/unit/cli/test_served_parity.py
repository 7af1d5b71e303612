"""Every command on a graph gives the same JSON from storage and through a server.

Reads are compared byte for byte on one graph. Writes go to two copies of it; what no two runs share
(ids, times, durations, addresses) is masked.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.serving import LiveServer, serving

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet
    from tests.unit.cli.conftest import Result

SCHEMA = """
node Person { name: String @key  age: I64?  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
LINES = b"""{"type":"Person","data":{"name":"Ada","age":36,"photo":"base64:AAECAw=="}}
{"type":"Person","data":{"name":"Bob","age":9007199254740993}}
{"edge":"Knows","from":"Ada","to":"Bob","data":{"since":1833}}
"""
ALL = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
NEWER = (
    "query newer($a: I64) { match { $p: Person  $p.age >= $a } return { $p.name }"
    " order { $p.name } }"
)
ADD = 'query add() { insert Person { name: "Eve" } }'
MASKED = {
    *("created_at", "committed_at", "seconds", "graph_commit_id", "operation_id", "uri", "etag"),
    *("parent_commit_id", "merged_parent_commit_id", "dataset_path", "native_dataset_branch"),
    *("next_cursor", "stages", "reverted"),
}

READS: Sequence[Sequence[str]] = (
    ("query", "-e", ALL),
    ("commit", "list"),
    ("snapshot", "--branch", "side"),
    ("query", "-e", ALL, "--format", "csv"),
    ("query", "-e", ALL, "--format", "jsonl"),
    ("query", "-e", ALL, "--format", "table"),
    ("query", "-e", NEWER, "--params", '{"a": "9007199254740993"}'),
    ("query", "-e", ALL, "--snapshot", "0"),
    ("query", "-e", ALL, "--branch", "side"),
    ("explain", "-e", ALL),
    ("snapshot",),
    ("snapshot", "--at", "0"),
    ("schema", "show"),
    ("branch", "list"),
    ("commit", "list", "--limit", "1"),
    ("commit", "list", "--filter", "kind=load"),
    ("commit", "show", "1"),
    ("commit", "changes", "1"),
    ("commit", "changes", "1", "--limit", "1", "--type", "Person"),
    ("changes", "poll", "--start", "beginning"),
    ("changes", "poll"),
    ("blob", "stat", "node", "Person", "Ada", "photo"),
    ("export", "--type", "Person"),
    ("schema", "show", "--at", "0"),
    ("tag", "list"),
    ("diff", "main", "side"),
    ("diff", "0", "side", "--type", "Person", "--limit", "1"),
    ("branch", "merge", "side", "--dry-run"),
)
FAILURES: Sequence[Sequence[str]] = (
    ("query", "-e", "query q() { match"),
    ("query", "-e", NEWER),
    ("query", "-e", NEWER, "--params", '{"a": "x"}'),
    ("query", "-e", ADD),
    ("query", "-e", ALL, "--branch", "nowhere"),
    ("query", "-e", ALL, "--snapshot", "nothing"),
    ("query", "other", "-e", ALL),
    ("mutate", "-e", ALL),
    ("mutate", "-e", 'query m() { insert Knows { from: "Ada", to: "nobody" } }'),
    ("mutate", "-e", ADD, "--if-commit", "01K00000000000000000000000"),
    ("snapshot", "--branch", "nowhere"),
    ("commit", "show", "nothing"),
    ("branch", "create", "side"),
    ("branch", "create", "a b"),
    ("branch", "create", "new", "--from", "nowhere"),
    ("branch", "delete", "nowhere", "--yes"),
    ("branch", "delete", "main", "--yes"),
    ("branch", "merge", "nowhere"),
    ("branch", "merge", "main"),
    ("commit", "changes", "0"),
    ("changes", "poll", "--cursor", "x"),
    ("changes", "poll", "--start", "soon"),
    ("blob", "stat", "node", "Person", "Bob", "photo"),
    ("blob", "stat", "node", "Person", "Ada", "age"),
    ("blob", "stat", "node", "Nothing", "Ada", "photo"),
    ("export", "--type", "Nothing"),
    ("tag", "create", "side"),
    ("tag", "delete", "nothing"),
    ("diff", "main", "nothing"),
    ("commit", "revert", "0"),
    ("commit", "revert", "nothing"),
)
WRITES: Sequence[Sequence[str]] = (
    ("mutate", "-e", ADD),
    ("mutate", "-e", 'query m() { delete Person where name = "nobody" }'),
    ("load", "--data", "DATA", "--mode", "merge"),
    ("load", "--data", "DATA", "--mode", "append", "--branch", "new", "--from", "main"),
    ("ingest", "--data", "DATA"),
    ("ingest", "--data", "DATA", "--branch", "other", "--mode", "append"),
    ("branch", "create", "other", "--from", "main"),
    ("branch", "merge", "side"),
    ("branch", "delete", "side", "--yes"),
    ("tag", "create", "v1", "--at", "1"),
    ("commit", "revert", "1"),
    ("schema", "plan", "--schema", "SCHEMA"),
    ("schema", "apply", "--schema", "SCHEMA"),
)


def quick_first(commands: Sequence[Sequence[str]], quick: int = 3) -> list[ParameterSet]:
    """The first ones for the default suite, the others for the extended one."""
    return [
        pytest.param(words, id=" ".join(words), marks=[pytest.mark.extended] * (at >= quick))
        for at, words in enumerate(commands)
    ]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parity") / "people.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(LINES, mode="append")
        graph.branches.create("side")
        graph.mutate('query m() { insert Person { name: "Zoe" } }', branch="side")
    return path


@pytest.fixture(scope="module")
def served(base: Path) -> Iterator[LiveServer]:
    with serving({"people": base}) as live:
        yield live


def place(live: LiveServer) -> tuple[str, ...]:
    return ("--server", live.url, "--graph", "people")


@pytest.mark.parametrize("words", quick_first(READS))
def test_a_read_gives_the_same_bytes(
    call: Callable[..., Result], base: Path, served: LiveServer, words: Sequence[str]
) -> None:
    as_json = () if "--format" in words else ("--json",)
    ours = call(*words, *as_json, *place(served))
    theirs = call(*words, *as_json, "--store", base)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stdout


@pytest.mark.parametrize("words", quick_first(FAILURES))
def test_a_refusal_is_the_same_envelope_and_exit_code(
    call: Callable[..., Result], base: Path, served: LiveServer, words: Sequence[str]
) -> None:
    for as_json in (("--json",), ()):
        ours = call(*words, *as_json, "--quiet", *place(served))
        theirs = call(*words, *as_json, "--quiet", "--store", base)
        assert ours.returncode == theirs.returncode != 0
        assert ours.stdout == theirs.stdout == ""
        assert masked(ours.stderr) == masked(theirs.stderr)


@pytest.mark.parametrize("words", quick_first(WRITES, 1))
def test_a_write_gives_the_same_receipt(
    call: Callable[..., Result], base: Path, tmp_path: Path, words: Sequence[str]
) -> None:
    (tmp_path / "data.ndjson").write_bytes(LINES.replace(b"Ada", b"Ann").replace(b"Bob", b"Ben"))
    (tmp_path / "new.pg").write_text(SCHEMA.replace("age: I64?", "age: I64?  nick: String?"))
    files = {"DATA": str(tmp_path / "data.ndjson"), "SCHEMA": str(tmp_path / "new.pg")}
    words = [files.get(word, word) for word in words]
    ours, theirs = (shutil.copytree(base, tmp_path / name) for name in ("ours", "theirs"))
    if words[0] == "schema":
        for copy in (ours, theirs):
            assert call("branch", "delete", "side", "--store", copy, "--yes").returncode == 0
    with serving({"people": ours}) as live:
        served = call(*words, "--json", *place(live), "--yes")
    direct = call(*words, "--json", "--store", theirs, "--yes")
    assert served.returncode == direct.returncode == 0, served.stderr
    assert masked(json.loads(served.stdout)) == masked(json.loads(direct.stdout))


REFUSED = {
    "bad rows": (("load", "--data", "BAD", "--mode", "merge"), 6),
    "rows that are there": (("load", "--data", "KNOWN", "--mode", "append"), 1),
    "no branch": (("load", "--data", "KNOWN", "--mode", "merge", "--branch", "nowhere"), 1),
    "ingested bad rows": (("ingest", "--data", "BAD"), 6),
    "no schema": (("schema", "apply", "--schema", "NONE"), 1),
    "lost values": (("schema", "apply", "--schema", "LESS"), 1),
    "another branch": (("schema", "apply", "--schema", "MORE"), 1),
    "no plan": (("schema", "plan", "--schema", "NONE"), 1),
}


@pytest.mark.extended
@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_file_is_the_same_envelope_and_exit_code(
    call: Callable[..., Result], base: Path, served: LiveServer, tmp_path: Path, case: str
) -> None:
    files = {
        "BAD": b'{"type":"Person","data":{"name":"Ann","age":"old"}}\n{"type":"Nobody"}\n',
        "KNOWN": LINES,
        "NONE": b"node Person {",
        "LESS": SCHEMA.replace("age: I64?", "").encode(),
        "MORE": SCHEMA.replace("age: I64?", "age: I64?  nick: String?").encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    given, code = REFUSED[case]
    words = [str(tmp_path / word) if word in files else word for word in given]
    for as_json in (("--json",), ()):
        ours = call(*words, *as_json, "--quiet", *place(served))
        theirs = call(*words, *as_json, "--quiet", "--store", base)
        assert ours.returncode == theirs.returncode == code
        assert masked(ours.stderr) == masked(theirs.stderr)
        assert masked(ours.stdout) == masked(theirs.stdout)


@pytest.mark.extended
@pytest.mark.parametrize(
    "part", [(), ("--offset", "1"), ("--length", "2"), ("--offset", "1", "--length", "9")]
)
def test_the_bytes_of_a_blob_are_the_same(
    call: Callable[..., Result],
    base: Path,
    served: LiveServer,
    tmp_path: Path,
    part: tuple[str, ...],
) -> None:
    cell = ("blob", "get", "node", "Person", "Ada", "photo")
    written = []
    for name, there in (("ours", place(served)), ("theirs", ("--store", base))):
        result = call(*cell, *part, "--out", tmp_path / name, *there)
        assert result.returncode == 0, result.stderr
        written.append((tmp_path / name).read_bytes())
        refused = call(*cell[:4], "Bob", "photo", "--out", tmp_path / "none", "--quiet", *there)
        assert (refused.returncode, (tmp_path / "none").exists()) == (1, False)
        written.append(refused.stderr.encode())
    assert written[:2] == written[2:]


@pytest.mark.extended
def test_a_baseline_is_the_same_file_and_the_same_receipt(
    call: Callable[..., Result], base: Path, served: LiveServer, tmp_path: Path
) -> None:
    told = []
    for name, there in (("ours", place(served)), ("theirs", ("--store", base))):
        words = ("changes", "baseline", "--branch", "side", "--type", "Person")
        result = call(*words, "--out", tmp_path / name, "--json", *there)
        assert result.returncode == 0, result.stderr
        told.append((result.stdout.replace(name, "-"), (tmp_path / name).read_bytes()))
    assert told[0] == told[1]


@pytest.mark.extended
def test_a_plan_is_measured_alike(
    call: Callable[..., Result], base: Path, served: LiveServer
) -> None:
    told = []
    for there in (place(served), ("--store", base)):
        result = call("explain", "-e", ALL, "--analyze", "--json", *there)
        assert result.returncode == 0, result.stderr
        told.append(shape(json.loads(result.stdout)))
    assert told[0] == told[1]


def shape(value: object) -> object:
    """A measured plan without what no two runs share: numbers, and what a process has in memory."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items() if key != "hot_columns"}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "-" if isinstance(value, int | float) and not isinstance(value, bool) else value


def masked(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: "-" if key in MASKED and each is not None else masked(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [masked(each) for each in value]
    return re.sub(r"[0-9A-Z]{26}", "ID", value) if isinstance(value, str) else value
