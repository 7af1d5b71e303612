"""A load on Spark into a bucket: executors read the input there and write the files there."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import obstore
import pytest
from tests.extended import thinned
from tests.s3.stand_in import Access, Kind

from omnigraph import Graph
from omnigraph.errors import KeyConflict, PipelineTaskError, SourceError, StorageDenied
from omnigraph.failpoints import armed
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.s3.stand_in import Request, StandIn

    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import Settings

pytestmark = pytest.mark.s3

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person @card(0..3) { since: I32? }
"""
EXECUTOR = "an-executor"


def people(first: int, count: int, **more: object) -> bytes:
    return b"".join(
        json.dumps({"type": "Person", "data": {"name": f"p{n:03}", "age": n, **more}}).encode()
        + b"\n"
        for n in range(first, first + count)
    )


def knows(first: int, count: int) -> bytes:
    return b"".join(
        json.dumps(
            {"edge": "Knows", "from": f"p{n:03}", "to": "p000", "data": {"id": f"k{n}", "since": n}}
        ).encode()
        + b"\n"
        for n in range(first, first + count)
    )


@pytest.fixture
def store(s3: StandIn, session: PipelineSession) -> Iterator[StandIn]:
    """The stand-in, known to executors too; they send a token by which it knows them."""
    context = session.classic_context
    assert context is not None
    told = {**s3.environment(), "AWS_SESSION_TOKEN": EXECUTOR}
    context.environment.update(told)
    try:
        yield s3
    finally:
        for name in told:
            del context.environment[name]


def settings_of(store: StandIn) -> Settings:
    settings = load_settings(store.environment())
    return replace(settings, pipeline=replace(settings.pipeline, split_bytes=1_000))


def put(store: StandIn, name: str, content: bytes) -> None:
    obstore.put(store.endpoint.store(), name, content)


@contextmanager
def twins(store: StandIn, folder: Path) -> Iterator[tuple[Graph, Graph]]:
    """A graph in the bucket, and one in a folder that is loaded without Spark."""
    with (
        Graph.init(store.uri("graphs/one"), schema=SCHEMA, settings=settings_of(store)) as there,
        Graph.init(folder / "here", schema=SCHEMA) as here,
    ):
        yield there, here


def exported(graph: Graph) -> bytes:
    return b"".join(graph.export())


def data_puts(requests: list[Request]) -> list[Request]:
    written = (Kind.CREATE, Kind.PUT, Kind.UPLOAD)
    return [
        each
        for each in requests
        if each.kind in written and re.search(r"/(nodes|edges)/.*/data/", each.path)
    ]


@pytest.mark.extended
def test_executors_read_and_write_the_bucket_and_give_the_graph_of_the_other_lane(
    store: StandIn, tmp_path: Path
) -> None:
    first, second = people(0, 40, photo="base64:aGk="), people(40, 40) + knows(0, 80)
    put(store, "in/a.jsonl", first)
    put(store, "in/b.jsonl", second)
    with twins(store, tmp_path) as (there, here):
        with store.watching() as seen:
            report = there.load(store.uri("in/"), mode="append")
        assert report.engine == "spark"
        here.load(first + second, mode="append")
        assert exported(there) == exported(here)
        written = data_puts(seen.requests)
        assert len(written) >= 2
        assert {each.session_token for each in written} == {EXECUTOR}
        read = [each for each in seen.requests if "/in/" in each.path and each.kind is Kind.GET]
        assert {each.session_token for each in read} == {EXECUTOR}

        changed = people(35, 20, photo=None) + knows(35, 3).replace(b'"since": 3', b'"since": 9')
        put(store, "in/c.jsonl", changed)
        there.load(store.uri("in/c*.jsonl"), mode="merge")
        here.load(changed, mode="merge")
        assert exported(there) == exported(here)

        there.load(store.uri("in/*[ab].jsonl"), mode="overwrite", branch="side", from_="main")
        here.load(first + second, mode="overwrite", branch="side", from_="main")
        for each in (there, here):
            assert each.snapshot(branch="side").count("Knows") == 80
        assert b"".join(there.export(branch="side")) == b"".join(here.export(branch="side"))


