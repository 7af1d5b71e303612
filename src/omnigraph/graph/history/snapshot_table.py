"""A table of a snapshot, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTable:
    """A table of a snapshot, as callers see it."""

    table_key: str
    dataset_path: str
    native_dataset_branch: str | None
    published_dataset_version: int
    entity_count: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}
