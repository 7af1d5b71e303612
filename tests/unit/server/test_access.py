"""Who may do what in each state of a server, and what its audit log tells of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.serving import serving
from tests.unit.server.access_cases import STORED, graph_cases
from tests.unit.server.conftest import DATA, SCHEMA

import omnigraph.server
from omnigraph import Graph
from omnigraph.api.guarding import guarded
from omnigraph.errors import PolicyError, SettingInvalid
from omnigraph.graph.access import EVERYTHING, Action, Decision, Visibility
from omnigraph.graph.gate import Gate
from omnigraph.policy import CompiledPolicy
from omnigraph.policy.bundle import ACTIONS, BundleKind, ScopeKey
from omnigraph.policy.bundle_reader import parse_bundle
from omnigraph.server.audit_trail import AuditTrail
from omnigraph.server.auth import read_tokens
from omnigraph.server.routes import OPERATIONS
from omnigraph.server.runtime_state import ReadOnlyAccess, RuntimeState, policy_in_force
from omnigraph.settings import Secret, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from tests.serving import LiveServer

    from omnigraph.lang import Catalog

GRAPH_ACTIONS = [action for action in Action if ACTIONS[action].kind is BundleKind.GRAPH]
MEMBER, STRANGER = "act-ann", "act-eve"
ADD = "query add($n: String) { insert Person { name: $n } }"
ALL = "query all() { match { $p: Person } return { $p.name } }"
G = "/graphs/default"


def _bundle() -> CompiledPolicy:
    """Every action of a graph for the member, where it has a scope on unprotected branches only."""
    rules = []
    for action in GRAPH_ACTIONS:
        key = ACTIONS[action].scope_key
        scope = "" if key is None else f", {key}: unprotected"
        rules.append(
            f"- {{ id: may-{action},"
            f" allow: {{ actors: {{ group: team }}, actions: [{action}]{scope} }} }}\n"
        )
    text = (
        f"version: 1\ngroups: {{ team: [{MEMBER}], other: [{STRANGER}] }}\n"
        f"protected_branches: [main, release]\nrules:\n  {'  '.join(rules)}"
    )
    return CompiledPolicy(parse_bundle(text, "policy.yaml", BundleKind.GRAPH))


POLICY = _bundle()
STATES = {
    RuntimeState.OPEN: policy_in_force(RuntimeState.OPEN, None),
    RuntimeState.DEFAULT_DENY: policy_in_force(RuntimeState.DEFAULT_DENY, None),
    RuntimeState.POLICY_ENABLED: policy_in_force(RuntimeState.POLICY_ENABLED, POLICY),
}


def _expected(state: RuntimeState, actor: str | None, action: Action, branch: str) -> bool:
    match state:
        case RuntimeState.OPEN:
            return True
        case RuntimeState.DEFAULT_DENY:
            return actor is not None and action is Action.READ
        case RuntimeState.POLICY_ENABLED:
            if actor != MEMBER or action not in GRAPH_ACTIONS:
                return False
            return branch == "wip" or ACTIONS[action].scope_key is None


@pytest.mark.parametrize("state", list(RuntimeState))
@pytest.mark.parametrize("action", list(Action))
def test_every_state_actor_and_branch_gets_the_answer_of_the_table(
    state: RuntimeState, action: Action
) -> None:
    for actor in (None, STRANGER, MEMBER, "act-nobody-knows"):
        gate = Gate(STATES[state], actor)
        for branch in ("wip", "release"):
            is_target = ACTIONS[action].scope_key is ScopeKey.TARGET
            places = ("other", branch) if is_target else (branch, None)
            if _expected(state, actor, action, branch):
                gate.require(action, places[0], target=places[1])
                continue
            with pytest.raises(PolicyError):
                gate.require(action, places[0], target=places[1])


def test_a_graph_without_a_policy_beside_one_with_a_policy_can_only_be_read() -> None:
    assert isinstance(policy_in_force(RuntimeState.POLICY_ENABLED, None), ReadOnlyAccess)


@pytest.fixture(scope="module")
def drafted(graph_path: Path) -> Path:
    with Graph.open(graph_path) as graph:
        graph.branches.create("wip")
        graph.branches.create("release")
    return graph_path


@pytest.fixture(scope="module")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


@pytest.fixture(scope="module")
def live(
    drafted: Path, log_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    settings = Settings()
    stored = tmp_path_factory.mktemp("stored") / "stored.gq"
    stored.write_text(STORED, encoding="utf-8")
    with serving(
        {"default": drafted},
        tokens={MEMBER: "s3cret-ann", STRANGER: "s3cret-eve"},
        policies={"default": POLICY},
        queries={"default": stored},
        settings=replace(
            settings,
            server=replace(settings.server, audit_log=str(log_path), audit_strict=True),
        ),
    ) as server:
        yield server


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_audit_log_has_every_denial_and_every_change_with_its_commit_and_no_secret(
    live: LiveServer, log_path: Path
) -> None:
    body = {"query": ADD, "params": {"n": "s3cret-name"}, "branch": "wip"}
    with live.client("s3cret-ann") as ann, live.client("s3cret-eve") as eve:
        made = ann.post(f"{G}/mutate", json=body, headers={"X-Request-Id": "r-1"})
        assert made.status_code == 200, made.text
        denied_body = body | {"branch": "main", "name": "add"}
        assert ann.post(f"{G}/mutate", json=denied_body).status_code == 403
        assert ann.post(f"{G}/query", json={"query": ALL, "branch": "wip"}).status_code == 200
        assert eve.post(f"{G}/query", json={"query": ALL, "branch": "wip"}).status_code == 403
    changed, denied, unread = _lines(log_path)[-3:]
    changed.pop("ts")
    assert changed == {
        "request_id": "r-1",
        "graph": "default",
        "actor": MEMBER,
        "action": "change",
        "branch": "wip",
        "target_branch": None,
        "allowed": True,
        "rule": "may-change",
        "filtered": False,
        "query": "add",
        "commit": made.json()["commit"]["graph_commit_id"],
        "status": 200,
    }
    assert (denied["allowed"], denied["branch"], denied["commit"]) == (False, "main", None)
    assert denied["query"] == "add"
    assert (unread["actor"], unread["action"], unread["status"]) == (STRANGER, "read", 403)
    assert "s3cret" not in log_path.read_text(encoding="utf-8")


def test_the_lines_of_a_stored_mutation_name_it_and_what_is_no_name_is_in_none(
    live: LiveServer, log_path: Path
) -> None:
    with live.client("s3cret-ann") as ann:
        for branch in ("wip", "main"):
            ann.post(f"{G}/queries/stored_write", json={"branch": branch})
        ann.post(f"{G}/mutate", json={"query": ADD, "name": "a name of s3cret", "branch": "main"})
    *stored, nameless = _lines(log_path)[-5:]
    assert [(line["action"], line["allowed"], line["query"]) for line in stored] == [
        ("invoke_query", True, "stored_write"),
        ("change", True, "stored_write"),
        ("invoke_query", True, "stored_write"),
        ("change", False, "stored_write"),
    ]
    assert (nameless["action"], nameless["query"]) == ("change", None)


def test_a_missing_branch_or_tag_is_told_without_the_names_of_others(live: LiveServer) -> None:
    with live.client("s3cret-ann") as ann:
        answer = ann.post(f"{G}/query", json={"query": ALL, "branch": "nowhere"})
        tag = ann.delete(f"{G}/tags/nothing")
    assert (answer.status_code, answer.json()["error"]) == (404, "there is no branch 'nowhere'")
    assert (tag.status_code, tag.json()["error"]) == (404, "there is no tag 'nothing'")


def test_a_refused_load_does_not_tell_whether_its_branch_is_there(live: LiveServer) -> None:
    with live.client("s3cret-eve") as eve:
        answers = [
            eve.post(
                f"{G}/load/ndjson?branch={branch}&from=main&mode=append",
                content=b"",
                headers={"Content-Type": "application/x-ndjson"},
            )
            for branch in ("wip", "gone")
        ]
    assert [answer.status_code for answer in answers] == [403, 403]
    there, gone = (answer.json()["error"] for answer in answers)
    assert there == gone.replace("gone", "wip")


def _state_requests(client: httpx.Client, state: str) -> list[httpx.Response]:
    cell = "entity=node&type=Person&id=Ada&property=name"
    return [
        client.post(f"{G}/query", json={"query": ALL, "snapshot": state}),
        client.post(f"{G}/explain", json={"query": ALL, "snapshot": state}),
        client.get(f"{G}/blob?{cell}&snapshot={state}"),
        client.get(f"{G}/snapshot?branch=wip&at={state}"),
    ]


def test_a_refused_read_does_not_tell_whether_a_snapshot_is_there(
    live: LiveServer, drafted: Path
) -> None:
    with Graph.open(drafted) as graph:
        head = graph.snapshot().graph_commit_id
        graph.tags.create("v1", branch="release")
    with live.client("s3cret-ann") as ann, live.client("s3cret-eve") as eve:
        # The commits are of protected branches; one actor may read others, one may read nothing.
        states = [head, "01M7QF8SN385TYRJX6CFMKBZS0", "v1", "v2"]
        for client in (ann, eve):
            told = [_state_requests(client, state) for state in states]
            assert {answer.status_code for answers in told for answer in answers} == {403}
            for answers in zip(*told, strict=True):
                texts = zip(states, (answer.json()["error"] for answer in answers), strict=True)
                assert len({text.replace(state, "it") for state, text in texts}) == 1
        assert (
            "it goes from"
            not in eve.post(f"{G}/query", json={"query": ALL, "snapshot": "999"}).text
        )
        # A number of a branch is told to who may read that branch.
        number = ann.get(f"{G}/snapshot?branch=wip&at=999")
        assert (number.status_code, number.json()["reason"]) == (404, "commit_not_found")


def test_a_revert_brings_no_past_of_a_branch_that_its_actor_may_not_read(tmp_path: Path) -> None:
    with Graph.init(tmp_path / "g.omni", schema=SCHEMA) as graph:
        graph.load(DATA, mode="append")
        graph.mutate('query gone() { delete Person where name = "Bob" }')
        gone = graph.snapshot().graph_commit_id
        graph.branches.create("wip")
        graph.mutate(ADD, params={"n": "Eve"}, branch="wip")
    with (
        serving(
            {"default": tmp_path / "g.omni"},
            tokens={MEMBER: "s3cret-ann"},
            policies={"default": POLICY},
        ) as server,
        server.client("s3cret-ann") as ann,
    ):
        own = ann.get(f"{G}/commits?branch=wip").json()["commits"][0]["graph_commit_id"]
        states = [gone, "01M7QF8SN385TYRJX6CFMKBZS0", "v2"]
        refusals = [
            ann.post(f"{G}/commits/{state}/revert", json={"branch": "wip"}) for state in states
        ]
        assert [answer.status_code for answer in refusals] == [403, 403, 403]
        assert "no commit" not in refusals[1].text
        assert ann.post(f"{G}/commits/{own}/revert", json={"branch": "wip"}).status_code == 200
        rows = ann.post(f"{G}/query", json={"query": ALL, "branch": "wip"}).json()["rows"]
    assert [row["p.name"] for row in rows] == ["Ada"]


def test_a_merge_that_may_not_delete_its_source_is_told_so_in_the_log(
    live: LiveServer, log_path: Path
) -> None:
    told = len(_lines(log_path)) if log_path.exists() else 0
    with live.client("s3cret-ann") as ann:
        body = {"source": "release", "target": "wip", "delete_branch": True}
        answer = ann.post(f"{G}/branches/merge", json=body).json()
    assert "policy denied action 'branch_delete'" in answer["branch_delete_error"]
    denied = [line for line in _lines(log_path)[told:] if line["action"] == "branch_delete"]
    assert [(line["target_branch"], line["allowed"]) for line in denied] == [("release", False)]


def test_what_the_engine_alone_refuses_is_noted_once() -> None:
    trail = AuditTrail()
    trail.refused(PolicyError("no actor"))
    assert trail.questions == []
    error = PolicyError("denied", action="change", actor=MEMBER, branch="wip", target_branch=None)
    trail.refused(error)
    trail.refused(error)
    assert [(each.action, each.branch, each.allowed) for each in trail.questions] == [
        (Action.CHANGE, "wip", False)
    ]


def test_nothing_changes_while_a_strict_log_cannot_be_written_but_reading_goes_on(
    drafted: Path,
) -> None:
    settings = Settings()
    sink = replace(settings.server, audit_log="/dev/full", audit_strict=True)
    with (
        serving(
            {"default": drafted},
            tokens={MEMBER: "s3cret-ann"},
            policies={"default": POLICY},
            settings=replace(settings, server=sink),
        ) as server,
        server.client("s3cret-ann") as ann,
    ):
        body = {"query": ADD, "params": {"n": "Unseen"}, "branch": "wip"}
        assert ann.post(f"{G}/mutate", json=body | {"branch": "main"}).status_code == 403
        refused = ann.post(f"{G}/mutate", json=body)
        assert refused.status_code == 503
        assert "audit log" in refused.json()["error"]
        names = ann.post(f"{G}/query", json={"query": ALL, "branch": "wip"}).json()["rows"]
        assert {"p.name": "Unseen"} not in names


def test_the_handle_of_a_request_is_guarded_whatever_its_route_forgot(drafted: Path) -> None:
    with Graph.open(drafted) as graph:
        handle = guarded(graph, POLICY, STRANGER)
        for call in (
            lambda: handle.query(ALL, branch="wip"),
            lambda: handle.mutate(ADD, params={"n": "x"}, branch="wip"),
            handle.branches.list,
            lambda: handle.as_actor(None).query(ALL, branch="wip"),
        ):
            with pytest.raises(PolicyError):
                call()
        assert guarded(graph, POLICY, MEMBER).query(ALL, branch="wip").columns
        with pytest.raises(TypeError, match="already"):
            guarded(handle, None, MEMBER)
        handle.close()
        assert graph.query(ALL).columns


class Recorder:
    """Allows everything, and keeps what it was asked."""

    names_queries = True

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def bind(self, catalog: Catalog) -> None:
        """Anything will do."""

    def authorize(
        self,
        actor: str | None,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> Decision:
        assert actor == MEMBER
        self.asked.append((action, branch, target_branch))
        return Decision(allowed=True, rule_id=query_name, message="")

    def visibility(self, actor: str | None) -> Visibility:
        assert actor == MEMBER
        return EVERYTHING


CATALOG = "cluster_list_queries"
"""Also asks which of its queries the actor could call."""


def test_the_engine_asks_again_what_a_route_has_asked_and_nothing_else(
    drafted: Path, log_path: Path
) -> None:
    """So neither can allow what the other would not; every line of the log is a question."""
    queries = drafted.parent / "queries"
    queries.mkdir()
    (queries / "stored.gq").write_text(STORED, encoding="utf-8")
    log = log_path.with_name("reads.jsonl")
    recorder, settings = Recorder(), Settings()
    sink = replace(settings.server, audit_log=str(log), audit_reads=True)
    with (
        serving(
            {"default": drafted},
            tokens={MEMBER: "s3cret-ann"},
            policies={"default": recorder},
            queries={"default": queries},
            settings=replace(settings, server=sink),
        ) as server,
        server.client("s3cret-ann") as ann,
    ):
        graph = server.runtime.served.graphs["default"].graph
        cases = graph_cases({"wip": graph.snapshot(branch="wip").graph_commit_id})
        methods = {operation.operation_id: operation.method for operation in OPERATIONS}
        told = 0
        for name, case in cases.items():
            recorder.asked.clear()
            ann.request(methods[name.partition("/")[0]], case.path("wip"), **case.request("wip"))
            lines = _lines(log)[told:]
            told += len(lines)
            asked = [(line["action"], line["branch"], line["target_branch"]) for line in lines]
            assert {action for action, _, _ in asked} == case.needs, name
            assert all(recorder.asked.count(ask) >= 2 for ask in asked), name
            if name != CATALOG:
                assert set(recorder.asked) == set(asked), name


def test_only_lookups_use_the_graph_of_the_server_itself() -> None:
    """Whatever else a route does goes through the guarded handle of its request."""
    allowed = {
        "boot.py": {"close"},
        "runtime.py": {"maintenance", "warm"},
        "request_context.py": {""},
        "routes/schema.py": {"snapshot"},
        "routes/loads.py": {"", "branches"},
        "routes/changes.py": {"commits"},
        "routes/stored_queries.py": {"queries"},
    }
    folder = Path(omnigraph.server.__file__).parent
    for path in folder.rglob("*.py"):
        uses = re.findall(r"served\.graph\b(?:\.(\w+))?", path.read_text(encoding="utf-8"))
        name = path.relative_to(folder).as_posix()
        assert set(uses) <= allowed.get(name, set()), name


def test_no_token_is_that_of_the_system() -> None:
    tokens = Secret('{"omnigraph:recovery": "s3cret"}')
    settings = replace(Settings().server, bearer_tokens_json=tokens)
    with pytest.raises(SettingInvalid, match="omnigraph:recovery") as caught:
        read_tokens(settings)
    assert "s3cret" not in str(caught.value)
