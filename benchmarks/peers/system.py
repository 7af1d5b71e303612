"""What the benchmark asks of a system, whatever it is made of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

Case = Mapping[str, object]
Row = tuple[object, ...]


class System(Protocol):
    """One database with the graph in it, open and warm."""

    @property
    def name(self) -> str:
        """How the table calls it, with its version."""

    @property
    def workloads(self) -> frozenset[str]:
        """The names of what it can do."""

    def run(self, workload: str, case: Case) -> object:
        """The answer, all of it in memory, in the form that the system gives it; this is timed."""

    def rows(self, found: object) -> list[Row]:
        """An answer of `run` as rows of Python values; this is not timed."""

    def close(self) -> None:
        """Give back files and threads."""


class Missing(Exception):
    """A system that cannot take part here; the message says why."""


def is_built(folder: Path) -> bool:
    """Whether a database was built to its end; what is left of an interrupted build is not."""
    return (folder / "built").exists()


def mark_built(folder: Path) -> None:
    """The last step of a build."""
    (folder / "built").touch()
