"""What a verification looked at and found, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong."""

    branch: str
    check: str
    """`manifest`, `version`, `row_count`, `columns`, `drift`, `files`, `index`, or the kind of rule
    that rows break: `required`, `key`, `values`, `unique`, `endpoints`, `cardinality`."""

    message: str
    table_key: str | None = None
    count: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """One verification."""

    deep: bool
    branches: tuple[str, ...]
    tables: int
    """How many versions of tables were looked at."""

    rows: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    """What is worth knowing and not wrong."""

    @property
    def is_sound(self) -> bool:
        """Nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "sound": self.is_sound,
            "deep": self.deep,
            "branches": list(self.branches),
            "tables": self.tables,
            "rows": self.rows,
            "problems": [problem.to_dict() for problem in self.problems],
            "notes": list(self.notes),
        }
