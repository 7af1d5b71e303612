"""DuckDB: joins over columns that hold numbers beside the keys, sorted by where an edge starts."""

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.system import Case, Missing, Row, is_built, mark_built

_TABLES: Final = (
    "CREATE TABLE person AS SELECT handle, num, name, city, age FROM 'persons.parquet'",
    "CREATE UNIQUE INDEX person_handle ON person (handle)",
    "CREATE UNIQUE INDEX person_num ON person (num)",
    """
CREATE TABLE knows AS SELECT k.src AS src_handle, k.dst AS dst_handle, a.num AS src, b.num AS dst
FROM 'knows.parquet' k JOIN person a ON a.handle = k.src JOIN person b ON b.handle = k.dst
ORDER BY a.num
""",
    "CREATE INDEX knows_src_handle ON knows (src_handle)",
    "CREATE INDEX knows_src ON knows (src)",
    """
CREATE TABLE works_at AS SELECT p.num AS src
FROM 'works_at.parquet' w JOIN person p ON p.handle = w.src
""",
)

QUERIES: Final = {
    "lookup": "SELECT name, city, age FROM person WHERE handle = $handle",
    "hop1": "SELECT dst_handle FROM knows WHERE src_handle = $handle",
    "hop1_names": """
SELECT f.handle, f.name, f.city FROM knows k JOIN person f ON f.num = k.dst
WHERE k.src_handle = $handle
""",
    "hop2": """
WITH one AS (SELECT dst FROM knows WHERE src_handle = $handle),
two AS (SELECT dst FROM one UNION SELECT k.dst FROM one JOIN knows k ON k.src = one.dst)
SELECT handle FROM person JOIN two ON num = dst WHERE handle <> $handle
""",
    "hop2_count": """
WITH one AS (SELECT src AS start, dst FROM knows WHERE src >= $low AND src < $high),
two AS (SELECT start, dst FROM one
        UNION SELECT one.start, k.dst FROM one JOIN knows k ON k.src = one.dst)
SELECT count(*) FROM two WHERE start <> dst
""",
    "hop3_count": """
WITH one AS (SELECT dst FROM knows WHERE src_handle = $handle),
two AS (SELECT dst FROM one UNION SELECT k.dst FROM one JOIN knows k ON k.src = one.dst),
three AS (SELECT dst FROM two UNION SELECT k.dst FROM two JOIN knows k ON k.src = two.dst)
SELECT count(*) FROM three WHERE dst <> (SELECT num FROM person WHERE handle = $handle)
""",
    "walks3": """
WITH one AS (SELECT src, count(*) AS walks FROM knows GROUP BY src),
two AS (SELECT k.src, sum(walks) AS walks FROM knows k JOIN one ON k.dst = one.src GROUP BY k.src)
SELECT CAST(sum(walks) AS BIGINT) FROM knows k JOIN two ON k.dst = two.src
""",
    "walks2_first": """
SELECT one.src_handle, two.src_handle
FROM knows one JOIN knows two ON one.dst = two.src LIMIT 10
""",
    "top_degree": """
SELECT handle, known_by FROM (
  SELECT dst, count(*) AS known_by FROM knows GROUP BY dst ORDER BY known_by DESC, dst LIMIT 10
) JOIN person ON num = dst ORDER BY known_by DESC, handle
""",
    "no_job": "SELECT count(*) FROM person WHERE num NOT IN (SELECT src FROM works_at)",
    "age_by_city": "SELECT city, avg(age) FROM person GROUP BY city",
}


class DuckSystem:
    """One connection to a database file.

    Raises:
        Missing: DuckDB is not installed.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        try:
            duckdb: Any = import_module("duckdb")  # Any: an optional part brings its own types
        except ImportError as error:
            raise Missing(f"duckdb is not installed ({error})") from error
        self.name = f"duckdb {duckdb.__version__}"
        if not is_built(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            with duckdb.connect(folder / "people.db") as made:
                made.execute("SET file_search_path = $1", [str(source)])
                for statement in _TABLES:
                    made.execute(statement)
            mark_built(folder)
        self._connection = duckdb.connect(folder / "people.db", read_only=True)
        self.workloads = frozenset(QUERIES)

    def run(self, workload: str, case: Case) -> object:
        """The rows as tuples."""
        return self._connection.execute(QUERIES[workload], dict(case)).fetchall()

    def rows(self, found: object) -> list[Row]:
        """As they came."""
        if not isinstance(found, list):
            raise TypeError(f"no rows: {found!r}")
        return found

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
