"""The plan of a schema change: ordered steps, and what is refused or risky about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class StepKind(StrEnum):
    """Kinds of steps, in the order in which a plan runs them."""

    DROP_PROPERTY = "drop_property"
    DROP_TYPE = "drop_type"
    RENAME_TYPE = "rename_type"
    RENAME_PROPERTY = "rename_property"
    ADD_TYPE = "add_type"
    ADD_PROPERTY = "add_property"
    EXTEND_ENUM = "extend_enum"
    DROP_CONSTRAINT = "drop_constraint"
    ADD_CONSTRAINT = "add_constraint"
    DROP_INDEX = "drop_index"
    ADD_INDEX = "add_index"
    UPDATE_METADATA = "update_metadata"


_PHASES: tuple[frozenset[StepKind], ...] = (
    frozenset({StepKind.DROP_PROPERTY, StepKind.DROP_TYPE}),
    frozenset({StepKind.RENAME_TYPE, StepKind.RENAME_PROPERTY}),
    frozenset({StepKind.ADD_TYPE}),
    frozenset({StepKind.ADD_PROPERTY}),
    frozenset({StepKind.EXTEND_ENUM}),
    frozenset({StepKind.DROP_CONSTRAINT, StepKind.ADD_CONSTRAINT}),
    frozenset({StepKind.DROP_INDEX, StepKind.ADD_INDEX}),
    frozenset({StepKind.UPDATE_METADATA}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStep:
    """One change; `code` labels one that loses data or a promise, or must check existing rows."""

    kind: StepKind
    entity: str
    type_name: str
    property_name: str | None = None
    code: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """The JSON form; absent fields are left out."""
        out: dict[str, object] = {
            "kind": self.kind.value,
            "entity": self.entity,
            "type_name": self.type_name,
        }
        if self.property_name is not None:
            out["property"] = self.property_name
        if self.code is not None:
            out["code"] = self.code
        return out | dict(self.details)

    def render(self) -> str:
        """One line for people."""
        target = (
            self.type_name
            if self.property_name is None
            else f"{self.type_name}.{self.property_name}"
        )
        details = str(self.details.get("declared", "")) or ", ".join(
            f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
            for name, value in self.details.items()
        )
        code = f" [{self.code}]" if self.code else ""
        return f"{self.kind} {self.entity} {target}" + (f" ({details})" if details else "") + code


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationDiagnostic:
    """Why a plan is refused (`error`), or what a step costs (`warn`)."""

    code: str
    severity: str
    tier: str
    detail: str
    type_name: str
    property_name: str | None = None

    @property
    def message(self) -> str:
        """The text people read, code first."""
        return f"[{self.code}] {self.detail}"

    def to_dict(self) -> dict[str, object]:
        """The JSON form; absent fields are left out."""
        out: dict[str, object] = {
            "code": self.code,
            "severity": self.severity,
            "tier": self.tier,
            "message": self.message,
            "type_name": self.type_name,
        }
        return out if self.property_name is None else out | {"property": self.property_name}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """Ordered steps, and what is refused or risky about them."""

    steps: tuple[MigrationStep, ...]
    diagnostics: tuple[MigrationDiagnostic, ...]
    source: str | None = None
    """The desired schema, of a plan that was made for a graph."""
    schema_from: str | None = None
    """The hash of the schema that the graph had; the plan fits no other."""
    allow_data_loss: bool = False

    @property
    def supported(self) -> bool:
        """Nothing in the plan is refused."""
        return not any(item.severity == "error" for item in self.diagnostics)

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "supported": self.supported,
            "step_count": len(self.steps),
            "steps": [step.to_dict() for step in self.steps],
            "diagnostics": [item.to_dict() for item in self.diagnostics],
        }

    def render(self) -> str:
        """The plan for people: steps, then what is refused or risky."""
        if not self.steps and not self.diagnostics:
            return "no changes"
        lines = [f"{number}. {step.render()}" for number, step in enumerate(self.steps, 1)]
        lines += [f"{item.severity}: {item.message}" for item in self.diagnostics]
        if not self.supported:
            lines.append("the plan is refused; nothing can be applied")
        return "\n".join(lines)


_STEP_KINDS = tuple(StepKind)


def step_order(step: MigrationStep) -> tuple[int, str, str, int, str]:
    """Sort key of a plan: phase, type, property, kind."""
    phase = next(number for number, kinds in enumerate(_PHASES) if step.kind in kinds)
    within = _STEP_KINDS.index(step.kind)
    return phase, step.type_name, step.property_name or "", within, str(step.details)
