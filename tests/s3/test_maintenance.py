"""Maintenance of a graph in a bucket: the same calls, the same floors."""

import pytest
from tests.s3.stand_in import StandIn

from omnigraph.api import Graph
from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.maintenance import kept_versions
from omnigraph.settings import load_settings

pytestmark = [pytest.mark.s3, pytest.mark.extended]


def test_a_graph_in_a_bucket_is_optimized_cleaned_and_verified(
    s3: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_versions, "YOUNG_US", 0)
    settings = load_settings({**s3.environment(), "OMNIGRAPH_AUTO_MAINTENANCE": "0"})
    schema = "node Person { name: String @key }"
    with Graph.init(s3.uri("kept.omni"), schema=schema, settings=settings) as graph:
        for number in range(6):
            graph.mutate(f'query q() {{ insert Person {{ name: "p{number}" }} }}')
        graph.branches.create("draft")
        graph.mutate('query q() { insert Person { name: "own" } }', branch="draft")
        first = list(graph.commits)[-2].graph_commit_id
        (table,) = graph.maintenance.optimize().tables
        assert (table.fragments_removed, table.fragments_added) == (6, 1)
        report = graph.maintenance.cleanup(keep=3, confirm=True)
        assert report.errors == ()
        # The version that the branch began with stays between those that went.
        assert report.tables[0].old_versions_removed == 7
        with pytest.raises(SnapshotReclaimed):
            graph.snapshot(first).scan("Person").read_all()
        graph.mutate('query q() { insert Person { name: "later" } }')
        assert (
            graph.snapshot().count("Person") == graph.snapshot(branch="draft").count("Person") == 7
        )
        assert graph.maintenance.repair().is_clean
    with Graph.open(s3.uri("kept.omni"), mode="read_only", settings=settings) as reader:
        assert reader.maintenance.verify(deep=True).problems == ()
