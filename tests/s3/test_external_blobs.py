"""Blobs of a local graph that lie in a bucket: they are looked at, and nothing more."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import obstore
import pytest
from tests.race.crew import ENVIRONMENT
from tests.s3.stand_in import Access, Failure, Kind, StandIn

from omnigraph.api import Graph
from omnigraph.errors import ExternalBlobSource
from omnigraph.graph.jobs.report import JobReport
from omnigraph.settings import load_settings

pytestmark = pytest.mark.s3

SCHEMA = "node File { name: String @key  content: Blob? }"
INSERT = 'query m($c: Blob) { insert File { name: "x", content: $c } }'


@pytest.fixture
def graph(tmp_path: Path, s3: StandIn) -> Iterator[Graph]:
    settings = load_settings({**ENVIRONMENT, **s3.environment()})
    bases = [s3.uri("assets"), "s3://no-such-bucket"]
    made = Graph.init(tmp_path / "g", schema=SCHEMA, external_blobs=bases, settings=settings)
    with made as graph:
        yield graph


@pytest.mark.parametrize("name", ["a.bin", "deep/er/a b.bin", "ü.bin", "100%.bin", "a%20b.bin"])
def test_an_object_is_looked_at_once_and_referred_to(graph: Graph, s3: StandIn, name: str) -> None:
    obstore.put(s3.endpoint.store(), f"assets/{name}", b"outside")
    uri = s3.uri(f"assets/{quote(name)}")
    with s3.watching() as seen:
        graph.mutate(INSERT, params={"c": uri})
        assert graph.blob("node", "File", "x", "content").uri == uri
        assert uri in b"".join(graph.export()).decode()
    assert [each.kind for each in seen.requests] == [Kind.HEAD]


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("s3://omnigraph/assets/missing.bin", "there is no such object"),
        ("s3://omnigraph/assets", "there is no such object"),
        ("s3://no-such-bucket/a.bin", "there is no such object"),
    ],
)
def test_an_object_that_is_not_there_is_refused(graph: Graph, uri: str, reason: str) -> None:
    with pytest.raises(ExternalBlobSource) as caught:
        graph.mutate(INSERT, params={"c": uri})
    assert caught.value.details == {"uri": uri, "reason": reason}
    assert graph.snapshot().count("File") == 0


def test_credentials_that_may_not_look_are_told(graph: Graph, s3: StandIn) -> None:
    s3.access = Access.NONE
    with pytest.raises(ExternalBlobSource, match="refuses the credentials"):
        graph.mutate(INSERT, params={"c": s3.uri("assets/a.bin")})


def test_a_store_that_does_not_answer_is_told(graph: Graph, s3: StandIn) -> None:
    s3.fail(Failure.UNAVAILABLE)
    with pytest.raises(ExternalBlobSource, match="did not complete") as caught:
        graph.mutate(INSERT, params={"c": s3.uri("assets/a.bin")})
    assert "127.0.0.1" not in caught.value.message
    s3.heal()
    obstore.put(s3.endpoint.store(), "assets/a.bin", b"outside")
    graph.mutate(INSERT, params={"c": s3.uri("assets/a.bin")})


def test_only_what_the_store_says_about_an_address_makes_its_row_bad(
    graph: Graph, s3: StandIn, tmp_path: Path
) -> None:
    """A store that does not answer fails the load: the row may be as good as any."""
    line = f'{{"type":"File","data":{{"name":"x","content":"{s3.uri("assets/a.bin")}"}}}}\n'

    def load() -> JobReport:
        return graph.load(
            line.encode(),
            mode="append",
            on_error="quarantine",
            rejects=str(tmp_path / "rejects"),
            max_reject_ratio=1.0,
        )

    s3.fail(Failure.UNAVAILABLE)
    with pytest.raises(ExternalBlobSource, match="did not complete"):
        load()
    s3.heal()
    assert load().violations == {"type_error": 1}
    s3.access = Access.NONE
    assert load().violations == {"type_error": 1}
    s3.access = Access.FULL
    obstore.put(s3.endpoint.store(), "assets/a.bin", b"outside")
    assert load().commit is not None
    assert graph.blob("node", "File", "x", "content").uri == s3.uri("assets/a.bin")
