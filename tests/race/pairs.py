"""A graph whose every write adds one row to each of two tables, and what must hold of it.

Whoever reads one snapshot must find the same keys in both tables: a write that is half visible
shows at once.
"""

from collections.abc import Iterable

import pyarrow as pa

from omnigraph.api import Graph
from omnigraph.graph.history.commit_graph import Commit
from omnigraph.graph.history.snapshot import Snapshot
from omnigraph.graph.manifest.manifest_line import ManifestLine
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.storage.handles import lance_branch

SCHEMA = "node Left { name: String @key }\nnode Right { name: String @key }"
TYPES = ("Left", "Right")


def write_pair(graph: Graph, *keys: str, branch: str = "main", upsert: bool = False) -> Commit:
    """Adds every key to both tables in one commit."""
    rows = pa.table({"name": pa.array(keys, pa.string())})
    with graph.write(branch) as writer:
        for each in TYPES:
            (writer.upsert if upsert else writer.append)(each, rows)
        commit = writer.commit()
    assert commit is not None
    return commit


def keys_of(snapshot: Snapshot, type_name: str) -> list[str]:
    """The keys of one table, sorted, repetitions included."""
    found = snapshot.scan(type_name, columns=["id"]).read_all()["id"].to_pylist()
    return sorted(str(each) for each in found)


def pairs_of(snapshot: Snapshot) -> list[str]:
    """The keys that both tables hold; they must hold the same ones, each once."""
    left, right = (keys_of(snapshot, each) for each in TYPES)
    assert left == right, f"half of {sorted(set(left) ^ set(right))} is visible at {snapshot.seq}"
    assert len(left) == len(set(left)), f"a key exists twice at {snapshot.seq}"
    assert len(left) == snapshot.count("Left") == snapshot.count("Right")
    return left


def require_settled(graph: Graph, branches: Iterable[str] = ("main",)) -> None:
    """No sidecar, one chain without gaps per branch, and every newest table version is its pin."""
    parts = graph._graph
    assert parts.sidecars.list() == []
    for name in branches:
        line = parts.lines.read_again(parts.branch_id(name))
        _require_chain(line)
        _require_heads(graph, line)


def _require_chain(line: ManifestLine) -> None:
    commits = sorted(line.commits(), key=lambda each: each.seq)
    assert [each.seq for each in commits] == list(range(len(commits)))
    assert [each.parent for each in commits] == [
        None,
        *(each.commit_id for each in commits[:-1]),
    ]
    assert line.head.commit_id == commits[-1].commit_id
    assert line.head.seq == commits[-1].seq
    operations = [each.operation_id for each in commits]
    assert len(operations) == len(set(operations))


def _require_heads(graph: Graph, line: ManifestLine) -> None:
    for ref, pin in line.pins.items():
        if pin.branch == lance_branch(line.branch_id):
            layout = bare_layout(ref, pin.table_key, pin.location)
            head = graph._graph.tables.head_version(layout, pin.branch)
            assert head == pin.version, f"{pin.table_key}: head {head}, pin {pin.version}"


def commit_ids(graph: Graph, branch: str = "main") -> set[str]:
    """Every commit on the line of a branch."""
    line = graph._graph.lines.read_again(graph._graph.branch_id(branch))
    return {each.commit_id for each in line.commits()}
