"""No result depends on what indexes cover, how rows are laid out, or how they came about.

A seeded history of appends, updates, deletes, folds, compactions, index builds, branches and merges
is played on a graph. After each step every kind of query gives the rows that a fresh graph gives
which was loaded with the same rows in one write and has no trained index at all.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import MergeConflicts
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.ids import BranchName
from omnigraph.settings import load_settings

SCHEMA = """
node Doc { slug: String @key  n: I32? @index  u: U64? @index  f: F32? @index  body: String? @index
           note: String?  day: Date? @index  vec: Vector(2)? @index  tags: [I32]? }
edge Cites: Doc -> Doc { since: I32? @index }
"""
TYPES = ("Doc", "Cites")
SLUGS = tuple(f"d{number:02}" for number in range(24))
WORDS = ("red", "fox", "quick", "brown", "running", "cafés", "the", "data")
BRANCHES = ("main", "one", "two")

Row: TypeAlias = dict[str, Any]
State: TypeAlias = dict[str, dict[str, Row]]
Step: TypeAlias = tuple[str, str]
"""What is done, and on which branch."""

ACTS = (
    *("append", "append", "update", "delete", "fold"),
    *("compact", "index", "optimize", "branch", "merge"),
)
FOLDED = 7

_NEAREST = "order { nearest($d.vec, [1, 2]) } limit"
QUERIES = {
    "all": "match { $d: Doc } return { $d, $d.n, $d.u, $d.f, $d.body, $d.day, $d.tags }",
    "equal": "match { $d: Doc { n: 3 } } return { $d }",
    "range": "match { $d: Doc $d.n > -1.5 $d.n <= 4 } return { $d, $d.n } order { $d.n desc }",
    "unsigned": "match { $d: Doc $d.u >= 9007199254740993 } return { $d, $d.u }",
    "unequal": "match { $d: Doc $d.n != 3 $d.f < 0.1 } return { $d }",
    "date": 'match { $d: Doc $d.day < date("1971-01-01") } return { $d }',
    "member": "match { $d: Doc $d.tags contains 2 } return { $d }",
    "prefix": 'match { $d: Doc $d.body starts_with "red" } return { $d, $d.body }',
    "substring": 'match { $d: Doc $d.note contains "ow" } return { $d }',
    "key": 'match { $d: Doc { slug: "d07" } } return { $d.body, $d.vec }',
    "search": 'match { $d: Doc search($d.body, "fox run") } return { $d }',
    "search of a copy": 'match { $d: Doc search($d.note, "fox run") } return { $d }',
    "search and filter": 'match { $d: Doc search($d.body, "cafe") $d.n < 3 } return { $d }',
    "not found": 'match { $d: Doc search($d.body, "red") = false } return { $d }',
    "phrase": 'match { $d: Doc match_text($d.body, "quick brown") } return { $d }',
    "phrase of a copy": 'match { $d: Doc match_text($d.note, "quick brown") } return { $d }',
    "fuzzy": 'match { $d: Doc fuzzy($d.body, "quikc", 2) } return { $d }',
    "nearest": f"match {{ $d: Doc }} return {{ $d, nearest($d.vec, [1, 2]) as x }} {_NEAREST} 5",
    "nearest of few": f"match {{ $d: Doc $d.n >= 4 }} return {{ $d }} {_NEAREST} 3",
    "nearest of a walk": f"match {{ $s: Doc $s cites $d }} return {{ $s, $d }} {_NEAREST} 7",
    "distance": "match { $d: Doc nearest($d.vec, [1, 2]) < 0.5 } return { $d }",
    "hop": "match { $d: Doc $d cites $e } return { $d, $e, $e.n }",
    "hop from one": 'match { $d: Doc { slug: "d03" } $d cites{1,2} $e } return { $e, $e.body }',
    "hop back": "match { $d: Doc $e cites $d $d.n > 1 } return { $d, $e }",
    "walk": "match { $d: Doc $d cites{2,4} $e } return { $d, $e }",
    "both ways": "match { $d: Doc $d <cites>{1,2} $e } return { $d, $e }",
    "edges": "match { $d: Doc $d $c:cites $e $c.since > 2 } return { $d, $e, $c.since }",
    "circle": "match { $d: Doc $d cites $e $e cites $d } return { $d, $e }",
    "anti-join": "match { $d: Doc not { $d cites $_ } } return { $d }",
    "anti-join back": "match { $d: Doc not { $_ cites $d } } return { $d }",
    "anti-join of texts": (
        'match { $d: Doc not { $d cites $e search($e.body, "fox") } } return { $d }'
    ),
    "anti-join of a walk": "match { $d: Doc not { $d cites $e $e.n > 2 } } return { $d }",
    "counts": "match { $d: Doc $d cites $e } return { $d, count($e) as n, sum($e.n) as s }",
    "groups": "match { $d: Doc } return { $d.n, count($d) as c, max($d.u) as m } order { c desc }",
    "join": "match { $d: Doc $e: Doc $d.n = $e.u } return { $d, $e }",
}


@dataclass(slots=True)
class World:
    """A graph with a history, and the rows that each of its branches must show."""

    path: Path
    rng: Random
    graph: Graph
    states: dict[str, State]
    trail: list[str] = field(default_factory=list)

    def step(self, chosen: Step | None = None) -> str:
        """One more step, any one if none is chosen; the branch that it touched."""
        name, branch = chosen or (self.rng.choice(ACTS), self.rng.choice(list(self.states)))
        self.trail.append(f"{name} on {branch}")
        getattr(self, name)(branch)
        return branch

    def append(self, branch: str) -> None:
        state = self.states[branch]
        missing = [slug for slug in SLUGS if slug not in state["Doc"]]
        docs = self.rng.sample(missing, min(len(missing), self.rng.randint(1, 5)))
        added: State = {"Doc": {slug: _doc(self.rng, slug) for slug in docs}, "Cites": {}}
        ends = [*state["Doc"], *docs]
        for _ in range(self.rng.randint(0, 6) if ends else 0):
            edge = _edge(self.rng, ends, len(state["Cites"]) + len(added["Cites"]))
            if edge["id"] not in state["Cites"]:
                added["Cites"][edge["id"]] = edge
        self._write(branch, "append", added)

    def update(self, branch: str) -> None:
        state = self.states[branch]
        docs = self.rng.sample(list(state["Doc"]), min(len(state["Doc"]), self.rng.randint(1, 6)))
        edges = self.rng.sample(list(state["Cites"]), min(len(state["Cites"]), 2))
        changed: State = {
            "Doc": {slug: _doc(self.rng, slug) for slug in docs},
            "Cites": {
                each: {**_edge(self.rng, list(state["Doc"]), 0), "id": each} for each in edges
            },
        }
        self._write(branch, "upsert", changed)

    def delete(self, branch: str) -> None:
        state = self.states[branch]
        docs = set(self.rng.sample(list(state["Doc"]), min(len(state["Doc"]), 2)))
        edges = {
            each
            for each, row in state["Cites"].items()
            if docs & {row["src"], row["dst"]} or self.rng.random() < 0.15
        }
        if not docs and not edges:
            return
        with self.graph.write(branch) as writer:
            writer.delete("Doc", docs)
            writer.delete("Cites", edges)
            writer.commit()
        for name, gone in (("Doc", docs), ("Cites", edges)):
            for each in gone:
                del state[name][each]

    def fold(self, branch: str) -> None:
        """Rows one by one, so many that a write joins the last fragments of the table."""
        before = self._fragments(branch)
        for slug in self.rng.choices(SLUGS, k=FOLDED):
            self._write(branch, "upsert", {"Doc": {slug: _doc(self.rng, slug)}, "Cites": {}})
        assert self._fragments(branch) < before + FOLDED

    def merge(self, branch: str) -> None:
        """What another branch changed; what a merge takes is no question of this page."""
        others = [each for each in self.states if each != branch]
        if not others:
            return
        with suppress(MergeConflicts):  # An edge of one side at a node that the other removed.
            self.graph.branches.merge(self.rng.choice(others), into=branch, strategy="theirs")
        snapshot = self.graph.snapshot(branch=branch)
        for name in TYPES:
            rows = snapshot.scan(name).read_all().to_pylist()
            self.states[branch][name] = {row["id"]: row for row in rows}

    def _fragments(self, branch: str) -> int:
        snapshot = self.graph.snapshot(branch=branch)
        return len(self.graph._graph.tables.fragments(snapshot.handle(snapshot.type("Doc"))))

    def compact(self, branch: str) -> None:
        coordinator = self.graph._graph
        for name in TYPES:
            item = self.graph.snapshot(branch=branch).type(name)

            def prepare(txn: WriteTxn, ref: Any = ref_of(item)) -> PreparedWrite:  # noqa: ANN401,B008 - of this table
                staged = txn.store.stage_compaction(txn.writable(ref), txn.stamp)
                return PreparedWrite(staged=() if staged.is_noop else (staged,))

            request = WriteRequest(
                kind=SidecarKind.OPTIMIZE,
                branch=BranchName(branch),
                branch_id=coordinator.branch_id(branch),
            )
            coordinator.protocol.run(request, prepare)

    def index(self, branch: str) -> None:
        self.graph.maintenance.ensure_indices(branch=branch)

    def optimize(self, branch: str) -> None:
        target = self.rng.choice([None, 4])
        self.graph.maintenance.optimize(branch=branch, target_rows=target)

    def branch(self, branch: str) -> None:
        name = next((each for each in BRANCHES if each not in self.states), None)
        if name is not None:
            self.graph.branches.create(name, from_=branch)
            self.states[name] = {kind: dict(rows) for kind, rows in self.states[branch].items()}

    def _write(self, branch: str, how: str, rows: State) -> None:
        if not any(rows.values()):
            return
        with self.graph.write(branch) as writer:
            for name, each in rows.items():
                getattr(writer, how)(name, _arrow(self.graph, name, each))
            writer.commit()
        for name, each in rows.items():
            self.states[branch][name].update(each)


def _doc(rng: Random, slug: str) -> Row:
    def some(*values: Any) -> Any:  # noqa: ANN401 - any value
        return rng.choice([None, *values])

    text = " ".join(rng.choices(WORDS, k=rng.randint(0, 5)))
    return {
        "slug": slug,
        "n": some(*range(-3, 6)),
        "u": some(0, 3, 5, 2**53, 2**53 + 1, 2**64 - 1),
        "f": some(-1.5, 0.0, 0.1, 2.5),
        "body": some(text, text, text.upper()),
        "note": some(text, "quick-brown fox", "slow"),
        "day": some(0, 300, 20_000),
        "vec": some([1.0, 2.0], [0.0, 0.0], [rng.gauss(0, 1), rng.gauss(0, 1)], [-1.0, 0.5]),
        "tags": some([], [1, 2], [2, None]),
    }


def _edge(rng: Random, ends: list[str], number: int) -> Row:
    src, dst = rng.choice(ends), rng.choice(ends)
    return {"id": f"e{number:03}-{src}", "src": src, "dst": dst, "since": rng.choice([None, 1, 3])}


def _arrow(graph: Graph, name: str, rows: dict[str, Row]) -> pa.Table:
    schema = graph.snapshot().type(name).arrow_schema
    fields = [each for each in schema if name == "Cites" or each.name != "id"]
    return pa.Table.from_pylist(list(rows.values()), pa.schema(fields))


def _answers(graph: Graph, branch: str = "main") -> dict[str, pa.Table]:
    return {
        name: graph.query(f"query q() {{ {text} }}", branch=branch).to_arrow()
        for name, text in QUERIES.items()
    }


@contextmanager
def _world(seed: int, **env: str) -> Iterator[World]:
    given = {f"OMNIGRAPH_{name}": value for name, value in env.items()}
    settings = load_settings({"OMNIGRAPH_DURABILITY": "process"} | given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        graph = Graph.init(path / "g", schema=SCHEMA, settings=settings)
        world = World(path, Random(seed), graph, {"main": {name: {} for name in TYPES}})  # noqa: S311 - no secret
        try:
            yield world
        finally:
            graph.close()


class Plain:
    """One graph whose rows are replaced for each comparison; no index of it is ever trained."""

    def __init__(self, path: Path) -> None:
        settings = load_settings({"OMNIGRAPH_DURABILITY": "process"})
        self._graph = Graph.init(path, schema=SCHEMA, settings=settings)

    def answers(self, state: State) -> dict[str, pa.Table]:
        with self._graph.write() as writer:
            for name in TYPES:
                writer.overwrite(name, _arrow(self._graph, name, state[name]))
            writer.commit()
        return _answers(self._graph)

    def close(self) -> None:
        self._graph.close()


def _play(seed: int, steps: Sequence[Step | None], **env: str) -> None:
    with _world(seed, **env) as world:
        plain = Plain(world.path / "plain")
        other = Graph.open(
            world.path / "g", settings=load_settings({"OMNIGRAPH_TRAVERSAL_MODE": "csr"})
        )
        try:
            for chosen in steps:
                branch = world.step(chosen)
                wanted = plain.answers(world.states[branch])
                for graph in (world.graph, other):
                    found = _answers(graph, branch)
                    wrong = [name for name in QUERIES if found[name] != wanted[name]]
                    assert wrong == [], (seed, world.trail)
            for branch, state in world.states.items():
                assert _answers(world.graph, branch) == plain.answers(state), (seed, world.trail)
        finally:
            other.close()
            plain.close()


FEW: tuple[Step, ...] = (
    ("append", "main"),
    ("index", "main"),
    ("branch", "main"),
    ("fold", "main"),
    ("append", "one"),
    ("merge", "main"),
    ("optimize", "main"),
)
"""Every layout that a compaction, a fold or a merge leaves beside an index that was trained."""

MANY = (None,) * 12


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        (0, FEW),
        pytest.param(0, MANY, marks=pytest.mark.extended),
        *(pytest.param(seed, MANY, marks=pytest.mark.slow) for seed in (1, 2)),
    ],
)
def test_results_never_depend_on_what_indexes_cover(
    seed: int, steps: Sequence[Step | None]
) -> None:
    _play(seed, steps, TRAVERSAL_MODE="indexed")


@pytest.mark.parametrize(("seed", "steps"), thinned([(1, FEW), (100, MANY)]))
def test_results_never_depend_on_what_indexes_cover_when_the_mode_is_chosen(
    seed: int, steps: Sequence[Step | None]
) -> None:
    _play(seed, steps, NEAREST_EXACT_VALUES="0")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1_000, 1_030))
def test_results_never_depend_on_what_indexes_cover_over_long_histories(seed: int) -> None:
    _play(seed, (None,) * 40, TRAVERSAL_MODE="indexed")
