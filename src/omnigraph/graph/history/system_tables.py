"""History and audit as Arrow tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.ids import MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator

_TEXT = pa.string()
_WHEN = pa.timestamp("us", tz="UTC")

# Any: the stubs give a field of unknown type no supertype that `schema` takes.
_COMMITS: list[pa.Field[Any]] = [
    pa.field("graph_commit_id", _TEXT, nullable=False),
    pa.field("graph_branch", _TEXT, nullable=False),
    pa.field("graph_manifest_version", pa.int64(), nullable=False),
    pa.field("parent_commit_id", _TEXT),
    pa.field("merged_parent_commit_id", _TEXT),
    pa.field("actor_id", _TEXT),
    pa.field("created_at", _WHEN, nullable=False),
    pa.field("committed_at", _WHEN, nullable=False),
    pa.field("kind", _TEXT, nullable=False),
    pa.field("operation_id", _TEXT, nullable=False),
    pa.field("schema_hash", _TEXT, nullable=False),
    pa.field("stats", _TEXT, nullable=False),
]
_RECOVERIES: list[pa.Field[Any]] = [
    pa.field("operation_id", _TEXT, nullable=False),
    pa.field("recovery_kind", _TEXT, nullable=False),
    pa.field("writer_kind", _TEXT, nullable=False),
    pa.field("recovery_for_actor", _TEXT),
    pa.field("recovered_by", _TEXT, nullable=False),
    pa.field("recovered_at", _WHEN, nullable=False),
    pa.field("tables", _TEXT, nullable=False),
    pa.field("graph_commit_id", _TEXT),
]


def system_table(lines: ManifestCoordinator, name: str) -> pa.Table:
    """One of the system's tables, over all live branches; `manifest` is the main line's.

    Raises:
        InvalidArgument: there is no such table.
    """
    make = _TABLES.get(name)
    if make is None:
        raise InvalidArgument(
            f"there is no system table {name!r}; there are {', '.join(_TABLES)}", name=name
        )
    return make(lines)


def _commits(lines: ManifestCoordinator) -> pa.Table:
    commits: dict[str, dict[str, Any]] = {}
    for line in lines.live_lines():
        for row in line.commits():
            if row.commit_id not in commits:
                commit = commit_of(row).to_dict()
                commits[row.commit_id] = commit | {"stats": _text(commit["stats"])}
    ordered = [commits[key] for key in sorted(commits, reverse=True)]
    return pa.Table.from_pylist(ordered, schema=pa.schema(_COMMITS))


def _recoveries(lines: ManifestCoordinator) -> pa.Table:
    recoveries: dict[str, dict[str, Any]] = {}
    for line in lines.live_lines():
        for row in line.recoveries():
            recoveries.setdefault(
                row.operation_id,
                {
                    "operation_id": row.operation_id,
                    "recovery_kind": row.recovery_kind,
                    "writer_kind": row.writer_kind,
                    "recovery_for_actor": row.recovery_for_actor,
                    "recovered_by": _text(dict(row.recovered_by)),
                    "recovered_at": row.recovered_at,
                    "tables": _text([dict(table) for table in row.tables]),
                    "graph_commit_id": row.graph_commit_id,
                },
            )
    ordered = [recoveries[key] for key in sorted(recoveries, reverse=True)]
    return pa.Table.from_pylist(ordered, schema=pa.schema(_RECOVERIES))


def _manifest(lines: ManifestCoordinator) -> pa.Table:
    return lines.read(MAIN_BRANCH_ID).rows.sort_by("object_id")


_TABLES: dict[str, Callable[[ManifestCoordinator], pa.Table]] = {
    "graph_commits": _commits,
    "graph_commit_recoveries": _recoveries,
    "manifest": _manifest,
}


def _text(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
