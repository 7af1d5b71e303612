"""Which addresses outside the graph a blob may hold, on every way to write one."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.errors import (
    ExternalBlobDenied,
    ExternalBlobSource,
    InternalError,
    InvalidArgument,
    LoadRejected,
    ResourceLimit,
)
from omnigraph.graph.blobs.addresses import ExternalBlobs, allow_external_blobs, shown_address
from omnigraph.graph.jobs.report import JobReport
from omnigraph.limits import MAX_EXTERNAL_BLOB_CELLS, MAX_EXTERNAL_BLOB_URI_BYTES
from omnigraph.settings import StorageSettings, load_settings
from omnigraph.storage.external_objects import ExternalObjects

SCHEMA = "node File { name: String @key  rank: I32?  content: Blob?  other: Blob? }"
INSERT = "query m($n: String, $c: Blob) { insert File { name: $n, content: $c } }"
STORED = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])


def allowed(*bases: str) -> ExternalBlobs:
    return allow_external_blobs(bases, StorageSettings())


def refusal(policy: ExternalBlobs, uri: str) -> str:
    with pytest.raises(ExternalBlobDenied) as caught:
        policy.require(uri, type_name="File", name="content")
    return str(caught.value.details["reason"])


# --- bases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "uri"),
    [
        ("s3://assets/images", "s3://assets/images/a.png"),
        ("s3://assets/images/", "s3://assets/images/2024/a.png"),
        ("s3://assets", "s3://assets/a.png"),
        ("s3://assets/", "s3://assets/a%20b.png"),
        ("S3://assets/images", "s3://assets/images/ä.png"),
        ("s3://assets/im%61ges", "s3://assets/images/a.png"),
        ("s3://assets/one.bin", "s3://assets/one.bin"),
        ("s3://assets/x", "s3://assets/x/100%.txt"),
        ("file:///usr", "file:///usr/a"),
        ("file://localhost/usr", "file:///usr/a"),
        ("file:///usr", "FILE://localhost/usr/b c"),
    ],
)
def test_an_address_below_a_base_is_allowed(base: str, uri: str) -> None:
    allowed("s3://elsewhere", base).require(uri, type_name="File", name="content")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://assets/imagesX/a.png",
        "s3://assets/image",
        "s3://assets",
        "s3://Assets/images/a.png",
        "s3://assets.evil/images/a.png",
        "file:///assets/images/a.png",
    ],
)
def test_an_address_beside_a_base_is_denied(uri: str) -> None:
    refusal(allowed("s3://assets/images"), uri)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///usr/../etc/passwd",
        "file:///usr/./a",
        "file:///usr/%2e%2e/etc/passwd",
        "file:///usr/%2E./etc/passwd",
        "file:///usr/%252e%252e/etc/passwd",
        "file:///usr/%25252e%25252e/etc/passwd",
        "file:///usr/..%2fetc",
        "file:///usr/a%2Fb",
        "file:///usr/a%252F..%252F..%252Fb",
        "file:///usr/..\\etc",
        "file:///usr/%5c..",
        "file:///usr/.\t./etc",
        "file:///usr/%00",
        "file:///usr/%0a",
        "file:///usr/%ff",
        "file:///usr//a",
        "file:///usr/",
        " file:///usr/a",
        "file:///usr/a\n",
        "file:///usr/a?version=1",
        "file:///usr/a#part",
        "file://host/usr/a",
        "file://user:secret@localhost/usr/a",
        "/data/a",
        "data/a",
        "",
        "http://data/a",
        "gs://data/a",
        "memory://data/a",
        "s3:///data/a",
        "s3://data:80/a",
        "s3://da%74a/a",
        "BASE64:AAAA",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_denied(uri: str) -> None:
    refusal(allowed("file:///usr", "s3://data"), uri)


def test_without_bases_every_address_is_denied() -> None:
    assert "opened without a base" in refusal(allowed(), "s3://assets/a.png")


def test_a_refusal_shows_no_credentials() -> None:
    with pytest.raises(ExternalBlobDenied) as caught:
        allowed("s3://assets").require(
            "s3://key:secret@assets/a?X-Amz-Signature=abc", type_name="File", name="content"
        )
    assert caught.value.details["uri"] == "s3://assets/a"
    assert "secret" not in caught.value.message
    assert "abc" not in caught.value.message
    assert caught.value.details["property"] == "content"
    assert len(shown_address("s3://a/" + "x" * 1_000)) == 200


@pytest.mark.parametrize(
    "base",
    [
        "",
        "/data",
        "data",
        "file:///",
        "file://host/usr",
        "file:///usr/..",
        "file:///usr/%2e%2e/x",
        "s3://",
        "s3:///x",
        "s3://key@assets",
        "s3://assets?x=1",
        "s3://assets#x",
        "https://assets.example/images",
    ],
)
def test_a_base_that_names_no_place_is_refused(base: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be a base") as caught:
        Graph.init(tmp_path / "g", schema=SCHEMA, external_blobs=[base])
    assert caught.value.details["argument"] == "external_blobs"
    assert not (tmp_path / "g").exists()


def test_a_folder_that_does_not_exist_is_no_base(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name in ("missing", "dangling", "file"):
        with pytest.raises(InvalidArgument, match="no such folder; create it") as caught:
            allowed((tmp_path / name).as_uri())
        assert caught.value.details["base"] == (tmp_path / name).as_uri()


def test_bases_that_overlap_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    (tmp_path / "also").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "out").symlink_to(tmp_path / "ab")
    inner, outer, linked, out = (
        (tmp_path / name).as_uri() for name in ("a/b", "a", "also", "a/out")
    )
    for bases in (
        (outer, outer),
        (outer, inner),
        (inner, outer),
        (outer, linked),
        (inner, linked),
        (linked, f"{outer}/"),
        (outer, out),
        (out, outer),
        ("s3://assets", "s3://assets/images"),
        ("s3://assets/im%61ges", "S3://assets/images/"),
    ):
        with pytest.raises(InvalidArgument, match="give only the one") as caught:
            allowed("s3://other", *bases)
        assert caught.value.details["argument"] == "external_blobs"
        assert (caught.value.details["other"], caught.value.details["base"]) == bases
    allowed(outer, (tmp_path / "ab").as_uri(), "s3://assets/a", "s3://assets/ab")


@pytest.mark.parametrize("bases", ["s3://assets", [Path("/data")]])
def test_bases_are_a_list_of_texts(bases: list[str], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="list of addresses"):
        Graph.open(tmp_path / "g", external_blobs=bases)


# --- writes -----------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"outside")
    return folder


@pytest.fixture
def graph(tmp_path: Path, outside: Path) -> Graph:
    return Graph.init(
        tmp_path / "g", schema=SCHEMA, external_blobs=[outside.as_uri()], settings=quick()
    )


def mutate(graph: Graph, uri: str) -> None:
    graph.mutate(INSERT, params={"n": "x", "c": uri})


def append(graph: Graph, uri: str) -> None:
    with graph.write() as writer:
        cell = pa.array([{"data": None, "uri": uri}], STORED)
        writer.append("File", pa.table({"name": ["x"], "content": cell}))
        writer.commit()


def load(graph: Graph, uri: str) -> None:
    line = f'{{"type":"File","data":{{"name":"x","content":"{uri}"}}}}'
    graph.load(line.encode(), mode="append")


WAYS = pytest.mark.parametrize("write", [mutate, append, load])
Write = Callable[[Graph, str], None]


@WAYS
def test_an_allowed_address_is_stored_and_never_read(
    graph: Graph, outside: Path, write: Write
) -> None:
    uri = (outside / "a.bin").as_uri()
    write(graph, uri)
    (outside / "a.bin").unlink()
    found = graph.blob("node", "File", "x", "content")
    assert (found.uri, found.length, found.etag) == (uri, None, None)
    with pytest.raises(InvalidArgument) as caught:
        found.read()
    assert caught.value.details["uri"] == uri


@WAYS
def test_an_address_outside_the_bases_is_refused_and_nothing_is_written(
    graph: Graph, outside: Path, write: Write
) -> None:
    head = graph.snapshot().graph_commit_id
    with pytest.raises(ExternalBlobDenied) as caught:
        write(graph, f"{outside.as_uri()}X/a.bin")
    assert (caught.value.details["type"], caught.value.details["property"]) == ("File", "content")
    assert graph.snapshot().graph_commit_id == head


@WAYS
@pytest.mark.parametrize("name", ["missing.bin", "folder"])
def test_an_address_of_nothing_is_refused_and_nothing_is_written(
    graph: Graph, outside: Path, write: Write, name: str
) -> None:
    (outside / "folder").mkdir()
    head = graph.snapshot().graph_commit_id
    with pytest.raises(ExternalBlobSource) as caught:
        write(graph, (outside / name).as_uri())
    assert caught.value.details == {
        "uri": (outside / name).as_uri(),
        "reason": "there is no such object",
    }
    assert graph.snapshot().graph_commit_id == head


@pytest.fixture
def secret(tmp_path: Path, outside: Path) -> Path:
    """A file outside of the base, and links to it, to its folder and to nothing."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "key").write_bytes(b"secret")
    (outside / "link").symlink_to(folder / "key")
    (outside / "linked").symlink_to(folder)
    (outside / "there").mkdir()
    (outside / "there" / "again").symlink_to("../linked")
    (outside / "lost").symlink_to(folder / "nothing")
    return folder / "key"


