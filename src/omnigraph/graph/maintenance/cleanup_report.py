"""What a cleanup removed, or would remove, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleanup:
    """The old versions of one table, on all its lines."""

    table_key: str
    bytes_removed: int
    """Of the versions, and of the files that only they need."""

    old_versions_removed: int
    error: str | None = None
    """Why nothing, or not all, was removed."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something beside the versions of tables that nobody needs."""

    kind: str
    name: str
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What one call removed, or would remove."""

    confirmed: bool
    """Without it nothing was removed."""

    keep: int | None
    older_than_s: float | None
    tables: tuple[TableCleanup, ...]
    leftovers: tuple[Leftover, ...]
    warnings: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        """What did not work."""
        tables = [table.error for table in self.tables]
        beside = [leftover.error for leftover in self.leftovers]
        return tuple(error for error in (*tables, *beside) if error is not None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "confirmed": self.confirmed,
            "keep": self.keep,
            "older_than_s": self.older_than_s,
            "tables": [each.to_dict() for each in self.tables],
            "leftovers": [each.to_dict() for each in self.leftovers],
            "warnings": list(self.warnings),
        }
