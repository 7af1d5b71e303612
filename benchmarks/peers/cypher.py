"""Ladybug, or Kuzu from which it descends: an embedded graph database with Cypher.

The two cannot live in one process, so Kuzu stands in only where Ladybug is not installed. A query
is given as text each time: preparing it apart is deprecated in Ladybug.
"""

import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from benchmarks.peers.system import Case, Missing, Row, is_built, mark_built

_TABLES: Final = (
    "CREATE NODE TABLE Person(handle STRING PRIMARY KEY, num INT64, name STRING, city STRING,"
    " age INT32)",
    "CREATE NODE TABLE Company(slug STRING PRIMARY KEY)",
    "CREATE REL TABLE Knows(FROM Person TO Person)",
    "CREATE REL TABLE WorksAt(FROM Person TO Company)",
)
_COPIES: Final = (
    "COPY Person FROM (LOAD FROM 'FOLDER/persons.parquet' RETURN handle, num, name, city, age)",
    "COPY Company FROM 'FOLDER/companies.parquet'",
    "COPY Knows FROM 'FOLDER/knows.parquet'",
    "COPY WorksAt FROM 'FOLDER/works_at.parquet'",
)

QUERIES: Final = {
    "lookup": "MATCH (p:Person {handle: $handle}) RETURN p.name, p.city, p.age",
    "hop1": "MATCH (p:Person {handle: $handle})-[:Knows]->(f:Person) RETURN f.handle",
    "hop1_names": """
MATCH (p:Person {handle: $handle})-[:Knows]->(f:Person) RETURN f.handle, f.name, f.city
""",
    "hop2": """
MATCH (p:Person {handle: $handle})-[:Knows*1..2]->(f:Person)
WHERE f.handle <> $handle RETURN DISTINCT f.handle
""",
    "hop2_count": """
MATCH (p:Person)-[:Knows* SHORTEST 1..2]->(f:Person)
WHERE p.num >= $low AND p.num < $high AND p.num <> f.num RETURN count(*)
""",
    "hop3_count": """
MATCH (p:Person {handle: $handle})-[:Knows* SHORTEST 1..3]->(f:Person)
WHERE f.handle <> $handle RETURN count(*)
""",
    "walks3": """
MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person)-[:Knows]->(d:Person) RETURN count(*)
""",
    "walks2_first": """
MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person) RETURN a.handle, b.handle LIMIT 10
""",
    "top_degree": """
MATCH (q:Person)-[:Knows]->(p:Person)
RETURN p.handle, count(*) AS known_by ORDER BY known_by DESC, p.handle LIMIT 10
""",
    "no_job": """
MATCH (p:Person) WHERE NOT EXISTS { MATCH (p)-[:WorksAt]->(:Company) } RETURN count(*)
""",
    "age_by_city": "MATCH (p:Person) RETURN p.city, avg(p.age)",
}


class CypherSystem:
    """Connections to one database: of one thread for what starts at one node, of all for the rest.

    Raises:
        Missing: neither is installed.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        package = _installed()
        self.name = f"{package.__name__} {package.__version__}"
        folder = folder.with_name(package.__name__)
        if not is_built(folder):
            _build(package, folder, source)
        self._database = package.Database(str(folder / "people.db"), read_only=True)
        self._all = package.Connection(self._database)
        self._one = package.Connection(self._database, num_threads=1)
        self.workloads = frozenset(QUERIES)

    def run(self, workload: str, case: Case) -> object:
        """The rows as lists."""
        connection = self._one if "handle" in case else self._all
        return connection.execute(QUERIES[workload], dict(case)).get_all()

    def rows(self, found: object) -> list[Row]:
        """As tuples."""
        if not isinstance(found, list):
            raise TypeError(f"no rows: {found!r}")
        return [tuple(row) for row in found]

    def close(self) -> None:
        """Close the database."""
        self._one.close()
        self._all.close()
        self._database.close()


def _installed() -> ModuleType:
    for name in ("ladybug", "kuzu"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise Missing("neither ladybug nor kuzu is installed")


def _build(package: Any, folder: Path, source: Path) -> None:  # noqa: ANN401 - an optional part
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    database = package.Database(str(folder / "people.db"))
    connection = package.Connection(database)
    for statement in (*_TABLES, *_COPIES):
        connection.execute(statement.replace("FOLDER", str(source)))
    connection.close()
    database.close()
    mark_built(folder)
