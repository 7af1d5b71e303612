from dataclasses import replace

from omnigraph.cli.commit_text import decisions_text, merge_text, pipeline_text, rows_text
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


def test_a_merge_tells_what_was_merged_and_how_conflicts_were_decided() -> None:
    assert (merge_text(COMMIT), decisions_text(COMMIT)) == (None, None)
    merge: dict[str, object] = {"source": "draft", "outcome": "merged"}
    commit = replace(COMMIT, stats={"merge": merge})
    assert (merge_text(commit), decisions_text(commit)) == ("draft: merged", None)
    decided = [
        {"type": "Person", "id": f"p{each}", "kind": "divergent_update", "take": "ours"}
        for each in range(11)
    ]
    commit = replace(COMMIT, stats={"merge": merge | {"decided": decided, "decided_count": 2_000}})
    shown = str(decisions_text(commit)).split("; ")
    assert shown[0] == "Person p0 divergent_update: ours"
    assert (len(shown), shown[-1]) == (11, "1,990 more")
