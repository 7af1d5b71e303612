"""`__manifest`: the one dataset whose writes are commits, and the only authority of a graph.

This module knows how rows are read and merged, not what they mean: `graph/` alone decides that. A
line is a Lance branch of the dataset; a handle is one version of a line, and a merge lands on the
very version that its handle shows, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance.optimize import Compaction

from omnigraph.failpoints import maybe_fail
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage.files import line_folder, written_files
from omnigraph.storage.handles import LINE_PREFIX, Pin, lance_branch, own_object
from omnigraph.storage.torn import remove_torn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.durability import Durable
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.objects import StorageAdapter

MANIFEST: Final = "__manifest"
_DATA_STORAGE_VERSION: Final = "2.2"
_LAST_VERSION: Final = (1 << 64) - 1

# Any: the stubs give a field of unknown type no supertype that `schema` takes.
_FIELDS: list[pa.Field[Any]] = [
    pa.field(
        "object_id",
        pa.string(),
        nullable=False,
        metadata={"lance-schema:unenforced-primary-key": "true"},
    ),
    pa.field("object_type", pa.string(), nullable=False),
    pa.field("seq", pa.int64()),
    pa.field("table_id", pa.uint64()),
    pa.field("incarnation", pa.uint64()),
    pa.field("table_key", pa.string()),
    pa.field("location", pa.string()),
    pa.field("table_branch", pa.string()),
    pa.field("table_version", pa.uint64()),
    pa.field("row_count", pa.uint64()),
    pa.field("metadata", pa.string()),
]
MANIFEST_SCHEMA: Final = pa.schema(_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineHandle:
    """One version of one line of the manifest."""

    branch_id: BranchId
    version: int
    fragments: int
    rows: int
    dataset: LanceDataset = field(repr=False, compare=False)
    """Only `storage/` touches it."""


class ManifestStorage:
    """Reads lines of the manifest, merges rows into them, creates and deletes lines."""

    __slots__ = ("_calls", "_durable", "_location", "_objects")

    def __init__(
        self,
        location: GraphLocation,
        calls: StoreCalls,
        durable: Durable,
        objects: StorageAdapter,
    ) -> None:
        self._location = location
        self._calls = calls
        self._durable = durable
        self._objects = objects

    def exists(self) -> bool:
        """Whether there is a manifest at all."""
        return bool(self._objects.list(f"{MANIFEST}/_versions", limit=1))

    def remove_torn(self) -> None:
        """Remove what a power cut left of versions and lines that were never synced."""
        remove_torn(self._location, self._calls, MANIFEST, keeps_branches=True)

    def create(self, rows: pa.Table, stamp: Mapping[str, str]) -> LineHandle:
        """Create the manifest with its first rows and its stamp, in one commit."""
        schema = MANIFEST_SCHEMA.with_metadata(dict(stamp))
        uri, options = self._location.uri(MANIFEST), dict(self._location.options)
        with self._calls.making("stage", MANIFEST):
            fragments = write_fragments(
                rows.cast(schema),
                uri,
                schema=schema,
                mode="create",
                data_storage_version=_DATA_STORAGE_VERSION,
                enable_stable_row_ids=True,
                storage_options=options,
            )
        operation = LanceOperation.Overwrite(schema, fragments)
        self._sync_staged(MAIN_BRANCH_ID, operation)
        with self._calls.making("create", MANIFEST):
            created = LanceDataset.commit(
                uri,
                operation,
                read_version=0,
                max_retries=0,
                enable_stable_row_ids=True,
                enable_v2_manifest_paths=True,
                storage_options=options,
            )
            maybe_fail("init.manifest_ack_lost")
        self._sync_version(created, MAIN_BRANCH_ID)
        return _handle(created, MAIN_BRANCH_ID)

    def open_line(self, branch_id: BranchId) -> LineHandle:
        """The newest version of a line.

        Raises:
            ObjectMissing: there is no manifest, or no such line.
        """
        with self._calls.making("open", MANIFEST):
            opened = self._main()
            branch = lance_branch(branch_id)
            if branch is not None:
                opened = opened.checkout_version((branch, None))
            return _handle(opened, branch_id)

    def latest_version(self, handle: LineHandle) -> int:
        """The number of the newest version of the handle's line, fresh from storage."""
        with self._calls.making("latest_version", MANIFEST):
            return int(handle.dataset.latest_version)

    def stamp(self, handle: LineHandle) -> dict[str, str]:
        """The metadata of the dataset's schema."""
        found = handle.dataset.schema.metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}

    def set_stamp(self, handle: LineHandle, changes: Mapping[str, str]) -> None:
        """Change entries of the stamp, in one commit of its own."""
        with self._calls.making("set_stamp", MANIFEST):
            dataset = self._at(handle)
            dataset.update_schema_metadata(dict(changes))
        self._sync_version(dataset, handle.branch_id)

    def rows(self, handle: LineHandle, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Every live row of the version, in the order that `take` counts."""
        with self._calls.making("scan", MANIFEST):
            return handle.dataset.to_table(columns=None if columns is None else list(columns))

    def take(self, handle: LineHandle, positions: Sequence[int]) -> pa.Table:
        """The rows at these positions of the version."""
        with self._calls.making("take", MANIFEST):
            return handle.dataset.take(list(positions))

    def merge(self, handle: LineHandle, rows: pa.Table) -> LineHandle:
        """Insert or replace rows by `object_id`, on exactly this version, as one commit.

        The rows must replace one that every merge replaces. Staged and committed apart, so that the
        files are durable before a version names them, Lance does not compare inserted keys any
        more; two merges of one version still collide in the row that both replace.

        Any failure leaves the outcome unknown: read the line again and decide from its rows.
        """
        with self._calls.making("stage", MANIFEST):
            dataset = self._at(handle)
            merge = dataset.merge_insert("object_id").when_matched_update_all()
            staged, _ = merge.when_not_matched_insert_all().execute_uncommitted(rows)
        self._sync_staged(handle.branch_id, staged.operation)
        with self._calls.making("merge", MANIFEST):
            maybe_fail("publish.contention")
            merged = LanceDataset.commit(dataset, staged, max_retries=0)
            described = _handle(merged, handle.branch_id)
            maybe_fail("publish.ack_lost")
        self._sync_version(merged, handle.branch_id)
        return described

    def sync(self, handle: LineHandle) -> None:
        """Make a version durable whose maker may not have come to it."""
        self._sync_version(handle.dataset, handle.branch_id)

    def compact(self, handle: LineHandle) -> None:
        """Join the line's fragments; rows do not change.

        Raises:
            CommitRefused: the line moved meanwhile; all is as it was.
        """
        with self._calls.making("stage", MANIFEST):
            dataset = self._at(handle)
            done = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
        if not done:
            return
        # The stub calls it `old_fragments`; the class has only this name.
        groups = [
            LanceOperation.RewriteGroup(each.original_fragments, each.new_fragments)  # type: ignore[attr-defined]
            for each in done
        ]
        operation = LanceOperation.Rewrite(groups, [])
        self._sync_staged(handle.branch_id, operation)
        with self._calls.making("compact", MANIFEST):
            compacted = LanceDataset.commit(
                dataset, operation, read_version=dataset.version, max_retries=0
            )
        self._sync_version(compacted, handle.branch_id)

    def create_line(self, branch_id: BranchId, source: LineHandle) -> None:
        """Create a line that starts with the rows of one version of another."""
        name = lance_branch(branch_id)
        with self._calls.making("create_line", f"{MANIFEST}/{name}"):
            origin = (lance_branch(source.branch_id), source.version)
            own_object(source.dataset).create_branch(str(name), origin)
        self._durable.sync([f"{MANIFEST}/_refs/branches/{name}.json", f"{MANIFEST}/tree/{name}"])

    def delete_line(self, branch_id: BranchId) -> None:
        """Remove a line; one that is not there counts as removed."""
        name = lance_branch(branch_id)
        with self._calls.making("delete_line", f"{MANIFEST}/{name}"):
            main = own_object(self._main())
            if name in main.branches.list():
                main.branches.delete(name)
        # A crash inside Lance leaves a tree without its ref; it would block the name for ever.
        self._objects.delete_prefix(f"{MANIFEST}/tree/{name}")

    def lines(self) -> list[BranchId]:
        """The branches that have a line, registered or not; all but `main`."""
        with self._calls.making("list_lines", MANIFEST):
            found = sorted(self._main().branches.list())
        return [BranchId(name.removeprefix(LINE_PREFIX)) for name in found]

    def clean(self, versions: Sequence[int]) -> None:
        """Remove old versions of the main line; history is in rows, not in versions."""
        with self._calls.making("clean", MANIFEST):
            self._main().cleanup_old_versions(versions=list(versions))

    def _main(self) -> LanceDataset:
        return lance.dataset(
            self._location.uri(MANIFEST), storage_options=dict(self._location.options)
        )

    def _at(self, handle: LineHandle) -> LanceDataset:
        """A dataset of its own at the handle's version: a write moves the one that it runs on."""
        return handle.dataset.checkout_version((lance_branch(handle.branch_id), handle.version))

    def _sync_staged(self, branch_id: BranchId, operation: LanceOperation.BaseOperation) -> None:
        """Make durable what a commit is about to name."""
        pin = Pin(location=MANIFEST, branch=lance_branch(branch_id), version=0)
        self._durable.sync(written_files(self._location, pin, operation))

    def _sync_version(self, dataset: LanceDataset, branch_id: BranchId) -> None:
        """Make a version durable; it carries its transaction, so that file may be lost."""
        line = line_folder(MANIFEST, lance_branch(branch_id))
        name = f"{_LAST_VERSION - dataset.version:020d}.manifest"
        self._durable.sync([f"{line}/_versions/{name}"])


def _handle(dataset: LanceDataset, branch_id: BranchId) -> LineHandle:
    return LineHandle(
        branch_id=branch_id,
        version=dataset.version,
        fragments=len(dataset.get_fragments()),
        rows=dataset.count_rows(),
        dataset=dataset,
    )