@WAYS
@pytest.mark.parametrize("name", ["link", "linked/key", "there/again/key", "lost"])
@pytest.mark.usefixtures("secret")
def test_a_link_that_leads_out_of_its_base_is_refused_and_nothing_is_written(
    graph: Graph, outside: Path, write: Write, name: str
) -> None:
    head = graph.snapshot().graph_commit_id
    uri = f"{outside.as_uri()}/{name}"
    with pytest.raises(ExternalBlobDenied, match="a link on its way leads out") as caught:
        write(graph, uri)
    assert caught.value.details["uri"] == uri
    assert graph.snapshot().graph_commit_id == head


@pytest.mark.usefixtures("secret")
def test_a_link_that_leads_out_fails_a_load_that_sets_bad_rows_aside(
    graph: Graph, outside: Path, tmp_path: Path
) -> None:
    lines = [file_line("a", f"{outside.as_uri()}/link"), file_line("b", "base64:aGk=")]
    with pytest.raises(ExternalBlobDenied):
        set_aside(graph, lines, tmp_path / "rejects")
    assert graph.snapshot().count("File") == 0


def test_links_within_a_base_and_to_a_base_are_followed(tmp_path: Path, outside: Path) -> None:
    (outside / "deep").mkdir()
    (outside / "deep" / "link").symlink_to("../a.bin")
    (outside / "deep" / "up").symlink_to(outside)
    (tmp_path / "mount").symlink_to(outside)
    for base in (outside.as_uri(), (tmp_path / "mount").as_uri()):
        allowed(base).probe([f"{base}/a.bin", f"{base}/deep/link", f"{base}/deep/up/a.bin"])


