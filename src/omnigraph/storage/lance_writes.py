"""The Lance calls that write, and nothing else; the only table code that may commit.

Functions that return an operation write files and move no head. What changes what a table shows is
`create`, `commit`, `create_line` and `delete_line`, and each of them is called at one place.
Nothing here is named by a property: rows, columns and schemas are those of the table.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from lance.optimize import Compaction, CompactionOptions, CompactionTask, RewriteResult

from omnigraph.errors import InternalError
from omnigraph.storage.handles import own_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lance.lance import _Session as Session
    from lance.lance.schema import LanceField
    from lance.schema import LanceSchema

STORAGE_VERSION: Literal["2.2"] = "2.2"
AUTO_CLEANUP = "lance.auto_cleanup."
ROWS_PER_FILE = 1 << 20
"""Of a write that does not say how many rows a data file may have."""

Operation = LanceOperation.BaseOperation
Rewritten: TypeAlias = "tuple[Sequence[FragmentMetadata], Sequence[FragmentMetadata]]"
"""Fragments that were read, and those that have their rows instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """An upsert and how many rows it inserts and updates."""

    operation: Operation
    inserted: int
    updated: int


def create(
    uri: str, schema: pa.Schema, options: Mapping[str, str], session: Session
) -> LanceDataset:
    """An empty table where there is none, with stable row ids, which can only be had now."""
    return lance.write_dataset(
        schema.empty_table(),
        uri,
        schema=schema,
        mode="create",
        data_storage_version=STORAGE_VERSION,
        enable_stable_row_ids=True,
        storage_options=dict(options) or None,
        session=session,
    )


def commit(dataset: LanceDataset, transaction: Transaction) -> LanceDataset:
    """The version that the transaction makes.

    It may be a later one than the next: without retries Lance still rebases over transactions
    that it holds compatible, so the caller compares the number.
    """
    return LanceDataset.commit(dataset, transaction, max_retries=0)


def commit_detached(dataset: LanceDataset, transaction: Transaction) -> LanceDataset:
    """Staged files as a detached version: it belongs to no line, and the head does not move.

    One retry is the attempt itself: with none, Lance does not even try.
    """
    return LanceDataset.commit(dataset, transaction, max_retries=1, detached=True)


def create_line(dataset: LanceDataset, name: str, parent: str | None, version: int) -> LanceDataset:
    """A copy-on-write line that starts at one version of its parent."""
    return own_object(dataset).create_branch(name, (parent, version))


def delete_line(dataset: LanceDataset, name: str) -> None:
    """Remove a line and its files."""
    own_object(dataset).branches.delete(name)


def write_rows(
    dataset: LanceDataset, rows: pa.RecordBatchReader, *, rows_per_file: int | None
) -> list[FragmentMetadata]:
    """New data files under the table's line; the commit gives fragment and row ids.

    External blobs are stored as the addresses they are: which ones are allowed was decided above.
    """
    return write_fragments(
        rows,
        dataset,
        schema=rows.schema,
        mode="append",
        max_rows_per_file=rows_per_file or ROWS_PER_FILE,
        data_storage_version=STORAGE_VERSION,
        allow_external_blob_outside_bases=True,
    )


def merge(
    dataset: LanceDataset,
    rows: pa.Table | pa.RecordBatchReader,
    *,
    inserts: bool,
    use_index: bool,
) -> Merged:
    """Upserts by `id`, or only updates. The ids of `rows` are unique."""
    builder = dataset.merge_insert("id").when_matched_update_all().use_index(use_index)
    if inserts:
        builder = builder.when_not_matched_insert_all()
    transaction, counts = builder.execute_uncommitted(rows)
    return Merged(
        operation=transaction.operation,
        inserted=counts["num_inserted_rows"],
        updated=counts["num_updated_rows"],
    )


def delete_rows(dataset: LanceDataset, addresses: Iterable[int]) -> LanceOperation.Delete:
    """Marks the rows at these addresses as deleted."""
    updated, emptied = without_rows(dataset, addresses)
    return LanceOperation.Delete(updated, emptied, "omnigraph")


def without_rows(
    dataset: LanceDataset, addresses: Iterable[int]
) -> tuple[list[FragmentMetadata], list[int]]:
    """The touched fragments without these rows, and the ids of those that became empty."""
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for address in addresses:
        offsets[address >> 32].append(address & 0xFFFFFFFF)
    updated: list[FragmentMetadata] = []
    emptied: list[int] = []
    for fragment_id in sorted(offsets):
        fragment = dataset.get_fragment(fragment_id)
        if fragment is None:
            raise InternalError(f"fragment {fragment_id} is not in version {dataset.version}")
        kept = fragment.delete_rows(offsets[fragment_id])
        if kept is None:
            emptied.append(fragment_id)
        else:
            updated.append(kept)
    return updated, emptied


def overwrite(
    dataset: LanceDataset, fragments: Sequence[FragmentMetadata]
) -> LanceOperation.Overwrite:
    """Every row replaced. With the table's own schema the fields keep their ids."""
    return LanceOperation.Overwrite(dataset.lance_schema, list(fragments))


def update_of_pieces(
    dataset: LanceDataset,
    *,
    removed: Sequence[int],
    updated: Sequence[FragmentMetadata],
    new: Sequence[FragmentMetadata],
) -> LanceOperation.Update:
    """An upsert built from deletion vectors and from fragments that bring their row ids.

    Every field is listed: with fewer, Lance counts the new fragments as covered by the old indexes,
    whose stale entries stay live because row ids are stable.
    """
    return LanceOperation.Update(
        removed_fragment_ids=list(removed),
        updated_fragments=list(updated),
        new_fragments=list(new),
        fields_for_preserving_frag_bitmap=_field_ids(dataset.lance_schema),
        update_mode="rewrite_rows",
    )


