"""Answers of a server as the values that an open graph gives; pure.

Fields that nobody knows are ignored, so that a newer server can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import msgspec
import pyarrow as pa

from omnigraph.errors import InternalError, NotServed
from omnigraph.graph.changes.change_pages import (
    Cause,
    ChangeBlock,
    ChangePage,
    CommitChanges,
    DiffPage,
)
from omnigraph.graph.changes.entity_change import EntityChange, Image, Op
from omnigraph.graph.history.commit import Commit, CommitPage
from omnigraph.graph.history.snapshot_table import SnapshotTable
from omnigraph.graph.history.tag import Tag
from omnigraph.graph.jobs.report import JobReport, StageReport, TableReport
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind
from omnigraph.graph.merge.merge_plan import MergePlan
from omnigraph.graph.merge.merge_result import MergeResult, Outcome
from omnigraph.graph.query.plan import Plan
from omnigraph.graph.query.target import QueryTarget
from omnigraph.graph.results.mutation_result import MutationResult
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.graph.schema_apply.applied import KeptData, SchemaApplied
from omnigraph.graph.validation import EntityKind
from omnigraph.ids import MAIN_BRANCH
from omnigraph.lang.arrow_schema import prop_type
from omnigraph.lang.descriptor import StoredQuery, prop_type_of
from omnigraph.lang.ir import Column, Param
from omnigraph.lang.schema_plan import (
    MigrationDiagnostic,
    MigrationStep,
    SchemaPlan,
    StepKind,
)

if TYPE_CHECKING:
    from omnigraph.client.call import Answer

Body: TypeAlias = Mapping[str, Any]  # Any: JSON of a server, whose shape the contract fixes

ARROW_TYPE: Final = "application/vnd.apache.arrow.stream"
_PLAN_FIELDS: Final = frozenset(
    {"query", "snapshot", "executor", "ops", "search", "order", "limit", "warnings"}
    | {"offset", "groups", "distinct", "having", "counts"}
)
_STEP_FIELDS: Final = frozenset(
    {"kind", "type_kind", "entity", "type_name", "property_name", "property", "code"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBranch:
    """A branch of a remote graph, of which the name is known and no more."""

    name: str
    head: str | None = None
    parent: str | None = None
    created_at: int | None = None
    actor_id: str | None = None
    """Who made it, where that was just done."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSnapshot:
    """The head of a branch of a remote graph; its rows are read by queries."""

    graph_branch: str
    seq: int
    internal_schema_version: int
    tables: tuple[SnapshotTable, ...]
    commit_id: str | None = None

    @property
    def graph_commit_id(self) -> str:
        """The commit.

        Raises:
            NotServed: the server does not tell it.
        """
        if self.commit_id is None:
            raise NotServed("this server does not tell the commit of a snapshot; list commits")
        return self.commit_id

    def scan(self, *_: object, **__: object) -> NoReturn:
        """Not served."""
        raise _needs_storage("Snapshot.scan")

    def entity(self, *_: object) -> NoReturn:
        """Not served."""
        raise _needs_storage("Snapshot.entity")

    def count(self, *_: object) -> NoReturn:
        """Not served."""
        raise _needs_storage("Snapshot.count")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobFacts:
    """What is known of a blob without reading it."""

    length: int | None
    etag: str | None
    uri: str | None
    graph_commit_id: str


def _needs_storage(what: str) -> NotServed:
    return NotServed(
        f"{what} is not available on a remote graph; ask with a query, or open the graph with"
        " access to storage",
        operation=what,
    )


def query_result(answer: Answer, target: QueryTarget) -> QueryResult:
    """Rows that came as Arrow, with what came in headers."""
    try:
        table = pa.ipc.open_stream(answer.content).read_all()
        columns = [Column(name=field.name, type=prop_type(field)) for field in table.schema]
    except (pa.ArrowInvalid, KeyError, OSError) as error:
        raise InternalError(
            f"the server's rows cannot be read: {error}; please report it"
        ) from error
    headers = answer.headers
    told = headers.get("omnigraph-target")
    if told is not None:
        target = msgspec.json.decode(told, type=QueryTarget)
    return QueryResult(
        table,
        columns,
        query_name=headers.get("omnigraph-query-name", ""),
        target=target,
        graph_commit_id=headers.get("omnigraph-graph-commit", ""),
        policy_filtered=headers.get("omnigraph-policy-filtered") == "true",
    )


