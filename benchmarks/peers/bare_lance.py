"""The floor: the very tables and indexes of the graph, read with Lance and nothing above it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow as pa
from benchmarks.peers.system import Case, Row
from lance.query import MatchQuery

RECALL: Final = 0.97


class LanceSystem:
    """Datasets that stay open. How many partitions a vector search probes is set from outside."""

    def __init__(self, tables: Mapping[str, Path]) -> None:
        self.name = "lance"
        self._persons = lance.dataset(tables["Person"])
        self._knows = lance.dataset(tables["Knows"])
        self.probes: dict[str, int] = {"vector": 1, "vector_city": 1}
        self._calls: dict[str, Callable[[Case], pa.Table]] = {
            "lookup": self._lookup,
            "hop1": self._hop1,
            "hop2": self._hop2,
            "age_by_city": self._age_by_city,
            "vector": lambda case: self._vector(case, self.probes["vector"]),
            "vector_city": lambda case: self._vector(case, self.probes["vector_city"]),
            "text": self._text,
        }
        self.workloads = frozenset(self._calls)

    @property
    def partitions(self) -> int:
        """How many a vector search can probe."""
        return max(1, self._persons.count_rows() // 4096)

    def run(self, workload: str, case: Case) -> pa.Table:
        """The rows, as an Arrow table."""
        return self._calls[workload](case)

    def rows(self, found: object) -> list[Row]:
        """Its rows."""
        if not isinstance(found, pa.Table):
            raise TypeError(f"no Arrow table: {found!r}")
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def close(self) -> None:
        """Nothing is kept but what Python frees."""

    def _lookup(self, case: Case) -> pa.Table:
        where = f"handle = '{case['handle']}'"
        return self._persons.to_table(columns=["name", "city", "age"], filter=where)

    def _hop1(self, case: Case) -> pa.Table:
        return self._knows.to_table(columns=["dst"], filter=f"src = '{case['handle']}'")

    def _hop2(self, case: Case) -> pa.Table:
        start = case["handle"]
        near = self._hop1(case)["dst"].to_pylist()
        if not near:
            return pa.table({"dst": pa.array([], pa.string())})
        listed = ", ".join(f"'{each}'" for each in near)
        far = self._knows.to_table(columns=["dst"], filter=f"src IN ({listed})")["dst"].to_pylist()
        return pa.table({"dst": [each for each in {*near, *far} if each != start]})

    def _age_by_city(self, case: Case) -> pa.Table:
        del case
        rows = self._persons.to_table(columns=["city", "age"])
        return rows.group_by("city").aggregate([("age", "mean")])

    def _vector(self, case: Case, probes: int) -> pa.Table:
        nearest: dict[str, Any] = {  # Any: what Lance takes
            "column": "embedding",
            "q": case["vector"],
            "k": 10,
            "metric": "cosine",
            "nprobes": probes,
        }
        where = f"city = '{case['city']}'" if "city" in case else None
        return self._persons.to_table(
            columns=["handle", "_distance"], nearest=nearest, filter=where, prefilter=True
        )

    def _text(self, case: Case) -> pa.Table:
        asked = MatchQuery(str(case["text"]), "bio")
        return self._persons.to_table(columns=["handle", "_score"], full_text_query=asked, limit=10)
