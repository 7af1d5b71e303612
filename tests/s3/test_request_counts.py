"""What a write costs in requests to S3, by kind; the figures are upper bounds, held in every run.

The goal is 40 requests for one row into one table. A write makes 29 requests of its own, whatever
the length of the history and the number of fragments of the manifest: a publish reads none of them.
Every fourth write also removes four old leases, and the last of a cycle joins fragments after its
acknowledgement. A write that folds the tail of its table is counted apart: it comes once in six.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from tests.s3.stand_in import Seen, StandIn

from omnigraph.api import Graph
from omnigraph.graph.lifecycle.line_upkeep import WIDTH_ON_OBJECT_STORES
from omnigraph.graph.lifecycle.tail_folding import TIERS
from omnigraph.ids import MAIN_BRANCH_ID
from omnigraph.settings import load_settings

pytestmark = pytest.mark.s3

SCHEMA = """
node Person { name: String @key  age: I32? }
node Doc { title: String }
edge Knows: Person -> Person
"""
GOAL = 40
OF_ITS_OWN = {"list": 14, "put": 6, "create": 4, "get": 3, "head": 1, "delete": 1}
"""By kind."""

TIDIED_LEASES = 4
OF_A_COMPACTION = 20
OF_A_FOLD = 14
"""One more version of the table: what is read, written and committed of it."""

OF_A_JOINED_READ = 3
"""The next write looks for the rows of the head in the fragment that the others became."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one write cost."""

    seen: Seen
    fragments: int
    """Of the manifest, before the write."""

    @property
    def requests(self) -> int:
        """All requests but those that tidied leases away."""
        return len(self.seen) - self.tidied

    @property
    def tidied(self) -> int:
        """Requests that removed old leases."""
        return max(0, self.seen.kinds["delete"] - OF_ITS_OWN["delete"])

    @property
    def commits(self) -> Counter[str]:
        """Lance commits, by dataset."""
        made = [each for each in self.seen.requests if each.kind == "create"]
        return Counter(
            each.path.partition("/_versions/")[0].rpartition("/")[2]
            for each in made
            if "/_versions/" in each.path
        )


def _write(s3: StandIn, graph: Graph, name: str) -> Cost:
    fragments = graph._graph.lines.read(MAIN_BRANCH_ID).handle.fragments
    rows = pa.table({"name": [name], "age": pa.array([1], pa.int32())})
    with s3.watching() as seen, graph.write() as writer:
        writer.upsert("Person", rows)
        writer.commit()
    return Cost(seen=seen, fragments=fragments)


def _require_bounds(cost: Cost) -> None:
    assert cost.requests <= sum(OF_ITS_OWN.values()), dict(cost.seen.kinds)
    assert cost.tidied <= TIDIED_LEASES
    for kind, bound in OF_ITS_OWN.items():
        allowed = bound + (cost.tidied if kind == "delete" else 0)
        assert cost.seen.kinds[kind] <= allowed, (kind, dict(cost.seen.kinds))


@contextmanager
def _with_history(
    s3: StandIn, folder: Path, commits: int, *, is_folding: bool = False
) -> Iterator[Graph]:
    """A warm graph on S3 with so many commits, made on the local disk, its manifest compacted."""
    upkeep = {"OMNIGRAPH_AUTO_MAINTENANCE": str(int(is_folding))}
    local = load_settings({"OMNIGRAPH_DURABILITY": "process", **upkeep})
    with Graph.init(folder / str(commits), schema=SCHEMA, settings=local) as graph:
        for number in range(commits):
            with graph.write() as writer:
                writer.upsert("Person", pa.table({"name": [f"k{number}"]}))
                writer.commit()
        manifest = graph._graph.storage.manifest
        manifest.compact(manifest.open_line(MAIN_BRANCH_ID))
    store = s3.endpoint.store(f"history-{commits}")
    for path in (folder / str(commits)).rglob("*"):
        if path.is_file():
            name = path.relative_to(folder / str(commits)).as_posix()
            obstore.put(store, name, path.read_bytes())
    settings = load_settings({**s3.environment(), **upkeep})
    with Graph.open(s3.uri(f"history-{commits}"), settings=settings) as graph:
        assert graph.snapshot().seq == commits
        _write(s3, graph, "warm")
        yield graph


