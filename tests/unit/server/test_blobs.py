"""Blobs over HTTP: ranges, conditions, values outside the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.serving import LiveServer, serving

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

B = "/graphs/default/blob"
CONTENT = bytes(range(256)) * 40
SCHEMA = "node File { name: String @key  content: Blob?  size: I64? }"


@pytest.fixture(scope="module")
def graph_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import base64

    root = tmp_path_factory.mktemp("served")
    outside = root / "outside"
    outside.mkdir()
    (outside / "a.bin").write_bytes(b"outside")
    values = {
        "inside": f'"base64:{base64.b64encode(CONTENT).decode()}"',
        "empty": '"base64:"',
        "outside": f'"{(outside / "a.bin").as_uri()}"',
        "null": "null",
        "": '"base64:AAEC"',
    }
    lines = "".join(
        f'{{"type":"File","data":{{"name":"{name}","content":{value}}}}}\n'
        for name, value in values.items()
    )
    path = root / "files.omni"
    with Graph.init(path, schema=SCHEMA, external_blobs=[outside.as_uri()]) as graph:
        graph.load(lines.encode(), mode="append")
    return path


@pytest.fixture(scope="module")
def server(graph_path: Path) -> Iterator[LiveServer]:
    with serving({"default": graph_path}) as live:
        yield live


def cell(name: str, **more: str) -> dict[str, str]:
    return {"entity": "node", "type": "File", "id": name, "property": "content", **more}


def test_a_value_comes_whole_with_its_tag(http: httpx.Client) -> None:
    answer = http.get(B, params=cell("inside"))
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["omnigraph-snapshot-id"]
    head = http.head(B, params=cell("inside"), headers={"Range": "bytes=0-1"})
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-length", "accept-ranges", "omnigraph-snapshot-id"):
        assert head.headers[name] == answer.headers[name]
    empty = http.get(B, params=cell("empty"))
    assert (empty.status_code, empty.headers["content-length"]) == (200, "0")


@pytest.mark.parametrize(
    ("asked", "status", "start", "end"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("bytes=10230-", 206, 10230, 10240),
        ("bytes=10230-99999", 206, 10230, 10240),
        ("bytes=-5", 206, 10235, 10240),
        ("bytes=-99999", 206, 0, 10240),
        ("BYTES=1-1", 206, 1, 2),
        ("bytes=10240-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=5-4", 200, 0, 10240),
        ("bytes=0-1,3-4", 200, 0, 10240),
        ("bytes=x", 200, 0, 10240),
        ("lines=0-1", 200, 0, 10240),
    ],
)
def test_ranges(http: httpx.Client, asked: str, status: int, start: int, end: int) -> None:
    answer = http.get(B, params=cell("inside"), headers={"Range": asked})
    assert answer.status_code == status, answer.text
    if status == 416:
        assert answer.headers["content-range"] == "bytes */10240"
        assert answer.json()["blob_range"]["length"] == 10240
        return
    assert answer.content == CONTENT[start:end]
    if status == 206:
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/10240"


def test_conditions_come_before_ranges(http: httpx.Client) -> None:
    params = cell("inside")
    etag = http.head(B, params=params).headers["etag"]

    def ask(**headers: str) -> httpx.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return http.get(B, params=params, headers={"Range": "bytes=0-0", **sent})

    assert ask(If_Match=etag).status_code == 206
    assert ask(If_Match="*").status_code == 206
    assert ask(If_Match=f'"other", {etag}').status_code == 206
    for refused in ('"other"', f"W/{etag}"):
        answer = ask(If_Match=refused)
        assert (answer.status_code, answer.headers["etag"]) == (412, etag)
        assert answer.json()["code"] == "conflict"
    for same in (etag, f"W/{etag}", "*", f'"other", {etag}'):
        answer = ask(If_None_Match=same)
        assert (answer.status_code, answer.headers["etag"], answer.content) == (304, etag, b"")
    assert ask(If_None_Match='"other"').status_code == 206
    assert ask(If_Range=etag).status_code == 206
    for other in ('"other"', f"W/{etag}", "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert ask(If_Range=other).status_code == 200
    empty = http.get(B, params=cell("empty"), headers={"Range": "bytes=0-0"})
    assert (empty.status_code, empty.headers["content-range"]) == (416, "bytes */0")


def test_a_value_of_an_entity_without_a_name_is_read_like_any_other(http: httpx.Client) -> None:
    assert http.get(B, params=cell("")).content == bytes(range(3))


def test_a_value_outside_is_told_by_its_address(http: httpx.Client) -> None:
    for ask in (http.get, http.head):
        answer = ask(B, params=cell("outside"), follow_redirects=False)
        assert answer.status_code == 302
        assert answer.headers["location"].endswith("/outside/a.bin")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["omnigraph-snapshot-id"]


@pytest.mark.parametrize(
    ("params", "status"),
    [
        (cell("null"), 404),
        (cell("unknown"), 404),
        (cell("inside", property="size"), 400),
        (cell("inside", property="none"), 400),
        (cell("inside", type="None"), 400),
        (cell("inside", entity="thing"), 400),
        ({"entity": "node"}, 400),
        (cell("inside", type=""), 400),
        (cell("inside", property=""), 400),
        (cell("inside", branch="main", snapshot="x"), 400),
        (cell("inside", branch="none"), 404),
        (cell("inside", snapshot="none"), 404),
    ],
)
def test_what_is_no_value(http: httpx.Client, params: dict[str, str], status: int) -> None:
    assert http.get(B, params=params).status_code == status
    assert http.head(B, params=params).status_code == status
