"""What a user can do wrong: one line, no traceback, no change. Some of it as a real process."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import lance
import pytest
from tests.extended import thinned

Door = Callable[..., CompletedProcess[str]]

ALL = "query all() { match { $p: Person } return { $p.name } }"
READS = [
    ["snapshot", "people.omni"],
    ["branch", "list", "--uri", "people.omni"],
    ["commit", "list", "people.omni"],
    ["commit", "show", "01M7GQS3RYJP2WZXGVFWGAFWWR", "--uri", "people.omni"],
    ["recovery", "list", "people.omni"],
    ["schema", "show", "people.omni"],
    ["query", "--store", "people.omni", "-e", ALL],
    ["explain", "--store", "people.omni", "-e", ALL],
]
WRITES = [
    ["branch", "create", "draft", "--uri", "people.omni"],
    ["branch", "delete", "draft", "--uri", "people.omni"],
]


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every object of the graph but the leases, which each write leaves as its trace."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if "__leases" not in path.parts
    }


def masked(text: str) -> str:
    """Without the ids that differ from run to run."""
    return re.sub(r"[0-9A-Z]{26}", "ID", text)


class Refusal:
    """Runs a command that must fail, and makes sure that it changed nothing."""

    def __init__(self, call: Door, folder: Path) -> None:
        self._call = call
        self._folder = folder

    def __call__(self, *words: str, code: int = 1) -> tuple[str, str]:
        """The reason and the text of the refusal."""
        before = contents(self._folder)
        text = self._call(*words, "--quiet")
        envelope = self._call(*words, "--json")
        assert contents(self._folder) == before
        for result in (text, envelope):
            assert (result.returncode, result.stdout) == (code, "")
            assert result.stderr.count("\n") == 1
            assert "bug in omnigraph" not in result.stderr
        body = json.loads(envelope.stderr)
        assert masked(text.stderr) == masked(f"error: {body['error']}\n")
        return body["reason"], body["error"]


@pytest.fixture
def refuse(call: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    monkeypatch.chdir(tmp_path)
    return Refusal(call, tmp_path)


def cut_off(graph: Path) -> None:
    for version in (graph / "__manifest" / "_versions").glob("*.manifest"):
        os.truncate(version, 20)


def stamp_as_newer(graph: Path) -> None:
    manifest = lance.dataset(str(graph / "__manifest"))
    manifest.update_schema_metadata({"omnigraph:internal_schema_version": "99"})


def replace_by_a_photo(graph: Path) -> None:
    shutil.rmtree(graph)
    graph.mkdir()
    (graph / "photo.jpg").write_bytes(b"\xff\xd8")


@pytest.mark.parametrize(
    ("damage", "words", "reason"),
    thinned(
        [
            (cut_off, READS[0], "manifest_corrupt"),
            (Path.exists, [*READS[2], "--limit", "0"], "usage"),
            (shutil.rmtree, READS[0], "graph_not_found"),
            (replace_by_a_photo, READS[0], "graph_not_found"),
            (Path.exists, ["snapshot", "people.omni", "--branch", "mian"], "branch_not_found"),
            (
                Path.exists,
                ["branch", "create", "a b", "--uri", "people.omni"],
                "invalid_branch_name",
            ),
            (stamp_as_newer, WRITES[0], "storage_version_too_new"),
            (Path.exists, READS[3], "commit_not_found"),
        ],
        keep=2,
    ),
)
def test_as_a_real_process(
    start: Door, graph: Path, damage: Callable[[Path], None], words: list[str], reason: str
) -> None:
    damage(graph)
    before = contents(graph.parent)
    result = start(*words, "--json")
    assert contents(graph.parent) == before
    assert (result.returncode, result.stdout) == (2 if reason == "usage" else 1, "")
    assert result.stderr.count("\n") == 1
    assert json.loads(result.stderr)["reason"] == reason


@pytest.mark.parametrize("words", [*READS, *WRITES], ids=" ".join)
def test_a_path_that_is_not_there(refuse: Refusal, words: list[str]) -> None:
    reason, error = refuse(*words)
    assert reason == "graph_not_found"
    assert "people.omni" in error
    assert "omnigraph init" in error


@pytest.mark.parametrize("words", [READS[0], WRITES[0]], ids=" ".join)
def test_a_folder_of_something_else(refuse: Refusal, graph: Path, words: list[str]) -> None:
    replace_by_a_photo(graph)
    assert refuse(*words)[0] == "graph_not_found"


@pytest.mark.usefixtures("schema")
def test_init_in_a_folder_of_something_else(refuse: Refusal, graph: Path) -> None:
    replace_by_a_photo(graph)
    reason, error = refuse("init", "people.omni", "--schema", "schema.pg")
    assert reason == "root_not_empty"
    assert "photo.jpg" in error


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(
    "words",
    [
        ["snapshot", "people.omni", "--branch", "mian"],
        ["commit", "list", "people.omni", "--branch", "mian"],
        ["recovery", "list", "people.omni", "--branch", "mian"],
        ["branch", "create", "draft", "--from", "mian", "--uri", "people.omni"],
        ["branch", "delete", "mian", "--uri", "people.omni"],
        ["query", "--store", "people.omni", "-e", ALL, "--branch", "mian"],
        ["explain", "--store", "people.omni", "-e", ALL, "--branch", "mian"],
    ],
    ids=" ".join,
)
def test_a_branch_that_is_not_there(refuse: Refusal, words: list[str]) -> None:
    reason, error = refuse(*words)
    assert reason == "branch_not_found"
    assert "'mian'" in error
    assert "main" in error


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("name", ["", "a b", "a//b", "../x", "x.lock", "__x", "HEAD", "e\u0301"])
def test_a_name_that_no_branch_can_have(refuse: Refusal, name: str) -> None:
    reason, error = refuse("branch", "create", name, "--uri", "people.omni")
    assert reason == "invalid_branch_name"
    assert ": " in error


@pytest.mark.usefixtures("graph")
def test_main_is_not_deleted(refuse: Refusal) -> None:
    reason, _ = refuse("branch", "delete", "main", "--uri", "people.omni")
    assert reason == "invalid_branch_name"


@pytest.mark.parametrize("words", [*READS, *WRITES], ids=" ".join)
def test_a_manifest_that_is_cut_off(refuse: Refusal, graph: Path, words: list[str]) -> None:
    cut_off(graph)
    reason, error = refuse(*words)
    assert reason == "manifest_corrupt"
    assert "__manifest" in error


@pytest.mark.parametrize("words", [READS[0], WRITES[0]], ids=" ".join)
def test_a_format_of_a_later_release(refuse: Refusal, graph: Path, words: list[str]) -> None:
    stamp_as_newer(graph)
    reason, error = refuse(*words)
    assert reason == "storage_version_too_new"
    assert "99" in error
    assert "upgrade omnigraph" in error


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(
    "words",
    [
        ["commit", "show", "nope", "--uri", "people.omni"],
        ["schema", "show", "people.omni", "--at", "nope"],
        ["query", "--store", "people.omni", "-e", ALL, "--snapshot", "nope"],
    ],
    ids=" ".join,
)
def test_a_commit_that_is_not_there(refuse: Refusal, words: list[str]) -> None:
    reason, error = refuse(*words)
    assert reason == "commit_not_found"
    assert "'nope'" in error


def test_a_folder_that_may_only_be_read(call: Door, refuse: Refusal, graph: Path) -> None:
    folders = [graph, *(path for path in graph.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        if os.access(graph, os.W_OK):
            pytest.skip("this user may write anywhere")
        assert call(*READS[0]).returncode == 0
        assert refuse(*WRITES[0])[0] == "storage_denied"
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("limit", ["0", "-1", "many", "1.5", ""])
@pytest.mark.parametrize("words", [READS[2], READS[4]], ids=" ".join)
def test_a_limit_that_is_no_count(refuse: Refusal, words: list[str], limit: str) -> None:
    reason, error = refuse(*words, f"--limit={limit}", code=2)
    assert reason == "usage"
    assert "'--limit'" in error


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("token", ["", "x", "a.b", "\u00e9" * 5_000])
def test_a_page_token_that_nobody_gave(refuse: Refusal, token: str) -> None:
    reason, error = refuse("commit", "list", "people.omni", "--page-token", token)
    assert reason == "invalid_argument"
    assert "start again" in error


@pytest.mark.parametrize("uri", ["", "gs://bucket/g", "s3://bucket", "file://host/g"])
def test_an_address_that_names_no_storage(refuse: Refusal, uri: str) -> None:
    assert refuse("snapshot", uri)[0] == "invalid_argument"


def test_a_limit_beyond_every_history_is_all_of_it(call: Door, graph: Path) -> None:
    result = call("commit", "list", graph, "--limit", "9" * 30)
    assert (result.returncode, result.stdout.count("\n")) == (0, 1)
