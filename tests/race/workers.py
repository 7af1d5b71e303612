"""What the processes of a race do; every function here runs in a child of its own.

A worker keeps a journal: one line per event, synced before the worker goes on, so that it survives
a kill. What it raises beyond the errors of the public API ends it with a traceback in the journal.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, and the seed is printed
from time import sleep

from tests.race.pairs import SCHEMA, pairs_of, write_pair

from omnigraph.api import Graph
from omnigraph.errors import InternalError, KeyConflict, OmnigraphError, StorageInternalError
from omnigraph.failpoints import NAMES, armed
from omnigraph.storage.signals import StorageSignal

DEADLY = ("mutation", "publish", "recovery", "lease", "fork")
"""The groups of failpoints at which a writer may kill itself."""

TYPED_LOSSES = {
    "branch_busy",
    "deadline_exceeded",
    "fenced",
    "recovery_required",
    "read_set_conflict",
    "published_dataset_version_conflict",
}
"""What a writer may be told under contention, kills and stops."""


class Journal:
    """Lines of words that are on disk when `say` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, *words: object) -> None:
        """Append one line."""
        line = " ".join(str(word).replace("\n", " | ") for word in words) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_journal(path: Path) -> list[list[str]]:
    """The complete lines of a journal, as words."""
    if not path.exists():
        return []
    return [line.split(" ") for line in path.read_text().split("\n")[:-1]]


def run(
    job: Callable[..., None], journal: Path, environment: Mapping[str, str], *arguments: object
) -> None:
    """Runs one job in this process, with its environment and its journal."""
    os.environ.update(environment)
    notes = Journal(journal)
    try:
        job(notes, *arguments)
    except BaseException:  # noqa: BLE001 - a process edge: the journal is its log
        notes.say("crash", traceback.format_exc())
        sys.exit(1)
    notes.say("end")
    notes.close()


def write_keys(
    notes: Journal, root: str, branch: str, writer: str, count: int, seed: int, chance: float
) -> None:
    """Commits `count` keys one after the other; started again, it goes on where it was killed.

    At every step of the protocol it kills itself with the given chance: kills from outside mostly
    meet a process that waits for the lease.
    """
    before = read_journal(notes.path)
    done = {words[1] for words in before if words[0] in ("ack", "found")}
    tried = {words[1] for words in before if words[0] == "try"}
    random = Random(f"{seed}-{writer}-{len(before)}")  # noqa: S311 - repeats with its seed
    with ExitStack() as context:
        for name in sorted(NAMES):
            if name.partition(".")[0] in DEADLY:
                context.enter_context(armed(name, partial(_die, notes, name, random, chance)))
        graph = context.enter_context(_opened(notes, root))
        notes.say("start", os.getpid())
        for key in (f"{writer}-{number}" for number in range(count)):
            if key not in done:
                _write_until_there(notes, graph, branch, key, tried)


def _die(notes: Journal, name: str, random: Random, chance: float) -> None:
    if random.random() < chance:
        notes.say("died", name)
        os.kill(os.getpid(), signal.SIGKILL)


def _write_until_there(
    notes: Journal, graph: Graph, branch: str, key: str, tried: set[str]
) -> None:
    while True:
        is_first = key not in tried
        if is_first:
            tried.add(key)
            notes.say("try", key)
        try:
            commit = write_pair(graph, key, branch=branch)
        except KeyConflict:
            notes.say("stolen" if is_first else "found", key)
            return
        except OmnigraphError as error:
            notes.say("error", error.code, key, error.message, error.__cause__)
        else:
            notes.say("ack", key, commit.graph_commit_id, commit.recovered)
            return


def _opened(notes: Journal, root: str) -> Graph:
    while True:
        try:
            return Graph.open(root)
        except OmnigraphError as error:
            notes.say("error", error.code, "open", error.message, error.__cause__)


