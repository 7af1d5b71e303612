"""Who may call what: every operation, in each of the three states, by everybody who may ask.

The operations come from the table that the routes are made of, so that a new one has to be here.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.serving import LiveServer, serving
from tests.unit.server.access_cases import PUBLIC, SERVER, STORED, AccessCase, graph_cases
from tests.unit.server.conftest import DATA, SCHEMA

from omnigraph import Graph
from omnigraph.graph.access import Action
from omnigraph.policy import load_policy, load_server_policy
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import httpx

    from omnigraph.server.operations import Operation

PROTECTED, DRAFT = "main", "draft"
GRAPH_ACTIONS = tuple(
    action for action in Action if action not in (Action.GRAPH_LIST, Action.METRICS)
)
BRANCH_SCOPED = (Action.READ, Action.EXPORT, Action.CHANGE)
TARGET_SCOPED = (
    Action.SCHEMA_APPLY,
    Action.BRANCH_CREATE,
    Action.BRANCH_DELETE,
    Action.BRANCH_MERGE,
)
ONE_ACTION = {f"only-{action}": frozenset({action}) for action in GRAPH_ACTIONS}
GRANTS = {
    "nobody": frozenset[Action](),
    "everything": frozenset(GRAPH_ACTIONS),
    "drafts": frozenset(GRAPH_ACTIONS),
    "operator": frozenset({Action.GRAPH_LIST, Action.METRICS}),
    **ONE_ACTION,
}
STATES = ("policy_enabled", "default_deny", "open")
QUICK = {("policy_enabled", "nobody"), ("policy_enabled", "drafts"), ("default_deny", "everything")}
TOKENS = {actor: f"token-of-{actor}" for actor in GRANTS}


def _bundle() -> str:
    lines = ["version: 1", "groups:"]
    lines += [f"  {actor}: [{actor}]" for actor in GRANTS if actor != "operator"]
    lines += [f"protected_branches: [{PROTECTED}, gone-{PROTECTED}]", "rules:"]
    for actor, granted in {**ONE_ACTION, "everything": GRANTS["everything"]}.items():
        lines.append(_rule(actor, actor, granted, ""))
    lines.append(_rule("drafts-1", "drafts", BRANCH_SCOPED, ", branch_scope: unprotected"))
    lines.append(_rule("drafts-2", "drafts", TARGET_SCOPED, ", target_branch_scope: unprotected"))
    lines.append(_rule("drafts-3", "drafts", (Action.INVOKE_QUERY,), ""))
    return "\n".join(lines) + "\n"


def _rule(name: str, group: str, actions: Iterable[Action], scope: str) -> str:
    names = ", ".join(sorted(actions))
    return (
        f"  - id: {name}\n    allow: {{ actors: {{ group: {group} }}, actions: [{names}]{scope} }}"
    )


SERVER_BUNDLE = """version: 1
groups:
  operators: [operator]
rules:
  - id: operate
    allow: { actors: { group: operators }, actions: [graph_list, metrics] }
