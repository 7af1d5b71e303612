"""Loads the sample, asks it a few queries, changes it on branches, merges one, reads the past.

    python examples/papers/store.py papers.omni        # a new graph in this folder
    python examples/papers/store.py s3://bucket/papers # or in a bucket

Without an argument the graph lives in a temporary folder and is gone afterwards.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omnigraph import Graph

HERE = Path(__file__).parent
SCHEMA = HERE / "schema.pg"
QUERIES = HERE / "queries.gq"
DATA = HERE / "papers-small.ndjson"


def load(graph: Graph) -> None:
    """Loads the file in one commit; a broken rule of the schema refuses all of it."""
    report = graph.load(DATA, mode="append")
    assert report.commit is not None, "the sample is not empty"  # noqa: S101
    print(f"Commit {report.commit.graph_manifest_version} on {report.branch}")
    for table in report.tables:
        print(f"  {table.table:<22} {table.added:>3} rows")


def build_indexes(graph: Graph) -> None:
    """Builds every index that the schema declares; the answers are the same without them."""
    report = graph.maintenance.ensure_indices()
    built = sum(len(table.built) for table in report.tables)
    print(f"Indexes: {built} built on {len(report.tables)} tables", end="\n\n")


def ask(graph: Graph) -> None:
    """Runs a walk, a negation, groups and a search of `queries.gq`, each on one snapshot."""
    source = QUERIES.read_text(encoding="utf-8")
    paper = next(iter(graph.query(source, "paper_by_slug", {"slug": "p2022-0002"})))
    asked: dict[str, dict[str, Any]] = {
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
    print(f"  {'main, before the load':<22} {graph.snapshot(0).count('Cites'):>3} rows", end="\n\n")


def correct(graph: Graph) -> None:
    """Adds a topic on a branch, merges that into `main`, then undoes the merge."""
    graph.branches.create("correction")
    source = 'query q() { insert Topic { slug: "graphs", name: "Graphs" } }'
    graph.mutate(source, branch="correction")
    print("Merge of correction")
    print(f"  planned: {graph.branches.merge_plan('correction').tables}")
    merged = graph.branches.merge("correction", delete_branch=True)
    print(f"  {merged.outcome}: {graph.snapshot().count('Topic')} topics")
    assert merged.commit is not None, "the branch had a commit"  # noqa: S101
    graph.commits.revert(merged.commit.graph_commit_id)
    print(f"  undone: {graph.snapshot().count('Topic')} topics")


def main(arguments: Sequence[str] | None = None) -> None:
    """Loads the sample where it is told to."""
    parser = argparse.ArgumentParser(description="Load the sample into a graph and query it.")
    parser.add_argument("graph", nargs="?", help="a new folder or s3:// address")
    where = parser.parse_args(arguments).graph
    with (
        tempfile.TemporaryDirectory() as scratch,
        Graph.init(where or Path(scratch, "papers.omni"), schema=SCHEMA) as graph,
    ):
        load(graph)
        build_indexes(graph)
        ask(graph)
        review(graph)
        correct(graph)


if __name__ == "__main__":
    main()
