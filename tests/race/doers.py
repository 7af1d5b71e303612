"""What a process of a torture does: random deeds, with a random end at some step of one of them."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, and the seed is printed
from typing import TYPE_CHECKING

import msgspec
from tests.race.club import (
    CARDS,
    Row,
    Rows,
    edge,
    is_chosen,
    person,
    rows_of,
    sources,
    team,
)
from tests.race.deeds import (
    Branch,
    Deed,
    Delete,
    Grow,
    Index,
    Insert,
    Load,
    Optimize,
    Unbranch,
    Unlink,
    Update,
    Write,
    parse_deed,
)
from tests.race.workers import Journal, read_journal

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, RecoveryRequired
from omnigraph.failpoints import NAMES, armed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.race.deeds import Act

DEADLY = (
    "mutation",
    "load",
    "ensure_indices",
    "optimize",
    "publish",
    "recovery",
    "lease",
    "fork",
    "branch_create",
    "branch_delete",
)
"""The groups of failpoints at which a process may end or stand still."""

PEOPLE = [f"p{number}" for number in range(10)]
TEAMS = ["t0", "t1", "t2"]
EMAILS = [*[None] * 8, *(f"e{number}" for number in range(8))]
LEAST = 3
"""So many deeds a process does, however late it is."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told."""

    root: str
    writer: int
    branches: tuple[str, ...]
    count: int
    stop: str
    """Once this file is there, no deed is begun."""
    seed: int
    kill: float
    """The chance of an end at each step."""
    pause: float
    """The chance of a stop there."""


def do_deeds(notes: Journal, task: Task) -> None:
    """Do deeds one after the other; started again, go on where the last process ended."""
    before = read_journal(notes.path)
    random = Random(f"{task.seed}-{task.writer}-{len(before)}")  # noqa: S311 - repeats
    with ExitStack() as context:
        for name in sorted(NAMES):
            if name.partition(".")[0] in DEADLY:
                context.enter_context(armed(name, partial(_disturb, notes, task, random, name)))
        graph = context.enter_context(_opened(notes, task.root))
        notes.say("start", os.getpid())
        if (cut := _cut_off(before)) is not None and cut.act.is_keyed:
            _do(notes, graph, cut)
        begun = sum(words[0] == "try" for words in before)
        deeds = Deeds(task, random, graph)
        for number in range(begun, task.count):
            if number >= LEAST and Path(task.stop).exists():
                return
            deed = deeds.next(number)
            notes.say("try", deed.text())
            deeds.told(deed, is_done=_do(notes, graph, deed))


def _disturb(notes: Journal, task: Task, random: Random, point: str) -> None:
    chance = random.random()
    if chance >= task.kill + task.pause or Path(task.stop).exists():
        return
    kills = chance < task.kill
    notes.say("killed" if kills else "stopped", point)
    os.kill(os.getpid(), signal.SIGKILL if kills else signal.SIGSTOP)


def _cut_off(before: list[list[str]]) -> Deed | None:
    """The deed of which it is not known what became of it."""
    told = [words for words in before if words[0] in ("try", "ack", "refused", "unknown")]
    return parse_deed(told[-1][1]) if told and told[-1][0] == "try" else None


def _do(notes: Journal, graph: Graph, deed: Deed) -> bool:
    """Do a deed and note what became of it."""
    try:
        commit = deed.send(graph)
    except RecoveryRequired:
        notes.say("unknown", deed.token)
        return False
    except OmnigraphError as error:
        notes.say("refused", deed.token, error.code, error.message)
        return False
    notes.say("ack", deed.token, commit or "-")
    return True


def _opened(notes: Journal, root: str) -> Graph:
    while True:
        try:
            return Graph.open(root)
        except OmnigraphError as error:
            notes.say("closed", error.code, error.message)