def test_links_in_a_circle_name_nothing(outside: Path) -> None:
    (outside / "round").symlink_to("about")
    (outside / "about").symlink_to("round")
    with pytest.raises(ExternalBlobSource, match="there is no such object"):
        allowed(outside.as_uri()).probe([f"{outside.as_uri()}/round"])


def test_a_link_that_takes_the_place_of_a_file_later_is_not_followed(
    graph: Graph, outside: Path, secret: Path
) -> None:
    """Nobody opens what was looked at once, so there is nothing that could follow it."""
    uri = (outside / "a.bin").as_uri()
    mutate(graph, uri)
    (outside / "a.bin").unlink()
    (outside / "a.bin").symlink_to(secret)
    found = graph.blob("node", "File", "x", "content")
    with pytest.raises(InvalidArgument, match="never opens it"):
        found.read()
    with pytest.raises(InvalidArgument, match="never opens it"):
        list(found)
    graph.mutate('query m() { update File set { rank: 5 } where name = "x" }')
    snapshot = graph.snapshot()
    stored = graph._graph.tables.blob(snapshot.handle(snapshot.type("File")), "x", "content")
    assert stored is not None
    assert (stored.uri, stored.length) == (uri, 0)
    with pytest.raises(InternalError):
        stored.read(0, 9)
    assert b"secret" not in b"".join(graph.export())


@WAYS
def test_a_graph_allows_no_address_by_default(tmp_path: Path, graph: Graph, write: Write) -> None:
    other = Graph.open(tmp_path / "g", settings=quick())
    with other, pytest.raises(ExternalBlobDenied):
        write(other, (tmp_path / "outside" / "a.bin").as_uri())
    assert graph.snapshot().count("File") == 0


def test_another_actor_writes_under_the_same_bases(graph: Graph, outside: Path) -> None:
    mutate(graph.as_actor("ann"), (outside / "a.bin").as_uri())
    assert graph.blob("node", "File", "x", "content").uri is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_an_address_that_may_not_be_looked_at_is_refused(graph: Graph, outside: Path) -> None:
    closed = outside / "closed"
    closed.mkdir(mode=0)
    with pytest.raises(ExternalBlobSource, match="credentials"):
        mutate(graph, (closed / "a.bin").as_uri())


