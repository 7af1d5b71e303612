"""Steps from one storage format to the next.

A read-write open runs the steps that are missing, under the `schema` lease, before it reads any
branch. A step must give the same result when it runs twice, also after a crash at any point and
beside a second runner; its last act raises the stamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.graph.manifest.stamp import (
    INTERNAL_MANIFEST_SCHEMA_VERSION,
    VERSION_KEY,
    decode_stamp,
)
from omnigraph.ids import MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.storage.graph_storage import GraphStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What leads from one format to the next."""

    from_version: int
    run: Callable[[GraphStorage], None]


MIGRATIONS: Final[tuple[Migration, ...]] = ()
"""In order; empty while there is one format."""


def oldest_migratable(migrations: tuple[Migration, ...], target: int) -> int:
    """The oldest format from which an unbroken chain of steps leads to the target."""
    known = {migration.from_version for migration in migrations}
    oldest = target
    while oldest - 1 in known:
        oldest -= 1
    return oldest


def migrate_on_open(
    storage: GraphStorage,
    migrations: tuple[Migration, ...] = MIGRATIONS,
    *,
    target: int = INTERNAL_MANIFEST_SCHEMA_VERSION,
) -> None:
    """Bring a graph to the target format, one step after the other."""
    by_version = {migration.from_version: migration for migration in migrations}
    while True:
        handle = storage.manifest.open_line(MAIN_BRANCH_ID)
        version = decode_stamp(storage.manifest.stamp(handle)).version
        if version >= target:
            return
        by_version[version].run(storage)
        # Every line carries a stamp of its own. The main line's tells whether the step is done.
        for branch_id in (*storage.manifest.lines(), MAIN_BRANCH_ID):
            fresh = storage.manifest.open_line(branch_id)
            if decode_stamp(storage.manifest.stamp(fresh)).version == version:
                storage.manifest.set_stamp(fresh, {VERSION_KEY: str(version + 1)})
