"""The calls by which a Lance table is created, staged and committed, and nothing else.

Every `stage_*` function writes files and returns the `Transaction` that would commit them, with a
uuid and properties that the caller chose; none of them moves the head. Only `commit`, `restore`
and `fork` change what a table shows. The guards beside this module pin what Lance does with them.
"""

import itertools
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation, Transaction
from lance.dataset import Index
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction, RewriteResult
from lance.query import FullTextQuery, MatchQuery
from lance.schema import LanceSchema

if TYPE_CHECKING:
    from lance.lance.schema import LanceField

STORAGE_VERSION: Literal["2.2"] = "2.2"
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
DIMENSION = 8

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
    pa.field("body", pa.string()),
    pa.field("rank", pa.int64()),
]
SCHEMA = pa.schema(_FIELDS)
VECTOR_SCHEMA = SCHEMA.append(pa.field("vector", pa.list_(pa.float32(), DIMENSION)))

TEXT_ANALYZER: Mapping[str, Any] = {
    "base_tokenizer": "simple",
    "language": "English",
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
    "max_token_length": 40,
    "with_position": True,
}
"""The one text analyzer: index and query go through it, so no caller spells out its parts."""

_SERIAL = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who makes a version: the operation, its kind, and the uuid of the one transaction."""

    operation: str
    kind: str
    uuid: str

    @property
    def properties(self) -> dict[str, str]:
        """What `read_transaction` gives back for a version that carries this stamp."""
        return {"omnigraph.operation": self.operation, "omnigraph.kind": self.kind}


def stamp(operation: str = "01J00000000000000000000000", kind: str = "mutation") -> Stamp:
    """A stamp whose uuid no earlier stamp of this process has."""
    return Stamp(operation, kind, str(uuid.UUID(int=next(_SERIAL))))


def _link(
    table: LanceDataset, operation: LanceOperation.BaseOperation, by: Stamp | None
) -> Transaction:
    by = by or stamp()
    return Transaction(table.version, operation, by.uuid, by.properties)


# --- creating and opening ---------------------------------------------------------------------


def create_table(
    path: Path, rows: pa.Table | None = None, *, schema: pa.Schema = SCHEMA
) -> LanceDataset:
    """Creates a table where there is none, with stable row ids, which can only be had now."""
    return lance.write_dataset(
        schema.empty_table() if rows is None else rows,
        path,
        schema=schema,
        mode="create",
        data_storage_version=STORAGE_VERSION,
        enable_stable_row_ids=True,
    )


def open_pin(path: Path, branch: str | None, version: int) -> LanceDataset:
    """The table at exactly one version of one line; `None` is the main line."""
    return lance.dataset(path).checkout_version((branch, version))


def open_head(path: Path, branch: str | None = None) -> LanceDataset:
    """The newest version of a line."""
    return lance.dataset(path).checkout_version((branch, None))


# --- committing -------------------------------------------------------------------------------


class Interleaved(Exception):
    """A commit landed, but on top of a version that its writer had not seen."""


def commit(table: LanceDataset, transaction: Transaction) -> LanceDataset:
    """Commits and requires that the result is the very next version after the base.

    `max_retries=0` alone is not enough: Lance still rebases over transactions that it holds
    compatible, so the version is the only proof that nothing came in between.
    """
    committed = commit_anywhere(table, transaction)
    if committed.version != transaction.read_version + 1:
        message = f"base {transaction.read_version}, landed as {committed.version}"
        raise Interleaved(message)
    return committed


def commit_anywhere(table: LanceDataset, transaction: Transaction) -> LanceDataset:
    """Commits without the version check: what Lance itself does with a late transaction."""
    return LanceDataset.commit(table, transaction, max_retries=0)


def commit_detached(table: LanceDataset, transaction: Transaction) -> LanceDataset:
    """Makes staged files readable as a version that belongs to no line.

    One retry is the attempt itself: with none, Lance does not even try one random number.
    """
    return LanceDataset.commit(table, transaction, max_retries=1, detached=True)


def something(transaction: Transaction | None) -> Transaction:
    """Insists that a primitive, which returns `None` for a no-op, found work to do."""
    if transaction is None:
        message = "nothing was staged"
        raise LookupError(message)
    return transaction


def stage_restore(table: LanceDataset, version: int, by: Stamp | None = None) -> Transaction:
    """Makes the next version show what `version` showed."""
    return _link(table, LanceOperation.Restore(version), by)


def restore(table: LanceDataset, version: int, by: Stamp | None = None) -> LanceDataset:
    """Restores on top of the head, wherever that is by now: a restore never conflicts."""
    return commit_anywhere(table, stage_restore(table, version, by))


def fork(table: LanceDataset, branch: str, parent: str | None, version: int) -> LanceDataset:
    """Gives the table a copy-on-write line that starts at one version of its parent."""
    return table.create_branch(branch, (parent, version))


# --- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StagedMerge:
    """An upsert and how many rows it would insert and update."""

    transaction: Transaction
    inserted: int
    updated: int


def write_rows(table: LanceDataset, rows: pa.Table) -> list[FragmentMetadata]:
    """Writes new data files under the table's line; the commit gives fragment and row ids."""
    return write_fragments(
        rows, table, schema=table.schema, mode="append", data_storage_version=STORAGE_VERSION
    )