def read_states(notes: Journal, root: str, branches: list[str], until: str) -> None:
    """Reads snapshots until the file appears; each must be whole, and none older than the last."""
    newest: dict[str, tuple[int, set[str]]] = {}
    looks = 0
    with Graph.open(root, mode="read_only") as graph:
        while not Path(until).exists():
            for branch in branches:
                snapshot = graph.snapshot(branch=branch)
                seq, before = newest.get(branch, (-1, set()))
                assert snapshot.seq >= seq, f"{branch}: {snapshot.seq} after {seq}"
                if snapshot.seq > seq:
                    found = set(pairs_of(snapshot))
                    assert before <= found, f"{branch}: {sorted(before - found)} went away"
                    newest[branch] = (snapshot.seq, found)
                looks += 1
            sleep(0.005)
    notes.say("looks", looks)


def compact_lines(notes: Journal, root: str, branches: list[str], until: str) -> None:
    """Compacts the manifest's lines over and over until the file appears."""
    done = lost = 0
    with Graph.open(root) as graph:
        parts = graph._graph
        while not Path(until).exists():
            for branch in branches:
                line = parts.lines.read(parts.branch_id(branch))
                try:
                    parts.storage.manifest.compact(line.handle)
                    done += 1
                except (StorageSignal, OmnigraphError) as error:
                    notes.say("lost", type(error).__name__, error)
                    lost += 1
            sleep(0.05)
    notes.say("compactions", done, lost)


def create_branch(notes: Journal, root: str, name: str, gate: str) -> None:
    """Waits for the gate and creates a branch."""
    with Graph.open(root) as graph:
        notes.say("ready")
        _wait_for(Path(gate))
        try:
            notes.say("won", graph.branches.create(name).branch_id)
        except OmnigraphError as error:
            notes.say("error", error.code, error.message)


def create_tag(notes: Journal, root: str, name: str, gate: str) -> None:
    """Waits for the gate and creates a tag."""
    with Graph.open(root) as graph:
        notes.say("ready")
        _wait_for(Path(gate))
        try:
            notes.say("won", graph.tags.create(name).graph_commit_id)
        except OmnigraphError as error:
            notes.say("error", error.code, error.message)


def write_branch(notes: Journal, root: str, branch: str, writer: str, gate: str) -> None:
    """Writes to a branch until it is gone."""
    with Graph.open(root) as graph:
        notes.say("ready")
        _wait_for(Path(gate))
        number = 0
        while True:
            try:
                commit = write_pair(graph, f"{writer}-{number}", branch=branch)
            except OmnigraphError as error:
                notes.say("error", error.code, error.message, repr(error.__cause__))
                if error.code == "branch_not_found" or isinstance(
                    error, InternalError | StorageInternalError
                ):
                    return
            else:
                notes.say("ack", f"{writer}-{number}", commit.graph_commit_id)
                number += 1


def init_graph(notes: Journal, root: str, gate: str) -> None:
    """Waits for the gate and creates a graph."""
    notes.say("ready")
    _wait_for(Path(gate))
    try:
        with Graph.init(root, schema=SCHEMA) as graph:
            notes.say("won", graph._graph.graph_id)
    except OmnigraphError as error:
        notes.say("error", error.code, error.message)


def answer_heads(notes: Journal, root: str, questions: str) -> None:
    """Tells the head each time that the file of questions grows, until it says `end`."""
    asked = 0
    with Graph.open(root, mode="read_only") as graph:
        notes.say("ready")
        while True:
            lines = Path(questions).read_text().split("\n")[:-1]
            for line in lines[asked:]:
                if line == "end":
                    return
                notes.say("head", line, graph.snapshot().graph_commit_id)
            asked = len(lines)
            sleep(0.002)


def write_once(notes: Journal, root: str, key: str, branch: str) -> None:
    """One commit; meant to be killed at a failpoint of its environment."""
    with Graph.open(root) as graph:
        notes.say("ack", key, write_pair(graph, key, branch=branch).graph_commit_id)


def init_once(notes: Journal, root: str) -> None:
    """One init; meant to be killed at a failpoint of its environment."""
    Graph.init(root, schema=SCHEMA).close()
    notes.say("done")


def _wait_for(gate: Path) -> None:
    while not gate.exists():
        sleep(0.001)
