from dataclasses import replace

from omnigraph.cli.commit_text import pipeline_text, rows_text
from omnigraph.graph.history.commit_graph import Commit

COMMIT = Commit(
    graph_commit_id="c",
    graph_branch="main",
    graph_manifest_version=3,
    parent_commit_id=None,
    merged_parent_commit_id=None,
    actor_id=None,
    created_at=0,
    committed_at=0,
    kind="load",
    operation_id="o",
    schema_hash="h",
    stats={},
)


def test_a_commit_tells_its_rows_and_the_run_that_it_was() -> None:
    assert (rows_text(COMMIT), pipeline_text(COMMIT)) == ("-", "-")
    tables = {
        "node:A": {"added": 1_200, "changed": 0, "removed": 3},
        "edge:B": {"added": 1, "changed": 2, "removed": 0},
    }
    run = {
        "name": "nightly",
        "cursors": {"orders": {"value": "2024-03-10"}, "items": {"value": 12}},
    }
    commit = replace(COMMIT, stats={"tables": tables, "pipeline": run})
    assert rows_text(commit) == "+1,201 ~2 -3"
    assert pipeline_text(commit) == "nightly: orders to 2024-03-10, items to 12"
    assert pipeline_text(replace(commit, stats={"pipeline": {"name": "x"}})) == "x"
