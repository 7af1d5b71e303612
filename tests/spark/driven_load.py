"""A load that another process drives, and what it must give."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
from tests.process_sessions import started
from tests.spark.servers import ENVIRON

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = 20_000
_SPLITS = 40
_DRIVER = Path(__file__).parent / "cluster_driver.py"
TABLES = {"node:Person": PEOPLE, "edge:Knows": PEOPLE}


def arrange(folder: Path) -> None:
    """An empty graph, and what will be loaded into it."""
    Graph.init(folder / "graph", schema=SCHEMA).close()
    with (folder / "input.jsonl").open("w") as file:
        for n in range(PEOPLE):
            person = {"type": "Person", "data": {"name": f"p{n:05}", "age": n}}
            data = {"id": f"k{n:05}", "since": n}
            knows = {"edge": "Knows", "from": f"p{n:05}", "to": f"p{n * 7 % PEOPLE:05}"}
            file.write(f"{json.dumps(person)}\n{json.dumps({**knows, 'data': data})}\n")


@contextmanager
def driving(
    folder: Path, mode: str, *, marks: Path | None = None, **environ: str
) -> Iterator[Iterator[tuple[str, Any]]]:
    """What the driver tells, line by line: `progress`, at last `report` or `error`."""
    source, log = folder / "input.jsonl", folder / "driver.log"
    env = {
        **ENVIRON,
        "HOME": str(folder),
        "OMNIGRAPH_PIPELINE_SPLIT_BYTES": str(source.stat().st_size // _SPLITS),
        **environ,
    }
    command = [sys.executable, str(_DRIVER), str(folder / "graph"), str(source), mode]
    command += [] if marks is None else [str(marks)]
    with started(command, cwd=folder, env=env, stderr=log) as running:

        def lines() -> Iterator[tuple[str, Any]]:
            assert running.stdout is not None
            for line in running.stdout:
                kind, what = json.loads(line)
                yield kind, what
            assert running.wait() == 0, log.read_text()[-4000:]

        yield lines()


def is_mid_intake(kind: str, what: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether some tasks of the intake are done and some are not."""
    return kind == "progress" and what[0] == "intake" and 2 <= what[1] < what[2]


def require_exact(folder: Path) -> None:
    """Every row is there once."""
    with Graph.open(folder / "graph", mode="read_only") as graph:
        people = graph.snapshot().scan("Person").read_all().to_pylist()
        knows = graph.snapshot().scan("Knows").read_all().to_pylist()
    assert sorted((row["id"], row["age"]) for row in people) == [
        (f"p{n:05}", n) for n in range(PEOPLE)
    ]
    assert sorted((row["id"], row["src"], row["dst"], row["since"]) for row in knows) == [
        (f"k{n:05}", f"p{n:05}", f"p{n * 7 % PEOPLE:05}", n) for n in range(PEOPLE)
    ]


def require_empty(folder: Path) -> None:
    """Nothing is there, and nothing was committed."""
    with Graph.open(folder / "graph", mode="read_only") as graph:
        assert [graph.snapshot().count(name) for name in ("Person", "Knows")] == [0, 0]
        assert len(list(graph.commits.list())) == 1


def orphans(root: Path) -> set[str]:
    """Data files of tables that no version names."""
    found = set()
    for folder in root.glob("*s/*/data"):
        table = lance.dataset(str(folder.parent))
        named = {
            file.path
            for version in table.versions()
            for fragment in table.checkout_version(version["version"]).get_fragments()
            for file in fragment.data_files()
        }
        found |= {str(path) for path in folder.glob("*.lance") if path.name not in named}
    return found
