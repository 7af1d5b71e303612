"""What a job did, as callers see it: rows by table, stages with their times, and the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InternalError, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.history.commit_graph import Commit


class LoadMode(StrEnum):
    """What a load does with rows that exist already."""

    APPEND = "append"
    """They are refused."""
    MERGE = "merge"
    """They are replaced, each as a whole."""
    UPDATE = "update"
    """They change in what is given, and keep the rest; others are refused."""
    OVERWRITE = "overwrite"
    """All rows of a type that the input names go, and its rows take their place."""

    @property
    def upserts(self) -> bool:
        """Rows that exist take new values, and other rows of the type stay."""
        return self in (LoadMode.MERGE, LoadMode.UPDATE)

    @classmethod
    def parse(cls, mode: str) -> LoadMode:
        """The mode of that name.

        Raises:
            InvalidArgument: there is none.
        """
        try:
            return cls(mode)
        except ValueError as error:
            raise InvalidArgument(
                "mode is 'append' (rows must be new), 'merge' (replace rows of the same id),"
                " 'update' (change what is given of rows that exist) or 'overwrite' (replace each"
                f" type of the input), not {mode!r}",
                argument="mode",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What became of the rows of one table's input."""

    table: str
    """`node:Person` or `edge:Knows`."""
    read: int
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    rejected: int = 0
    superseded: int = 0
    """Records of an edge id that a later record of the same input replaced."""

    @property
    def order(self) -> tuple[bool, str]:
        """The key that sorts tables for a report: nodes first, then by name."""
        return self.table.startswith("edge:"), self.table

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}

    def require_balance(self) -> None:
        """Every row that was read is accounted for.

        Raises:
            InternalError: one is not.
        """
        accounted = self.added + self.changed + self.unchanged + self.rejected + self.superseded
        if accounted != self.read:
            raise InternalError(
                f"{self.table}: {self.read:,} rows were read and {accounted:,} are accounted for;"
                " nothing was committed: please report it with the log"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectReport:
    """The bad rows of a load that went on without them.

    Lines that are no records belong to no table and are counted here alone.
    """

    violations: Mapping[str, int] = field(default_factory=dict)
    """How many rows were rejected for each rule, by the first rule that they break."""
    uri: str | None = None
    """The folder of their files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One stage of a job."""

    name: str
    seconds: float
    tasks: int = 1
    retries: int = 0
    rows: int = 0
    bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The receipt of a load or another job; without a commit nothing changed."""

    operation_id: str | None
    job_key: str | None = None
    commit: Commit | None
    branch: str
    base_branch: str | None = None
    """What the branch was forked from, if the load was allowed to create it."""
    branch_created: bool = False
    mode: str
    engine: str
    merge_strategy: str | None = None
    already_loaded: bool = False
    dry_run: bool = False
    actor_id: str | None = None
    tables: tuple[TableReport, ...] = ()
    violations: Mapping[str, int] = field(default_factory=dict)
    rejects_uri: str | None = None
    cursors: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[StageReport, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        out: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return out | {
            "commit": None if self.commit is None else self.commit.to_dict(),
            "tables": [table.to_dict() for table in self.tables],
            "violations": dict(self.violations),
            "cursors": dict(self.cursors),
            "stages": [stage.to_dict() for stage in self.stages],
            "warnings": list(self.warnings),
        }
