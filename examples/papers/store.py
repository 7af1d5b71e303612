"""Stores the sample in a graph, asks it a few queries, changes it on a branch, reads the past.

    python examples/papers/store.py papers.omni        # a new graph in this folder
    python examples/papers/store.py s3://bucket/papers # or in a bucket

Without an argument the graph lives in a temporary folder and is gone afterwards.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph import Graph
from omnigraph.lang import Catalog, EdgeType, NodeType

HERE = Path(__file__).parent
SCHEMA = HERE / "schema.pg"
QUERIES = HERE / "queries.gq"
DATA = HERE / "papers-small.ndjson"

Record = dict[str, Any]


def read_records(path: Path) -> dict[str, list[Record]]:
    """Returns the records of a file by type: `node:Author`, `edge:Wrote`."""
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "edge" in record:
            ends = {"src": record["from"], "dst": record["to"]}
            found[f"edge:{record['edge']}"].append(ends | record.get("data", {}))
        else:
            found[f"node:{record['type']}"].append(record["data"])
    return found


def as_arrow(item: NodeType | EdgeType, records: Iterable[Record]) -> pa.Table:
    """Returns the records as a table with the columns that they mention."""
    rows = [_defaults(item) | record for record in records]
    given = {name for row in rows for name in row}
    fields = [field for field in item.arrow_schema if field.name in given]
    columns = [_column([row.get(field.name) for row in rows], field.type) for field in fields]
    return pa.table(dict(zip([field.name for field in fields], columns, strict=True)))


def _defaults(item: NodeType | EdgeType) -> Record:
    found = ((name, each.default) for name, each in item.properties.items())
    return {name: default.value for name, default in found if default is not None}


def _column(values: list[Any], kind: pa.DataType) -> "pa.Array[Any]":
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


def store(graph: Graph, catalog: Catalog, records: dict[str, list[Record]]) -> None:
    """Writes all records in one commit; a broken rule of the schema refuses all of them."""
    with graph.write() as write:
        for name, node in catalog.node_types.items():
            write.upsert(f"node:{name}", as_arrow(node, records[f"node:{name}"]))
        for name, edge in catalog.edge_types.items():
            write.upsert(f"edge:{name}", as_arrow(edge, records[f"edge:{name}"]))
        commit = write.commit()
    assert commit is not None, "the sample is not empty"  # noqa: S101
    print(f"Commit {commit.graph_manifest_version} on {commit.graph_branch}")
    for table, rows in commit.stats["tables"].items():
        print(f"  {table:<22} {rows['added']:>3} rows")


def build_indexes(graph: Graph) -> None:
    """Builds every index that the schema declares; the answers are the same without them."""
    report = graph.maintenance.ensure_indices()
    built = sum(len(table.built) for table in report.tables)
    print(f"Indexes: {built} built on {len(report.tables)} tables", end="\n\n")


def ask(graph: Graph) -> None:
    """Runs a walk, a negation, groups and a search of `queries.gq`, each on one snapshot."""
    source = QUERIES.read_text(encoding="utf-8")
    paper = next(iter(graph.query(source, "paper_by_slug", {"slug": "p2022-0002"})))
    asked: dict[str, Record] = {
        "citation_chain": {"slug": "p2023-0006"},
        "uncited_papers": {"before": "2024-01-01", "keyword": "representation learning"},
        "topic_overview": {},
        "hybrid_search": {
            "topic": "representation-learning",
            "since": "2022-01-01",
            "text": "contrastive training",
            "embedding": paper["p.embedding"],
        },
    }
    for name, params in asked.items():
        print(graph.query(source, name, params).to_table(max_width=44), end="\n\n")


def review(graph: Graph) -> None:
    """Removes all citations on a branch; `main` and the past keep them."""
    graph.branches.create("review")
    cites = graph.snapshot().scan("Cites", columns=["id"]).read_all()["id"].to_pylist()
    with graph.write("review") as write:
        write.delete("Cites", [str(each) for each in cites])
        write.commit()
    print("Citations")
    for branch in graph.branches.list():
        print(f"  {branch.name:<22} {graph.snapshot(branch=branch.name).count('Cites'):>3} rows")
    print(f"  {'main, before the load':<22} {graph.snapshot(0).count('Cites'):>3} rows")


def main(arguments: Sequence[str] | None = None) -> None:
    """Stores the sample where it is told to."""
    parser = argparse.ArgumentParser(description="Store the sample domain in a graph and query it.")
    parser.add_argument("graph", nargs="?", help="a new folder or s3:// address")
    where = parser.parse_args(arguments).graph
    with (
        tempfile.TemporaryDirectory() as scratch,
        Graph.init(where or Path(scratch, "papers.omni"), schema=SCHEMA) as graph,
    ):
        store(graph, graph.schema.catalog, read_records(DATA))
        build_indexes(graph)
        ask(graph)
        review(graph)


if __name__ == "__main__":
    main()
