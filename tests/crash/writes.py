"""Every write that crash tests make: by the writer, as mutations, loads of both lanes and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tests.crash.embeds import EMBEDS, Embed
from tests.crash.loads import LOADS, Load
from tests.crash.model import COLUMNS, Content
from tests.crash.mutations import MUTATIONS, Mutation
from tests.crash.reverts import REVERTS, Revert
from tests.crash.scripts import INDEX, OPTIMIZE, SCRIPTS, Script
from tests.crash.spark_loads import JOBS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit

Write: TypeAlias = Script | Mutation | Load | Embed | Revert

WRITES: Mapping[str, Write] = {
    **SCRIPTS,
    **MUTATIONS,
    **LOADS,
    **JOBS,
    **EMBEDS,
    **REVERTS,
    "index": INDEX,
    "optimize": OPTIMIZE,
}

ROW_KINDS = {"mutation", "load", "embed"}
"""The kinds of commit by which rows change."""


def play(content: Content, write: Write) -> Content:
    """What the model holds after a write."""
    after = {name: dict(rows) for name, rows in content.items()}
    write.apply(after)
    return after


def play_all(*writes: Write, on: Content | None = None) -> Content:
    """What the model holds after several writes."""
    content: Content = {name: {} for name in COLUMNS} if on is None else on
    for write in writes:
        content = play(content, write)
    return content


def commit(graph: Graph, write: Write, branch: str = "main") -> Commit | None:
    """The same write through the public API."""
    return write.send(graph, branch)
