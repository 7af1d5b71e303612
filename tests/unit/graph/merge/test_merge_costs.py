"""What a merge and a diff cost: the change since the last merge, never the size of the tables."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import Opened, Watcher
from tests.unit.graph.merge.merges import ages, head, people

from omnigraph.storage.table_store import TableStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from omnigraph import Graph

SCHEMA = "node Person { name: String @key  age: I32? }"


class Rows:
    """Counts the rows that are read to find and to compare changes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        changed_since, take_rows, scan = (
            TableStore.changed_since,
            TableStore.take_rows,
            TableStore.scan,
        )

        def changed(*given: Any, **more: Any) -> Any:  # noqa: ANN401 - passed on
            found = changed_since(*given, **more)
            self.count += found.before.num_rows + found.after.num_rows
            return found

        def taken(*given: Any, **more: Any) -> pa.Table:  # noqa: ANN401 - passed on
            rows = take_rows(*given, **more)
            self.count += rows.num_rows
            return rows

        def scanned(*given: Any, **more: Any) -> Any:  # noqa: ANN401 - passed on
            rows = scan(*given, **more).read_all()
            self.count += rows.num_rows
            return rows.to_reader()

        patch.setattr(TableStore, "changed_since", changed)
        patch.setattr(TableStore, "take_rows", taken)
        patch.setattr(TableStore, "scan", scanned)

    def take(self) -> int:
        """How many since the last time."""
        self.count, count = 0, self.count
        return count


@pytest.mark.extended
@pytest.mark.parametrize("both", [False, True], ids=["fast forward", "both work"])
def test_merging_back_and_forth_costs_the_change_since_the_last_merge(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch, *, both: bool
) -> None:
    graph = graphs.init(SCHEMA)
    people(graph, "main", **{f"p{number}": number for number in range(50)})
    graph.branches.create("b")
    rows = Rows(monkeypatch)
    costs = []
    for number in range(7):
        people(graph, "b", **{f"b{number}": 1, f"p{number}": -1})
        if both:
            people(graph, "main", **{f"m{number}": 1})
        rows.take()
        graph.branches.merge("b")
        there = rows.take()
        if both:
            people(graph, "b", **{f"c{number}": 1})
        rows.take()
        graph.branches.merge("main", into="b")
        costs.append((there, rows.take()))
    assert len(set(costs[2:])) == 1, costs
    graph.branches.merge("b")
    assert ages(graph, "b") == ages(graph)


def test_bringing_main_again_and_again_costs_what_main_did_since(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init(SCHEMA)
    people(graph, "main", a=1)
    graph.branches.create("b")
    rows = Rows(monkeypatch)
    costs = []
    for number in range(5):
        people(graph, "b", **{f"b{number}": 1})
        people(graph, "main", **{f"m{number}": 1})
        rows.take()
        graph.branches.merge("main", into="b")
        costs.append(rows.take())
    assert len(set(costs[1:])) == 1, costs


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Graph, Watcher]]]:
    opened = []
    for count in (2_000, 40_000):
        graphs = Opened(tmp_path_factory.mktemp("size"))
        people(graphs.init(SCHEMA), "main", **{f"p{number}": 1 for number in range(count)})
        observer = Watcher()
        opened.append((graphs, graphs.coordinated(observer=observer), observer))
    yield [(graph, observer) for _, graph, observer in opened]
    for graphs, *_ in opened:
        graphs.close()


def test_a_merge_calls_the_store_as_often_in_a_large_table(
    sizes: list[tuple[Graph, Watcher]],
) -> None:
    costs = []
    for graph, observer in sizes:
        cost: Counter[str] = Counter()
        graph.branches.create("b")
        for number in range(3):
            people(graph, "b", **{f"p{each}": number for each in range(20)}, new=number)
            people(graph, "main", **{f"p{each}": number for each in range(30, 50)})
            for source, target in (("b", "main"), ("main", "b")):
                observer.calls.clear()
                graph.branches.merge(source, into=target)
                cost.update(call.operation for call in observer.calls)
        costs.append(cost)
    assert costs[0] == costs[1]


def test_a_diff_calls_the_store_as_often_in_a_large_table(
    sizes: list[tuple[Graph, Watcher]],
) -> None:
    costs = []
    for graph, observer in sizes:
        old = head(graph)
        people(graph, "main", **{f"p{each}": 7 for each in range(50, 70)}, other=1)
        observer.calls.clear()
        assert len(graph.diff(old, head(graph)).changes) == 21
        costs.append(Counter(call.operation for call in observer.calls))
    assert costs[0] == costs[1]


MANY_ROWS = """
import tempfile
from pathlib import Path
import pyarrow as pa
from omnigraph import Graph
from omnigraph.settings import load_settings

ROWS = 100_000

def put(graph, branch, start, age):
    numbers = range(start, start + ROWS)
    with graph.write(branch) as writer:
        names = [f"person-{number:08}" for number in numbers]
        notes = [f"{number} " + "x" * 100 for number in numbers]
        ages = pa.array([age] * ROWS, pa.int32())
        writer.upsert("Person", pa.table({"name": names, "age": ages, "note": notes}))
        return writer.commit().graph_commit_id

def peak_mib():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(each.split()[1]) for each in status if each.startswith("VmHWM")) // 1024

def grown_mib(call):
    Path("/proc/self/clear_refs").write_text("5")  # The peak begins anew.
    before = peak_mib()
    made = call()
    print(peak_mib() - before)
    return made

schema = "node Person { name: String @key  age: I32?  note: String }"
settings = load_settings({"OMNIGRAPH_DURABILITY": "process"})
with tempfile.TemporaryDirectory() as folder:
    with Graph.init(Path(folder) / "g", schema=schema, settings=settings) as graph:
        put(graph, "main", 0, 1)
        graph.branches.create("b")
        put(graph, "b", ROWS // 2, 2)
        put(graph, "main", 2 * ROWS, 3)
        merged = grown_mib(lambda: graph.branches.merge("b")).commit
        counts = merged.stats["tables"]["node:Person"]
        assert counts == {"added": ROWS // 2, "changed": ROWS // 2, "removed": 0}, counts
        grown_mib(lambda: graph.commits.revert(merged.graph_commit_id))
        assert graph.snapshot().count("Person") == 2 * ROWS
"""


@pytest.mark.extended
def test_a_hundred_thousand_rows_are_merged_and_undone_in_little_memory() -> None:
    """The rows have 15 MiB; an object of Python for each of their values has a multiple."""
    done = subprocess.run(
        [sys.executable, "-c", MANY_ROWS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert max(map(int, done.stdout.split())) < 96, "MiB"