def stage_append(table: LanceDataset, rows: pa.Table, by: Stamp | None = None) -> Transaction:
    """Adds rows whose ids are proven absent."""
    return _link(table, LanceOperation.Append(write_rows(table, rows)), by)


def stage_merge_insert(
    table: LanceDataset, rows: pa.Table, by: Stamp | None = None, *, use_index: bool = True
) -> StagedMerge:
    """Upserts by `id`. The caller has made the ids of `rows` unique."""
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return _staged_merge(*builder.use_index(use_index).execute_uncommitted(rows), by=by)


def stage_update(table: LanceDataset, rows: pa.Table, by: Stamp | None = None) -> StagedMerge:
    """Replaces existing rows by `id`; the caller compares the count with its input."""
    builder = table.merge_insert("id").when_matched_update_all()
    return _staged_merge(*builder.execute_uncommitted(rows), by=by)


def _staged_merge(
    transaction: Transaction, counts: Mapping[str, int], *, by: Stamp | None
) -> StagedMerge:
    by = by or stamp()
    return StagedMerge(
        replaced(transaction, uuid=by.uuid, transaction_properties=by.properties),
        inserted=counts["num_inserted_rows"],
        updated=counts["num_updated_rows"],
    )


def stage_delete(
    table: LanceDataset, predicate: pc.Expression, by: Stamp | None = None
) -> Transaction | None:
    """Marks the matching rows as deleted; `None` if there are none."""
    found = table.to_table(columns=[], filter=predicate, with_row_address=True)
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for address in cast("list[int]", found["_rowaddr"].to_pylist()):
        offsets[address >> 32].append(address & 0xFFFFFFFF)
    if not offsets:
        return None
    updated: list[FragmentMetadata] = []
    emptied: list[int] = []
    for fragment_id in sorted(offsets):
        kept = delete_offsets(table, fragment_id, offsets[fragment_id])
        if kept is None:
            emptied.append(fragment_id)
        else:
            updated.append(kept)
    return _link(table, LanceOperation.Delete(updated, emptied, "omnigraph"), by)


def delete_offsets(
    table: LanceDataset, fragment_id: int, offsets: Iterable[int]
) -> FragmentMetadata | None:
    """The fragment's metadata without these rows, or `None` if no row is left."""
    fragment = table.get_fragment(fragment_id)
    if fragment is None:
        message = f"fragment {fragment_id} is not in version {table.version}"
        raise LookupError(message)
    return fragment.delete_rows(offsets)


def stage_overwrite(
    table: LanceDataset, rows: pa.Table | None = None, by: Stamp | None = None
) -> Transaction:
    """Replaces every row; without rows the table becomes empty."""
    fragments: list[FragmentMetadata] = []
    if rows is not None and rows.num_rows:
        fragments = write_fragments(
            rows, table, schema=table.schema, mode="overwrite", data_storage_version=STORAGE_VERSION
        )
    return _link(table, LanceOperation.Overwrite(table.schema, fragments), by)


def stage_pieces_update(
    table: LanceDataset,
    *,
    removed: Sequence[int] = (),
    updated: Sequence[FragmentMetadata] = (),
    new: Sequence[FragmentMetadata] = (),
    preserve_for: Sequence[int] | None = None,
    by: Stamp | None = None,
) -> Transaction:
    """An upsert built from what tasks returned: deletion vectors and fragments with row ids.

    Every field id is listed by default. With fewer, Lance counts the new fragments as covered by
    the old indexes, whose stale entries stay live because row ids are stable.
    """
    fields = all_field_ids(table.lance_schema) if preserve_for is None else list(preserve_for)
    operation = LanceOperation.Update(
        removed_fragment_ids=list(removed),
        updated_fragments=list(updated),
        new_fragments=list(new),
        fields_for_preserving_frag_bitmap=fields,
        update_mode="rewrite_rows",
    )
    return _link(table, operation, by)


