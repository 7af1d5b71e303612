"""The writes that crash tests make through the writer, and what each of them must give.

A write is data: the same steps go through the public API and through the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from tests.crash.model import COLUMNS, Content, Row, knows, note, person, put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the writer."""

    verb: Literal["append", "upsert", "delete", "overwrite"]
    type: str
    rows: tuple[Row, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One write: steps that are committed together."""

    steps: tuple[Step, ...]
    is_repeatable: bool = True
    """The same again is accepted; else it is refused with `KeyConflict`."""

    builds_indexes: bool = False
    """It writes no row, and builds every index that the schema declares."""

    joins_fragments: bool = False
    """And the small fragments of every table are joined."""

    def apply(self, content: Content) -> None:
        """Do to the model what the write does to the graph."""
        for step in self.steps:
            table = content.setdefault(step.type, {})
            if step.verb == "overwrite":
                table.clear()
            for removed in step.ids:
                table.pop(removed, None)
            for row in step.rows:
                put(table, row)

    def send(self, graph: Graph, branch: str) -> Commit | None:
        """Make the write."""
        if self.joins_fragments:
            return graph.maintenance.optimize(branch=branch).commit
        if self.builds_indexes:
            return graph.maintenance.ensure_indices(branch=branch).commit
        with graph.write(branch) as write:
            for step in self.steps:
                if step.verb == "delete":
                    write.delete(step.type, step.ids)
                    continue
                rows = pa.Table.from_pylist(list(step.rows), schema=COLUMNS[step.type])
                getattr(write, step.verb)(step.type, rows)
            return write.commit()


SEED = (
    Script(
        steps=(
            Step("append", "Person", tuple(person(f"p{n}", n) for n in range(4))),
            Step("append", "Note", (note("n0", 3, b"a scan"), note("n1", 4))),
            Step("append", "Knows", (knows("k0", "p0", "p1", 1), knows("k1", "p1", "p2", 2))),
        )
    ),
    Script(
        steps=(
            Step("append", "Person", (person("p4", 4),)),
            Step("append", "Knows", (knows("k2", "p2", "p3", 3), knows("k3", "p3", "p2", 4))),
        )
    ),
)

SCRIPTS: Mapping[str, Script] = {
    "insert": Script(
        steps=(
            Step("append", "Person", (person("a0", 40), person("a1", 41))),
            Step("append", "Knows", (knows("ka", "a0", "p0", 5), knows("kb", "p1", "a1", 6))),
        ),
        is_repeatable=False,
    ),
    "upsert": Script(
        steps=(
            Step("upsert", "Person", (person("p0", 100), person("p1", 101))),
            Step("upsert", "Knows", (knows("k0", "p0", "p1", 2000),)),
        )
    ),
    "delete": Script(
        steps=(
            Step("delete", "Knows", ids=("k0", "k1")),
            Step("delete", "Person", ids=("p0", "p1")),
        )
    ),
    "replace": Script(
        steps=(
            Step("delete", "Knows", ids=("k0", "k1")),
            Step("upsert", "Knows", (knows("k2", "p2", "p3", 3000), knows("kx", "x0", "p2", 7))),
            Step("delete", "Person", ids=("p0",)),
            Step("upsert", "Person", (person("p2", 102), person("x0", 50))),
        ),
    ),
    "overwrite": Script(
        steps=(
            Step("overwrite", "Person", (person("p2", 202), person("o0", 60))),
            Step("overwrite", "Knows", (knows("ko", "p2", "o0", 8),)),
        )
    ),
}

INDEX = Script(steps=(), builds_indexes=True)
OPTIMIZE = Script(steps=(), builds_indexes=True, joins_fragments=True)

NEXT = Script(steps=(Step("upsert", "Note", (note("next"),)),))
"""The write that comes after a crash; it touches no table of `SCRIPTS`."""

RIVAL = Script(
    steps=(
        Step("upsert", "Person", (person("p3", 300),)),
        Step("upsert", "Knows", (knows("k3", "p3", "p2", 400),)),
    )
)
"""A write to the tables of `SCRIPTS`, of rows that none of them but `overwrite` touches.

Of the others, it changes what `gq_update` and `load_overwrite` ask for.
"""

TOUCH = Script(
    steps=(
        Step("upsert", "Person", (person("p2", 1), person("p3", 1))),
        Step("upsert", "Knows", (knows("kt", "p2", "p3", 1),)),
        Step("upsert", "Note", (note("touch"),)),
    )
)
"""A write to every table."""
