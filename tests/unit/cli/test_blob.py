"""`omnigraph blob`: bytes of one value to standard output or a file, and what is known of it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.cli.main import main

Door = Callable[..., CompletedProcess[str]]
Fetch = Callable[..., "CompletedProcess[bytes]"]
PROGRAM = Path(sys.executable).with_name("omnigraph")
SCHEMA = """
node File { name: String @key  rank: I32?  content: Blob? }
edge Copies: File -> File { proof: Blob? }
"""
LARGE = bytes(range(256)) * 20_000
DIGITS = b"0123456789"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    outside = folder / "outside.bin"
    outside.write_bytes(b"outside")
    path = folder / "files.omni"
    with Graph.init(path, schema=SCHEMA, external_blobs=[folder.as_uri()]) as graph:
        with graph.write() as writer:
            content = pa.array([LARGE, DIGITS, b"", None], pa.large_binary())
            names = ["large", "digits", "empty", "null"]
            writer.append("File", pa.table({"name": names, "content": content}))
            edge = {"id": ["e"], "src": ["large"], "dst": ["empty"], "proof": [b"proof"]}
            writer.append("Copies", pa.table(edge))
            writer.commit()
        insert = 'query m($c: Blob) { insert File { name: "out", content: $c } }'
        graph.mutate(insert, params={"c": outside.as_uri()})
        graph.branches.create("draft")
        update = (
            'query m() { update File set { content: "base64:ZHJhZnQ=" } where name = "digits" }'
        )
        graph.mutate(update, branch="draft")
    return path


@pytest.fixture
def fetch(capsysbinary: pytest.CaptureFixture[bytes], files: Path, tmp_path: Path) -> Fetch:
    """`omnigraph blob get` in this process, with the bytes that it writes."""

    def run(*words: str) -> "CompletedProcess[bytes]":
        arguments = ["--store", str(files), "blob", "get", *words]
        code = main(arguments, {"HOME": str(tmp_path)})
        captured = capsysbinary.readouterr()
        return CompletedProcess(arguments, code, captured.out, captured.err)

    return run


# --- get --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "data"), [("large", LARGE), ("digits", DIGITS), ("empty", b"")])
def test_the_bytes_go_to_standard_output_as_they_are(fetch: Fetch, name: str, data: bytes) -> None:
    result = fetch("node", "File", name, "content")
    assert (result.returncode, result.stdout, result.stderr) == (0, data, b"")


@pytest.mark.extended
def test_the_program_writes_the_bytes_to_a_pipe_as_they_are(files: Path) -> None:
    words = ("--store", files, "blob", "get", "node", "File", "large", "content")
    result = subprocess.run([PROGRAM, *words], capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, LARGE, b"")


def test_an_edge_has_blobs_too(fetch: Fetch) -> None:
    assert fetch("edge", "Copies", "e", "proof").stdout == b"proof"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--offset", "3"], b"3456789"),
        (["--length", "3"], b"012"),
        (["--offset", "3", "--length", "4"], b"3456"),
        (["--offset", "8", "--length", "9223372036854775799"], b"89"),
        (["--offset", "0"], DIGITS),
        (["--branch", "draft"], b"draft"),
        (["--branch", "draft", "--offset", "4"], b"t"),
    ],
)
def test_a_part_of_it_is_chosen_and_ends_with_the_value(
    fetch: Fetch, words: list[str], expected: bytes
) -> None:
    result = fetch("node", "File", "digits", "content", *words)
    assert (result.returncode, result.stdout) == (0, expected)


def test_a_part_longer_than_one_read_is_whole(fetch: Fetch) -> None:
    words = ["--offset", "7", "--length", "5000000"]
    assert fetch("node", "File", "large", "content", *words).stdout == LARGE[7:5_000_007]


def test_an_older_commit_is_read_by_its_id(call: Door, files: Path) -> None:
    with Graph.open(files, mode="read_only") as graph:
        draft = graph.snapshot(branch="draft").graph_commit_id
    words = ("node", "File", "digits", "content", "--snapshot", draft, "--store", files)
    assert call("blob", "get", *words).stdout == "draft"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["digits", "content", "--offset", "10"], 1, "none from 10 on"),
        (["empty", "content", "--offset", "0"], 1, "none from 0 on"),
        (["empty", "content", "--length", "1"], 1, "none from 0 on"),
        (["null", "content"], 1, "it is null"),
        (["nobody", "content"], 1, "no such entity"),
        (["digits", "rank"], 1, "no Blob property"),
        (["out", "content"], 1, "outside.bin"),
        (["out", "content", "--offset", "1"], 1, "outside.bin"),
        (["digits", "content", "--length", "0"], 2, "--length"),
        (["digits", "content", "--offset", "-1"], 2, "--offset"),
        (["digits", "content", "--offset", "9223372036854775808"], 2, "--offset"),
        (["digits", "content", "--offset", "9223372036854775807", "--length", "1"], 2, "together"),
        (["digits", "content", "--branch", "main", "--snapshot", "x"], 2, "both --branch"),
        (["digits", "content", "--json"], 2, "--json"),
        (["digits", "content", "--branch", "nope"], 1, "nope"),
    ],
)
def test_what_is_no_part_of_a_blob_is_refused(
    call: Door, files: Path, words: list[str], code: int, text: str
) -> None:
    result = call("blob", "get", "node", "File", *words, "--store", files)
    assert (result.returncode, result.stdout) == (code, "")
    assert text in result.stderr


def test_a_bad_range_is_refused_before_the_graph_is_looked_for(call: Door) -> None:
    words = ("blob", "get", "node", "File", "x", "content", "--store", "/no/such/graph")
    for extra in (["--length", "0"], ["--offset", str(2**63 - 1), "--length", "1"]):
        assert call(*words, *extra).returncode == 2
    assert call(*words).returncode == 1


# --- get --out --------------------------------------------------------------------------------


def test_a_file_takes_the_place_of_another_when_all_bytes_are_there(
    call: Door, files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    out.write_bytes(b"old")
    words = ("node", "File", "large", "content", "--store", files, "--out", out)
    result = call("blob", "get", *words)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert out.read_bytes() == LARGE
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]


@pytest.mark.parametrize(
    "words",
    [
        ["null", "content"],
        ["out", "content"],
        ["digits", "content", "--offset", "10"],
        ["digits", "content", "--branch", "nope"],
    ],
)
def test_a_file_is_untouched_when_no_byte_arrives(
    call: Door, files: Path, tmp_path: Path, words: list[str]
) -> None:
    out = tmp_path / "out.bin"
    out.write_bytes(b"old")
    result = call("blob", "get", "node", "File", *words, "--store", files, "--out", out)
    assert result.returncode == 1
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]


def test_a_failure_on_the_way_leaves_no_half_file(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.bin"
    out.write_bytes(b"old")
    words = ["blob", "get", "node", "File", "large", "content"]
    # No file of the process may pass 4,500 KiB: the first piece fits, the second does not.
    limited: list[str | Path] = ["bash", "-c", 'ulimit -f 4500; exec "$@"', "bash", PROGRAM, *words]
    limited += ["--store", files, "--out", out]
    result = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "cannot be written (File too large)" in result.stderr
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]


@pytest.mark.parametrize("name", ["folder", "missing/x.bin"])
def test_a_place_that_cannot_be_written_is_told(
    call: Door, files: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    words = ("node", "File", "digits", "content", "--store", files, "--out", tmp_path / name)
    result = call("blob", "get", *words)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: --out '{tmp_path / name}'")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_device_is_never_replaced(call: Door, files: Path) -> None:
    words = ("node", "File", "digits", "content", "--store", files, "--out", "/dev/null")
    assert call("blob", "get", *words).returncode == 1
    assert Path("/dev/null").is_char_device()


# --- stat -------------------------------------------------------------------------------------


def test_what_is_known_of_a_blob_is_shown(call: Door, files: Path) -> None:
    with Graph.open(files, mode="read_only") as graph:
        reader = graph.blob("node", "File", "digits", "content")
    text = call("blob", "stat", "node", "File", "digits", "content", "--store", files).stdout
    assert text.splitlines() == [
        "entity           node",
        "type             File",
        "id               digits",
        "property         content",
        "length           10",
        f"etag             {reader.etag}",
        f"graph_commit_id  {reader.graph_commit_id}",
    ]


@pytest.mark.parametrize("state", ["nothing", "branch", "snapshot"])
def test_json_tells_which_blob_it_is_and_which_state_was_asked_for(
    call: Door, files: Path, state: str
) -> None:
    branch = "main" if state == "nothing" else "draft"
    with Graph.open(files, mode="read_only") as graph:
        reader = graph.blob("node", "File", "digits", "content", branch=branch)
    given = {"branch": branch, "snapshot": reader.graph_commit_id}
    words = [] if state == "nothing" else [f"--{state}", given[state]]
    result = call(
        "blob", "stat", "node", "File", "digits", "content", *words, "--store", files, "--json"
    )
    assert json.loads(result.stdout) == {
        "selector": {"entity": "node", "type": "File", "id": "digits", "property": "content"},
        "kind": "managed",
        "size": reader.length,
        "etag": reader.etag,
        "target": {"snapshot": given["snapshot"]} if state == "snapshot" else {"branch": branch},
    }


def test_the_size_of_an_empty_blob_is_not_left_out(call: Door, files: Path) -> None:
    result = call("blob", "stat", "node", "File", "empty", "content", "--store", files, "--json")
    assert json.loads(result.stdout)["size"] == 0


def test_a_blob_outside_is_known_by_its_address(call: Door, files: Path) -> None:
    words = ("blob", "stat", "node", "File", "out", "content", "--store", files)
    address = (files.parent / "outside.bin").as_uri()
    assert json.loads(call(*words, "--json").stdout) == {
        "selector": {"entity": "node", "type": "File", "id": "out", "property": "content"},
        "kind": "external",
        "target": {"branch": "main"},
        "uri": address,
    }
    text = call(*words).stdout
    assert f"uri              {address}\n" in text
    assert "length" not in text


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["node", "File", "null", "content"], 1, "blob_not_found"),
        (["edge", "File", "digits", "content"], 1, "invalid_argument"),
        (["thing", "File", "digits", "content"], 2, "usage"),
        (["node", "File", "digits"], 2, "usage"),
        (["node", "File", "digits", "content", "--as", "ann"], 2, "usage"),
    ],
)
def test_what_is_no_blob_is_refused(
    call: Door, files: Path, words: list[str], code: int, reason: str
) -> None:
    result = call("blob", "stat", *words, "--store", files, "--json")
    assert (result.returncode, result.stdout) == (code, "")
    assert json.loads(result.stderr)["reason"] == reason


def test_a_bad_range_has_its_detail_object(files: Path) -> None:
    from omnigraph.errors import BlobRangeError, ExternalBlobSource
    from omnigraph.graph.results.envelope import envelope_of

    error = BlobRangeError("why", start=10, end=12, length=10)
    assert envelope_of(error)["blob_range"] == {"start": 10, "end": 12, "length": 10}
    unseen = ExternalBlobSource("why", uri="s3://a/b", reason="gone")
    assert envelope_of(unseen) == {
        "error": "why",
        "reason": "external_blob_source",
        "external_blob_source": {"uri": "s3://a/b", "reason": "gone"},
    }
    assert files.is_dir()
