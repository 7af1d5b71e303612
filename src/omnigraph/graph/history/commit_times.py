"""Commits by the time at which they became visible.

On a line each commit is later than the one before it, so a moment is found like a word in a
dictionary: a few numbers of the line are looked at in one read, then a few between two of them. The
history is never read. Commits from before the time was kept are taken by when they were sent, which
may be out of order by the length of a write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.graph.manifest.line_tip import missing_row

if TYPE_CHECKING:
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow

PROBES: Final = 32
"""How many commits one read looks at."""


def newest_until(line: ManifestLine, time_us: int) -> CommitRow | None:
    """The newest commit of a line that is not after a moment; `None` before the first one.

    Raises:
        ManifestCorrupt: numbers of the line are missing.
    """
    if line.head_commit.committed_at <= time_us:
        return line.head_commit
    found: CommitRow | None = None
    # The number of one that is not after the moment, or -1, and of one that is.
    low, high = -1, line.head.seq
    while high - low > 1:
        looked_at = line.commits_numbered(_spread(low, high))
        if not looked_at:
            raise missing_row(f"commit with a number between {low} and {high}")
        for commit in looked_at:
            if commit.committed_at > time_us:
                high = commit.seq
                break
            found, low = commit, commit.seq
    return found


def _spread(low: int, high: int) -> list[int]:
    """Numbers between two others, all of them if they are few, else evenly apart."""
    if high - low - 1 <= PROBES:
        return list(range(low + 1, high))
    return [low + (high - low) * probe // (PROBES + 1) for probe in range(1, PROBES + 1)]
