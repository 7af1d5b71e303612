"""What earlier runs of a pipeline left in the history of a branch: job keys and cursors.

A commit keeps them in `stats.pipeline`, so data and cursor cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.graph.history.commit_graph import CommitGraph, commit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.manifest.manifest_line import ManifestLine


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineHistory:
    """The runs that a branch knows, its own and those that it inherited."""

    last: Commit | None = None
    """The newest commit that names the pipeline."""
    by_job_key: Mapping[str, Commit] = field(default_factory=dict)
    """The newest commit of each job, of any pipeline."""

    @property
    def last_id(self) -> str:
        """The id of that commit; empty before the first run."""
        return "" if self.last is None else self.last.graph_commit_id

    @property
    def cursors(self) -> dict[str, Any]:
        """What the newest run kept, by source."""
        return {} if self.last is None else dict(self.last.stats["pipeline"].get("cursors", {}))

    @property
    def sources(self) -> dict[str, str]:
        """What the newest run kept of sources that it read as a whole: what they were."""
        return {} if self.last is None else dict(self.last.stats["pipeline"].get("sources", {}))

    @property
    def had_rejects(self) -> bool:
        """Whether the newest run set rows aside."""
        return self.last is not None and bool(self.last.stats.get("load", {}).get("rejected"))


def read_history(line: ManifestLine, name: str | None) -> PipelineHistory:
    """The runs of a pipeline, newest first; without a name only the jobs."""
    last: Commit | None = None
    jobs: dict[str, Commit] = {}
    for commit in _commits_with(line, '"pipeline"'):
        run = commit.stats.get("pipeline")
        if run is None:
            continue
        if last is None and name is not None and run.get("name") == name:
            last = commit
        if run.get("job_key") is not None:
            jobs.setdefault(run["job_key"], commit)
    return PipelineHistory(last=last, by_job_key=jobs)


def _commits_with(line: ManifestLine, text: str) -> Iterator[Commit]:
    """The commits that a branch knows in whose facts a text occurs, newest first."""
    rows = line.commits_with(text)
    if all(row.copied_from is None for row in rows):
        return map(commit_of, rows)
    return CommitGraph(line).walk(line.head.commit_id)