def test_bytes_and_addresses_mix_in_one_mutation(graph: Graph, outside: Path) -> None:
    uri = (outside / "a.bin").as_uri()
    graph.mutate(
        'query m() { insert File { name: "a", content: "base64:YQ==", rank: 1 }'
        f' insert File {{ name: "b", content: "{uri}", rank: 2 }}'
        ' insert File { name: "c", rank: 3 } }'
    )
    graph.mutate(
        'query m($u: Blob) { insert File { name: "d", content: "base64:ZA==", rank: 4 }'
        " update File set { other: $u } where rank > 1"
        " update File set { rank: 9 } where rank > 0 }",
        params={"u": uri},
    )
    assert b"".join(graph.export()).decode().splitlines() == [
        '{"type":"File","data":{"id":"a","name":"a","rank":9,"content":"base64:YQ==",'
        '"other":null}}',
        f'{{"type":"File","data":{{"id":"b","name":"b","rank":9,"content":"{uri}",'
        f'"other":"{uri}"}}}}',
        f'{{"type":"File","data":{{"id":"c","name":"c","rank":9,"content":null,"other":"{uri}"}}}}',
        '{"type":"File","data":{"id":"d","name":"d","rank":9,"content":"base64:ZA==",'
        f'"other":"{uri}"}}}}',
    ]


def test_parts_of_one_write_may_hold_bytes_and_addresses(graph: Graph, outside: Path) -> None:
    uri = (outside / "a.bin").as_uri()
    with graph.write() as writer:
        writer.append("File", pa.table({"name": ["a"], "content": pa.array([b"a"])}))
        cell = pa.array([{"data": None, "uri": uri}], STORED)
        writer.append("File", pa.table({"name": ["b"], "content": cell}))
        writer.append("File", pa.table({"name": ["c"]}))
        writer.commit()
    assert graph.blob("node", "File", "a", "content").read() == b"a"
    assert graph.blob("node", "File", "b", "content").uri == uri


# --- limits and probes ------------------------------------------------------------------------


def test_an_address_has_a_longest_length(graph: Graph) -> None:
    with pytest.raises(ResourceLimit) as caught:
        mutate(graph, "s3://assets/" + "ä" * MAX_EXTERNAL_BLOB_URI_BYTES)
    assert caught.value.details == {
        "resource": "external Blob URI bytes",
        "limit": MAX_EXTERNAL_BLOB_URI_BYTES,
        "actual": 2 * MAX_EXTERNAL_BLOB_URI_BYTES + len("s3://assets/"),
    }


def test_a_write_refers_to_so_many_cells_and_not_more(graph: Graph, outside: Path) -> None:
    uri = (outside / "a.bin").as_uri()
    rows = MAX_EXTERNAL_BLOB_CELLS + 1
    cells = pa.array([{"data": None, "uri": uri}] * rows, STORED)
    names = [f"n{number}" for number in range(rows)]
    with graph.write() as writer, pytest.raises(ResourceLimit) as caught:
        writer.append("File", pa.table({"name": names, "content": cells}))
    assert caught.value.details["resource"] == "external Blob reference cells"
    with graph.write() as writer:
        writer.append("File", pa.table({"name": names, "content": cells}).slice(0, rows - 1))
        writer.commit()
    assert graph.snapshot().count("File") == MAX_EXTERNAL_BLOB_CELLS