@pytest.mark.extended
def test_one_object_is_loaded_by_its_address(store: StandIn, tmp_path: Path) -> None:
    put(store, "in/a.jsonl", people(0, 3))
    put(store, "in/a.jsonl.old", b"nonsense")
    with twins(store, tmp_path) as (there, _):
        there.load(store.uri("in/a.jsonl"), mode="append")
        assert there.snapshot().count("Person") == 3


@pytest.mark.extended
def test_a_refused_load_leaves_no_object_of_its_own(store: StandIn, tmp_path: Path) -> None:
    put(store, "in/a.jsonl", people(0, 40))
    with twins(store, tmp_path) as (there, _):
        there.load(store.uri("in/a*"), mode="append")
        before = objects(store)
        with pytest.raises(KeyConflict):
            there.load(store.uri("in/a*"), mode="append")
        assert objects(store) == before


@pytest.mark.extended
def test_executors_that_may_not_write_are_told_and_nothing_is_committed(
    store: StandIn, tmp_path: Path
) -> None:
    put(store, "in/a.jsonl", people(0, 40))

    def revoke() -> None:
        store.access = Access.READ_ONLY

    with twins(store, tmp_path) as (there, _):
        with (
            armed("spark_load.post_list", revoke),
            pytest.raises((StorageDenied, PipelineTaskError), match=r"denied|refuse"),
        ):
            there.load(store.uri("in/a*"), mode="append")
        store.access = Access.FULL
        assert there.snapshot().count("Person") == 0
        there.load(store.uri("in/a*"), mode="append")
        assert there.snapshot().count("Person") == 40


@pytest.mark.extended
def test_rejects_and_their_mark_are_written_to_a_bucket(store: StandIn, tmp_path: Path) -> None:
    text = people(0, 40) + b"nonsense\n" + knows(0, 41) + people(40, 1, age=0.5)
    put(store, "in/a.jsonl", text)
    with twins(store, tmp_path) as (there, here):
        report = there.load(
            store.uri("in/a*"),
            mode="append",
            on_error="quarantine",
            rejects=store.uri("rejects"),
            max_reject_ratio=0.5,
        )
        local = here.load(
            text,
            mode="append",
            on_error="quarantine",
            rejects=str(tmp_path / "rejects"),
            max_reject_ratio=0.5,
        )
        assert (report.engine, report.violations) == ("spark", local.violations)
        assert exported(there) == exported(here)
    assert report.commit is not None
    assert report.rejects_uri == store.uri(f"rejects/{report.operation_id}")
    folder = store.endpoint.store(f"rejects/{report.operation_id}")
    mark = bytes(obstore.get(folder, "_COMMITTED").bytes())
    assert mark.decode() == f"{report.commit.graph_commit_id}\n"
    lines = bytes(obstore.get(folder, "rejects.ndjson").bytes()).splitlines()
    found = [json.loads(each) for each in lines]
    assert [(each["line"], each["code"]) for each in found] == [
        (41, "json_error"),
        (82, "orphan_edge"),
        (83, "type_error"),
    ]
    assert found[1]["caused_by"] == {
        "source": store.uri("in/a.jsonl"),
        "line": 83,
        "code": "type_error",
    }
    given = text.splitlines()
    assert [each["raw"].encode() for each in found] == [given[40], given[81], given[82]]


@pytest.mark.parametrize(
    ("name", "content", "form"),
    thinned(
        [
            ("in/a.csv", b"name\nada\n", None),
            ("in/a.json", b'{"name":"ada"}\n', "json"),
            ("in/a.orc", b"ORC", None),
        ]
    ),
    ids=["csv", "json", "orc"],
)
def test_a_format_that_spark_cannot_read_from_a_bucket_says_what_can_be_done(
    name: str,
    content: bytes,
    form: str | None,
    store: StandIn,
    session: PipelineSession,
    tmp_path: Path,
) -> None:
    put(store, name, content)
    with twins(store, tmp_path) as (there, _):
        with pytest.raises(SourceError, match=r"spark\.jars\.packages=.*hadoop-aws.*Parquet"):
            there.pipeline(session.spark).load(
                store.uri(name), mode="append", type="Person", format=form
            )
        assert there.snapshot().count("Person") == 0


def objects(store: StandIn) -> set[str]:
    """What is stored, but for leases, whose objects every write leaves."""
    found = obstore.list(store.endpoint.store("graphs/one")).collect()
    return {each["path"] for each in found if not each["path"].startswith("__leases")}
