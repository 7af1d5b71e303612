"""Results as JSON: the bodies of the HTTP contract, so that a program reads one shape.

What only an embedded graph can tell stays out of them; fields may be added, never changed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.graph.history.commit_graph import Commit, CommitPage
    from omnigraph.graph.history.snapshot_table import SnapshotTable
    from omnigraph.graph.jobs.report import JobReport, TableReport
    from omnigraph.graph.merge.merge_result import MergeResult
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.schema_apply.applied import SchemaApplied
    from omnigraph.lang.schema_plan import MigrationStep, SchemaPlan

_COMMIT_FIELDS: Final = (
    "graph_commit_id",
    "graph_branch",
    "graph_manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "actor_id",
    "created_at",
    "committed_at",
    "kind",
    "operation_id",
)
_DATASET_FIELDS: Final = (
    "dataset_path",
    "published_dataset_version",
    "native_dataset_branch",
    "entity_count",
)
_STEP_FIELDS: Final = {"entity": "type_kind", "property": "property_name"}


class SnapshotFacts(Protocol):
    """What is told of a state without reading a row of it."""

    @property
    def seq(self) -> int:
        """Its number on its branch."""

    @property
    def internal_schema_version(self) -> int:
        """The version of the storage format."""

    @property
    def tables(self) -> Sequence[SnapshotTable]:
        """Its tables, nodes first."""


def commit_body(commit: Commit) -> dict[str, object]:
    """A commit; `recovered` is there only when a recovery published it for its writer."""
    body: dict[str, object] = {name: getattr(commit, name) for name in _COMMIT_FIELDS}
    return body | ({"recovered": True} if commit.recovered else {})


def shown_commit_body(commit: Commit) -> dict[str, object]:
    """A commit that is asked for by its id: with what it tells of its changes and its origin."""
    return commit_body(commit) | {"stats": commit.stats}


def commit_page_body(page: CommitPage) -> dict[str, object]:
    """A page of the history."""
    body: dict[str, object] = {"commits": [commit_body(commit) for commit in page]}
    return body | ({} if page.next_cursor is None else {"next_cursor": page.next_cursor})


def merge_body(result: MergeResult) -> dict[str, object]:
    """How a merge ended; `commit` is null when nothing had to be merged."""
    commit = None if result.commit is None else commit_body(result.commit)
    return result.to_dict() | {"commit": commit}


def revert_body(wanted: str, branch: str, made: Commit | None) -> dict[str, object]:
    """What was undone, by the id of its commit where that is known, and the commit that did it."""
    undone = wanted if made is None else made.stats.get("revert", {}).get("commit", wanted)
    commit = None if made is None else commit_body(made)
    return {"reverted": undone, "branch": branch, "commit": commit}


def mutation_body(result: MutationResult) -> dict[str, object]:
    """The receipt of a mutation; `commit` is null when nothing changed."""
    body: dict[str, object] = result.to_dict()
    return body | {"commit": None if result.commit is None else commit_body(result.commit)}


def load_body(report: JobReport) -> dict[str, object]:
    """The receipt of a load, and its `report`; `commit` is null when nothing changed."""
    commit = None if report.commit is None else commit_body(report.commit)
    return {
        "branch": report.branch,
        "base_branch": report.base_branch,
        "branch_created": report.branch_created,
        "mode": report.mode,
        "nodes": _loaded(report, "node"),
        "edges": _loaded(report, "edge"),
        "total_entities": sum(map(_entities, report.tables)),
        "actor_id": report.actor_id,
        "commit": commit,
        "report": report.to_dict() | {"commit": commit},
    }


def snapshot_body(snapshot: SnapshotFacts, branch: str) -> dict[str, object]:
    """The tables of a branch's head."""
    return {
        "graph_branch": branch,
        "graph_manifest_version": snapshot.seq,
        "internal_schema_version": snapshot.internal_schema_version,
        "datasets": [_dataset_body(table) for table in snapshot.tables],
    }


def plan_body(plan: Plan) -> dict[str, object]:
    """How a query runs, and what it reads."""
    return {
        "query_name": plan.query_name,
        "target": plan.target.to_dict(),
        "plan": plan.to_dict(),
        "graph_commit_id": plan.graph_commit_id,
    }


def schema_plan_body(plan: SchemaPlan) -> dict[str, object]:
    """The steps of a schema change, and what is refused or risky about them."""
    return plan.to_dict() | {"steps": _steps(plan.steps)}


def schema_apply_body(applied: SchemaApplied, uri: str, version: int) -> dict[str, object]:
    """What was done to a schema; `commit` is null when nothing had to be."""
    body = applied.to_dict() | {"uri": uri, "steps": _steps(applied.steps)}
    commit = None if applied.commit is None else commit_body(applied.commit)
    return body | {"commit": commit, "graph_manifest_version": version}


def _steps(steps: Iterable[MigrationStep]) -> list[dict[str, object]]:
    return [
        {_STEP_FIELDS.get(name, name): value for name, value in step.to_dict().items()}
        for step in steps
    ]


def show_time(time_us: int) -> str:
    """Microseconds since the epoch for people, to the second."""
    seconds = datetime.fromtimestamp(time_us // 1_000_000, UTC)
    return seconds.isoformat().replace("+00:00", "Z")


def split_table_key(table: SnapshotTable) -> tuple[str, str]:
    """`node` or `edge`, and the name of the type."""
    kind, _, name = table.table_key.partition(":")
    return kind, name


def _loaded(report: JobReport, kind: str) -> list[dict[str, object]]:
    """The types of one kind with the entities that the input gave them."""
    named = ((*table.table.partition(":"), _entities(table)) for table in report.tables)
    return [
        {"name": name, "entities_loaded": entities}
        for table_kind, _, name, entities in named
        if table_kind == kind
    ]


def _entities(table: TableReport) -> int:
    return table.added + table.changed + table.unchanged


def _dataset_body(table: SnapshotTable) -> dict[str, object]:
    kind, name = split_table_key(table)
    return {"entity_kind": kind, "type_name": name} | {
        field: getattr(table, field) for field in _DATASET_FIELDS
    }
