"""Whether the rows of one line of the manifest agree with each other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from omnigraph.errors import ManifestCorrupt, OmnigraphError
from omnigraph.graph.history.named_rows import live_tags
from omnigraph.graph.manifest.rows import RowKind, decode_commit, decode_pin
from omnigraph.ids import MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow, PinRow


def contradictions(graph: GraphCoordinator, line: ManifestLine, schemas: set[str]) -> Iterator[str]:
    """What of a line cannot be; holds its rows. `schemas` have been read, and get what is read."""
    rows = line.rows.to_pylist()
    twice = [name for name, count in Counter(row["object_id"] for row in rows).items() if count > 1]
    for name in twice:
        yield f"there are several rows {name!r}"
    commits = [
        decode_commit(row)
        for row in rows
        if row["object_type"] == RowKind.GRAPH_COMMIT and row["seq"] is not None
    ]
    yield from _gaps(line, commits)
    yield from _damaged_schemas(graph, commits, schemas)
    pins = [decode_pin(row) for row in rows if row["object_type"] == RowKind.TABLE_VERSION]
    yield from _unregistered(line, pins)
    yield from _strange_types(graph, line)
    if line.branch_id == MAIN_BRANCH_ID:
        yield from _lost_tags(graph, line)


def _gaps(line: ManifestLine, commits: Sequence[CommitRow]) -> Iterator[str]:
    """One chain: each number once, each commit the parent of the next, the last one the head."""
    ordered = sorted(commits, key=lambda commit: commit.seq)
    if [commit.seq for commit in ordered] != list(range(line.head.seq + 1)):
        yield f"the commits of the line are not numbered 0 to {line.head.seq} without a gap"
        return
    parent = None
    for commit in ordered:
        if commit.parent != parent:
            yield f"commit {commit.commit_id} has the parent {commit.parent}, not {parent}"
        parent = commit.commit_id
    if parent != line.head.commit_id:
        yield f"the head is {line.head.commit_id}, and the last commit {parent}"


def _damaged_schemas(
    graph: GraphCoordinator, commits: Sequence[CommitRow], schemas: set[str]
) -> Iterator[str]:
    """Every schema that was in force can be read, so that older commits can."""
    for schema_hash in sorted({commit.schema_hash for commit in commits} - schemas):
        schemas.add(schema_hash)
        try:
            graph.schemas.reread(schema_hash)
        except ManifestCorrupt as error:
            first = min(commit.seq for commit in commits if commit.schema_hash == schema_hash)
            yield f"commit {first}: {error.message}"


def _unregistered(line: ManifestLine, pins: Sequence[PinRow]) -> Iterator[str]:
    known = {row.ref: row.location for row in line.registrations()}
    for pin in pins:
        if known.get(pin.ref) != pin.location:
            yield f"commit {pin.seq} pins {pin.table_key} at {pin.location}, which no row registers"


def _strange_types(graph: GraphCoordinator, line: ManifestLine) -> Iterator[str]:
    """Every type of the accepted schema has one table, and every table a type."""
    types = set(graph.schemas.tables(line.schema.schema_hash).types)
    for ref in sorted(line.pins.keys() - types):
        yield f"{line.pins[ref].table_key} has a table and is no type of the schema"
    for ref in sorted(types - line.pins.keys()):
        yield f"a type of the schema has no table {ref}"


def _lost_tags(graph: GraphCoordinator, line: ManifestLine) -> Iterator[str]:
    for tag in live_tags(line):
        try:
            found = graph.lines.read(tag.branch_id).commit(tag.commit_id)
        except OmnigraphError as error:
            yield f"the tag {tag.name!r} names a commit of a branch that is gone ({error.message})"
            continue
        if found is None:
            yield f"the tag {tag.name!r} names commit {tag.commit_id}, which its branch has not"
