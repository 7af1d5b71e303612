"""The gate: every operation asks what the table below says, and does nothing unless it is allowed.

The table names every public operation of a graph and of what hangs on it. One that is new fails
here until its row is written.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pytest

from omnigraph import Graph, load_policy
from omnigraph.errors import (
    MergeConflicts,
    OmnigraphError,
    PolicyError,
    PolicyEvaluationError,
    PolicyInvalid,
    SchemaRefused,
    StoredQueryNotFound,
)
from omnigraph.graph.access import EVERYTHING, Action, Decision, Visibility
from omnigraph.graph.gate import Gate
from omnigraph.graph.history import allowed_states
from omnigraph.graph.history.branches import Branches
from omnigraph.graph.history.snapshot import Snapshot, open_target
from omnigraph.graph.history.targets import ReadTarget
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.lang import Catalog
from omnigraph.pipeline.pipeline import Pipeline
from omnigraph.storage.predicates import Or

SCHEMA = "node Person { name: String @key  photo: Blob? }"
ALL = "query all() { match { $p: Person } return { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
WIDER = SCHEMA.replace("photo", "age: I64?  photo")

Ask: TypeAlias = tuple[Action, str | None, str | None]
"""An action, the branch and the target branch."""


@dataclass
class Policy:
    """Allows everything but some questions, and keeps what it was asked."""

    denied: frozenset[Ask] = frozenset()
    sees: Visibility = EVERYTHING
    asked: list[Ask] = field(default_factory=list)
    actors: set[str | None] = field(default_factory=set)
    catalogs: list[Catalog] = field(default_factory=list)
    names_queries: bool = True

    def forget(self) -> None:
        self.asked.clear()
        self.actors.clear()

    def bind(self, catalog: Catalog) -> None:
        self.catalogs.append(catalog)

    def authorize(
        self,
        actor: str | None,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> Decision:
        ask = (action, branch, target_branch)
        self.asked.append(ask)
        self.actors.add(actor)
        allowed = ask not in self.denied
        return Decision(
            allowed=allowed,
            rule_id="rule" if allowed else None,
            message=f"{'allowed' if allowed else 'denied'} {action} {query_name or ''}".strip(),
        )

    def visibility(self, actor: str | None) -> Visibility:
        self.actors.add(actor)
        return self.sees


@dataclass(frozen=True)
class Place:
    """What the operations find: a graph with a branch that has a commit, a tag and a blob."""

    root: Path
    on_main: str
    on_wip: str


@dataclass(frozen=True)
class Operation:
    """One way to call one public operation."""

    name: str
    call: Callable[[Graph, Place], object]
    asks: tuple[Ask, ...]
    looks_up: tuple[Ask, ...] = ()
    """What it would like to know, and can do without."""
    fails: bool = False
    """Allowed, it fails for another reason before it needs Spark."""

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join('.'.join(filter(None, ask)) for ask in self.asks)}"


INVOKE: Ask = (Action.INVOKE_QUERY, None, None)


def read(branch: str | None = "main") -> Ask:
    return (Action.READ, branch, None)


def change(branch: str = "main") -> Ask:
    return (Action.CHANGE, branch, None)


def export(branch: str = "main") -> Ask:
    return (Action.EXPORT, branch, None)


def create(branch: str, target: str) -> Ask:
    return (Action.BRANCH_CREATE, branch, target)


def delete(target: str) -> Ask:
    return (Action.BRANCH_DELETE, None, target)


def merge(source: str, target: str) -> Ask:
    return (Action.BRANCH_MERGE, source, target)


def _line(name: str) -> bytes:
    return f'{{"type":"Person","data":{{"name":"{name}"}}}}\n'.encode()


def _write(graph: Graph) -> object:
    with graph.write("wip") as writer:
        writer.append("Person", pa.table({"name": ["Written"]}))
        return writer.commit()


def _pipeline_file(place: Place) -> Path:
    file = place.root.parent / "pipeline.yaml"
    file.write_text(
        "version: 1\nname: nightly\nbranch: wip\nmode: merge\n"
        "sources: {people: {format: csv, path: missing.csv}}\n"
        "nodes: [{type: Person, from: people, columns: {name: name}}]\n",
        encoding="utf-8",
    )
    return file


def _run(graph: Graph, place: Place) -> object:
    return graph.pipeline().run(_pipeline_file(place))


def _frame() -> Any:  # noqa: ANN401 - stands where a frame of Spark belongs
    return object()


OPERATIONS = [
    Operation("query", lambda g, _: g.query(ALL), (read(),)),
    Operation("query", lambda g, _: g.query(ALL, branch="wip"), (read("wip"),)),
    Operation("query", lambda g, at: g.query(ALL, snapshot=at.on_wip), (read("wip"),)),
    Operation("query", lambda g, at: g.query(ALL, snapshot=at.on_main), (read(),)),
    Operation("query", lambda g, _: g.query(ALL, snapshot="v1"), (read("wip"),)),
    Operation("query", lambda g, _: g.query(ALL, snapshot=0), (read(),)),
    Operation(
        # Mistakes are told before Spark starts.
        "query",
        lambda g, _: g.query("no query", branch="wip", executor="spark"),
        (read("wip"),),
        fails=True,
    ),
    Operation("prepare", lambda g, _: g.prepare(ALL)(), (read(),)),
    Operation("prepare", lambda g, at: g.prepare(ALL)(snapshot=at.on_wip), (read("wip"),)),
    Operation("explain", lambda g, _: g.explain(ALL, branch="wip"), (read("wip"),)),
    Operation(
        "explain",
        lambda g, _: g.explain("no query", branch="wip", executor="spark"),
        (read("wip"),),
        fails=True,
    ),
    Operation("explain", lambda g, at: g.explain(ALL, snapshot=at.on_wip), (read("wip"),)),
    Operation("warm", lambda g, _: g.warm(), (read(),)),
    Operation("snapshot", lambda g, _: g.snapshot(), (read(),)),
    Operation("snapshot", lambda g, _: g.snapshot(branch="wip"), (read("wip"),)),
    Operation("snapshot", lambda g, at: g.snapshot(at.on_wip), (read("wip"),)),
    # A commit that a branch has from the one it was forked from was made there.
    Operation("snapshot", lambda g, _: g.snapshot(0, branch="wip"), (read(),)),
    Operation("export", lambda g, _: list(g.export(branch="wip")), (export("wip"),)),
    Operation("export", lambda g, at: list(g.export(snapshot=at.on_wip)), (export("wip"),)),
    Operation("blob", lambda g, _: g.blob("node", "Person", "Ada", "photo"), (read(),)),
    Operation(
        "blob",
        lambda g, at: g.blob("node", "Person", "Ada", "photo", snapshot=at.on_wip),
        (read("wip"),),
    ),
    Operation("diff", lambda g, _: list(g.diff("main", "wip")), (read(), read("wip"))),
    Operation(
        "diff", lambda g, at: list(g.diff(at.on_wip, at.on_main)), (read("wip"), read("main"))
    ),
    Operation("system", lambda g, _: g.system("graph_commits"), (read(None),)),
    Operation(
        "mutate",
        lambda g, _: g.mutate(ADD, params={"name": "Mutated"}, branch="wip"),
        (change("wip"),),
    ),
    Operation("load", lambda g, _: g.load(_line("Loaded"), mode="append"), (change(),)),
    Operation(
        "load",
        lambda g, _: g.load(_line("Drafted"), mode="append", branch="wip", from_="main"),
        (change("wip"),),
        looks_up=(create("main", "wip"),),
    ),
    Operation(
        "load",
        lambda g, _: g.load(_line("Forked"), mode="append", branch="new", from_="wip"),
        (change("new"), create("wip", "new")),
    ),
    Operation("write", lambda g, _: _write(g), (change("wip"),)),
    Operation("queries.list", lambda g, _: g.queries.list(), (read(),), looks_up=(INVOKE,)),
    Operation("queries.get", lambda g, _: g.queries.get("all"), (INVOKE,)),
    Operation(
        "queries.invoke", lambda g, _: g.queries.invoke("all", branch="wip"), (INVOKE, read("wip"))
    ),
    Operation(
        "queries.invoke",
        lambda g, _: g.queries.invoke("add", {"name": "Stored"}, branch="wip"),
        (INVOKE, change("wip")),
    ),
    Operation("branches.list", lambda g, _: g.branches.list(), (read(None),)),
    Operation("branches.get", lambda g, _: g.branches.get("wip"), (read("wip"),)),
    Operation(
        "branches.create",
        lambda g, _: g.branches.create("other", from_="wip"),
        (create("wip", "other"),),
    ),
    Operation("branches.delete", lambda g, _: g.branches.delete("spare"), (delete("spare"),)),
    Operation("branches.merge", lambda g, _: g.branches.merge("wip"), (merge("wip", "main"),)),
    Operation(
        "branches.merge",
        lambda g, _: g.branches.merge("merged", into="wip", delete_branch=True),
        (merge("merged", "wip"),),
        looks_up=(delete("merged"),),
    ),
    Operation(
        "branches.merge_plan", lambda g, _: g.branches.merge_plan("wip"), (read("wip"), read())
    ),
    Operation(
        "tags.create", lambda g, _: g.tags.create("v2", branch="wip"), (create("wip", "v2"),)
    ),
    Operation(
        # It is a commit of another branch than the one that is named beside it.
        "tags.create",
        lambda g, at: g.tags.create("v3", at.on_wip),
        (create("wip", "v3"),),
    ),
    Operation("tags.list", lambda g, _: g.tags.list(), (read(None),)),
    Operation("tags.get", lambda g, _: g.tags.get("v1"), (read(None),)),
    Operation("tags.delete", lambda g, _: g.tags.delete("v0"), (delete("v0"),)),
    Operation("commits.list", lambda g, _: g.commits.list(branch="wip"), (read("wip"),)),
    Operation("commits.__iter__", lambda g, _: list(g.commits), (read(),)),
    Operation("commits.get", lambda g, at: g.commits.get(at.on_wip), (read(None),)),
    Operation("commits.changes", lambda g, at: g.commits.changes(at.on_wip), (read("wip"),)),
    Operation(
        "commits.revert",
        lambda g, at: g.commits.revert(at.on_wip, branch="wip"),
        (change("wip"), read("wip")),
    ),
    Operation(
        "commits.revert",
        lambda g, at: g.commits.revert(at.on_main, branch="wip"),
        (change("wip"), read()),
    ),
    Operation("changes.poll", lambda g, _: g.changes.poll(branch="wip"), (read("wip"),)),
    Operation("changes.follow", lambda g, _: list(g.changes.follow(branch="wip")), (read("wip"),)),
    Operation(
        "changes.baseline", lambda g, _: list(g.changes.baseline(branch="wip")), (export("wip"),)
    ),
    Operation("schema.source", lambda g, _: g.schema.source, (read(None),)),
    Operation("schema.catalog", lambda g, _: g.schema.catalog, (read(None),)),
    Operation("schema.hash", lambda g, _: g.schema.hash, (read(None),)),
    Operation("schema.show", lambda g, _: g.schema.show(), (read(None),)),
    Operation("schema.show", lambda g, at: g.schema.show(at=at.on_wip), (read(None),)),
    Operation("schema.plan", lambda g, _: g.schema.plan(WIDER), (read(None),)),
    Operation(
        "schema.apply",
        lambda g, _: g.schema.apply(WIDER),
        ((Action.SCHEMA_APPLY, None, "main"),),
        fails=True,  # other branches live
    ),
    Operation(
        "pipeline.load",
        lambda g, _: g.pipeline().load("missing.ndjson", mode="append", branch="wip"),
        (change("wip"),),
        fails=True,
    ),
    Operation(
        "pipeline.load_rows",
        lambda g, _: g.pipeline().load("missing.ndjson", mode="append", branch="n", from_="wip"),
        (change("n"), create("wip", "n")),
        fails=True,
    ),
    Operation("pipeline.run", _run, (change("wip"),), fails=True),
    Operation(
        "pipeline.write",
        lambda g, _: g.pipeline().write(_frame(), branch="wip"),
        (change("wip"),),
        fails=True,
    ),
    Operation(
        "pipeline.read",
        lambda g, at: g.pipeline().read(type="Nothing", snapshot=at.on_wip),
        (read("wip"),),
        fails=True,
    ),
    Operation(
        "pipeline.query",
        lambda g, _: g.pipeline().query("query q() { match { $n: Nothing } return { $n } }"),
        (read(),),
        fails=True,
    ),
    Operation(
        "pipeline.query",
        lambda g, at: g.pipeline().query("nothing", snapshot=at.on_wip),
        (read("wip"),),
        fails=True,
    ),
    Operation(
        "pipeline.export",
        lambda g, at: g.pipeline().export(at.root, branch="wip"),
        (export("wip"),),
        fails=True,
    ),
    Operation(
        "pipeline.analytics",
        lambda g, at: g.pipeline().analytics.degree(edge="Nothing", snapshot=at.on_wip),
        (read("wip"),),
        fails=True,
    ),
    Operation(
        "pipeline.embed",
        lambda g, _: g.pipeline().embed(type="Person", branch="wip"),
        (change("wip"),),
        fails=True,
    ),
]
UNASKED = {
    # Handles on what is open, which ask when they are used.
    *("as_actor", "pipeline", "close", "pipeline.close"),
    # Storage access, without an actor.
    *("init", "open", "clone", "refresh"),
    *(f"maintenance.{name}" for name in ("ensure_indices", "optimize", "cleanup", "repair")),
    *(f"pipeline.{name}" for name in ("ensure_indices", "optimize")),
    *(f"maintenance.{name}" for name in ("status", "run_due", "start", "stop")),
    *(f"maintenance.{name}" for name in ("verify", "recoveries", "unsettled_writes")),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    root = tmp_path_factory.mktemp("gate") / "graph.omni"
    with Graph.init(root, schema=SCHEMA) as graph:
        graph.load(
            b'{"type":"Person","data":{"name":"Ada","photo":"base64:AAEC"}}\n', mode="append"
        )
        graph.branches.create("wip")
        made = graph.mutate('query bob() { insert Person { name: "Bob" } }', branch="wip").commit
        assert made is not None
        graph.tags.create("v0")
        graph.tags.create("v1", branch="wip")
        graph.branches.create("spare")
        graph.branches.create("merged")
        return Place(
            root=root,
            on_main=graph.snapshot().graph_commit_id,
            on_wip=made.graph_commit_id,
        )


@dataclass
class Guarded:
    """The graph, open with a policy that a test may change."""

    graph: Graph
    policy: Policy
    place: Place

    def facts(self) -> object:
        graph = self.graph.as_actor("act-looker")
        facts = (
            [branch.to_dict() for branch in graph.branches.list()],
            [tag.to_dict() for tag in graph.tags.list()],
            graph.system("graph_commits").num_rows,
        )
        self.policy.forget()
        return facts


@pytest.fixture(scope="module")
def opened(place: Place) -> Iterator[Guarded]:
    policy = Policy()
    queries = place.root.parent / "stored.gq"
    queries.write_text(f"{ALL}\n{ADD}\n", encoding="utf-8")
    with Graph.open(place.root, policy=policy, actor="act-ann", queries=[queries]) as graph:
        yield Guarded(graph, policy, place)


@pytest.fixture
def guarded(opened: Guarded) -> Iterator[Guarded]:
    opened.policy.forget()
    yield opened
    opened.policy.denied = frozenset()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_asks_this_and_nothing_is_done_unless_all_of_it_is_allowed(
    operation: Operation, guarded: Guarded
) -> None:
    before = guarded.facts()
    with pytest.raises(PolicyError, match="no actor is given"):
        operation.call(guarded.graph.as_actor(None), guarded.place)
    assert guarded.policy.asked == []
    for ask in operation.asks:
        guarded.policy.denied = frozenset({ask})
        if ask == INVOKE:
            # Told like a name that does not exist.
            with pytest.raises(StoredQueryNotFound):
                operation.call(guarded.graph, guarded.place)
            continue
        with pytest.raises(PolicyError, match=f"denied {ask[0]}") as caught:
            operation.call(guarded.graph, guarded.place)
        assert caught.value.details == {
            "action": str(ask[0]),
            "actor": "act-ann",
            "branch": ask[1],
            "target_branch": ask[2],
        }
    guarded.policy.denied = frozenset()
    assert guarded.facts() == before

    if operation.fails:
        with pytest.raises(OmnigraphError) as failed:
            operation.call(guarded.graph, guarded.place)
        assert not isinstance(failed.value, PolicyError)
    else:
        operation.call(guarded.graph, guarded.place)
    asked = [ask for ask in guarded.policy.asked if ask not in operation.looks_up]
    assert asked == list(operation.asks)
    assert guarded.policy.actors == {"act-ann"}


def test_every_public_operation_has_its_row(place: Place) -> None:
    with Graph.open(place.root) as graph:
        made_on_use = [
            name for name, part in vars(Graph).items() if isinstance(part, cached_property)
        ]
        parts = {name: type(getattr(graph, name)) for name in ("queries", *made_on_use)}
    found = {
        f"{prefix}{name}"
        for prefix, owner in (
            ("", Graph),
            ("pipeline.", Pipeline),
            *((f"{name}.", owner) for name, owner in parts.items()),
        )
        for name, member in inspect.getmembers_static(owner)
        if owner is not Graph or name not in parts
        if not name.startswith("_") or name in ("__iter__", "__getitem__", "__call__")
        if not isinstance(member, type)
    }
    assert found == {operation.name for operation in OPERATIONS} | UNASKED


def test_maintenance_is_storage_access_and_asks_nothing(place: Place) -> None:
    policy = Policy()
    with Graph.open(place.root, policy=policy) as graph:
        graph.refresh()
        graph.maintenance.status()
        graph.maintenance.verify()
        graph.maintenance.recoveries()
        assert graph.maintenance.unsettled_writes() == 0
        graph.maintenance.optimize()
        graph.maintenance.ensure_indices()
        graph.maintenance.cleanup(keep=3)
        graph.maintenance.repair()
    assert policy.asked == []


def test_a_handle_for_another_actor_asks_for_that_one_and_closes_nothing(place: Place) -> None:
    policy = Policy()
    with Graph.open(place.root, policy=policy, actor="act-ann") as graph:
        with graph.as_actor("act-bob") as other:
            other.query(ALL)
            assert policy.actors == {"act-bob"}
        assert graph.query(ALL).columns
        assert policy.actors == {"act-ann", "act-bob"}
        with pytest.raises(PolicyError, match="no actor"):
            graph.as_actor(None).query(ALL)
        with pytest.raises(PolicyError, match="no actor"):
            graph.as_actor("act-bob").as_actor(None).branches.list()


def test_the_actor_that_was_asked_about_is_the_one_in_the_history(place: Place) -> None:
    with Graph.open(place.root, policy=Policy(), actor="act-ann") as graph:
        made = graph.as_actor("act-bob").mutate(ADD, params={"name": "Bobs"}).commit
    assert made is not None
    assert made.actor_id == "act-bob"


def test_a_load_to_a_branch_that_is_there_needs_no_right_to_create_it(place: Place) -> None:
    policy = Policy(denied=frozenset({create("main", "wip")}))
    with Graph.open(place.root, policy=policy, actor="act-ann") as graph:
        report = graph.load(_line("There"), mode="append", branch="wip", from_="main")
    assert report.branch == "wip"
    # Nor could it: the base that a vanished branch would be forked from is not handed on.
    assert report.base_branch is None


def test_a_merge_stands_whose_source_may_not_be_deleted(place: Place) -> None:
    policy = Policy(denied=frozenset({delete("kept")}))
    with Graph.open(place.root, policy=policy, actor="act-ann") as graph:
        graph.branches.create("twig")
        graph.branches.create("kept")
        graph.mutate(ADD, params={"name": "Kept"}, branch="kept")
        for outcome in ("fast_forward", "already_up_to_date"):
            done = graph.branches.merge("kept", into="twig", delete_branch=True)
            assert (done.outcome, done.branch_deleted) == (outcome, False)
            assert done.branch_delete_error == "denied branch_delete"
        assert graph.branches.get("kept").name == "kept"


AGE = 'query age($a: I64) { update Person set { age: $a } where name = "Ada" }'


def _contested(
    root: Path, denied: tuple[Ask, ...], refused: Callable[[Graph, str], object]
) -> dict[str, Any]:
    """The one conflict that is told of Ada, whose age both branches changed behind a commit."""
    policy = Policy(denied=frozenset(denied))
    Graph.init(root, schema="node Person { name: String @key  age: I64? }").close()
    with Graph.open(root, policy=policy, actor="act-ann") as graph:
        graph.load(b'{"type":"Person","data":{"name":"Ada","age":111}}', mode="append")
        commit = graph.mutate(AGE, params={"a": 333}).commit
        assert commit is not None
        graph.branches.create("wip")
        graph.mutate(AGE, params={"a": 222}, branch="wip")
        graph.mutate(AGE, params={"a": 444})
        with pytest.raises(MergeConflicts) as caught:
            refused(graph, commit.graph_commit_id)
    error = caught.value
    (told,) = cast("list[dict[str, Any]]", error.details["merge_conflicts"])
    assert (told["entity_id"], error.details["total"]) == ("Ada", 1)
    assert ("222" in f"{error.message} {error.details}") is ("ours" in told)
    return told


@pytest.mark.parametrize(
    ("denied", "sees"), [((), True), ((read("wip"),), False), ((read(),), False)], ids=str
)
def test_only_readers_of_both_branches_see_what_a_refused_merge_is_about(
    tmp_path: Path, denied: tuple[Ask, ...], *, sees: bool
) -> None:
    told = _contested(tmp_path / "g", denied, lambda graph, _: graph.branches.merge("wip"))
    assert [name in told for name in ("base", "ours", "theirs")] == [sees] * 3


@pytest.mark.parametrize(("denied", "sees"), [((), True), ((read("wip"),), False)], ids=str)
def test_only_readers_of_the_branch_see_what_a_refused_revert_is_about(
    tmp_path: Path, denied: tuple[Ask, ...], *, sees: bool
) -> None:
    told = _contested(
        tmp_path / "g", denied, lambda graph, commit: graph.commits.revert(commit, branch="wip")
    )
    assert [name in told for name in ("base", "ours", "theirs")] == [sees] * 3


def test_the_policy_is_held_against_the_schema_before_the_graph_is_given_out(place: Place) -> None:
    policy = Policy()
    with Graph.open(place.root, policy=policy, actor="act-ann"):
        assert [list(catalog.node_types) for catalog in policy.catalogs] == [["Person"]]


def test_a_policy_that_does_not_fit_the_schema_refuses_to_open(place: Place) -> None:
    class Unfit(Policy):
        def bind(self, catalog: Catalog) -> None:
            raise PolicyInvalid(f"names a type that is not in {list(catalog.node_types)}")

    with pytest.raises(PolicyInvalid, match="names a type"):
        Graph.open(place.root, policy=Unfit(), actor="act-ann")


@pytest.mark.parametrize(
    "sees",
    [Visibility(rows={"node:Person": Or(())}), Visibility(hidden_properties=frozenset({"P.x"}))],
)
def test_a_policy_that_hides_something_shows_nothing(sees: Visibility, place: Place) -> None:
    with (
        Graph.open(place.root, policy=Policy(sees=sees), actor="act-ann") as graph,
        pytest.raises(PolicyError, match="hides rows or properties"),
    ):
        graph.query(ALL)


def test_without_a_policy_nobody_is_asked(place: Place) -> None:
    gate = Gate(None, None)
    gate.require(Action.CHANGE, "main")
    assert gate.allows(Action.BRANCH_CREATE, "main", target="x")
    with Graph.open(place.root) as graph:
        assert graph.query(ALL).columns


def test_a_branch_that_gets_the_name_of_a_commit_meanwhile_does_not_open_the_commit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy(denied=frozenset({read("wip")}))

    def open_and_be_overtaken(graph: GraphCoordinator, target: ReadTarget) -> Snapshot:
        snapshot = open_target(graph, target)
        Branches(graph).create(str(target), "main", actor_id=None)
        return snapshot

    monkeypatch.setattr(allowed_states, "open_target", open_and_be_overtaken)
    with (
        Graph.open(place.root, policy=policy, actor="act-ann") as graph,
        pytest.raises(PolicyError, match="denied read"),
    ):
        graph.diff(place.on_wip, "main")


class Failing(Policy):
    """Fails in one place, or answers what is no answer."""

    fails_to: str = "authorize"

    def authorize(self, *_: object, **__: object) -> Decision:
        if self.fails_to == "decide":
            return Decision(allowed="yes", rule_id=None, message="truthy")  # type: ignore[arg-type]
        if self.fails_to == "authorize":
            raise ZeroDivisionError("s3cret")
        return Decision(allowed=True, rule_id=None, message="")

    def visibility(self, actor: str | None) -> Visibility:
        if self.fails_to == "see":
            raise KeyError(actor)
        return EVERYTHING


@pytest.mark.parametrize(
    ("fails_to", "error"),
    [
        ("authorize", PolicyEvaluationError),
        ("see", PolicyEvaluationError),
        ("decide", PolicyError),
    ],
)
def test_a_policy_that_fails_allows_nothing(
    fails_to: str, error: type[OmnigraphError], place: Place
) -> None:
    policy = Failing()
    policy.fails_to = fails_to
    with Graph.open(place.root, policy=policy, actor="act-ann") as graph:
        for call in (
            lambda: graph.query(ALL),
            lambda: graph.mutate(ADD, params={"name": "Never"}),
            lambda: graph.branches.create("never"),
        ):
            with pytest.raises(error) as caught:
                call()
            assert "s3cret" not in str(caught.value)
    with Graph.open(place.root) as graph:
        assert {"p.name": "Never"} not in graph.query(ALL).to_dicts()
        assert "never" not in [branch.name for branch in graph.branches.list()]


def test_a_migration_that_the_policy_does_not_fit_is_refused(tmp_path: Path) -> None:
    class NeedsAge(Policy):
        def bind(self, catalog: Catalog) -> None:
            if "age" not in catalog.node_types["Person"].properties:
                raise PolicyInvalid("a rule names Person.age, which there is not")

    root = tmp_path / "graph.omni"
    Graph.init(root, schema=WIDER).close()
    with Graph.open(root, policy=NeedsAge(), actor="act-ann") as graph:
        with pytest.raises(SchemaRefused, match=r"Person\.age"):
            graph.schema.apply(SCHEMA)
        assert "age" in graph.schema.source
        assert graph.schema.apply(WIDER.replace("age: I64?", "age: I64?  size: I64?")).applied


def test_a_query_cannot_write_and_a_mutation_cannot_read(guarded: Guarded) -> None:
    """Whoever may do one of the two has no way to the other through it."""
    before = guarded.facts()
    graph = guarded.graph
    for call in (
        lambda: graph.query(ADD, params={"name": "x"}),
        lambda: graph.explain(ADD, params={"name": "x"}, analyze=True),
        lambda: graph.mutate(ALL),
    ):
        with pytest.raises(OmnigraphError):
            call()
    assert guarded.facts() == before


def test_the_list_of_queries_has_those_that_the_actor_may_invoke(
    tmp_path: Path, place: Place
) -> None:
    stored, bundle = tmp_path / "stored.gq", tmp_path / "policy.yaml"
    stored.write_text(f"{ALL}\n{ADD}\n", encoding="utf-8")
    bundle.write_text(
        "version: 2\ngroups: { team: [act-ann], readers: [act-bob] }\nrules:\n"
        "  - { id: r, allow: { actors: { group: team }, actions: [read] } }\n"
        "  - { id: b, allow: { actors: { group: readers }, actions: [read] } }\n"
        "  - { id: q, allow: { actors: { group: team }, actions: [invoke_query],"
        " queries: [al*] } }\n",
        encoding="utf-8",
    )
    policy = load_policy(bundle)
    with Graph.open(place.root, policy=policy, actor="act-ann", queries=[stored]) as graph:
        assert [entry.name for entry in graph.queries.list()] == ["all"]
        assert graph.queries.get("all").name == "all"
        with pytest.raises(StoredQueryNotFound):
            graph.queries.invoke("add", {"name": "x"})
        assert graph.as_actor("act-bob").queries.list() == []
        with pytest.raises(StoredQueryNotFound):
            graph.as_actor("act-bob").queries.invoke("all")
