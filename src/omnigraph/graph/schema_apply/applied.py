"""How a change of the schema ended, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.graph.history.commit import Commit
    from omnigraph.lang import SchemaPlan
    from omnigraph.lang.schema_plan import MigrationDiagnostic, MigrationStep


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptData:
    """Dropped data that could not be removed yet."""

    table_key: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"table_key": self.table_key, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaApplied:
    """How an apply ended."""

    plan: SchemaPlan = field(repr=False)
    commit: Commit | None
    """`None` if the graph has the schema already."""
    kept_data: tuple[KeptData, ...] = ()
    """Data that was to be removed for good, and could not be yet."""

    @property
    def supported(self) -> bool:
        """Nothing of the plan was refused."""
        return self.plan.supported

    @property
    def applied(self) -> bool:
        """Something was changed."""
        return self.commit is not None

    @property
    def steps(self) -> tuple[MigrationStep, ...]:
        """What was done, in order."""
        return self.plan.steps

    @property
    def diagnostics(self) -> tuple[MigrationDiagnostic, ...]:
        """What is risky about it."""
        return self.plan.diagnostics

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "supported": self.supported,
            "applied": self.applied,
            "step_count": len(self.steps),
            "steps": [step.to_dict() for step in self.steps],
            "diagnostics": [item.to_dict() for item in self.diagnostics],
            "commit": None if self.commit is None else self.commit.to_dict(),
            "kept_data": [kept.to_dict() for kept in self.kept_data],
        }
