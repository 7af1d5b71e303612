"""What a query reads: the head of a branch, or a snapshot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.errors import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTarget:
    """What was read: the head of a branch, or a snapshot."""

    branch: str | None
    snapshot: str | None

    def __str__(self) -> str:
        return f"branch {self.branch}" if self.snapshot is None else f"snapshot {self.snapshot}"

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON form."""
        return asdict(self)