def test_a_one_row_upsert_makes_two_lance_commits_within_its_bounds(
    s3: StandIn, tmp_path: Path
) -> None:
    with _with_history(s3, tmp_path, 10) as graph:
        cost = _write(s3, graph, "one")
    _require_bounds(cost)
    assert cost.requests <= GOAL
    assert len(cost.commits) == 2
    assert set(cost.commits.values()) == {1}


def _costs_of_eight(s3: StandIn, folder: Path, commits: int) -> list[tuple[int, Counter[str]]]:
    with _with_history(s3, folder, commits) as graph:
        costs = [_write(s3, graph, f"x{number}") for number in range(8)]
    for each in costs:
        _require_bounds(each)
    return [(each.fragments, each.seen.kinds - Counter(delete=each.tidied)) for each in costs]


@pytest.mark.extended
def test_a_write_costs_the_same_after_ten_and_after_fifty_commits(
    s3: StandIn, tmp_path: Path
) -> None:
    short, long = (_costs_of_eight(s3, tmp_path, commits) for commits in (10, 50))
    assert short == long


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_write_costs_the_same_after_ten_and_after_a_thousand_commits(
    s3: StandIn, tmp_path: Path
) -> None:
    short, long = (_costs_of_eight(s3, tmp_path, commits) for commits in (10, 1000))
    assert short == long


@pytest.mark.extended
def test_a_cycle_of_writes_up_to_the_next_compaction_stays_within_its_bounds(
    s3: StandIn, tmp_path: Path
) -> None:
    with _with_history(s3, tmp_path, 10) as graph:
        costs = [_write(s3, graph, f"x{number}") for number in range(WIDTH_ON_OBJECT_STORES + 2)]
    joining = [each for each in costs if each.fragments == WIDTH_ON_OBJECT_STORES - 1]
    after = costs[costs.index(joining[0]) + 1]
    for each in costs:
        if each not in (*joining, after):
            _require_bounds(each)
    assert len(joining) == 1
    bound = sum(OF_ITS_OWN.values()) + WIDTH_ON_OBJECT_STORES + OF_A_COMPACTION
    assert joining[0].requests <= bound
    assert after.requests <= sum(OF_ITS_OWN.values()) + OF_A_JOINED_READ
    assert max(each.requests for each in costs if each not in joining) <= GOAL


@pytest.mark.extended
def test_one_write_in_six_folds_the_tail_for_one_more_commit(s3: StandIn, tmp_path: Path) -> None:
    width = TIERS[0][1]
    with _with_history(s3, tmp_path, 10, is_folding=True) as graph:
        costs = [_write(s3, graph, f"x{number}") for number in range(WIDTH_ON_OBJECT_STORES - 2)]
    folding = [each for each in costs if _table_commits(each) == 2]
    # The fragment that a fold leaves is the first of the next one.
    assert 1 <= len(folding) <= 1 + len(costs) // (width - 1)
    for each in costs:
        if each.commits["__manifest"] == 1:
            allowed = GOAL + OF_A_FOLD if each in folding else GOAL
            assert each.requests <= allowed, dict(each.seen.kinds)


def _table_commits(cost: Cost) -> int:
    return sum(cost.commits.values()) - cost.commits["__manifest"]


@pytest.mark.extended
def test_two_tables_cost_one_more_commit_and_few_more_requests(s3: StandIn, tmp_path: Path) -> None:
    with _with_history(s3, tmp_path, 10) as graph:
        for title in ("warm", "one"):
            fragments = graph._graph.lines.read(MAIN_BRANCH_ID).handle.fragments
            with s3.watching() as seen, graph.write() as writer:
                writer.upsert("Person", pa.table({"name": [title]}))
                writer.append("Doc", pa.table({"title": [title]}))
                writer.commit()
    cost = Cost(seen=seen, fragments=fragments)
    assert sum(cost.commits.values()) == 3
    assert cost.requests <= sum(OF_ITS_OWN.values()) + 7


def test_a_snapshot_of_an_unchanged_branch_costs_one_request(s3: StandIn, tmp_path: Path) -> None:
    with _with_history(s3, tmp_path, 10) as graph:
        graph.snapshot()
        with s3.watching() as seen:
            graph.snapshot()
    assert seen.kinds == {"list": 1}
