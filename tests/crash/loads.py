"""The loads that crash tests make, and what each of them must give."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.crash.model import Content, Row, knows, person, put

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load of rows by type; an edge without an id gets one."""

    mode: Literal["append", "merge", "overwrite"]
    rows: Mapping[str, tuple[Row, ...]]

    @property
    def is_repeatable(self) -> bool:
        """The same again is accepted; else it is refused with `KeyConflict`."""
        return self.mode != "append"

    def apply(self, content: Content) -> None:
        """Do to the model what the write does to the graph."""
        for name, rows in self.rows.items():
            if self.mode == "overwrite":
                content[name].clear()
            for row in rows:
                put(content[name], row)

    def send(self, graph: Graph, branch: str) -> Commit | None:
        """Make the write."""
        source = "".join(f"{json.dumps(each)}\n" for each in self._records()).encode()
        return graph.load(source, mode=self.mode, branch=branch).commit

    def _records(self) -> Iterator[Row]:
        for name, rows in self.rows.items():
            for row in rows:
                if "src" not in row:
                    yield {"type": name, "data": row}
                    continue
                data = {key: value for key, value in row.items() if key not in ("src", "dst")}
                yield {"edge": name, "from": row["src"], "to": row["dst"], "data": data}


LOADS: Mapping[str, Load] = {
    "load_append": Load(
        mode="append",
        rows={
            "Person": (person("l0", 40), person("l1", 41)),
            "Knows": (knows("la", "l0", "p0", 5), knows("lb", "p1", "l1", 6)),
        },
    ),
    "load_merge": Load(
        mode="merge",
        rows={
            "Person": (person("p0", 100), person("l2", 42)),
            "Knows": (knows("k0", "p0", "l2", 2000), {"src": "l2", "dst": "p1", "since": 7}),
        },
    ),
    "load_overwrite": Load(
        mode="overwrite",
        rows={
            "Person": (person("p2", 202), person("l3", 43)),
            "Knows": (knows("lo", "p2", "l3", 8),),
        },
    ),
}
"""Each touches two tables."""
