"""Where the rules across rows of a load are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.graph.commit.txn import WriteRequest
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.checks.held_keys import committed_keys
from omnigraph.pipeline.checks.way import CheckWay, choose_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.commit.txn import WriteTxn

SCHEMA = """
node Person { name: String @key  age: I32? }
node Town { name: String @key }
edge Visits: Person -> Town { note: String? }
edge Knows: Person -> Person
"""
GIB = 1 << 30


@pytest.fixture(scope="module")
def txn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WriteTxn]:
    names = [f"p{n}" for n in range(1_000)]
    with Graph.init(tmp_path_factory.mktemp("way") / "g", schema=SCHEMA) as graph:
        graph.load({"Person": pa.table({"name": names})}, mode="append")
        request = WriteRequest(kind=SidecarKind.LOAD, branch=MAIN_BRANCH, actor_id=None)
        yield graph._graph.protocol.capture(request, 1)


def test_keys_of_a_load_and_of_the_ends_of_its_edges_count(txn: WriteTxn) -> None:
    catalog = txn.catalog
    assert committed_keys(txn, [catalog.node_types["Town"]]).rows == 0
    for items in ([catalog.edge_types["Visits"]], list(catalog.edge_types.values())):
        found = committed_keys(txn, items)
        assert found.rows == 1_000
        assert 5_000 < found.size_bytes < 50_000


@pytest.mark.parametrize(
    ("rows", "has_spark", "most_bytes", "way"),
    [
        (60, True, GIB, CheckWay.KEYS),
        (100_001, True, GIB, CheckWay.WHOLE),
        (100_001, True, 0, CheckWay.KEYS),
        (1_000_001, True, GIB, CheckWay.WHOLE),
        (1_000_001, True, 0, CheckWay.JOINS),
        (1_000_001, False, 0, CheckWay.KEYS),
        (1_000_001, False, GIB, CheckWay.WHOLE),
    ],
)
def test_a_load_is_joined_only_if_it_is_large_and_does_not_fit(
    *, rows: int, has_spark: bool, most_bytes: int, way: CheckWay, txn: WriteTxn
) -> None:
    items = list(txn.catalog.edge_types.values())
    chosen = choose_way(txn, items, rows, has_spark=has_spark, most_bytes=most_bytes)
    assert chosen.way is way
    # What is staged is measured as it is read, and joined if it turns out to be more.
    is_bounded = has_spark and rows > 1_000_000 and way is CheckWay.WHOLE
    assert (chosen.key_bytes <= most_bytes / 6) == is_bounded