def with_row_ids(fragment: FragmentMetadata, row_ids: Sequence[int]) -> FragmentMetadata:
    """A new fragment whose rows take the place of rows that had these ids."""
    return replace(fragment, row_id_meta=RowIdSequence(list(row_ids)).to_inline_metadata())


def numbered(
    fragments: Iterable[FragmentMetadata], row_ids: Sequence[int]
) -> list[FragmentMetadata]:
    """Fragments in the order they were written, each with its part of the row ids."""
    renumbered, start = [], 0
    for fragment in fragments:
        end = start + fragment.num_rows
        renumbered.append(with_row_ids(fragment, row_ids[start:end]))
        start = end
    return renumbered


def without_row_ids(fragment: FragmentMetadata) -> FragmentMetadata:
    """A fragment whose rows get new ids at the commit.

    One that was read back from a detached version brings ids, which would then be given twice.
    """
    return replace(
        fragment,
        row_id_meta=None,
        created_at_version_meta=None,
        last_updated_at_version_meta=None,
    )


def _field_ids(schema: LanceSchema) -> list[int]:
    def walk(fields: Iterable[LanceField]) -> Iterable[int]:
        for field in fields:
            yield field.id()
            yield from walk(field.children())

    return list(walk(schema.fields()))


def plan_rewrites(dataset: LanceDataset, options: CompactionOptions) -> list[CompactionTask]:
    """Every group of fragments that is worth it; `options` are those of Lance."""
    return list(Compaction.plan(dataset, options).tasks)


def rewrite_group(dataset: LanceDataset, group: CompactionTask) -> RewriteResult:
    """The compacted files of a group.

    It may have been planned on another version with the same fragments: by the indexes of that one
    the groups were chosen.
    """
    return group.execute(dataset)


def replaced_by(result: RewriteResult) -> Rewritten:
    """The fragments that a compaction read, and those that it wrote."""
    # The stub calls it `old_fragments`; the class has only this name.
    old: list[FragmentMetadata] = result.original_fragments  # type: ignore[attr-defined]
    return old, result.new_fragments


def rewrite(groups: Iterable[Rewritten], unused_fragment_id: int) -> LanceOperation.Rewrite:
    """The compaction as one operation.

    Tasks return every new fragment as number 0. Lance renumbers the fragments when it commits but
    copies the number into the indexes as it is, so the fragments are numbered here, above all that
    live and all that an index still lists.
    """
    numbers = itertools.count(unused_fragment_id)
    return LanceOperation.Rewrite(
        [
            LanceOperation.RewriteGroup(
                list(old), [replace(fragment, id=next(numbers)) for fragment in new]
            )
            for old, new in groups
        ],
        [],
    )


def change_columns(
    dataset: LanceDataset,
    added: Sequence[pa.Field[pa.DataType]],
    dropped: Sequence[str],
    scratch: str,
) -> LanceOperation.Merge | LanceOperation.Project:
    """Nullable columns without data, whose old rows read null, and columns hidden, in one step.

    The data of hidden columns stays in the files. `scratch` names a line that is unused.
    """

    def change(line: LanceDataset) -> None:
        # In this order: a table without files would give the number of a dropped column again.
        if added:
            line.add_columns(list(added))
        if dropped:
            line.drop_columns(list(dropped))

    schema = _schema_after(dataset, scratch, change)
    if not added:
        return LanceOperation.Project(schema, preserves_nullability=True)
    metadata = [fragment.metadata for fragment in dataset.get_fragments()]
    return LanceOperation.Merge(metadata, schema, preserves_nullability=True)


def fill_columns(
    dataset: LanceDataset,
    columns: Mapping[pa.Field[pa.DataType], Any],  # Any: a scalar of the type that the field has
) -> tuple[LanceOperation.Merge, list[str]]:
    """New columns in which every row has one value, and the names of the files that hold them.

    The table has rows: without a fragment nobody would tell how Lance numbers the new fields.
    """
    schema = pa.schema(list(columns))

    def values(rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [pa.repeat(value, rows.num_rows) for value in columns.values()]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    fragments: list[FragmentMetadata] = []
    files: list[str] = []
    filled: LanceSchema = dataset.lance_schema
    for fragment in dataset.get_fragments():
        before = {file.path for file in fragment.metadata.files}
        metadata, filled = fragment.merge_columns(values, columns=["id"])
        fragments.append(metadata)
        files += [file.path for file in metadata.files if file.path not in before]
    return LanceOperation.Merge(fragments, filled, preserves_nullability=True), files


def _schema_after(
    dataset: LanceDataset, scratch: str, change: Callable[[LanceDataset], None]
) -> LanceSchema:
    """The schema, with Lance's own field ids, that a change would give.

    Lance numbers fields itself and tells nobody in advance; a schema with other numbers makes an
    unreadable head. So the change is made on a line that is thrown away.
    """
    own = own_object(dataset)
    line = own.create_branch(scratch, dataset.version)
    try:
        change(line)
        return line.lance_schema
    finally:
        own.branches.delete(scratch)


def without_cleanup(dataset: LanceDataset) -> LanceOperation.UpdateConfig | None:
    """Removes the keys that make Lance delete old versions by itself, if there are any."""
    keys = [key for key in dataset.config() if key.startswith(AUTO_CLEANUP)]
    if not keys:
        return None
    updates = LanceOperation.UpdateMap(dict.fromkeys(keys), replace=False)
    return LanceOperation.UpdateConfig(config_updates=updates)


def create_in_memory(rows: pa.Table, name: str) -> LanceDataset:
    """A table that lives as long as its handle and leaves no file."""
    return lance.write_dataset(rows, f"memory://{name}", data_storage_version=STORAGE_VERSION)
