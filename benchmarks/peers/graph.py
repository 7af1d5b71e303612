"""OmniGraph, as a caller of `Graph.query` sees it: `.gq` text and parameters each time."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from benchmarks.peers.system import Case, Row, is_built, mark_built
from benchmarks.people import DIMENSIONS, People, Size

from omnigraph import Graph
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.storage.layout import layout_of

if TYPE_CHECKING:
    from omnigraph.lang import EdgeType, NodeType

_ROWS_PER_COMMIT: Final = 1_000_000

QUERIES: Final[Mapping[str, str]] = {
    "lookup": """
query lookup($handle: String) {
  match { $p: Person { handle: $handle } }
  return { $p.name, $p.city, $p.age }
}
""",
    "hop1": """
query hop1($handle: String) {
  match { $p: Person { handle: $handle }  $p knows $f }
  return { $f }
}
""",
    "hop1_names": """
query hop1_names($handle: String) {
  match { $p: Person { handle: $handle }  $p knows $f }
  return { $f, $f.name, $f.city }
}
""",
    "hop2": """
query hop2($handle: String) {
  match { $p: Person { handle: $handle }  $p knows{1,2} $f }
  return { $f }
}
""",
    "hop2_count": """
query hop2_count($low: I64, $high: I64) {
  match { $p: Person  $p.num >= $low  $p.num < $high  $p knows{1,2} $f }
  return { count($f) as pairs }
}
""",
    "hop3_count": """
query hop3_count($handle: String) {
  match { $p: Person { handle: $handle }  $p knows{1,3} $f }
  return { count($f) as reached }
}
""",
    "walks3": """
query walks3() { match { $a: Person  $a knows $b  $b knows $c  $c knows $d } return { count($d) } }
""",
    "walks2_first": """
query walks2_first() { match { $a: Person  $a knows $b  $b knows $c } return { $a, $b } limit 10 }
""",
    "top_degree": """
query top_degree() {
  match { $p: Person  $q knows $p }
  return { $p.handle, count($q) as known_by }
  order { known_by desc, $p.handle }
  limit 10
}
""",
    "no_job": """
query no_job() {
  match { $p: Person  not { $p worksAt $_ } }
  return { count($p) as people }
}
""",
    "age_by_city": """
query age_by_city() {
  match { $p: Person }
  return { $p.city, avg($p.age) as mean }
}
""",
    "vector": f"""
query vector($vector: Vector({DIMENSIONS})) {{
  match {{ $p: Person }}
  return {{ $p.handle, nearest($p.embedding, $vector) as distance }}
  order {{ distance }}
  limit 10
}}
""",
    "vector_city": f"""
query vector_city($vector: Vector({DIMENSIONS}), $city: String) {{
  match {{ $p: Person {{ city: $city }} }}
  return {{ $p.handle, nearest($p.embedding, $vector) as distance }}
  order {{ distance }}
  limit 10
}}
""",
    "text": """
query text($text: String) {
  match { $p: Person }
  return { $p.handle, bm25($p.bio, $text) as score }
  order { score desc }
  limit 10
}
""",
}


def build_graph(folder: Path, size: Size, people: People) -> None:
    """The graph with its indexes, in commits of a bounded size; one that is there stays."""
    if is_built(folder):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Graph.init(folder / "graph", schema=size.schema) as graph:
        for name, rows in (
            ("Person", people.persons),
            ("Company", people.companies),
            ("Knows", people.knows),
            ("WorksAt", people.works_at),
        ):
            for part in _parts(rows):
                with graph.write() as writer:
                    writer.append(name, part)
                    writer.commit()
        graph.maintenance.ensure_indices()
    mark_built(folder)


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, rows.num_rows, _ROWS_PER_COMMIT):
        yield rows.slice(start, _ROWS_PER_COMMIT)


def table_paths(folder: Path) -> dict[str, Path]:
    """Where the table of each type is, for those who read it without the graph."""
    with Graph.open(folder / "graph", mode="read_only") as graph:
        catalog = graph.schema.catalog
        kinds: list[NodeType | EdgeType] = [
            *catalog.node_types.values(),
            *catalog.edge_types.values(),
        ]
        return {kind.name: folder / "graph" / layout_of(kind).location for kind in kinds}


class GraphSystem:
    """The graph, open read-only."""

    def __init__(self, folder: Path) -> None:
        self.name = "omnigraph"
        self.graph = Graph.open(folder / "graph", mode="read_only")
        self.workloads = frozenset(QUERIES)

    def run(self, workload: str, case: Case) -> QueryResult:
        """The result of the workload's query."""
        return self.graph.query(QUERIES[workload], params=case)

    def rows(self, found: object) -> list[Row]:
        """Its rows."""
        if not isinstance(found, QueryResult):
            raise TypeError(f"no result of a query: {found!r}")
        return [tuple(row.values()) for row in found.to_dicts()]

    def close(self) -> None:
        """Close the graph."""
        self.graph.close()