class Counting(ExternalObjects):
    """Remembers what it was asked for."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        super().__init__(StorageSettings())
        self.asked: list[str] = []

    def file_size(self, path: str, *, inside: str) -> int:
        self.asked.append(path)
        return super().file_size(path, inside=inside)


def test_distinct_addresses_are_probed_once(graph: Graph, outside: Path) -> None:
    objects = Counting()
    graph._engine.external_blobs = ExternalBlobs(allowed(outside.as_uri()).bases, objects)
    files = [outside / f"{number}.bin" for number in range(20)]
    for file in files:
        file.write_bytes(b"x")
    cells = pa.array([{"data": None, "uri": file.as_uri()} for file in files * 3], STORED)
    with graph.write() as writer:
        names = [f"n{number}" for number in range(60)]
        writer.append("File", pa.table({"name": names, "content": cells}))
        writer.commit()
    assert sorted(objects.asked) == sorted(map(str, files))


def test_nothing_is_probed_for_a_write_that_breaks_a_rule(graph: Graph, outside: Path) -> None:
    objects = Counting()
    graph._engine.external_blobs = ExternalBlobs(allowed(outside.as_uri()).bases, objects)
    mutate(graph, (outside / "a.bin").as_uri())
    assert objects.asked == [str(outside / "a.bin")]
    objects.asked.clear()
    with graph.write() as writer:
        cell = pa.array([{"data": None, "uri": (outside / "a.bin").as_uri()}], STORED)
        writer.append("File", pa.table({"name": ["x"], "content": cell}))
        with pytest.raises(Exception, match="exists already"):
            writer.commit()
    assert objects.asked == []


def set_aside(graph: Graph, lines: list[dict[str, object]], place: Path) -> JobReport:
    text = "".join(f"{json.dumps(each)}\n" for each in lines).encode()
    return graph.load(
        text, mode="append", on_error="quarantine", rejects=str(place), max_reject_ratio=1.0
    )


def rejects_in(uri: object) -> list[dict[str, Any]]:
    text = Path(str(uri), "rejects.ndjson").read_text()
    return [json.loads(each) for each in text.splitlines()]


def file_line(name: str, uri: str, **more: object) -> dict[str, object]:
    return {"type": "File", "data": {"name": name, "content": uri, **more}}


def test_a_row_whose_blob_is_not_there_can_be_set_aside(
    graph: Graph, outside: Path, tmp_path: Path
) -> None:
    missing = (outside / "missing.bin").as_uri()
    lines = [
        file_line("good", (outside / "a.bin").as_uri()),
        file_line("lost", missing),
        file_line("both", (outside / "a.bin").as_uri(), other=missing),
        file_line("none", "base64:aGk="),
    ]
    report = set_aside(graph, lines, tmp_path / "rejects")
    assert report.violations == {"type_error": 2}
    assert graph.snapshot().count("File") == 2
    found = rejects_in(report.rejects_uri)
    assert [(each["line"], each["code"], each["property"]) for each in found] == [
        (2, "type_error", "content"),
        (3, "type_error", "other"),
    ]
    assert found[0]["message"] == (
        f"File.content: {missing} could not be looked at: there is no such object"
    )
    with pytest.raises(LoadRejected, match="could not be looked at") as refused:
        graph.load(json.dumps(lines[1]).encode(), mode="merge", rejects=str(tmp_path / "rejects"))
    assert len(rejects_in(refused.value.details["rejects_uri"])) == 1
    with pytest.raises(ExternalBlobSource):
        graph.load(json.dumps(lines[1]).encode(), mode="merge")


def test_a_rejected_row_of_a_table_has_its_addresses_as_lines_have_them(
    graph: Graph, outside: Path, tmp_path: Path
) -> None:
    missing = (outside / "missing.bin").as_uri()
    cells = [{"data": None, "uri": missing}, {"data": b"hi", "uri": None}, None]
    rows = pa.table({"name": ["a", "b", "b"], "content": pa.array(cells, STORED)})
    report = graph.load(
        {"File": rows},
        mode="append",
        on_error="quarantine",
        rejects=str(tmp_path / "rejects"),
        max_reject_ratio=1.0,
    )
    found = [json.loads(each["raw"]) for each in rejects_in(report.rejects_uri)]
    assert found == [
        {"type": "File", "data": {"name": "a", "content": missing}},
        {"type": "File", "data": {"name": "b", "content": "base64:aGk="}},
        {"type": "File", "data": {"name": "b", "content": None}},
    ]


def test_nothing_is_probed_for_a_row_that_is_bad_by_itself(
    graph: Graph, outside: Path, tmp_path: Path
) -> None:
    objects = Counting()
    graph._engine.external_blobs = ExternalBlobs(allowed(outside.as_uri()).bases, objects)
    lines = [
        file_line("bad", (outside / "missing.bin").as_uri(), rank="x"),
        file_line("good", (outside / "a.bin").as_uri()),
    ]
    report = set_aside(graph, lines, tmp_path / "rejects")
    assert [each["line"] for each in rejects_in(report.rejects_uri)] == [1]
    assert objects.asked == [str(outside / "a.bin")]


def test_credentials_do_not_travel_with_the_policy() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "key-id", "AWS_SECRET_ACCESS_KEY": "a-secret"}
    policy = allow_external_blobs(["s3://bucket/photos"], load_settings(environ).storage)
    packed = pickle.dumps(policy)
    assert b"a-secret" not in packed
    assert b"key-id" not in packed
    assert pickle.loads(packed).bases == policy.bases  # noqa: S301 - our own