def all_field_ids(schema: LanceSchema) -> list[int]:
    """The ids of all fields, nested ones included."""

    def ids(fields: "Iterable[LanceField]") -> Iterable[int]:
        for each in fields:
            yield each.id()
            yield from ids(each.children())

    return list(ids(schema.fields()))


# --- indexes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index to build over `fragments` (all by default); untrained ones cover nothing."""

    column: str
    kind: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    fragments: Sequence[int] | None = None
    train: bool = True


def btree(column: str, name: str, fragments: Sequence[int] | None = None) -> IndexSpec:
    """An ordered index."""
    return IndexSpec(column, "BTREE", name, fragments=fragments)


def inverted(
    column: str, name: str, fragments: Sequence[int] | None = None, *, train: bool = True
) -> IndexSpec:
    """A full-text index with the one analyzer."""
    return IndexSpec(column, "INVERTED", name, TEXT_ANALYZER, fragments, train)


def build_segment(table: LanceDataset, spec: IndexSpec) -> Index:
    """Writes one finished index segment and commits nothing."""
    return finish_segment(table, spec, raw_segment(table, spec))


def raw_segment(table: LanceDataset, spec: IndexSpec) -> Index:
    """What `create_index_uncommitted` returns, which for INVERTED cannot be searched yet."""
    if not spec.train:
        fragments: list[int] = []
    elif spec.fragments is None:
        fragments = fragment_ids(table)
    else:
        fragments = list(spec.fragments)
    return table.create_index_uncommitted(
        spec.column,
        spec.kind,
        name=spec.name,
        replace=True,
        train=spec.train,
        fragment_ids=fragments,
        **spec.options,
    )


def finish_segment(table: LanceDataset, spec: IndexSpec, *segments: Index) -> Index:
    """Merges the raw segments of one index into one that can be searched."""
    if spec.kind == "INVERTED" or len(segments) > 1:
        return table.merge_existing_index_segments(list(segments))
    return segments[0]


def stage_index(
    table: LanceDataset, specs: Sequence[IndexSpec], by: Stamp | None = None
) -> Transaction:
    """Builds every index and replaces all segments that exist under their names."""
    return stage_segments(
        table,
        [build_segment(table, spec) for spec in specs],
        [old for spec in specs for old in existing_segments(table, spec.name)],
        by,
    )


def stage_segments(
    table: LanceDataset, new: Sequence[Index], old: Sequence[Index] = (), by: Stamp | None = None
) -> Transaction:
    """One transaction for segments of any kinds, and those that they replace."""
    return _link(table, LanceOperation.CreateIndex(list(new), list(old)), by)


def existing_segments(table: LanceDataset, name: str) -> list[Index]:
    """The committed segments of an index, in the form that `removed_indices` wants."""
    return [
        Index(
            uuid=segment.uuid,
            name=description.name,
            fields=description.fields,
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
            created_at=segment.created_at,
            base_id=segment.base_id,
        )
        for description in table.describe_indices()
        if description.name == name
        for segment in description.segments
    ]


def coverage(table: LanceDataset, name: str) -> set[int]:
    """The live fragments that an index covers."""
    covered = {
        fragment for segment in existing_segments(table, name) for fragment in segment.fragment_ids
    }
    return covered & set(fragment_ids(table))


def fragment_ids(table: LanceDataset) -> list[int]:
    """The fragments of a version."""
    return [fragment.fragment_id for fragment in table.get_fragments()]


# --- compaction -------------------------------------------------------------------------------


def rewrite_fragments(
    table: LanceDataset, target_rows_per_fragment: int = 1024 * 1024
) -> list[RewriteResult]:
    """Writes the compacted files; plan, tasks and results may travel between processes."""
    plan = Compaction.plan(table, {"target_rows_per_fragment": target_rows_per_fragment})
    return [task.execute(table) for task in plan.tasks]