def invoked(answer: Answer, target: QueryTarget) -> QueryResult | MutationResult:
    """What a stored query gave, told apart by the form of the answer."""
    if answer.headers.get("content-type", "").startswith(ARROW_TYPE):
        return query_result(answer, target)
    return mutation_result(answer)


def mutation_result(answer: Answer) -> MutationResult:
    """The receipt of a mutation."""
    body = _body(answer)
    return MutationResult(
        branch=body["branch"],
        query_name=body["query_name"],
        affected_nodes=body["affected_nodes"],
        affected_edges=body["affected_edges"],
        actor_id=body.get("actor_id"),
        commit=_optional_commit(body),
        warnings=tuple(body.get("warnings", ())),
    )


def load_report(answer: Answer) -> JobReport:
    """The receipt of a load; a server that tells no report counts entities alone."""
    body = _body(answer)
    report: Body = body.get("report") or {"tables": _counted(body)}
    made = _optional_commit(body)
    return JobReport(
        operation_id=report.get("operation_id", made and made.operation_id),
        job_key=report.get("job_key"),
        commit=made,
        branch=body["branch"],
        base_branch=body.get("base_branch"),
        branch_created=body.get("branch_created", False),
        mode=body["mode"],
        engine=report.get("engine", "local"),
        merge_strategy=report.get("merge_strategy"),
        actor_id=body.get("actor_id"),
        already_loaded=report.get(
            "already_loaded", answer.headers.get("idempotent-replayed") == "true"
        ),
        tables=tuple(TableReport(**_known(TableReport, each)) for each in report["tables"]),
        violations=report.get("violations", {}),
        stages=tuple(StageReport(**_known(StageReport, each)) for each in report.get("stages", ())),
        warnings=tuple(report.get("warnings", ())),
    )


def _counted(body: Body) -> list[Body]:
    return [
        {
            "table": f"{kind}:{each['name']}",
            "read": each["entities_loaded"],
            "added": each["entities_loaded"],
        }
        for kind in ("node", "edge")
        for each in body.get(f"{kind}s", ())
    ]