class Deeds:
    """Chooses the deeds of one process by what it knew to be there a while ago.

    Most of them would break no rule then.
    """

    def __init__(self, task: Task, random: Random, graph: Graph) -> None:
        self._task = task
        self._random = random
        self._graph = graph
        self._known: dict[str, Rows] = {}
        self._own: list[str] = []
        self._choices: list[tuple[int, Callable[[Rows, int], Act]]] = [
            (5, self._insert),
            (4, self._link),
            (4, self._update),
            (2, self._grow),
            (2, self._delete),
            (4, self._unlink),
            (4, self._write),
            (3, self._append),
            (4, self._merge),
            (1, self._overwrite),
            (1, lambda _rows, _mark: Index()),
            (1, lambda _rows, _mark: Optimize()),
        ]

    def next(self, number: int) -> Deed:
        """The deed of that number."""
        token = f"w{self._task.writer}-{number}"
        random = self._random
        if random.random() < 0.04:
            return Deed(token, f"own-{token}", Branch(random.choice(self._task.branches)))
        if self._own and random.random() < 0.1:
            return Deed(token, random.choice(self._own), Unbranch())
        branch = random.choice([*self._task.branches, *self._own])
        weights, choices = zip(*self._choices, strict=True)
        (choose,) = random.choices(choices, weights)
        mark = (self._task.writer * 1000 + number + 1) * 10
        return Deed(token, branch, choose(self._rows(branch), mark))

    def told(self, deed: Deed, *, is_done: bool) -> None:
        """Remember which branches there are."""
        if isinstance(deed.act, Branch) and is_done:
            self._own.append(deed.branch)
        if isinstance(deed.act, Unbranch):
            self._own.remove(deed.branch)

    def _rows(self, branch: str) -> Rows:
        if branch not in self._known or self._random.random() < 0.3:
            self._known[branch] = rows_of(self._graph, branch)
        return self._known[branch]

    def _person(self, rows: Rows) -> Row:
        random = self._random
        name, email = self._free(rows, "Knows", PEOPLE), random.choice(EMAILS)
        return person(name, email=email, age=random.randrange(120))

    def _some(self, rows: Rows, type_: str) -> str:
        found = [str(row["id"]) for row in rows[type_]]
        return self._random.choice(found or PEOPLE)

    def _free(self, rows: Rows, type_: str, among: list[str]) -> str:
        """A source with room for one edge more, if there is one."""
        counts = sources(rows[type_])
        free = [each for each in among if counts[each] < CARDS[type_][1]]
        return self._random.choice(free or among)

    def _knows(self, rows: Rows, source: str, mark: int, **values: object) -> Row:
        return edge("Knows", f"{source}-{self._some(rows, 'Person')}", mark=mark, **values)

    def _insert(self, rows: Rows, mark: int) -> Act:
        node = self._person(rows)
        return Insert([node, self._knows(rows, node["data"]["name"], mark)])

    def _link(self, rows: Rows, mark: int) -> Act:
        who, where = self._free(rows, "Knows", PEOPLE), self._some(rows, "Team")
        links = [
            self._knows(rows, who, mark),
            edge("Member", f"{who}-{where}", mark=mark),
            edge("Leads", f"{where}-{who}", mark=mark),
        ]
        return Insert([self._random.choice(links)])

    def _update(self, rows: Rows, _mark: int) -> Act:
        return Update(self._some(rows, "Person"), self._random.choice(EMAILS))

    def _grow(self, _rows: Rows, _mark: int) -> Act:
        return Grow(self._random.randrange(60, 121), self._random.randrange(121))

    def _delete(self, rows: Rows, _mark: int) -> Act:
        type_ = self._random.choice(["Person", "Person", "Team"])
        return Delete(type_, self._some(rows, type_))

    def _unlink(self, rows: Rows, _mark: int) -> Act:
        type_ = self._random.choice(["Knows", "Knows", "Member", "Leads"])
        counts = sources(rows[type_])
        marks = [row["mark"] for row in rows[type_] if counts[row["src"]] > CARDS[type_][0]]
        return Unlink(type_, self._random.choice(marks or [0]))

    def _write(self, rows: Rows, mark: int) -> Act:
        node = person(f"n{mark}", age=self._random.randrange(121))
        named = _named(rows["Knows"])
        gone = self._random.sample(named, min(len(named), self._random.randrange(3)))
        return Write([node, self._knows(rows, f"n{mark}", mark, id=f"k{mark}")], gone)

    def _append(self, rows: Rows, mark: int) -> Act:
        name = self._random.choice([f"n{mark}", self._random.choice(PEOPLE)])
        return Load("append", [person(name), self._knows(rows, name, mark, id=f"k{mark}")])

    def _merge(self, rows: Rows, mark: int) -> Act:
        moved = self._random.choice(_named(rows["Knows"]) or [f"k{mark}"])
        nodes = [self._person(rows), team(self._random.choice(TEAMS), motto=f"m{mark}")]
        who = nodes[0]["data"]["name"]
        return Load("merge", [*nodes, self._knows(rows, who, mark, id=moved)])

    def _overwrite(self, rows: Rows, mark: int) -> Act:
        ends = {(self._some(rows, "Person"), self._some(rows, "Team")) for _ in range(3)}
        records = [
            edge("Member", f"{who}-{where}", mark=mark + number, id=f"m{mark + number}")
            for number, (who, where) in enumerate(sorted(ends))
        ]
        return Load("overwrite", records)


def _named(edges: list[Row]) -> list[str]:
    """Ids that a caller gave: the model knows no others."""
    return [str(row["id"]) for row in edges if not is_chosen(row["id"])]
