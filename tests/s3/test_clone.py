"""A graph travels from a folder to a bucket and back with all its branches."""

from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from tests.race.crew import ENVIRONMENT
from tests.s3.stand_in import StandIn

from omnigraph.api import Graph
from omnigraph.errors import GraphExists, InvalidArgument, StorageUnsupported
from omnigraph.settings import Settings, load_settings

pytestmark = [pytest.mark.s3, pytest.mark.extended]

SCHEMA = """
node Person { name: String @key  email: String? @unique  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
ROWS = """\
{{"type": "Person", "data": {{"name": "ada", "photo": "base64:aGk="}}}}
{{"type": "Person", "data": {{"name": "bob", "photo": "{outside}"}}}}
{{"edge": "Knows", "from": "ada", "to": "bob", "data": {{"since": 4}}}}
"""
BRANCHES = ("main", "draft", "draft/two")


@pytest.fixture
def settings(s3: StandIn) -> Settings:
    return load_settings({**ENVIRONMENT, **s3.environment()})


@pytest.fixture
def source(tmp_path: Path, settings: Settings) -> Iterator[Graph]:
    (tmp_path / "outside.bin").write_bytes(b"outside")
    made = Graph.init(
        tmp_path / "g", schema=SCHEMA, external_blobs=[tmp_path.as_uri()], settings=settings
    )
    with made as graph:
        outside = (tmp_path / "outside.bin").as_uri()
        graph.load(ROWS.format(outside=outside).encode(), mode="append")
        graph.branches.create("draft")
        graph.mutate('query q() { insert Person { name: "cy" } }')
        graph.mutate('query q() { delete Person where name = "bob" }', branch="draft")
        graph.branches.create("draft/two", from_="draft")
        graph.mutate('query q() { insert Person { name: "dee" } }', branch="draft/two")
        yield graph


def contents(graph: Graph) -> dict[str, bytes]:
    return {branch: b"".join(graph.export(branch=branch)) for branch in BRANCHES}


def test_a_graph_goes_to_a_bucket_and_back(
    tmp_path: Path, source: Graph, s3: StandIn, settings: Settings
) -> None:
    before = contents(source)
    uri = s3.uri("team/graph")
    with Graph.clone(tmp_path / "g", uri, settings=settings) as far:
        assert contents(far) == before
        far.mutate('query q() { insert Person { name: "eve" } }', branch="draft")
    with Graph.clone(uri, tmp_path / "back", settings=settings) as back:
        after = contents(back)
        assert after["main"] == before["main"]
        assert after["draft/two"] == before["draft/two"]
        assert b"eve" in after["draft"]
        back.branches.merge("draft")
    assert contents(source) == before


def test_a_prefix_in_use_is_refused(
    tmp_path: Path, source: Graph, s3: StandIn, settings: Settings
) -> None:
    uri = s3.uri("team/graph")
    Graph.clone(tmp_path / "g", uri, branches=[], settings=settings).close()
    with pytest.raises(GraphExists):
        Graph.clone(tmp_path / "g", uri, force=True, settings=settings)
    for other in (uri, f"{uri}/within", s3.uri("team")):
        with pytest.raises(InvalidArgument):
            Graph.clone(uri, other, settings=settings)
    assert [each.name for each in source.branches.list()] == list(BRANCHES)


def test_a_prefix_that_was_copied_shows_all_its_branches(
    tmp_path: Path, source: Graph, s3: StandIn, settings: Settings
) -> None:
    before = contents(source)
    Graph.clone(tmp_path / "g", s3.uri("old/graph"), settings=settings).close()
    bucket = s3.endpoint.store()
    paths = [each["path"] for each in obstore.list(bucket, "old/graph").collect()]
    for path in paths:
        obstore.put(bucket, path.replace("old/", "new/"), obstore.get(bucket, path).bytes())
    obstore.delete(bucket, paths)
    with Graph.open(s3.uri("new/graph"), settings=settings) as moved:
        assert contents(moved) == before
        with pytest.raises(StorageUnsupported, match="omnigraph clone"):
            moved.mutate('query q() { insert Person { name: "eve" } }', branch="draft")
        moved.mutate('query q() { insert Person { name: "eve" } }')
    with Graph.clone(s3.uri("new/graph"), tmp_path / "back", settings=settings) as back:
        assert b"eve" in contents(back)["main"]
        assert {**contents(back), "main": b""} == {**before, "main": b""}
        back.branches.merge("draft")
