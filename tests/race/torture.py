"""Runs processes that do deeds and end or stand still at any step, and explains what is left.

History is replayed: the deeds of its commits, in order, must give what every commit shows.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from tests.race import doers
from tests.race.club import SCHEMA, TYPES, Rows, broken, edge, emptied, lines, person, rows_of, team
from tests.race.crew import LONG_LEASE, Crew
from tests.race.deeds import Branch, Deed, Load, Unbranch, known, parse_deed, put
from tests.race.operations import SEED
from tests.race.pairs import require_settled

from omnigraph import Graph
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.race.crew import Worker

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.settings import Settings

TTL_MS = 300
BRANCHES = ("main", "side")
EVERY = 5
"""Of so many commits one is compared with the model, and the newest one."""

REFUSALS = {
    "branch_busy",
    "constraint_violation",
    "fenced",
    "key_conflict",
    "load_rejected",
    "published_dataset_version_conflict",
    "read_set_conflict",
}
"""What a writer may be told that broke a rule or was too slow: nothing of it is there."""


@dataclass(kw_only=True)
class Torture:
    """One run."""

    root: str
    folder: Path
    seed: int
    writers: int
    count: int
    """How many deeds each process does."""
    seconds: float
    """After so long no deed is begun."""
    kill: float = 0.01
    pause: float = 0.007
    environment: Mapping[str, str] = field(default_factory=dict)
    ttl_ms: int = TTL_MS

    def run(self) -> None:
        """Prepare a graph, let the processes work on it, and require every promise."""
        print(f"seed {self.seed}")  # noqa: T201 - shown on failure
        with Graph.init(self.root, schema=SCHEMA, settings=self._patient) as graph:
            for records in SEED:
                graph.load(lines(records), mode="append", engine="local")
            for name in BRANCHES[1:]:
                graph.branches.create(name)
        begun = perf_counter()
        with Crew(self.folder, self._variables) as crew:
            workers = [
                crew.start(f"w{writer}", doers.do_deeds, self._task(writer))
                for writer in range(self.writers)
            ]
            self._attend(crew, workers)
        took_s = perf_counter() - begun
        notes = Notes(workers)
        with Graph.open(self.root, settings=self._patient) as graph:
            commits = Judge(graph, notes).judge()
        print(f"{took_s:.1f} s, {commits} commits, {notes.figures()}")  # noqa: T201

    @property
    def _variables(self) -> dict[str, str]:
        return {
            "OMNIGRAPH_LEASE_TTL_MS": str(self.ttl_ms),
            "OMNIGRAPH_LEASE_WAIT_MS": "60000",
            "OMNIGRAPH_DURABILITY": "process",
            "RUST_BACKTRACE": "0",
            **self.environment,
        }

    @property
    def _patient(self) -> Settings:
        """Whoever arranges and judges must not lose a lease."""
        return load_settings(self._variables | LONG_LEASE)

    @property
    def _stop(self) -> Path:
        return self.folder / "stop"

    def _task(self, writer: int) -> doers.Task:
        return doers.Task(
            root=self.root,
            writer=writer,
            branches=BRANCHES,
            count=self.count,
            stop=str(self._stop),
            seed=self.seed,
            kill=self.kill,
            pause=self.pause,
        )

    def _attend(self, crew: Crew, workers: list[Worker]) -> None:
        """Start the killed again and wake the stopped, until all have ended by themselves."""
        begun = perf_counter()
        asleep: dict[int, float] = {}
        left = workers
        while left := [each for each in left if self._goes_on(crew, each, asleep)]:
            if perf_counter() - begun > self.seconds:
                self._stop.touch()
            sleep(0.01)

    def _goes_on(self, crew: Crew, worker: Worker, asleep: dict[int, float]) -> bool:
        pid = worker.process.pid
        assert pid is not None
        if not worker.is_alive:
            if worker.process.exitcode == -signal.SIGKILL:
                crew.restart(worker)
                return True
            assert worker.process.exitcode == 0, worker.words()[-3:]
            return False
        if not _is_stopped(pid):
            asleep.pop(pid, None)
        elif perf_counter() - asleep.setdefault(pid, perf_counter()) > 2 * self.ttl_ms / 1000:
            # Whoever waited for its lease has taken it by now.
            worker.signal(signal.SIGCONT)
        return True


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"


class Notes:
    """What the processes noted of their deeds."""

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers
        self.deeds = {
            deed.token: deed for deed in (parse_deed(words[1]) for words in self._words("try"))
        }
        self.acks = {
            words[1]: None if words[2] == "-" else words[2] for words in self._words("ack")
        }
        self.refused = {words[1]: words[2] for words in self._words("refused")}

    def on(self, branch: str) -> Iterator[Deed]:
        """Every deed on a branch."""
        return (each for each in self.deeds.values() if each.branch == branch)

    def figures(self) -> dict[str, object]:
        """What happened how often."""
        acts = Counter(type(self.deeds[token].act).__name__ for token in self.acks)
        return {
            "done": dict(acts),
            "refused": dict(Counter(self.refused.values())),
            "unknown": len(self.deeds.keys() - self.acks.keys() - self.refused.keys()),
            "killed": dict(Counter(words[1] for words in self._words("killed"))),
            "stopped": dict(Counter(words[1] for words in self._words("stopped"))),
        }

    def _words(self, kind: str) -> list[list[str]]:
        return [words for each in self._workers for words in each.words(kind)]


class Judge:
    """Holds a graph against what was noted."""

    def __init__(self, graph: Graph, notes: Notes) -> None:
        self._graph = graph
        self._notes = notes
        self._live = [each.name for each in graph.branches.list()]
        self._compared: set[str] = set()

    def judge(self) -> int:
        """Every promise was kept; how many commits there are on the branches that stay."""
        unexpected = set(self._notes.refused.values()) - REFUSALS
        assert not unexpected, unexpected
        self._require_branches()
        for branch in self._live:
            self._touch(branch)
        require_settled(self._graph, self._live)
        return sum(self._require_history(branch) for branch in self._live)

    def _require_branches(self) -> None:
        """What was acknowledged is there, unless somebody began to delete it, or is gone."""
        for deed in self._notes.deeds.values():
            is_acked = deed.token in self._notes.acks
            if isinstance(deed.act, Unbranch) and is_acked:
                assert deed.branch not in self._live, f"{deed} was acknowledged"
            if isinstance(deed.act, Branch) and is_acked and not self._is_doomed(deed.branch):
                assert deed.branch in self._live, f"{deed} was acknowledged"

    def _is_doomed(self, branch: str) -> bool:
        return any(isinstance(each.act, Unbranch) for each in self._notes.on(branch))

    def _touch(self, branch: str) -> None:
        """Write to every table: what a late writer left behind goes with the next write to it."""
        records = [
            person("z"),
            team("z"),
            edge("Knows", "z-z", id="z", mark=-1),
            edge("Member", "z-z", id="z", mark=-1),
            *(edge("Leads", "z-z", id=f"z{number}", mark=-number) for number in (1, 2)),
        ]
        deed = Deed(f"touch-{branch}", branch, Load("merge", records))
        self._notes.deeds[deed.token] = deed
        self._notes.acks[deed.token] = deed.send(self._graph)

    def _require_history(self, branch: str) -> int:
        """One chain of acknowledged and unknown deeds, which give what is there."""
        page = self._graph.commits.list(branch=branch, limit=100_000, all=True)
        commits = list(page)[::-1]
        assert commits[0].parent_commit_id is None
        for before, after in pairwise(commits):
            assert after.parent_commit_id == before.graph_commit_id
        self._require_tokens(branch, commits)
        rows: Rows = {name: [] for name in TYPES}
        for number, commit in enumerate(commits):
            rows = self._played(commit, rows)
            if number % EVERY == 0 or commit is commits[-1]:
                self._require_shown(commit.graph_commit_id, rows)
        return len(commits)

    def _require_shown(self, commit_id: str, rows: Rows) -> None:
        """A commit shows these rows; branches share commits."""
        if commit_id in self._compared:
            return
        self._compared.add(commit_id)
        shown = known(rows_of(self._graph, at=commit_id))
        assert _sorted(shown) == _sorted(rows), f"{commit_id}: {_difference(shown, rows)}"

    def _require_tokens(self, branch: str, commits: list[Commit]) -> None:
        """Who was acknowledged is there once, who was refused is not."""
        found = [str(each.actor_id) for each in commits if each.actor_id in self._notes.deeds]
        assert len(found) == len(set(found)), Counter(found).most_common(3)
        refused = self._notes.refused.keys() & set(found)
        assert not refused, f"{branch}: refused, but there: {refused}"
        ids = {each.actor_id: each.graph_commit_id for each in commits}
        for deed in self._notes.on(branch):
            if deed.token in self._notes.acks:
                acked = self._notes.acks[deed.token]
                assert ids.get(deed.token) == acked, f"{branch}: {deed} was acknowledged as {acked}"

    def _played(self, commit: Commit, rows: Rows) -> Rows:
        """The rows after a commit, by the deed of which it is."""
        if commit.kind not in ("mutation", "load"):
            return rows
        if commit.actor_id is None:
            return put(rows, SEED[commit.graph_manifest_version - 1], strict=True)
        act = self._notes.deeds[commit.actor_id].act
        after = act.play(rows)
        faults = [*broken(after), *([] if act.empties else emptied(rows, after))]
        assert not faults, f"{commit.actor_id} {act}: {faults}"
        return after


def _sorted(rows: Rows) -> Rows:
    return {name: sorted(found, key=lambda row: str(row["id"])) for name, found in rows.items()}


def _difference(shown: Rows, expected: Rows) -> dict[str, object]:
    return {
        name: {
            "more": [row for row in shown[name] if row not in expected[name]],
            "less": [row for row in expected[name] if row not in shown[name]],
        }
        for name in TYPES
        if _sorted(shown)[name] != _sorted(expected)[name]
    }
