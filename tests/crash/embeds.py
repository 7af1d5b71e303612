"""The embedding job that crash tests run, without Spark, and what it must give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.crash.model import Content, put

from omnigraph.embedding import MockEmbedder, Purpose
from omnigraph.ids import BranchName
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """Fills the vectors of the people who have none; it writes one table."""

    is_repeatable: bool = True

    def apply(self, content: Content) -> None:
        """Do to the model what the write does to the graph."""
        people = content["Person"]
        for row in list(people.values()):
            if row["vec"] is None:
                put(people, {**row, "vec": vector_of(row["name"])})

    def send(self, graph: Graph, branch: str) -> Commit | None:
        """Make the write."""
        from omnigraph.pipeline.embed.job import EmbedJob, EmbedOptions
        from omnigraph.pipeline.embed.targets import EmbedMode
        from omnigraph.pipeline.spark.job import open_job

        options = EmbedOptions(
            type="Person",
            property=None,
            mode=EmbedMode.MISSING,
            branch=BranchName(branch),
            actor_id=graph._actor,
        )
        job = open_job(graph._graph, None, load_process_settings(), kind="embed")
        return EmbedJob(job, options, embedder=MockEmbedder()).report().commit


def vector_of(name: str) -> list[float]:
    """What the job fills in for a name."""
    found = MockEmbedder().embed([name], dimension=2, purpose=Purpose.DOCUMENT)[0]
    return [float(each) for each in found]


EMBEDS: Mapping[str, Embed] = {"embed": Embed()}
