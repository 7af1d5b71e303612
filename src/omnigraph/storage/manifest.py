"""`__manifest`: the one dataset whose writes are commits, and the only authority of a graph.

This module knows how rows are read and merged, not what they mean: `graph/` alone decides that. A
line is a Lance branch of the dataset; a handle is one version of a line, and a merge lands on the
very version that its handle shows, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from omnigraph.errors import (
    InternalError,
    OmnigraphError,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.failpoints import maybe_fail
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage import lance_writes
from omnigraph.storage.files import line_folder, version_files, version_of_name, written_files
from omnigraph.storage.handles import LINE_PREFIX, Pin, lance_branch, own_object
from omnigraph.storage.moved_lines import readable, refuse_moved, starts_on
from omnigraph.storage.power_loss import remove_torn_refs, remove_torn_versions
from omnigraph.storage.predicates import In, to_arrow
from omnigraph.storage.reading import ROW_ADDRESS
from omnigraph.storage.signals import NotDurable, StorageSignal
from omnigraph.storage.version_files import cleaned_mark, newest_version, spent_marks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    import pyarrow.compute as pc

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.durability import Durable
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.objects import StorageAdapter
    from omnigraph.storage.predicates import Predicate

MANIFEST: Final = "__manifest"
_DATA_STORAGE_VERSION: Final = "2.2"
_FENCE: Final = "omnigraph:init_fence"
_MOST_LINE_PATHS: Final = 256

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


@dataclass(frozen=True, kw_only=True)
class LineHandle:
    """One version of one line of the manifest."""

    branch_id: BranchId
    version: int
    dataset: LanceDataset = field(repr=False, compare=False)
    """What is read; only `storage/` touches it."""
    moved: LanceDataset | None = field(default=None, repr=False, compare=False)
    """The line itself, if the graph was moved and what is read is a view of it."""

    @property
    def line(self) -> LanceDataset:
        """The line itself."""
        return self.dataset if self.moved is None else self.moved

    @cached_property
    def pieces(self) -> dict[int, int]:
        """The stored rows of each fragment, replaced ones too, by its number; the oldest first."""
        fragments = (fragment.metadata for fragment in self.dataset.get_fragments())
        return {fragment.id: fragment.physical_rows for fragment in fragments}

    @property
    def fragments(self) -> int:
        """How many fragments there are."""
        return len(self.pieces)

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return self.dataset.count_rows()


class ManifestStorage:
    """Reads lines of the manifest, merges rows into them, creates and deletes lines."""

    __slots__ = ("_calls", "_durable", "_line_paths", "_location", "_objects", "_root")

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
        self._root: LanceDataset | None = None
        self._line_paths: dict[BranchId, Path] = {}

    def exists(self) -> bool:
        """Whether there is a manifest; fences are none."""
        return self.base() is None

    def base(self) -> int | None:
        """The version that a creation starts from, `None` if there is a manifest.

        It is 0 where nothing is, or the number of the newest fence.
        """
        if not self._objects.list(f"{MANIFEST}/_versions", limit=1):
            return 0
        try:
            newest = self.open_line(MAIN_BRANCH_ID)
        except (StorageInternalError, StorageUnavailable):
            return None  # Damaged, perhaps by a power cut: whoever opens it will say so.
        return newest.version if self.is_fence(newest) else None

    def is_fence(self, handle: LineHandle) -> bool:
        """Whether the version only takes the place of a creation that must not happen."""
        return _FENCE in self.stamp(handle)

    def fence(self, base: int) -> None:
        """Refuse every creation that starts from this version, or from an older one, for good.

        Raises:
            StorageSignal, StorageUnavailable: somebody was faster; look again.
        """
        schema = MANIFEST_SCHEMA.with_metadata({_FENCE: str(base)})
        self._commit_first(LanceOperation.Overwrite(schema, []), base)

    def remove_torn(self, branch_id: BranchId = MAIN_BRANCH_ID) -> None:
        """Set aside what a power cut left of versions of a line that were never synced.

        Costs one look at the newest version when that is whole.
        """
        line = line_folder(MANIFEST, lance_branch(branch_id))
        remove_torn_versions(self._location, self._calls, line, keeps_last=True)

    def remove_torn_refs(self) -> None:
        """Set aside what a power cut left of lines while they were made; looks at each one."""
        remove_torn_refs(self._location, self._calls, MANIFEST)

    def create(self, rows: pa.Table, stamp: Mapping[str, str], base: int = 0) -> LineHandle:
        """Create the manifest with its first rows and its stamp, in one commit.

        It lands on exactly this base: whoever wants to prevent it puts a fence there. It has no
        stable row ids: nothing points to its rows, and what Lance keeps for such ids in every
        version would grow with the history.
        """
        schema = MANIFEST_SCHEMA.with_metadata(dict(stamp))
        uri, options = self._location.uri(MANIFEST), dict(self._location.options)
        with self._calls.making("stage", MANIFEST):
            fragments = write_fragments(
                rows.cast(schema),
                uri,
                schema=schema,
                mode="overwrite" if base else "create",
                data_storage_version=_DATA_STORAGE_VERSION,
                storage_options=options,
            )
        operation = LanceOperation.Overwrite(schema, fragments)
        self._sync_staged(MAIN_BRANCH_ID, operation)
        return self._commit_first(operation, base)

    def _commit_first(self, operation: LanceOperation.Overwrite, base: int) -> LineHandle:
        with self._calls.making("create", MANIFEST):
            created = LanceDataset.commit(
                self._location.uri(MANIFEST),
                operation,
                read_version=base,
                max_retries=0,
                enable_v2_manifest_paths=True,
                storage_options=dict(self._location.options),
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
            branch = lance_branch(branch_id)
            if not self._location.is_local:
                main = self._newest_main()
                opened = main if branch is None else main.checkout_version((branch, None))
                return self._readable(opened, branch_id)
            newest = newest_version(self._line_path(branch_id))
            opened = self._some_version().checkout_version((branch, newest))
            return self._readable(opened, branch_id)

    def at_version(self, handle: LineHandle, version: int) -> LineHandle:
        """Another version of the handle's line.

        Raises:
            ObjectMissing: it is not there.
        """
        with self._calls.making("open", MANIFEST):
            place = (lance_branch(handle.branch_id), version)
            return self._readable(handle.line.checkout_version(place), handle.branch_id)

    def _readable(self, line: LanceDataset, branch_id: BranchId) -> LineHandle:
        dataset = readable(self._location, MANIFEST, lance_branch(branch_id), line)
        return LineHandle(
            branch_id=branch_id,
            version=line.version,
            dataset=dataset,
            moved=None if dataset is line else line,
        )

    def require_writable(self, handle: LineHandle) -> None:
        """Refuse a write to a line of a graph that was moved since the line was made.

        Raises:
            StorageUnsupported: it can only be read.
        """
        if handle.moved is not None:
            raise refuse_moved(self._location, "this branch")

    def latest_version(self, handle: LineHandle) -> int:
        """The number of the newest version of the handle's line, fresh from storage.

        Raises:
            ObjectMissing: the line is gone.
        """
        with self._calls.making("latest_version", MANIFEST):
            if not self._location.is_local:
                return int(handle.line.latest_version)
            return newest_version(self._line_path(handle.branch_id), handle.version)

    def is_moved(self, branch_id: BranchId, start: int) -> bool:
        """Whether a line has another version than the one that it started with."""
        with self._calls.making("latest_version", MANIFEST):
            if not self._location.is_local:
                main = self._some_version()
                line = main.checkout_version((lance_branch(branch_id), start))
                return int(line.latest_version) != start
            return newest_version(self._line_path(branch_id), start) != start

    def stamp(self, handle: LineHandle) -> dict[str, str]:
        """The metadata of the dataset's schema."""
        metadata = handle.line.schema.metadata or {}
        return {key.decode(): value.decode() for key, value in metadata.items()}

    def set_stamp(self, handle: LineHandle, changes: Mapping[str, str]) -> None:
        """Change entries of the stamp, in one commit of its own."""
        with self._calls.making("set_stamp", MANIFEST):
            dataset = self._at(handle)
            dataset.update_schema_metadata(dict(changes))
        self._sync_version(dataset, handle.branch_id)

    def rows(
        self,
        handle: LineHandle,
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        pieces: Sequence[int] | None = None,
        with_row_ids: bool = False,
        with_addresses: bool = False,
    ) -> pa.Table:
        """Live rows of the version, the oldest first: all, or those that are asked for.

        Raises:
            ObjectMissing: the version was removed.
        """
        with self._calls.making("scan", MANIFEST):
            chosen = None
            if pieces is not None:
                wanted = set(pieces)
                every = handle.dataset.get_fragments()
                chosen = [fragment for fragment in every if fragment.fragment_id in wanted]
            return handle.dataset.scanner(
                columns=None if columns is None else list(columns),
                filter=None if predicate is None else _expression(predicate),
                fragments=chosen,
                with_row_id=with_row_ids,
                with_row_address=with_addresses,
            ).to_table()

    def take(self, handle: LineHandle, row_ids: pa.Array[pa.UInt64Scalar]) -> pa.Table:
        """The rows with these row ids of the version, in their order."""
        with self._calls.making("take", MANIFEST):
            return handle.dataset._take_rows(row_ids)  # noqa: SLF001

    def merge(
        self, handle: LineHandle, rows: pa.Table, places: Mapping[str, int] | None = None
    ) -> LineHandle:
        """Insert or replace rows by `object_id`, on exactly this version, as one commit.

        The rows must replace one that every merge replaces: two merges of one version then mark a
        row of the same fragment as replaced, and Lance refuses the second. It compares no keys.

        Args:
            handle: The version.
            rows: The rows, each id once.
            places: The addresses of the rows that may be replaced; looked up if not given.

        Any other failure leaves the outcome unknown: read the line again and decide from its rows.

        Raises:
            NotDurable: the rows are there, and their version could not be synced.
        """
        self.require_writable(handle)
        ids = rows["object_id"].to_pylist()
        known = self._places(handle, rows["object_id"]) if places is None else places
        with self._calls.making("stage", MANIFEST):
            dataset = handle.dataset
            fragments = write_fragments(
                rows.cast(dataset.schema),
                dataset,
                schema=dataset.schema,
                mode="append",
                data_storage_version=_DATA_STORAGE_VERSION,
            )
            replaced = [known[str(object_id)] for object_id in ids if object_id in known]
            updated, emptied = lance_writes.without_rows(dataset, replaced)
            operation = lance_writes.update_of_pieces(
                dataset, removed=emptied, updated=updated, new=fragments
            )
        self._sync_staged(handle.branch_id, operation)
        with self._calls.making("merge", MANIFEST):
            maybe_fail("publish.contention")
            merged = LanceDataset.commit(
                dataset, operation, read_version=handle.version, max_retries=0
            )
            described = _handle(merged, handle.branch_id)
            maybe_fail("publish.ack_lost")
        try:
            self._sync_version(merged, handle.branch_id)
        except (OmnigraphError, StorageSignal) as error:
            raise NotDurable(str(error)) from error
        return described

    def _places(self, handle: LineHandle, ids: pa.ChunkedArray[pa.StringScalar]) -> dict[str, int]:
        wanted = In("object_id", ids.combine_chunks())
        rows = self.rows(handle, columns=["object_id"], predicate=wanted, with_addresses=True)
        return addresses(rows)

    def added_places(self, before: LineHandle, after: LineHandle, rows: pa.Table) -> dict[str, int]:
        """The addresses of the rows that a merge on `before` has just added, by id.

        Raises:
            InternalError: `after` is not what that merge made.
        """
        added = [number for number in after.pieces if number not in before.pieces]
        every = [number << 32 | at for number in added for at in range(after.pieces[number])]
        if after.version != before.version + 1 or len(every) != rows.num_rows:
            raise InternalError(f"version {after.version} is not one merge after {before.version}")
        return dict(zip(_texts(rows["object_id"]), every, strict=True))

    def renew(self, handle: LineHandle) -> None:
        """Make a version durable that was found, whatever became of its maker's sync."""
        self._durable.renew([_version_file(handle.line, handle.branch_id)])

    def compact(self, handle: LineHandle, *, rows_below: int = lance_writes.ROWS_PER_FILE) -> None:
        """Join neighbouring fragments that have fewer rows than this; rows do not change.

        Raises:
            CommitRefused: the line moved meanwhile; all is as it was.
        """
        with self._calls.making("stage", MANIFEST):
            dataset = self._at(handle)
            planned = lance_writes.plan_rewrites(dataset, {"target_rows_per_fragment": rows_below})
            done = [lance_writes.rewrite_group(dataset, group) for group in planned]
        if not done:
            return
        joined = [lance_writes.replaced_by(result) for result in done]
        operation = lance_writes.rewrite(joined, max(handle.pieces) + 1)
        self._sync_staged(handle.branch_id, operation)
        with self._calls.making("compact", MANIFEST):
            compacted = LanceDataset.commit(
                dataset, operation, read_version=dataset.version, max_retries=0
            )
        self._sync_version(compacted, handle.branch_id)

    def create_line(self, branch_id: BranchId, source: LineHandle) -> None:
        """Create a line that starts with the rows of one version of another."""
        self.require_writable(source)
        name = lance_branch(branch_id)
        with self._calls.making("create_line", f"{MANIFEST}/{name}"):
            origin = (lance_branch(source.branch_id), source.version)
            own_object(source.dataset).create_branch(str(name), origin)
        self._durable.sync([f"{MANIFEST}/_refs/branches/{name}.json", f"{MANIFEST}/tree/{name}"])

    def delete_line(self, branch_id: BranchId) -> None:
        """Remove a line; one that is not there counts as removed."""
        name = lance_branch(branch_id)
        if self._objects.head(f"{MANIFEST}/_refs/branches/{name}.json") is not None:
            try:
                self._delete_ref(str(name))
            except (StorageInternalError, StorageUnavailable):
                self.remove_torn_refs()  # Lance stumbles over the torn ref of any line.
                self._delete_ref(str(name))
        # A crash inside Lance leaves a tree without its ref; it would block the name for ever.
        self._objects.delete_prefix(f"{MANIFEST}/tree/{name}")

    def _delete_ref(self, name: str) -> None:
        with self._calls.making("delete_line", f"{MANIFEST}/{name}"):
            own_object(self._some_version()).branches.delete(name)

    def lines(self) -> list[BranchId]:
        """The branches that have a line, registered or not; all but `main`."""
        with self._calls.making("list_lines", MANIFEST):
            names = sorted(self._newest_main().branches.list())
        return [BranchId(name.removeprefix(LINE_PREFIX)) for name in names]

    def versions(self, handle: LineHandle, before_us: int) -> tuple[int, list[int]]:
        """How many versions a line has, and those that could be removed.

        They are older than a moment by the store's clock, and no other line starts from them. Of a
        line of a graph that was moved there are none.
        """
        folder = line_folder(MANIFEST, lance_branch(handle.branch_id))
        files = self._objects.list(f"{folder}/_versions")
        named = [(version_of_name(file.path.rpartition("/")[2]), file) for file in files]
        numbers = [(version, file) for version, file in named if version is not None]
        old = {
            version
            for version, file in numbers
            if version < handle.version and file.modified_us < before_us
        }
        return len(numbers), sorted(self._unneeded(handle, old))

    def clean(self, handle: LineHandle, versions: Collection[int]) -> None:
        """Remove old versions of a line; history is in rows, not in versions.

        Versions that another line starts from stay, and a line of a graph that was moved stays as
        it is. Only one process may do this at a time.
        """
        unneeded = self._unneeded(handle, versions)
        if not unneeded:
            return
        folder = line_folder(MANIFEST, lance_branch(handle.branch_id))
        if self._location.is_local:
            # Before anything goes: from here on nobody takes a gap for the end of the line.
            self._objects.create(f"{folder}/{cleaned_mark(max(unneeded))}", b"", durable=True)
            for spent in spent_marks(self._location.path(folder)):
                self._objects.delete(f"{folder}/{spent}")
        with self._calls.making("clean", MANIFEST):
            self._at(handle).cleanup_old_versions(versions=sorted(unneeded))

    def _unneeded(self, handle: LineHandle, versions: Collection[int]) -> set[int]:
        """Those of the versions that no other line starts from.

        Lance keeps them by itself, but not in a graph that was moved: there it takes the files of
        the line for those of another table.
        """
        if not versions or handle.moved is not None:
            return set()
        with self._calls.making("list_lines", MANIFEST):
            return set(versions) - starts_on(self._at(handle), lance_branch(handle.branch_id))

    def _newest_main(self) -> LanceDataset:
        return lance.dataset(
            self._location.uri(MANIFEST), storage_options=dict(self._location.options)
        )

    def _some_version(self) -> LanceDataset:
        """Some version of the main line, from which every version of every line is reached."""
        if self._root is None:
            if not self._location.is_local:
                self._root = self._newest_main()
            else:
                newest = newest_version(self._line_path(MAIN_BRANCH_ID))
                self._root = lance.dataset(self._location.uri(MANIFEST), version=newest)
        return self._root

    def _line_path(self, branch_id: BranchId) -> Path:
        path = self._line_paths.get(branch_id)
        if path is None:
            path = self._location.path(line_folder(MANIFEST, lance_branch(branch_id)))
            if len(self._line_paths) >= _MOST_LINE_PATHS:
                self._line_paths.clear()
            # Every read asks for it, and putting a path together takes as long as a look at it.
            self._line_paths[branch_id] = path
        return path

    def _at(self, handle: LineHandle) -> LanceDataset:
        """A dataset of its own at the handle's version: a write moves the one that it runs on."""
        self.require_writable(handle)
        return handle.dataset.checkout_version((lance_branch(handle.branch_id), handle.version))

    def _sync_staged(self, branch_id: BranchId, operation: LanceOperation.BaseOperation) -> None:
        """Make durable what a commit is about to name."""
        pin = Pin(location=MANIFEST, branch=lance_branch(branch_id), version=0)
        self._durable.sync(written_files(self._location, pin, operation))

    def _sync_version(self, dataset: LanceDataset, branch_id: BranchId) -> None:
        """Make a version durable; it carries its transaction, so that file may be lost."""
        self._durable.sync([_version_file(dataset, branch_id)])


def _version_file(dataset: LanceDataset, branch_id: BranchId) -> str:
    made = Pin(location=MANIFEST, branch=lance_branch(branch_id), version=dataset.version)
    return version_files(made, made.version - 1, "")[0]


def addresses(rows: pa.Table) -> dict[str, int]:
    """The addresses of rows that were read with them, by id."""
    places = rows[ROW_ADDRESS].to_numpy()
    return {name: int(at) for name, at in zip(_texts(rows["object_id"]), places, strict=True)}


def _texts(column: pa.ChunkedArray[pa.StringScalar]) -> list[str]:
    return [str(text) for text in column.to_pylist()]


def _expression(predicate: Predicate) -> pc.Expression:
    expression = to_arrow(predicate, MANIFEST_SCHEMA, {})
    if expression is None:
        raise InternalError(f"rows of the manifest cannot be chosen by {predicate}")
    return expression


def _handle(dataset: LanceDataset, branch_id: BranchId) -> LineHandle:
    return LineHandle(branch_id=branch_id, version=dataset.version, dataset=dataset)
