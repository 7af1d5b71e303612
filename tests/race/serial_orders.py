"""Two writes of which one overtakes the other, held against both of their orders.

The model is the graph itself: what each order gives is found out on a copy, one write after the
other. The rules of the result are checked by `club`, which knows nothing of the graph's checks.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from tests.race.club import SCHEMA, Rows, broken, emptied, exported, lines, rows_of
from tests.race.operations import OWN, SEED
from tests.race.pairs import require_settled

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, ReadSetChanged
from omnigraph.failpoints import armed
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.race.operations import Operation, Told

Place: TypeAlias = Literal["main", "branch", "first"]
PLACES: tuple[Place, ...] = ("main", "branch", "first")
"""On `main`, on a branch whose tables have lines of their own, and on one that has none yet."""

SETTINGS = load_settings(
    {
        "OMNIGRAPH_DURABILITY": "process",
        "OMNIGRAPH_TRAVERSAL_MODE": "indexed",
        # Small inputs in several tasks.
        "OMNIGRAPH_PIPELINE_SPLIT_BYTES": "100",
    }
)

FRIENDS = "query q() { match { $p: Person $p.age >= 20 $p knows $q } return { $p.name, $q.name } }"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one writer was told."""

    told: Told = ()
    refusal: tuple[str, ...] = ()
    """The class of its error, and the codes of the rules that it would have broken."""

    @property
    def is_overtaken(self) -> bool:
        """Whether it was turned away because somebody was faster, and may decide anew."""
        return self.refusal == (ReadSetChanged.__name__,)


def attempt(operation: Operation, graph: Graph, branch: str) -> Outcome:
    """Make a write."""
    try:
        return Outcome(told=operation.send(graph, branch))
    except OmnigraphError as error:
        violations = cast("list[dict[str, str]]", error.details.get("violations", []))
        codes = {each["code"] for each in violations}
        return Outcome(refusal=(type(error).__name__, *sorted(codes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two writes one after the other."""

    one: Outcome
    between: list[str]
    """What is there after the first."""
    other: Outcome
    rows: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaking:
    """A write that was staged, and another that was made before it went on."""

    staged: Outcome
    faster: Outcome
    rows: list[str]


@dataclass(frozen=True, slots=True)
class Arena:
    """Where two writes meet."""

    root: Path
    branch: str

    def open(self) -> Graph:
        """A handle that knows of no other, as that of another process."""
        return Graph.open(self.root, settings=SETTINGS)


@cache
def _template(folder: Path) -> Path:
    root = folder / "club"
    before, after = SEED
    with Graph.init(root, schema=SCHEMA, settings=SETTINGS) as graph:
        graph.load(lines(before), mode="append", engine="local")
        graph.maintenance.ensure_indices()
        graph.load(lines(after), mode="append", engine="local")
    return root


@dataclass(frozen=True, slots=True)
class Arenas:
    """Makes copies of one graph; the one that is copied lies below `shared`."""

    shared: Path
    place: Place

    @contextmanager
    def fresh(self) -> Iterator[Arena]:
        """A copy, for as long as the block lasts."""
        with TemporaryDirectory(dir=self.shared) as folder:
            root = Path(folder) / "graph"
            shutil.copytree(_template(self.shared), root)
            if self.place == "main":
                yield Arena(root, "main")
                return
            # Lance writes absolute paths into branches, so they are made after the copy.
            with Graph.open(root, settings=SETTINGS) as graph:
                graph.branches.create("rev")
                if self.place == "branch":
                    graph.load(lines(OWN), mode="merge", branch="rev", engine="local")
            yield Arena(root, "rev")

    def in_order(self, one: Operation, other: Operation) -> Order:
        """What two writes give one after the other."""
        with self.fresh() as arena, arena.open() as graph:
            first = attempt(one, graph, arena.branch)
            between = exported(graph, arena.branch)
            second = attempt(other, graph, arena.branch)
            rows = exported(graph, arena.branch)
        return Order(one=first, between=between, other=second, rows=rows)

    def overtaking(self, staged: Operation, faster: Operation) -> Overtaking:
        """Stage one write, make the other, and let the first go on; no rule may be broken then."""
        with ExitStack() as stack:
            arena = stack.enter_context(self.fresh())
            mine, theirs = (stack.enter_context(arena.open()) for _ in range(2))
            before = rows_of(mine, arena.branch)
            made: list[Outcome] = []
            passages = count()

            def overtake() -> None:
                # The faster one may pass here too, and the staged one again when it starts over.
                if next(passages) == 0:
                    made.append(attempt(faster, theirs, arena.branch))

            with armed(f"{staged.kind}.post_stage_pre_lease", overtake):
                mine_made = attempt(staged, mine, arena.branch)
            assert made, f"nothing was staged: {mine_made}"
            empties = staged.empties or faster.empties
            require_rules(mine, arena.branch, before, empties=empties)
            require_settled(mine, [arena.branch])
            rows = exported(mine, arena.branch)
        return Overtaking(staged=mine_made, faster=made[0], rows=rows)


def require_rules(graph: Graph, branch: str, before: Rows, *, empties: bool) -> None:
    """Every rule holds, and whoever looks rows up by an index finds what is there."""
    rows = rows_of(graph, branch)
    faults = [*broken(rows), *([] if empties else emptied(before, rows))]
    assert not faults, faults
    old = {row["name"] for row in rows["Person"] if (row["age"] or 0) >= 20}
    expected = {(row["src"], row["dst"]) for row in rows["Knows"] if row["src"] in old}
    found = {tuple(each.values()) for each in graph.query(FRIENDS, branch=branch)}
    assert found == expected, f"a query finds {found}, a scan {expected}"


def require_serial(found: Overtaking, straight: Order, turned: Order) -> None:
    """What was found is what one of the two orders gives; nobody is told anything else.

    `straight` is the order in which the staged write comes first, `turned` the other one.
    """
    assert found.faster == turned.one, f"what is only staged was seen: {found.faster}"
    if found.staged.is_overtaken:
        assert found.rows == turned.between, f"refused, but: {_changes(found.rows, turned.between)}"
        return
    first = Overtaking(staged=straight.one, faster=straight.other, rows=straight.rows)
    last = Overtaking(staged=turned.other, faster=turned.one, rows=turned.rows)
    assert found in (first, last), "\n".join(
        f"{name} it gives {order.staged}, {order.faster}; here {found.staged}, {found.faster}"
        f" and {_changes(found.rows, order.rows)}"
        for name, order in (("first", first), ("last", last))
    )


def _changes(found: list[str], expected: list[str]) -> dict[str, int]:
    """Which rows are there too often, and too seldom."""
    return {
        row: found.count(row) - expected.count(row)
        for row in sorted({*found, *expected})
        if found.count(row) != expected.count(row)
    }
