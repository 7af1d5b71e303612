"""The Spark data source `omnigraph`: reads a type, a system table or changes, and writes to a type.

The snapshot is resolved when Spark asks for the schema, and travels with the source from then on:
schema, partitions and every later action show the same commit. A partition is a group of fragments
with the version pinned. Spark calls this in Python processes of its own, so each call opens what it
needs from the options.

Filters of Spark go to the table only when the option `pushdown` says so. Spark 4.3 keeps the last
plan of a pushing source at the frame and not at the query, and reads another query over the same
frame with the filters of the one before: rows would be missing without a word. The option `filter`
belongs to the frame and is safe.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from omnigraph.errors import InvalidArgument, SnapshotReclaimed
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.datasource.change_stream import CHANGE_COLUMNS, ChangeStreamReader
from omnigraph.pipeline.datasource.errors import told_to_spark
from omnigraph.pipeline.datasource.filters import NEVER, table_predicate
from omnigraph.pipeline.datasource.graph import open_source_graph, open_source_storage
from omnigraph.pipeline.datasource.options import (
    names_stream,
    read_options,
    stream_options,
    write_options,
)
from omnigraph.pipeline.spark.arrow_types import (
    readable_columns,
    spark_schema,
    spark_type,
    to_spark,
)
from omnigraph.storage.predicates import And, Predicate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.datasource.options import ReadOptions
    from omnigraph.pipeline.datasource.snapshot_frame import FragmentScan


class OmnigraphDataSource(DataSource):
    """The source as Spark knows it; one object per frame, made from its options."""

    _at: str | None = None
    """The snapshot that the schema was taken from."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "omnigraph"

    def schema(self) -> StructType:
        """The columns; resolves the snapshot."""
        with told_to_spark():
            if names_stream(self.options):
                return _to_spark_schema(CHANGE_COLUMNS)
            options = read_options(self.options)
            with open_source_graph(options.graph, options.storage) as graph:
                if options.system is not None:
                    return _to_spark_schema(_system_rows(graph, options).schema)
                snapshot, item = _find_table(graph, options)
                self._at = snapshot.resolved_snapshot
                return _to_spark_schema(spark_schema(item, _columns(item, options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """What plans and reads the partitions."""
        with told_to_spark():
            if names_stream(self.options):
                raise InvalidArgument(
                    "changes are read as a stream: use spark.readStream; start and cursor say where"
                    " it begins",
                    option="start",
                )
            options = read_options(self.options)
            if options.system is not None:
                return SystemReader(options, schema)
            if self._at is not None:
                options = replace(options, branch=None, snapshot=self._at)
            make = PushingReader if options.pushes_filters else TableReader
            return make(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """What reads the changes of a branch, commit by commit."""
        with told_to_spark():
            options = stream_options(self.options)
            _require_schema(schema, _to_spark_schema(CHANGE_COLUMNS))
            return ChangeStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's
        """What stages the rows of a frame and commits them."""
        from omnigraph.pipeline.datasource.writer import TableWriter

        with told_to_spark():
            return TableWriter(write_options(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Never:  # noqa: ARG002, FBT001, N802 - Spark's
        """A stream is written batch by batch."""
        with told_to_spark():
            raise InvalidArgument(
                "the data source omnigraph does not write streams; use foreachBatch with"
                " graph.pipeline(spark).write(batch, …, job_key=…)"
            )


class TableReader(DataSourceReader):
    """Reads a table; made for one plan, and copied into its tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        from omnigraph.graph.query.predicate_text import compile_predicate
        from omnigraph.pipeline.datasource.snapshot_frame import plan_scan

        with open_source_graph(options.graph, options.storage) as graph:
            snapshot, self._item = _find_table(graph, options)
            columns = _columns(self._item, options)
            _require_schema(schema, _to_spark_schema(spark_schema(self._item, columns)))
            self._scans: list[FragmentScan] = plan_scan(
                str(graph.storage.location), graph.tables, snapshot, self._item, columns=columns
            )
            self._predicates: tuple[Predicate, ...] = ()
            if options.filter is not None:
                self._predicates = (
                    compile_predicate(snapshot.catalog, self._item, options.filter),
                )
        self._storage = options.storage
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get the partition that concerns them, not all.
        return {**self.__dict__, "_scans": []}

    def partitions(self) -> list[InputPartition]:
        """One for each group of fragments; none when no row can pass."""
        if NEVER in self._predicates:
            return []
        return [InputPartition(replace(each, predicate=self._predicate)) for each in self._scans]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; runs on an executor."""
        with told_to_spark():
            # Spark makes one without a value where there are none.
            if partition.value is not None:
                yield from self._read(partition.value)

    @property
    def _predicate(self) -> Predicate | None:
        if len(self._predicates) > 1:
            return And(self._predicates)
        return next(iter(self._predicates), None)

    def _read(self, scan: FragmentScan) -> Iterator[pa.RecordBatch]:
        from omnigraph.pipeline.spark.task_storage import open_task_table
        from omnigraph.storage.signals import ObjectMissing

        storage = open_source_storage(scan.root, self._storage)
        try:
            rows = storage.tables.scan(
                open_task_table(storage, scan.table),
                columns=scan.columns,
                predicate=scan.predicate,
                fragments=scan.fragments,
            )
            for batch in rows:
                yield to_spark(batch, self._schema)
        except ObjectMissing as error:
            raise SnapshotReclaimed(
                f"version {scan.table.pin.version} of {scan.item.name} is gone: cleanup removed it,"
                " or its branch was deleted; load the frame again",
                type=scan.item.name,
            ) from error


class PushingReader(TableReader):
    """A reader that takes filters of Spark; Spark never asks one that has no such method."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that the table can evaluate exactly; the others, for Spark."""
        with told_to_spark():
            rest: list[Filter] = []
            for each in filters:
                predicate = table_predicate(self._item, each)
                if predicate is None:
                    rest.append(each)
                else:
                    self._predicates = (*self._predicates, predicate)
            return rest


class SystemReader(DataSourceReader):
    """Reads a system table, as it is when the task runs; one partition."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        with open_source_graph(options.graph, options.storage) as graph:
            _require_schema(schema, _to_spark_schema(_system_rows(graph, options).schema))
            # A relative path may mean another folder in a task.
            self._options = replace(options, graph=str(graph.storage.location))
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - the one
        """All rows."""
        with (
            told_to_spark(),
            open_source_graph(self._options.graph, self._options.storage) as graph,
        ):
            for batch in _system_rows(graph, self._options).to_batches():
                yield to_spark(batch, self._schema)


def _find_table(
    graph: GraphCoordinator, options: ReadOptions
) -> tuple[Snapshot, NodeType | EdgeType]:
    from omnigraph.graph.history.snapshot import open_snapshot

    snapshot = open_snapshot(graph, options.snapshot, options.branch or MAIN_BRANCH)
    return snapshot, snapshot.type(options.table or "")


def _columns(item: NodeType | EdgeType, options: ReadOptions) -> Sequence[str]:
    known = readable_columns(item)
    if options.columns is None:
        return known
    _require_columns(item.name, options.columns, known)
    return options.columns


def _require_columns(table: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    for name in wanted:
        if name not in known:
            raise InvalidArgument(
                f"{table} has no column {name!r} that can be read; it has {', '.join(known)}",
                type=table,
                column=name,
            )


def _system_rows(graph: GraphCoordinator, options: ReadOptions) -> pa.Table:
    """A system table with the types that Spark has."""
    from omnigraph.graph.history.system_tables import system_table

    name = options.system or ""
    rows = system_table(graph.lines, name)
    if options.columns is not None:
        _require_columns(name, options.columns, rows.column_names)
        rows = rows.select(list(options.columns))
    fields = [each.with_type(spark_type(each.type)) for each in rows.schema]
    return rows.cast(pa.schema(fields))


def _to_spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def _require_schema(given: StructType, actual: StructType) -> None:
    """Refuse a schema that the caller gave and the table does not have.

    Raises:
        InvalidArgument: names, order, types or nulls differ.
    """
    same = [each.name for each in given] == [each.name for each in actual] and all(
        one.dataType.simpleString() == other.dataType.simpleString()
        and (one.nullable or not other.nullable)
        for one, other in zip(given, actual, strict=True)
    )
    if not same:
        raise InvalidArgument(
            f"the schema {given.simpleString()} was given, and the table has"
            f" {actual.simpleString()}; leave the schema out, and choose with the option columns",
            given=given.simpleString(),
            found=actual.simpleString(),
        )
