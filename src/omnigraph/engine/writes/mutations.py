"""Runs mutations: one compiled query, one commit, prepared again when others were faster."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.engine.writes.mutation_staging import MutationStaging
from omnigraph.errors import InternalError
from omnigraph.graph.commit.txn import WriteRequest
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.results.mutation_result import MutationResult
from omnigraph.lang import MutationIR, bind_params, select_query
from omnigraph.lang.query_ast import NOW_PARAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.commit.protocol import CommitProtocol
    from omnigraph.graph.commit.txn import PreparedWrite, WriteTxn
    from omnigraph.graph.load.vector_filling import VectorFiller
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.compiled import CompiledQueries
    from omnigraph.ids import BranchName, IdSource


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationRequest:
    """One mutation as it was asked for."""

    source: str
    name: str | None = None
    params: Mapping[str, object] | None = None
    branch: BranchName
    actor_id: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None

    @property
    def digest(self) -> str:
        """What tells this request from another one with the same key."""
        parts = [self.source, self.name, self.params and dict(self.params)]
        text = json.dumps(parts, sort_keys=True, default=repr, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(kw_only=True)
class MutationRun:
    """One run of one mutation: what stays the same over all its attempts."""

    protocol: CommitProtocol
    ids: IdSource
    compiled: CompiledQueries
    filler: VectorFiller
    request: MutationRequest
    budget: Budget
    now_ms: int
    blobs: BlobBudget
    _ids: dict[int, str] = field(default_factory=dict)
    _last: MutationStaging | None = None
    _query_name: str = ""

    def result(self) -> MutationResult:
        """Run it and tell what it did."""
        request = self.request
        row = self.protocol.run(
            WriteRequest(
                kind=SidecarKind.MUTATION,
                branch=request.branch,
                actor_id=request.actor_id,
                if_commit=request.if_commit,
                idempotency_key=request.idempotency_key,
                request_digest=None if request.idempotency_key is None else request.digest,
            ),
            self._prepare,
        )
        counts = {} if row is None else row.stats.get("affected", {})
        last = self._last
        return MutationResult(
            branch=request.branch,
            query_name=self._query_name or select_query(request.source, request.name).name,
            affected_nodes=counts.get("nodes", 0) if last is None else last.affected_nodes,
            affected_edges=counts.get("edges", 0) if last is None else last.affected_edges,
            actor_id=request.actor_id,
            commit=None if row is None else commit_of(row),
            warnings=() if last is None else tuple(dict.fromkeys(last.warnings)),
        )

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        compiled = self.compiled.mutation(
            txn.catalog, txn.line.schema.schema_hash, self.request.source, self.request.name
        )
        if not isinstance(compiled.ir, MutationIR):
            raise InternalError(f"`{compiled.query.name}` was compiled as a mutation and is none")
        self._query_name = compiled.query.name
        params = bind_params(self.request.params, compiled.ir.params)
        staging = MutationStaging(
            txn=txn,
            params={**params, NOW_PARAM: self.now_ms},
            new_id=self._new_id,
            filler=self.filler,
            budget=self.budget,
            blobs=self.blobs.again(),
        )
        for number, op in enumerate(compiled.ir.ops):
            staging.run(number, op)
        self._last = staging
        return staging.prepared()

    def _new_id(self, number: int) -> str:
        if number not in self._ids:
            self._ids[number] = self.ids.next_ulid()
        return self._ids[number]
