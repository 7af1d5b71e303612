"""One request on its way through the fixed order of checks.

Body cap, then 401, then the graph (done before a handler is called), then decode, 403, 429 and the
engine, which a handler does through this object. A denied request takes no slot, and nothing is
told about a graph before its actor is allowed to know.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from omnigraph.api.guarding import guarded
from omnigraph.errors import (
    BranchNotFound,
    Cancelled,
    CommitNotFound,
    DeadlineExceeded,
    InvalidArgument,
    ResourceLimit,
    SnapshotReclaimed,
    UnsupportedMediaType,
)
from omnigraph.graph.access import Action, Decision
from omnigraph.graph.commit.txn import checked_key
from omnigraph.graph.gate import denied
from omnigraph.graph.history.allowed_states import branch_to_know, state_refused
from omnigraph.graph.query.budget import CancelToken
from omnigraph.graph.query.call_scope import CallScope, calling
from omnigraph.ids import MAIN_BRANCH
from omnigraph.server.audit_trail import CHANGING, AuditedQuestion
from omnigraph.server.bodies.model import trimmed_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from starlette.datastructures import QueryParams
    from starlette.types import Message, Receive, Scope

    from omnigraph.api import Graph
    from omnigraph.graph.access import AccessPolicy
    from omnigraph.server.boot import ServedGraph
    from omnigraph.server.middleware.request_record import RequestRecord
    from omnigraph.server.operations import Operation
    from omnigraph.server.runtime import ServerRuntime

_T = TypeVar("_T")
_M = TypeVar("_M", bound=BaseModel)

IF_GRAPH_COMMIT: Final = "omnigraph-if-graph-commit"
TIMEOUT_HEADER: Final = "omnigraph-timeout-ms"
_JSON: Final = "application/json"
_MOST_HEADER_BYTES: Final = 65_536
_DIGITS: Final = re.compile("[0-9]{1,9}")
_ALLOWED: Final = Decision(allowed=True, rule_id=None, message="")
_decode = msgspec.json.decode


class RequestContext:
    """Who asks, for what, of which graph, and until when."""

    def __init__(
        self,
        *,
        server: ServerRuntime,
        operation: Operation,
        scope: Scope,
        receive: Receive,
        record: RequestRecord,
    ) -> None:
        self.server = server
        self.operation = operation
        self.scope = scope
        self.record = record
        self.token = CancelToken()
        self.actor: str | None = None
        self.is_replayed = False
        """The write of this request had been made before, under the same key."""
        self._started_us = server.clock.monotonic_us()
        self.received_bytes = 0
        """What came as the body so far."""
        self._receive = receive
        self._is_received = not operation.has_body
        self._served: ServedGraph | None = None
        self._graph: Graph | None = None
        self._headers: dict[bytes, list[bytes]] = {}
        size = 0
        for name, value in scope["headers"]:
            self._headers.setdefault(name, []).append(value)
            size += len(name) + len(value)
        if size > _MOST_HEADER_BYTES:
            raise InvalidArgument(f"the headers have more than {_MOST_HEADER_BYTES:,} bytes")

    @property
    def request_id(self) -> str:
        """What the client and the log call this request."""
        return self.record.request_id

    @property
    def served(self) -> ServedGraph:
        """The graph that is asked, as it is served."""
        if self._served is None:
            raise TypeError(f"{self.operation.operation_id} is an operation of no graph")
        return self._served

    @property
    def graph(self) -> Graph:
        """The graph, as the actor of this request sees it."""
        if self._graph is None:
            self._graph = guarded(self.served.graph, self.served.policy, self.actor)
        return self._graph

    def enter(self, served: ServedGraph) -> None:
        """The request is one of this graph."""
        self._served = served
        self.record.graph_id = served.graph_id

    def header(self, name: str) -> str | None:
        """A header that may come once; the last of several."""
        values = self.header_values(name)
        return values[-1] if values else None

    def header_values(self, name: str) -> list[str]:
        """All values of a header, in order."""
        return [value.decode("latin-1") for value in self._headers.get(name.encode(), ())]

    @property
    def authorization(self) -> str | None:
        """Who asks. Of two that are sent, somebody on the way may have believed the other one."""
        values = self.header_values("authorization")
        return values[0] if len(values) == 1 else None

    @property
    def path(self) -> Mapping[str, str]:
        """The variable parts of the path."""
        params: Mapping[str, str] = self.scope["path_params"]
        return params

    @property
    def query(self) -> QueryParams:
        """The query parameters."""
        from starlette.datastructures import QueryParams

        return QueryParams(self.scope["query_string"])

    def require_declared_size(self) -> None:
        """Refuse a body that says that it is too large, before a byte of it is read."""
        declared = self.header("content-length")
        if declared is not None and declared.isdigit():
            self._require_size(int(declared))

    def _require_size(self, size: int) -> None:
        limit = self.operation.body_limit
        if size > limit:
            raise ResourceLimit(
                f"the body has more than {limit:,} bytes; larger data belongs to the pipeline:"
                " `omnigraph load` with access to the storage of the graph",
                resource=self.operation.body_resource,
                limit=limit,
                actual=size,
            )

    async def body(self) -> bytes:
        """The whole body, counted while it arrives.

        Raises:
            ResourceLimit: it is too large; the rest is not read.
            DeadlineExceeded: the client stopped sending it.
            Cancelled: the client went away.
        """
        parts: list[bytes] = []
        while True:
            message = await self._next_part()
            if message["type"] == "http.disconnect":
                raise Cancelled("the client went away while it sent the request")
            part = message.get("body", b"")
            self.received_bytes += len(part)
            self._require_size(self.received_bytes)
            parts.append(part)
            if not message.get("more_body", False):
                self._is_received = True
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _next_part(self) -> Message:
        limit_ms = self.server.settings.server.idle_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                return await self._receive()
        except TimeoutError:
            raise DeadlineExceeded(
                f"no byte of the body came for {limit_ms:,} ms", timeout_ms=limit_ms, phase="body"
            ) from None

    def require_media_type(self, wanted: str) -> None:
        """The body has this content type; parameters such as a charset do not matter.

        Raises:
            UnsupportedMediaType: it has another one, or none.
        """
        given = (self.header("content-type") or "").partition(";")[0].strip().lower()
        if given != wanted:
            raise UnsupportedMediaType(
                f"the content type is {given or 'missing'}; send {wanted}", expected=wanted
            )

    async def decode(self, model: type[_M], *, is_optional: bool = False) -> _M:
        """The JSON body as a model; with `is_optional`, none and `null` are its defaults.

        Raises:
            UnsupportedMediaType: it is no JSON by its content type.
            InvalidArgument: it is none, or not of this shape.
        """
        if is_optional and self.header("content-type") is None:
            content = await self.body()
            if not content.strip():
                return model()
        else:
            content = b""
        self.require_media_type(_JSON)
        content = content or await self.body()
        if is_optional and content.strip() in (b"", b"null"):
            return model()
        try:
            value = _decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(f"the body is no JSON: {error}", argument="body") from None
        return parse_body(model, value)

    def refuse_condition(self) -> None:
        """A condition on a route that has none must not be believed to hold.

        Raises:
            InvalidArgument: the header is there.
        """
        if not self.operation.is_conditional and self.header_values(IF_GRAPH_COMMIT):
            raise InvalidArgument(
                "this route takes no Omnigraph-If-Graph-Commit; send a conditional write to"
                " mutate/if-graph-commit or queries/{name}/if-graph-commit",
                argument="Omnigraph-If-Graph-Commit",
            )

    def timeout_ms(self, limit_ms: int) -> int:
        """The time that this request has: the limit, or less if the client says so; 0 is none.

        Raises:
            InvalidArgument: the client gives no number of milliseconds.
        """
        text = self.header(TIMEOUT_HEADER)
        if text is None:
            return limit_ms
        if not _DIGITS.fullmatch(text) or int(text) == 0:
            raise InvalidArgument(
                "Omnigraph-Timeout-Ms is a number of milliseconds above 0",
                argument="Omnigraph-Timeout-Ms",
            )
        return min(int(text), limit_ms) if limit_ms else int(text)

    async def authorize(
        self,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> None:
        """The actor may do this to the graph.

        Raises:
            PolicyError: it may not.
        """
        decision = await self.decide(action, branch, target_branch, query_name)
        if decision is not None and not decision.allowed:
            raise denied(decision, self.actor, action, branch, target_branch)

    async def decide(
        self,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> Decision | None:
        """What the policy of the graph says; None where there is none, and all is allowed.

        Raises:
            AuditUnavailable: it would change something, and the strict audit log cannot be written.
        """
        policy = self.served.policy
        decision = None
        if policy is not None:
            decision = await self.ask(policy, action, branch, target_branch, query_name)
        else:
            self._audit(action, branch, target_branch, query_name, _ALLOWED)
        is_allowed = decision is None or decision.allowed
        if is_allowed and action in CHANGING and self.server.audit is not None:
            self.server.audit.require_working()
        return decision

    async def may(
        self,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> bool:
        """Whether the actor could do this; the request does not do it, so nobody is told."""
        policy, actor = self.served.policy, self.actor
        if policy is None:
            return True
        decision = await self.run(
            lambda: policy.authorize(actor, action, branch, target_branch, query_name)
        )
        return decision.allowed

    async def ask(
        self,
        policy: AccessPolicy,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> Decision:
        """What a policy says, asked in a thread: its engine may take its time."""
        actor = self.actor
        decision = await self.run(
            lambda: policy.authorize(actor, action, branch, target_branch, query_name)
        )
        self._audit(action, branch, target_branch, query_name, decision)
        self.record.decided(action, branch, target_branch, decision)
        self.server.metrics.policy_decisions.add(action.value, str(decision.allowed).lower())
        return decision

    def _audit(
        self,
        action: Action,
        branch: str | None,
        target_branch: str | None,
        query_name: str | None,
        decision: Decision,
    ) -> None:
        self.record.trail.questions.append(
            AuditedQuestion(
                action=action,
                branch=branch,
                target_branch=target_branch,
                query=query_name,
                allowed=decision.allowed,
                rule=decision.rule_id,
            )
        )

    def query_branch(self, name: str = "branch") -> str:
        """The branch that a query parameter names; `main` without it.

        Raises:
            InvalidArgument: the name is empty.
        """
        text = self.query.get(name)
        return str(MAIN_BRANCH) if text is None else trimmed_argument(text, name)

    @property
    def idempotency_key(self) -> str | None:
        """What makes a repeated write one write.

        Raises:
            InvalidArgument: the header comes twice.
        """
        values = self.header_values("idempotency-key")
        if len(values) > 1:
            raise InvalidArgument("Idempotency-Key comes twice", argument="Idempotency-Key")
        return checked_key(values[0]) if values else None

    def query_timeout_s(self) -> float:
        """How long a read may take; 0 is no limit."""
        return self.timeout_ms(self.server.settings.queries.timeout_ms) / 1_000

    def write_timeout_s(self) -> float:
        """How long a write may take before it begins to commit; 0 is no limit."""
        return self.timeout_ms(self.server.settings.server.write_timeout_ms) / 1_000

    async def authorize_state(
        self,
        action: Action,
        branch: str | None,
        snapshot: str | None,
        target_branch: str | None = None,
    ) -> None:
        """The actor may do this with the head of a branch, or with a snapshot, which has a branch.

        Who may not gets one refusal, whether there is such a snapshot or not. Beside a snapshot, a
        branch says whose numbers and times are meant.

        Raises:
            PolicyError: it may not.
            BranchNotFound, CommitNotFound: there is none, and the actor may know.
        """
        if snapshot is None or self.served.policy is None:
            place = MAIN_BRANCH if branch is None else branch
            return await self.authorize(action, place, target_branch)
        graph = self.served.graph

        def branch_of() -> str:
            if branch is None:
                return graph.commits.get(snapshot).graph_branch
            return graph.snapshot(snapshot, branch=branch).graph_branch

        try:
            made_on = await self.run(branch_of)
        except (BranchNotFound, CommitNotFound, SnapshotReclaimed) as error:
            decision = await self.decide(action, branch_to_know(error), target_branch)
            if decision is None or decision.allowed:
                raise
        else:
            decision = await self.decide(action, made_on, target_branch)
            if decision is None or decision.allowed:
                return None
        raise state_refused(action, snapshot, self.actor)

    async def authorize_either(self, target: str) -> None:
        """The actor may read what a text names: the head of a branch, or a snapshot.

        Raises:
            as `authorize_state`.
        """
        graph = self.served.graph
        if self.served.policy is not None and target in await self.run(
            lambda: {branch.name for branch in graph.branches.list()}
        ):
            decision = await self.decide(Action.READ, target)
            if decision is not None and not decision.allowed:
                raise state_refused(Action.READ, target, self.actor)
            return
        await self.authorize_state(Action.READ, None, target)

    async def read(self, call: Callable[[], _T]) -> _T:
        """The result of a read, which waits a while for its turn.

        Raises:
            AdmissionRejected: it did not come.
        """
        async with self.server.workload.reading():
            return await self.run(call, self.server.settings.queries.timeout_ms)

    async def write(self, call: Callable[[], _T], size_bytes: int) -> _T:
        """The result of a write, if its actor may have one more of this size.

        Raises:
            AdmissionRejected: it may not.
        """
        with self.server.workload.writing(self.actor, size_bytes):
            return await self.run_write(call)

    async def run_write(self, call: Callable[[], _T]) -> _T:
        """The result of a write that is admitted already."""
        return await self.run(call, self.server.settings.server.write_timeout_ms)

    def admission(self) -> AbstractContextManager[None]:
        """A slot for a write whose body is still to come, of its declared size or of the largest.

        Raises:
            AdmissionRejected: the actor may have no more; nothing of the body was read.
        """
        declared = self.header("content-length")
        is_told = declared is not None and declared.isdigit()
        size = int(declared) if declared is not None and is_told else self.operation.body_limit
        return self.server.workload.writing(self.actor, size)

    async def run(self, call: Callable[[], _T], timeout_ms: int = 0) -> _T:
        """The result of a call of the engine, in a thread.

        It ends early if the client leaves or the time is up, unless a commit has begun.
        """
        scope = CallScope(
            clock=self.server.clock,
            token=self.token,
            timeout_ms=self.timeout_ms(timeout_ms),
            started_us=self._started_us,
        )

        def scoped() -> _T:
            with calling(scope):
                scope.check("queue")
                return call()

        try:
            return await self.server.calls.run(scoped, token=self.token, gone=self._disconnected)
        finally:
            self.is_replayed |= scope.is_replayed

    async def _disconnected(self) -> None:
        if not self._is_received:
            # The next message is a part of the body, which is not this one's to take.
            await asyncio.Event().wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


def trimmed_argument(text: str, name: str) -> str:
    """The name of a branch without what surrounds it.

    Raises:
        InvalidArgument: nothing is left of it.
    """
    try:
        return trimmed_branch(text)
    except ValueError as error:
        raise InvalidArgument(f"{name}: {error}", argument=name) from None


def parse_body(model: type[_M], value: object) -> _M:
    """A value of JSON as a model.

    Raises:
        InvalidArgument: it is not of this shape; the first field that is wrong is named.
    """
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidArgument(
            f"{where}: {message}" if where else message, argument=where or "body"
        ) from None