def _known(kind: type, body: Body) -> dict[str, Any]:
    """What of a body this version has a field for."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in body.items() if name in names}


def remote_snapshot(answer: Answer) -> RemoteSnapshot:
    """The tables of a head."""
    body = _body(answer)
    return RemoteSnapshot(
        graph_branch=body["graph_branch"],
        seq=body["graph_manifest_version"],
        internal_schema_version=body["internal_schema_version"],
        tables=tuple(
            SnapshotTable(
                table_key=f"{each['entity_kind']}:{each['type_name']}",
                dataset_path=each["dataset_path"],
                native_dataset_branch=each["native_dataset_branch"],
                published_dataset_version=each["published_dataset_version"],
                entity_count=each["entity_count"],
            )
            for each in body["datasets"]
        ),
        commit_id=answer.headers.get("omnigraph-graph-commit"),
    )


def blob_facts(answer: Answer) -> BlobFacts:
    """What the headers tell of a blob."""
    headers = answer.headers
    is_outside = answer.status == 302
    return BlobFacts(
        length=None if is_outside else int(headers["content-length"]),
        etag=None if is_outside else headers["etag"],
        uri=headers["location"] if is_outside else None,
        graph_commit_id=headers.get("omnigraph-snapshot-id", ""),
    )


def branches(answer: Answer) -> list[RemoteBranch]:
    """The branches, `main` first, then by name."""
    names = sorted(_body(answer)["branches"], key=lambda name: (name != MAIN_BRANCH, name))
    return [RemoteBranch(name=name) for name in names]


def created_branch(answer: Answer) -> RemoteBranch:
    """The branch that was made."""
    return RemoteBranch(name=_body(answer)["name"], actor_id=_body(answer).get("actor_id"))


def merge_result(answer: Answer) -> MergeResult:
    """How a merge ended."""
    body = _body(answer)
    return MergeResult(
        source=body["source"],
        target=body["target"],
        outcome=Outcome(body["outcome"]),
        commit=_optional_commit(body),
        actor_id=body.get("actor_id"),
        branch_deleted=body.get("branch_deleted"),
        branch_delete_error=body.get("branch_delete_error"),
    )


def merge_plan(answer: Answer) -> MergePlan:
    """What a merge would do."""
    body = _body(answer)
    return MergePlan(
        source=body["source"],
        target=body["target"],
        outcome=Outcome(body["outcome"]),
        source_commit_id=body["source_commit_id"],
        target_commit_id=body["target_commit_id"],
        base_commit_id=body["base_commit_id"],
        tables=body["tables"],
        conflict_list=tuple(map(_conflict, body["conflicts"])),
        conflict_count=body["conflict_count"],
    )


def _conflict(body: Body) -> Conflict:
    return Conflict(
        entity_kind=EntityKind(body["entity_kind"]),
        type_name=body["type_name"],
        entity_id=body["entity_id"],
        kind=ConflictKind(body["kind"]),
        message=body["message"],
        base=_image(body.get("base")),
        ours=_image(body.get("ours")),
        theirs=_image(body.get("theirs")),
        entity_ids=tuple(body.get("entity_ids", ())),
        remedy=body.get("remedy"),
    )


def tags(answer: Answer) -> list[Tag]:
    """The tags, by name."""
    return [Tag(**_known(Tag, each)) for each in _body(answer)["tags"]]


def tag(answer: Answer) -> Tag:
    """One tag."""
    return Tag(**_known(Tag, _body(answer)))


def reverted(answer: Answer) -> Commit | None:
    """The commit that undid another; none if nothing was left to undo."""
    made = _optional_commit(_body(answer))
    undone = {"revert": {"commit": _body(answer)["reverted"]}}
    return None if made is None else replace(made, stats=undone)


def commit(body: Body) -> Commit:
    """A commit; storage alone knows the hash of its schema, and lists leave out statistics."""
    return Commit(
        graph_commit_id=body["graph_commit_id"],
        graph_branch=body.get("graph_branch") or "main",
        graph_manifest_version=body["graph_manifest_version"],
        parent_commit_id=body.get("parent_commit_id"),
        merged_parent_commit_id=body.get("merged_parent_commit_id"),
        actor_id=body.get("actor_id"),
        created_at=body["created_at"],
        committed_at=body.get("committed_at", body["created_at"]),
        kind=body.get("kind", ""),
        operation_id=body.get("operation_id", ""),
        schema_hash="",
        stats=body.get("stats", {}),
        recovered=body.get("recovered", False),
    )


def _optional_commit(body: Body) -> Commit | None:
    made = body.get("commit")
    return None if made is None else commit(made)


def commit_page(answer: Answer) -> CommitPage:
    """A page of the history."""
    body = _body(answer)
    return CommitPage(
        commits=tuple(map(commit, body["commits"])), next_cursor=body.get("next_cursor")
    )


def commit_changes(answer: Answer) -> CommitChanges:
    """A page of what a commit changed."""
    body = _body(answer)
    return CommitChanges(
        cause=_cause(body["cause"]),
        changes=tuple(map(_change, body["changes"])),
        next_page_token=body.get("next_page_token"),
    )


def change_page(answer: Answer) -> ChangePage:
    """A page of the change feed."""
    body = _body(answer)
    return ChangePage(
        blocks=tuple(
            ChangeBlock(
                cause=_cause(block["cause"]),
                changes=tuple(map(_change, block["changes"])),
                cursor=block.get("cursor"),
            )
            for block in body["blocks"]
        ),
        next_page_token=body.get("next_page_token"),
        cursor=body.get("cursor"),
        caught_up=body.get("caught_up"),
    )


def diff_page(answer: Answer) -> DiffPage:
    """A page of what differs between two states."""
    body = _body(answer)
    return DiffPage(
        from_commit_id=body["from"],
        to_commit_id=body["to"],
        changes=tuple(map(_change, body["changes"])),
        next_page_token=body.get("next_page_token"),
    )


def diff_stats(answer: Answer) -> dict[str, dict[str, int]]:
    """How many entities differ."""
    stats: dict[str, dict[str, int]] = _body(answer)["stats"]
    return stats


def _cause(body: Body) -> Cause:
    return Cause(**_known(Cause, body))


def _change(body: Body) -> EntityChange:
    return EntityChange(
        kind=EntityKind(body["kind"]),
        type_id=body["type"]["id"],
        type_name=body["type"]["name"],
        id=body["id"],
        op=Op(body["op"]),
        before=_image(body.get("before")),
        after=_image(body.get("after")),
    )


def _image(body: Body | None) -> Image | None:
    if body is None:
        return None
    ends = body.get("endpoints")
    return Image(
        properties=body["properties"],
        endpoints=None if ends is None else (ends["from"], ends["to"]),
    )


def plan(answer: Answer, target: QueryTarget) -> Plan:
    """How a query runs."""
    body = _body(answer)
    told: Body = body["plan"]
    if isinstance(body.get("target"), dict):
        target = QueryTarget(
            branch=body["target"].get("branch"), snapshot=body["target"].get("snapshot")
        )
    return Plan(
        query_name=body["query_name"],
        target=target,
        graph_commit_id=body.get("graph_commit_id", ""),
        executor=told["executor"],
        ops=tuple(told["ops"]),
        search=tuple(told["search"]),
        order=tuple(told["order"]),
        limit=told["limit"],
        warnings=tuple(told["warnings"]),
        offset=told.get("offset"),
        groups=told.get("groups", {}),
        distinct=told.get("distinct", False),
        having=tuple(told.get("having", ())),
        counts=tuple(told.get("counts", ())),
        measured={name: value for name, value in told.items() if name not in _PLAN_FIELDS},
    )


def schema_applied(answer: Answer, source: str) -> SchemaApplied:
    """What was done to a schema."""
    body = _body(answer)
    made = SchemaPlan(
        steps=tuple(map(_step, body["steps"])),
        diagnostics=tuple(map(_diagnostic, body.get("diagnostics", ()))),
        source=source,
    )
    kept = tuple(KeptData(**_known(KeptData, each)) for each in body.get("kept_data", ()))
    return SchemaApplied(plan=made, commit=_optional_commit(body), kept_data=kept)


def schema_plan(answer: Answer, source: str, *, allow_data_loss: bool) -> SchemaPlan:
    """The steps to a schema."""
    body = _body(answer)
    return SchemaPlan(
        steps=tuple(map(_step, body["steps"])),
        diagnostics=tuple(map(_diagnostic, body["diagnostics"])),
        source=source,
        schema_from=body["schema_from"],
        allow_data_loss=allow_data_loss,
    )


def _step(body: Body) -> MigrationStep:
    return MigrationStep(
        kind=StepKind(body["kind"]),
        entity=body.get("type_kind", body.get("entity", "")),
        type_name=body["type_name"],
        property_name=body.get("property_name", body.get("property")),
        code=body.get("code"),
        details={name: value for name, value in body.items() if name not in _STEP_FIELDS},
    )


def _diagnostic(body: Body) -> MigrationDiagnostic:
    return MigrationDiagnostic(
        code=body["code"],
        severity=body["severity"],
        tier=body["tier"],
        detail=str(body["message"]).removeprefix(f"[{body['code']}] "),
        type_name=body["type_name"],
        property_name=body.get("property"),
    )


def stored_queries(answer: Answer) -> list[StoredQuery]:
    """The catalog of stored queries."""
    return [
        StoredQuery(
            name=each["name"],
            tool_name=each["tool_name"],
            mutation=each["mutation"],
            params=tuple(
                Param(name=param["name"], type=prop_type_of(param)) for param in each["params"]
            ),
            description=each.get("description"),
            instruction=each.get("instruction"),
        )
        for each in _body(answer)["queries"]
    ]


def _body(answer: Answer) -> Body:
    return answer.json()
