"""What the processes of a race of mutations and loads do; each function runs in its own child."""

import os
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, and the seed is printed
from time import sleep

from tests.race.people import Verb, Write
from tests.race.workers import TYPED_LOSSES, Journal

from omnigraph.api import Graph
from omnigraph.errors import KeyConflict, OmnigraphError, ReadSetChanged
from omnigraph.failpoints import armed

VALUES = 10_000
"""Each process has so many values of its own."""


def mutate_keys(notes: Journal, root: str, writer: int, keys: int, count: int, seed: int) -> None:
    """Puts keys that others put too, and removes one after every fifth."""
    random = Random(f"{seed}-{writer}")  # noqa: S311 - repeats with its seed
    with Graph.open(root, actor=f"w{writer}") as graph:
        notes.say("start", os.getpid())
        for value in range(writer * VALUES, writer * VALUES + count):
            _write(notes, graph, Verb.UPSERT, (f"k{random.randrange(keys)}",), value)
            if value % 5 == 4:
                _write(notes, graph, Verb.DELETE, (f"k{random.randrange(keys)}",), value)


def load_keys(notes: Journal, root: str, writer: int, keys: int, count: int, seed: int) -> None:
    """Loads three keys at a time that others put and remove."""
    random = Random(f"{seed}-{writer}")  # noqa: S311 - repeats with its seed
    with Graph.open(root, actor=f"w{writer}") as graph:
        notes.say("start", os.getpid())
        for value in range(writer * VALUES, writer * VALUES + count):
            chosen = sorted(random.sample(range(keys), 3))
            _write(notes, graph, Verb.MERGE, tuple(f"k{each}" for each in chosen), value)


def _write(notes: Journal, graph: Graph, verb: Verb, keys: tuple[str, ...], value: int) -> None:
    """Make a write, again when it lost; what is no loss of a race ends the process."""
    write = Write(verb=verb, keys=keys, value=value)
    while True:
        try:
            commit = write.send(graph)
        except OmnigraphError as error:
            notes.say("error", error.code, *write.words(), error.message)
            if error.code not in TYPED_LOSSES:
                raise
        else:
            if commit is None:
                notes.say("nothing", *write.words())
            else:
                notes.say("ack", *write.words(), commit.graph_commit_id)
            return


def write_in_rounds(
    notes: Journal, root: str, writer: int, verb: str, rounds: int, place: str, size: int
) -> None:
    """Makes one write per round, all writers at once: none goes on before all have staged theirs.

    An update is always of the same key, everything else of one that is new in each round.
    """
    point = f"{Verb(verb).kind}.post_stage_pre_lease"
    with Graph.open(root, actor=f"w{writer}") as graph:
        notes.say("start", os.getpid())
        for number in range(rounds):
            key = "one" if verb == Verb.UPDATE else f"new-{number}"
            write = Write(verb=Verb(verb), keys=(key,), value=writer * VALUES + number)
            meeting = Meeting(Path(place), number, writer, size)
            with armed(point, meeting.join):
                try:
                    commit = write.send(graph)
                except (ReadSetChanged, KeyConflict) as error:
                    notes.say("lost", error.code, *write.words())
                    continue
            assert commit is not None
            notes.say("ack", *write.words(), commit.graph_commit_id)


MEMBERS = "node Member { name: String @key  email: String @unique  visits: I32? }"


def write_own_tuples(
    notes: Journal, root: str, writer: int, verb: str, rounds: int, place: str, size: int
) -> None:
    """Writes one row per round that nobody else writes, all writers at once, of a unique email.

    Only an insert brings an email that was not there. Says how often each write was prepared.
    """
    prepared: list[int] = []
    with Graph.open(root, actor=f"w{writer}") as graph:
        notes.say("start", os.getpid())
        for number in range(rounds):
            meeting = Meeting(Path(place), number, writer, size)
            prepared.clear()

            def join(meeting: Meeting = meeting) -> None:
                prepared.append(1)
                meeting.join()

            with armed("mutation.post_stage_pre_lease", join):
                try:
                    graph.mutate(own_write(verb, writer, number))
                except OmnigraphError as error:
                    notes.say("lost", error.code, number)
                else:
                    notes.say("ack", number, len(prepared))


def own_write(verb: str, writer: int, number: int) -> str:
    """What a writer does in a round."""
    name = f"w{writer}-{number}" if verb == "insert" else f"w{writer}"
    if verb == "update":
        change = f"set {{ visits: {number} }}"
        return f'query m() {{ update Member {change} where name = "{name}" }}'
    row = f'name: "{name}", email: "{name}@x", visits: {number}'
    return f"query m() {{ insert Member {{ {row} }} }}"


class Meeting:
    """Where the processes of one round wait for each other; only their first way leads there."""

    def __init__(self, place: Path, number: int, writer: int, size: int) -> None:
        self._place = place
        self._number = number
        self._own = place / f"{number}-{writer}"
        self._size = size

    def join(self) -> None:
        """Wait until all are there."""
        if self._own.exists():
            return
        self._own.touch()
        while len(list(self._place.glob(f"{self._number}-*"))) < self._size:
            sleep(0.001)
