"""`omnigraph embed` on files, in this process, and what it refuses; on Spark elsewhere."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.unit.embedding.provider_server import (  # noqa: E402 - needs the path above
    Answer,
    ProviderServer,
    Seen,
    good_body,
)

Door = Callable[..., CompletedProcess[str]]

MOCK = {"OMNIGRAPH_EMBED_PROVIDER": "mock"}
SPEC = {"dimension": 3, "types": {"Doc": {"target": "vec", "fields": ["title"]}}}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def doc(title: str, **data: object) -> dict[str, Any]:
    return {"type": "Doc", "data": {"title": title, **data}}


EDGE = {"edge": "Cites", "from": "a", "to": "b"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    source = write(tmp_path / "in.jsonl", doc("a"), EDGE, doc("b", vec=[0, 1, 0]), doc("a"))
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SPEC), encoding="utf-8")
    output = tmp_path / "out.jsonl"
    return ["--input", str(source), "--output", str(output), "--spec", str(spec)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with ProviderServer() as running:
        yield running


def asking(server: ProviderServer, **more: str) -> dict[str, str]:
    return {
        "OMNIGRAPH_EMBED_PROVIDER": "openai",
        "OMNIGRAPH_EMBED_BASE_URL": server.url,
        "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "1",
        "OMNIGRAPH_EMBED_BATCH_TEXTS": "1",
        "OPENAI_API_KEY": "key-of-a-provider",
    } | more


def test_missing_vectors_are_filled_and_the_summary_says_how_many(
    call: Door, files: list[str], tmp_path: Path
) -> None:
    result = call("embed", *files, "--json", environ=MOCK)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "input": files[1],
        "output": files[3],
        "records": 4,
        "selected_records": 3,
        "embedded_records": 2,
        "cleaned_records": 0,
        "mode": "fill_missing",
        "dimension": 3,
        "model": "mock",
    }
    first, edge, kept, again = read(tmp_path / "out.jsonl")
    assert len(first["data"]["vec"]) == 3
    assert first == again
    assert (edge, kept) == (EDGE, doc("b", vec=[0, 1, 0]))
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "in.jsonl",
        "out.jsonl",
        "spec.json",
    ]
    assert "engine local: a file of at most" in result.stderr


def test_people_get_the_same_as_lines(call: Door, files: list[str]) -> None:
    result = call("embed", *files, environ=MOCK)
    assert "embedded_records  2\n" in result.stdout
    assert "model             mock\n" in result.stdout


def test_everything_is_embedded_anew_on_request(
    call: Door, files: list[str], tmp_path: Path
) -> None:
    result = call("embed", *files, "--reembed-all", "--json", environ=MOCK)
    assert json.loads(result.stdout)["mode"] == "reembed_all"
    assert read(tmp_path / "out.jsonl")[2] != doc("b", vec=[0, 1, 0])


def test_selectors_embed_only_what_they_match(call: Door, files: list[str], tmp_path: Path) -> None:
    result = call("embed", *files, "--select", "Doc:title=b", "--json", environ=MOCK)
    body = json.loads(result.stdout)
    assert (body["mode"], body["selected_records"], body["embedded_records"]) == (
        "reembed_selected",
        1,
        1,
    )
    assert "vec" not in read(tmp_path / "out.jsonl")[0]["data"]


def test_cleaning_needs_no_embedder(call: Door, files: list[str], tmp_path: Path) -> None:
    result = call("embed", *files, "--clean", "--json")
    body = json.loads(result.stdout)
    assert (body["mode"], body["cleaned_records"], body["model"]) == ("clean", 1, "")
    assert read(tmp_path / "out.jsonl") == [doc("a"), EDGE, doc("b"), doc("a")]


def test_a_manifest_names_input_output_and_spec(
    call: Door, files: list[str], tmp_path: Path
) -> None:
    assert files
    manifest = tmp_path / "seed.yaml"
    manifest.write_text(
        json.dumps(
            {
                "sources": {"raw_seed": "in.jsonl"},
                "artifacts": {"embedded_seed": "build/out.jsonl"},
                "embeddings": SPEC,
            }
        ),
        encoding="utf-8",
    )
    assert call("embed", "--seed", manifest, "--quiet", environ=MOCK).returncode == 0
    assert len(read(tmp_path / "build" / "out.jsonl")) == 4
    other = tmp_path / "other.jsonl"
    assert call("embed", "--seed", manifest, "--output", other, environ=MOCK).returncode == 0
    assert other.read_bytes() == (tmp_path / "build" / "out.jsonl").read_bytes()


def test_the_output_may_take_the_place_of_the_input(
    call: Door, files: list[str], tmp_path: Path
) -> None:
    files[3] = files[1]
    assert call("embed", *files, environ=MOCK).returncode == 0
    assert len(read(tmp_path / "in.jsonl")[0]["data"]["vec"]) == 3


def test_a_run_after_one_that_was_cut_off_pays_only_for_the_rest(
    call: Door, server: ProviderServer, files: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "in.jsonl", *(doc(title) for title in "abcabc"))
    server.script = [Answer(), Answer(status=400)]
    failed = call("embed", *files, environ=asking(server))
    assert failed.returncode == 1
    assert "HTTP 400" in failed.stderr
    assert not (tmp_path / "out.jsonl").exists()
    assert len(server.seen) == 2
    assert call("embed", *files, environ=asking(server)).returncode == 0
    asked = [text for seen in server.seen for text in seen.texts]
    assert asked == [f"type: Doc\ntitle: {title}" for title in "abbc"]
    assert not list(tmp_path.glob(".*"))


def test_a_second_run_to_the_same_output_is_refused_and_harms_nothing(
    call: Door, server: ProviderServer, files: list[str], tmp_path: Path
) -> None:
    others: list[CompletedProcess[str]] = []

    def meanwhile(seen: Seen) -> bytes:
        others.append(call("embed", *files, environ=MOCK))
        others.append(call("embed", *files, "--clean"))
        return good_body(seen)

    write(tmp_path / "in.jsonl", *(doc(title) for title in "abc"))
    server.script = [Answer(), Answer(body=meanwhile)]
    result = call("embed", *files, environ=asking(server))
    assert result.returncode == 0, result.stderr
    assert [each.returncode for each in others] == [1, 1]
    assert all("another run writes" in each.stderr for each in others)
    assert all(len(each["data"]["vec"]) == 3 for each in read(tmp_path / "out.jsonl"))
    assert len(server.seen) == 3
    assert not list(tmp_path.glob(".*"))


def test_a_run_keeps_what_one_of_other_texts_paid_for(
    call: Door, server: ProviderServer, files: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "in.jsonl", *(doc(title) for title in "abc"))
    server.script = [Answer(), Answer(), Answer(status=400)]
    assert call("embed", *files, environ=asking(server)).returncode == 1
    assert call("embed", *files, "--clean").returncode == 0
    one = call("embed", *files, "--select", "title=a", environ=asking(server))
    assert one.returncode == 0, one.stderr
    server.seen.clear()
    assert call("embed", *files, environ=asking(server)).returncode == 0
    asked = [text for seen in server.seen for text in seen.texts]
    assert sorted(asked) == ["type: Doc\ntitle: a", "type: Doc\ntitle: c"]
    assert not list(tmp_path.glob(".*"))


def test_a_failure_before_the_first_answer_leaves_nothing(
    call: Door, files: list[str], tmp_path: Path
) -> None:
    result = call("embed", *files)
    assert result.returncode == 1
    assert "OPENROUTER_API_KEY" in result.stderr
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("line", "told"),
    [(b"{\n", "in.jsonl, line 3: "), (b'{"type":"Doc"}\n', "has no object `data`")],
)
def test_a_bad_line_is_named(
    call: Door, files: list[str], tmp_path: Path, line: bytes, told: str
) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"edge":"x"}\n\n' + line)
    result = call("embed", *files, environ=MOCK)
    assert (result.returncode, result.stdout) == (1, "")
    assert told in result.stderr


def test_an_empty_file_gives_an_empty_file(call: Door, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b"")
    result = call("embed", *files, "--json", environ=MOCK)
    assert json.loads(result.stdout)["records"] == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_a_model_that_the_spec_names_must_be_the_embedder_s(
    call: Door, server: ProviderServer, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC | {"model": "m1"}), encoding="utf-8")
    result = call("embed", *files, environ=asking(server, OMNIGRAPH_EMBED_MODEL="m2"))
    assert result.returncode == 1
    assert "'m1'" in result.stderr
    assert not server.seen
    result = call("embed", *files, environ=asking(server, OMNIGRAPH_EMBED_MODEL="m1"))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBEDDINGS_MOCK"])
def test_the_mock_takes_a_spec_of_any_model_and_is_named_in_the_summary(
    call: Door, files: list[str], tmp_path: Path, name: str
) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC | {"model": "m1"}), encoding="utf-8")
    environ = {name: "1" if name.endswith("MOCK") else "mock"}
    result = call("embed", *files, "--json", environ=environ)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["model"] == "mock"
    assert len(read(tmp_path / "out.jsonl")[0]["data"]["vec"]) == 3


def test_a_large_file_is_not_for_this_process(call: Door, files: list[str]) -> None:
    small = MOCK | {"OMNIGRAPH_SPARK_MIN_INPUT_BYTES": "10"}
    result = call("embed", *files, "--engine", "local", environ=small)
    assert result.returncode == 1
    assert "needs Spark" in result.stderr
    assert call("embed", *files, "--clean", environ=small).returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "nothing to embed is named"),
        (("--input", "a"), "--output and --spec must be given too"),
        (("--seed", "a", "--input", "b"), "--seed names the input"),
        (("--seed", "a", "--branch", "b"), "--branch is for a graph"),
        (("--seed", "a", "--property", "b"), "--property is for a graph"),
        (("--seed", "a", "--dry-run"), "--dry-run is for a graph"),
        (("--seed", "a", "--clean", "--reembed-all"), "give one"),
        (("--store", "g"), "give one --type"),
        (("--store", "g", "--type", "A", "--type", "B"), "give one --type"),
        (("--store", "g", "--type", "A", "--clean"), "--clean is for files"),
        (("--store", "g", "--type", "A", "--select", "a=b"), "--select is for files"),
        (("--store", "g", "--type", "A", "--seed", "m"), "--seed is for files"),
        (("--store", "g", "--type", "A", "--engine", "local"), "embedded on Spark"),
        (("--store", "g", "--as", "me"), "operator.actor"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    call: Door, words: tuple[str, ...], told: str
) -> None:
    result = call("embed", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert told in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--type", "Dco"), "the spec has no type 'Dco'; it has Doc"),
        (("--select", "title"), "field=value"),
        (("--input", "nowhere.jsonl"), "there is no file nowhere.jsonl"),
        (("--output", "/proc/no/out.jsonl"), "cannot write"),
    ],
)
def test_values_that_mean_nothing_are_refused(
    call: Door, files: list[str], words: tuple[str, ...], told: str
) -> None:
    result = call("embed", *files, *words, environ=MOCK)
    assert (result.returncode, result.stdout) == (1, "")
    assert told in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--type", "Persn"), "did you mean Person?"),
        (("--type", "Person"), "node:Person has no `@embed` vector"),
        (("--type", "Person", "--branch", "nope"), "there is no branch 'nope'"),
    ],
)
def test_what_a_graph_does_not_have_is_told_before_spark_starts(
    call: Door, graph: Path, words: tuple[str, ...], told: str
) -> None:
    result = call("embed", "--store", graph, *words, "--quiet", environ=MOCK)
    assert (result.returncode, result.stdout) == (1, "")
    assert told in result.stderr