def stage_compaction(
    table: LanceDataset,
    results: Sequence[RewriteResult] | None = None,
    by: Stamp | None = None,
    *,
    numbered: bool = True,
) -> Transaction | None:
    """The rewrite alone, or `None` if there is nothing to do; a re-index link follows it.

    Tasks return every new fragment as number 0. Lance renumbers the fragments when it commits but
    copies the number into the indexes as it is, so the fragments are numbered here.
    """
    results = rewrite_fragments(table) if results is None else results
    if not results:
        return None
    numbers = itertools.count(unused_fragment_id(table))
    groups = []
    for result in results:
        new = [
            replaced(fragment, id=next(numbers)) if numbered else fragment
            for fragment in result.new_fragments
        ]
        # The stub calls it `old_fragments`; the class has only this name.
        old: list[FragmentMetadata] = result.original_fragments  # type: ignore[attr-defined]
        groups.append(LanceOperation.RewriteGroup(old, new))
    return _link(table, LanceOperation.Rewrite(groups, []), by)


def unused_fragment_id(table: LanceDataset) -> int:
    """A number above every fragment of the version and above all that an index still lists."""
    listed = {
        fragment
        for description in table.describe_indices()
        for segment in description.segments
        for fragment in segment.fragment_ids
    }
    return max(listed | set(fragment_ids(table)), default=-1) + 1


# --- columns ----------------------------------------------------------------------------------


def stage_add_columns(
    table: LanceDataset, fields: "Sequence[pa.Field[Any]]", scratch: str, by: Stamp | None = None
) -> Transaction:
    """Adds nullable columns; old rows read null. `scratch` names a branch that must be unused."""
    schema = _schema_after(table, scratch, lambda line: line.add_columns(list(fields)))
    metadata = [fragment.metadata for fragment in table.get_fragments()]
    return _link(table, LanceOperation.Merge(metadata, schema, preserves_nullability=True), by)


def stage_drop_columns(
    table: LanceDataset, names: Sequence[str], scratch: str, by: Stamp | None = None
) -> Transaction:
    """Hides columns; their data stays in the files. `scratch` names a branch that is unused."""
    schema = _schema_after(table, scratch, lambda line: line.drop_columns(list(names)))
    return _link(table, LanceOperation.Project(schema, preserves_nullability=True), by)


def _schema_after(
    table: LanceDataset, scratch: str, change: Callable[[LanceDataset], None]
) -> LanceSchema:
    """The schema, with Lance's own field ids, that a change would give.

    Lance numbers fields itself and tells nobody in advance, so the change is made on a branch
    that is thrown away.
    """
    line = table.create_branch(scratch, table.version)
    try:
        change(line)
        return line.lance_schema
    finally:
        table.branches.delete(scratch)


# --- reading ----------------------------------------------------------------------------------


def transaction_at(table: LanceDataset, version: int) -> Transaction:
    """Who made a version of the table's line."""
    return something(table.read_transaction(version))


def rows(*ids: str, body: str = "plain", rank: int = 0) -> pa.Table:
    """A few rows of `SCHEMA`."""
    return pa.Table.from_pylist(
        [{"id": each, "body": body, "rank": rank} for each in ids], schema=SCHEMA
    )


def ids(table: LanceDataset) -> list[str]:
    """Every id of a version, sorted, duplicates kept."""
    return _sorted_ids(table.to_table(columns=["id"]))


def by_id(table: LanceDataset, *columns: str) -> dict[str, tuple[object, ...]]:
    """The given columns (also `_rowid` and the version columns) of every row, by id."""
    found = table.to_table(columns=["id", *columns]).to_pylist()
    return {row["id"]: tuple(row[column] for column in columns) for row in found}


def search(table: LanceDataset, words: str, column: str = "body") -> list[str]:
    """The ids that a full-text search returns, sorted, duplicates kept."""
    return matching(table, MatchQuery(words, column))


def matching(table: LanceDataset, query: FullTextQuery) -> list[str]:
    """The ids that any full-text query returns, sorted, duplicates kept."""
    found = table.to_table(columns=["id", "_score"], full_text_query=query)
    return _sorted_ids(found)


def where(table: LanceDataset, predicate: pc.Expression | str) -> list[str]:
    """The ids that a filter returns, sorted, duplicates kept."""
    return _sorted_ids(table.to_table(columns=["id"], filter=predicate))


def _sorted_ids(found: pa.Table) -> list[str]:
    return sorted(cast("list[str]", found["id"].to_pylist()))