"""


class Served:
    """One server, and the requests of the table for its graph."""

    def __init__(self, live: LiveServer) -> None:
        self.live = live
        graph = live.runtime.served.graphs["default"].graph
        commits = {
            branch: graph.commits.list(branch=branch, limit=1).commits[0].graph_commit_id
            for branch in (PROTECTED, DRAFT)
        }
        self.cases = {**SERVER, **graph_cases(commits)}

    def cases_of(self, operation: Operation) -> list[AccessCase]:
        """Every way to call an operation."""
        name = operation.operation_id
        return [case for key, case in self.cases.items() if key.partition("/")[0] == name]

    def send(
        self,
        http: httpx.Client,
        operation: Operation,
        case: AccessCase,
        branch: str,
        token: str | None,
    ) -> httpx.Response:
        sent = case.request(branch)
        if token is not None:
            sent["headers"] |= {"Authorization": f"Bearer {token}"}
        return http.request(operation.method, case.path(branch), **sent)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("access")
    with Graph.init(root / "people.omni", schema=SCHEMA) as graph:
        graph.load(DATA, mode="append")
        graph.load(
            b'{"type":"Person","data":{"name":"Cy"}}', mode="merge", branch=DRAFT, from_="main"
        )
    (root / "queries").mkdir()
    (root / "queries" / "stored.gq").write_text(STORED)
    (root / "graph.yaml").write_text(_bundle())
    (root / "server.yaml").write_text(SERVER_BUNDLE)
    return root


@pytest.fixture(scope="module")
def served(place: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    graphs, queries = {"default": place / "people.omni"}, {"default": place / "queries"}
    match request.param:
        case "open":
            running = serving(graphs, queries=queries)
        case "default_deny":
            running = serving(graphs, queries=queries, tokens=TOKENS)
        case _:
            running = serving(
                graphs,
                queries=queries,
                tokens=TOKENS,
                policies={"default": load_policy(place / "graph.yaml")},
                server_policy=load_server_policy(place / "server.yaml"),
            )
    with running as live:
        assert live.runtime.served.state == request.param
        yield Served(live)


@pytest.mark.parametrize("served", ["open"], indirect=True)
def test_every_operation_is_in_the_table(served: Served) -> None:
    known = {operation.operation_id for operation in OPERATIONS}
    named = {key.partition("/")[0] for key in served.cases}
    assert known == {*named, *PUBLIC} & known
    assert named - known <= {"metrics"}


@pytest.mark.parametrize("served", STATES, indirect=True)
def test_nobody_gets_in_by_another_way(served: Served) -> None:
    """Without a token and with a wrong one: 401 on all but what is public, and what is open."""
    with served.live.client() as http:
        for operation in OPERATIONS:
            if operation.operation_id in PUBLIC:
                path = PUBLIC[operation.operation_id]
                assert http.request(operation.method, path).status_code == 200
                continue
            for case, token in product(served.cases_of(operation), (None, "wrong")):
                answer = served.send(http, operation, case, PROTECTED, token)
                if served.live.runtime.served.state == "open":
                    _require(answer, operation, case, is_allowed=_is_of_graph(operation))
                else:
                    assert answer.status_code == 401, operation.operation_id
                    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("served", "actor"),
    [
        pytest.param(
            state,
            actor,
            marks=() if (state, actor) in QUICK else pytest.mark.extended,
        )
        for state in STATES
        for actor in GRANTS
    ],
    indirect=["served"],
)
def test_an_actor_may_do_what_is_granted_and_nothing_else(served: Served, actor: str) -> None:
    state = served.live.runtime.served.state
    with served.live.client() as http:
        for operation in OPERATIONS:
            if operation.operation_id in PUBLIC:
                continue
            for case, branch in product(served.cases_of(operation), (PROTECTED, DRAFT)):
                answer = served.send(http, operation, case, branch, TOKENS[actor])
                granted = _granted(state, actor, case, branch)
                is_allowed = case.needs <= granted
                _require(answer, operation, case, is_allowed=is_allowed, granted=granted)


def _granted(state: str, actor: str, case: AccessCase, branch: str) -> frozenset[Action]:
    """What the actor may do in this state with this branch."""
    if state == "open":
        return frozenset(GRAPH_ACTIONS)
    if state == "default_deny":
        return frozenset({Action.READ})
    if actor == "drafts" and (branch == PROTECTED or not case.has_branch):
        return frozenset({Action.INVOKE_QUERY})
    return GRANTS[actor]


def _is_of_graph(operation: Operation) -> bool:
    return operation.operation_id not in SERVER


def _require(
    answer: httpx.Response,
    operation: Operation,
    case: AccessCase,
    *,
    is_allowed: bool,
    granted: frozenset[Action] = frozenset(GRAPH_ACTIONS),
) -> None:
    """The answer is that of a refusal, or is none."""
    what = f"{operation.operation_id}: {answer.status_code} {answer.text[:200]}"
    if is_allowed:
        assert answer.status_code not in (401, 403), what
        if case.hides and not operation.is_conditional:
            assert answer.status_code == 200, what
        return
    is_hidden = case.hides and not (
        Action.INVOKE_QUERY in case.needs and Action.INVOKE_QUERY in granted
    )
    assert answer.status_code == (404 if is_hidden else 403), what


@pytest.mark.parametrize("served", ["policy_enabled", "default_deny"], indirect=True)
@pytest.mark.parametrize("name", ["stored_read", "stored_write"])
def test_a_query_that_may_not_be_called_is_one_that_is_not_there(served: Served, name: str) -> None:
    """The whole answers are the same: status, body and headers."""
    with served.live.client(TOKENS["nobody"]) as http:
        for rest in ("", "/if-graph-commit"):
            headers = {"X-Request-Id": "same", "Omnigraph-If-Graph-Commit": "x"}
            if not rest:
                del headers["Omnigraph-If-Graph-Commit"]
            answers = [
                http.post(f"/graphs/default/queries/{each}{rest}", headers=headers)
                for each in (name, "missing")
            ]
            assert answers[0].status_code == 404
            assert answers[0].content == answers[1].content
            shown: list[Mapping[str, str]] = [
                {k: v for k, v in answer.headers.items() if k != "date"} for answer in answers
            ]
            assert shown[0] == shown[1]
            assert answers[0].json() == {
                "error": "stored query not found",
                "code": "not_found",
                "reason": "stored_query_not_found",
            }
