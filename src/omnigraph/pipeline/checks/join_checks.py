"""Checks 5 to 7 of a load as joins on Spark: unique values, ends of edges, cardinality.

Texts and order are the validator's. One query finds whether anything is wrong at all. Only then is
each check counted exactly, and its first violations by id are fetched, of one check after the other
and no more than fit. So memory does not grow with the number of faults.
"""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as f

from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation import (
    Code,
    Findings,
    Subject,
    Violation,
    cardinality_violation,
    gather,
    key_conflict,
    orphan_edge,
    unique_violation,
)
from omnigraph.graph.validation.identity import read_spelling
from omnigraph.graph.validation.spelling import show_value
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.types import STRING
from omnigraph.pipeline.intake.part_findings import COLLECTED_BYTES, halvings
from omnigraph.pipeline.staging.key_columns import PLACE, tuple_column, unique_tuples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from omnigraph.graph.commit.read_set import Question
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Shown
    from omnigraph.graph.validation.spelling import StoredValue
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.checks.asked_frames import AskedFrames
    from omnigraph.pipeline.spark.stage_runner import StageRunner
    from omnigraph.pipeline.staging.key_frames import StagedTable

_FAILING_DDL: Final = f"id string, {PLACE} bigint, first string, second string"
_ENDPOINTS: Final[tuple[Literal["src", "dst"], ...]] = ("src", "dst")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationCheck:
    """One check of one table: the rows that fail, and what is said about them."""

    code: Code
    ref: TableRef
    failing: DataFrame
    """`id`, `place`, and in `first` and `second` the texts that a violation is made of."""
    violation: Callable[[FailedRow], Violation]
    is_committed: bool = False
    """The rows that fail are not of the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRow:
    """One row that fails a check."""

    subject: Subject
    """Its line is the place, or `None` for a row that is committed."""
    first: str | None
    second: str | None


class LoadChecks:
    """The checks of one load over one captured state."""

    def __init__(
        self,
        catalog: Catalog,
        mode: LoadMode,
        tables: Mapping[TableRef, StagedTable],
        frames: AskedFrames,
        runner: StageRunner,
        *,
        given_ids: frozenset[TableRef],
        sample: int,
    ) -> None:
        self._catalog = catalog
        self._mode = mode
        self._tables = tables
        self._frames = frames
        self._runner = runner
        self._given_ids = given_ids
        self._sample = sample
        self._left_out: dict[TableRef, DataFrame] = {}
        self._names_all = False
        self._repeated = self._find_repeated()

    def for_rejects(self) -> LoadChecks:
        """The same checks for whoever rejects rows: they name every record of a tuple."""
        checks = copy(self)
        checks.begin_rejects()
        return checks

    def begin_rejects(self) -> None:
        """Name every record of a tuple, with nothing left out yet."""
        self._left_out, self._names_all = {}, True

    def leave_out(self, ref: TableRef, places: DataFrame) -> None:
        """Look no more at the rows of a table with these places."""
        self._left_out[ref] = places

    def superseded(self) -> dict[TableRef, list[int]]:
        """Places of records that a later record of the same edge id replaces, by table."""
        found: dict[TableRef, list[int]] = {}
        if self._mode is not LoadMode.MERGE:
            return found
        for ref in self._repeated:
            if isinstance(self._tables[ref].item, EdgeType):
                last = Window.partitionBy("id").orderBy(f.desc(PLACE))
                older = self.staged(ref).withColumn("rank", f.row_number().over(last))
                older = older.filter("rank > 1").select(PLACE)
                rows = self._runner.run("check", older.toArrow)
                if rows.num_rows:
                    found[ref] = [int(each) for each in rows.column(0).to_numpy()]
        return found

    def findings(self) -> Findings:
        """Everything that is wrong across rows: counts, and the first violations of each check."""
        checks = list(self._checks())
        if not checks:
            return Findings()
        anything = checks[0].failing
        for check in checks[1:]:
            anything = anything.unionByName(check.failing)
        if not self._runner.run("check", anything.limit(1).toArrow).num_rows:
            return Findings()
        return gather(map(self.findings_of, checks), limit=self._sample)

    def findings_of(self, check: RelationCheck) -> Findings:
        """How many rows fail a check, and the first of them."""
        first = check.failing.orderBy("id", PLACE).limit(self._sample)
        first = first.mapInArrow(_FirstRows(COLLECTED_BYTES), _FAILING_DDL)
        rows = self._runner.run("check", first.toArrow)
        kept = count = rows.num_rows
        if not kept:
            return Findings()
        taken = sum(int(_text_bytes(each).sum()) for each in rows.to_batches())
        passes = taken > COLLECTED_BYTES
        if passes or kept == self._sample:
            count = self._runner.run("check", check.failing.count)
        halved_to: int | None = None
        if passes and kept < min(count, self._sample):
            kept = halved_to = next(each for each in halvings(self._sample) if each <= kept)
        found = rows.slice(0, kept).to_pylist()
        violations = tuple(check.violation(failed_row(row)) for row in found)
        return Findings(violations=violations, counts={check.code: count}, halved_to=halved_to)

    def _find_repeated(self) -> frozenset[TableRef]:
        """Tables in whose input an id comes twice."""
        asked = [ref for ref in self._tables if ref in self._given_ids]
        if not asked:
            return frozenset()
        parts = [
            self.staged(ref)
            .groupBy("id")
            .count()
            .filter("count > 1")
            .limit(1)
            .select(f.lit(number).alias("number"))
            for number, ref in enumerate(asked)
        ]
        found = parts[0]
        for part in parts[1:]:
            found = found.unionByName(part)
        rows = self._runner.run("check", found.toArrow)
        return frozenset(asked[int(number)] for number in rows.column(0).to_numpy())

    def staged(self, ref: TableRef) -> DataFrame:
        """Key columns of the input, without what was left out."""
        staged = self._frames.staged(ref)
        if ref not in self._left_out:
            return staged
        return staged.join(self._left_out[ref].hint("broadcast"), PLACE, "left_anti")

    def image(self, ref: TableRef) -> DataFrame:
        """The rows that the load leaves: the last of each id."""
        staged = self.staged(ref)
        if ref not in self._repeated:
            return staged
        last = Window.partitionBy("id").orderBy(f.desc(PLACE))
        return staged.withColumn("rank", f.row_number().over(last)).filter("rank = 1").drop("rank")

    def _replaces(self, ref: TableRef) -> bool:
        return self._mode is LoadMode.OVERWRITE and bool(self._tables[ref].parts)

    @property
    def _written(self) -> list[TableRef]:
        return [ref for ref, table in self._tables.items() if table.parts]

    def _checks(self) -> Iterator[RelationCheck]:
        yield from self.key_checks()
        yield from self.endpoint_checks()
        yield from self.cardinality_checks()

    def key_checks(self) -> Iterator[RelationCheck]:
        """Check 5."""
        for ref in self._written:
            yield from self._key_conflicts(ref)
            yield from self._repeated_ids(ref)
            for number, names in enumerate(unique_tuples(self._tables[ref].item)):
                yield self._repeated_tuples(ref, number, names)

    def endpoint_checks(self) -> Iterator[RelationCheck]:
        """Check 6."""
        for edge in self._catalog.edge_types.values():
            yield from self._orphans(edge)

    def cardinality_checks(self) -> Iterator[RelationCheck]:
        """Check 7; what fails are sources, with the number of their edges."""
        for ref in self._written:
            item = self._tables[ref].item
            if isinstance(item, EdgeType) and item.card != (0, None):
                yield self._cardinality(ref, item)

    def counted(self, ref: TableRef) -> DataFrame | None:
        """Key columns of committed edges that stay, for the sources that the load touches."""
        # Ids that were minted here are of no edge that is there.
        moved = self._frames.moved(ref) if ref in self._given_ids else ()
        return self._stays(ref, self._frames.sources(ref), *moved)

    def _stays(self, ref: TableRef, asked: Question, *others: Question) -> DataFrame | None:
        """Key columns of the committed rows that stay, on which the outcome depends in this way."""
        return None if self._replaces(ref) else self._frames.committed(ref, asked, *others)

    def _key_conflicts(self, ref: TableRef) -> Iterator[RelationCheck]:
        if self._mode is not LoadMode.APPEND or ref not in self._given_ids:
            return
        there = self._stays(ref, self._frames.existence(ref))
        if there is None:
            return
        item = self._tables[ref].item
        failing = self.image(ref).join(there.select("id"), "id", "left_semi")
        yield RelationCheck(
            code=Code.KEY_CONFLICT,
            ref=ref,
            failing=_found(failing),
            violation=lambda row: key_conflict(item, row.subject),
        )

    def _repeated_ids(self, ref: TableRef) -> Iterator[RelationCheck]:
        item = self._tables[ref].item
        may_repeat = self._mode is LoadMode.MERGE and isinstance(item, EdgeType)
        if ref not in self._repeated or may_repeat:
            return
        key = item.key if isinstance(item, NodeType) else None
        names = key or ("id",)
        order = Window.partitionBy("id").orderBy(PLACE)
        ranked = self.staged(ref).withColumn("rank", f.row_number().over(order))
        failing = ranked.filter("rank > 1")
        if self._names_all:
            others = f.count(PLACE).over(Window.partitionBy("id"))
            failing = self.staged(ref).withColumn("records", others).filter("records > 1")
        yield RelationCheck(
            code=Code.UNIQUE_VIOLATION,
            ref=ref,
            failing=_found(failing, first="id", second="id"),
            violation=lambda row: _unique(item, names, row, place=0),
        )

    def _repeated_tuples(self, ref: TableRef, number: int, names: tuple[str, ...]) -> RelationCheck:
        item = self._tables[ref].item
        column = tuple_column(number)
        may_repeat = self._mode is LoadMode.MERGE and isinstance(item, EdgeType)
        records = self.image(ref) if may_repeat else self.staged(ref)
        records = records.filter(f.col(column).isNotNull()).select("id", PLACE, column)
        order = Window.partitionBy(column).orderBy("id", PLACE)
        ranked = records.withColumn("rank", f.row_number().over(order)).withColumn(
            "holder", f.first("id").over(order)
        )
        failing = _found(ranked.filter("rank > 1"), first=column, second="holder")
        first = ranked.withColumn("next", f.lead("id").over(order)).filter("rank = 1")
        held = self._stays(ref, self._frames.tuples(ref, names))
        if held is not None:
            touched = self.image(ref).select(f.col("id").alias("held_by"))
            held = held.select(f.col("id").alias("held_by"), column)
            held = held.filter(f.col(column).isNotNull())
            held = held.join(touched, "held_by", "left_anti")
            held = held.groupBy(column).agg(f.min("held_by").alias("held_by"))
        if self._names_all:
            # Broken by a committed row, or else by the second record of its tuple.
            none = f.lit(None).cast("string")
            met = (
                first.withColumn("held_by", none)
                if held is None
                else first.join(held, column, "left")
            )
            met = met.withColumn("holder", f.coalesce("held_by", "next"))
            met = met.filter("holder is not null")
            failing = failing.unionByName(_found(met, first=column, second="holder"))
        elif held is not None:
            met = first.join(held, column)
            failing = failing.unionByName(_found(met, first=column, second="held_by"))
        place = list(item.unique).index(names) + 1
        return RelationCheck(
            code=Code.UNIQUE_VIOLATION,
            ref=ref,
            failing=failing,
            violation=lambda row: _unique(item, names, row, place=place),
        )

    def _nodes(self, ref: TableRef, there: DataFrame | None) -> DataFrame | None:
        """Ids of the nodes of the final image, of which some are there; `None` for none."""
        found = None if there is None else there.select("id")
        if self._tables[ref].parts:
            staged = self.staged(ref).select("id")
            found = staged if found is None else found.unionByName(staged)
        return found

    def _orphans(self, item: EdgeType) -> Iterator[RelationCheck]:
        ref = ref_of(item)
        table = self._tables[ref]
        for endpoint in _ENDPOINTS:
            name = item.from_type if endpoint == "src" else item.to_type
            node = ref_of(self._catalog.node_types[name])
            edges: DataFrame | None = None
            there: DataFrame | None = None
            if table.parts:
                edges = self.image(ref)
                there = self._stays(node, self._frames.existence(ref, endpoint))
            elif self._replaces(node):
                edges = self._stays(ref, AllRows())
            if edges is None:
                continue
            ends = edges.filter(f.col(endpoint).isNotNull()).select("id", PLACE, endpoint)
            nodes = self._nodes(node, there)
            if nodes is not None:
                known = nodes.select(f.col("id").alias(endpoint))
                ends = ends.join(known, endpoint, "left_anti")
            yield self._orphan_check(ref, item, endpoint, ends)

    def _orphan_check(
        self, ref: TableRef, item: EdgeType, endpoint: str, ends: DataFrame
    ) -> RelationCheck:
        return RelationCheck(
            is_committed=not self._tables[ref].parts,
            code=Code.ORPHAN_EDGE,
            ref=ref,
            failing=_found(ends, first=endpoint),
            violation=lambda row: orphan_edge(item, endpoint, row.subject, node_id=row.first or ""),
        )

    def _cardinality(self, ref: TableRef, item: EdgeType) -> RelationCheck:
        low, high = item.card
        image = self.image(ref).filter("src is not null").select("id", "src")
        final, touched = image, image.select("src")
        there = self.counted(ref)
        if there is not None:
            there = there.select("id", "src")
            ids = self.image(ref).select("id")
            final = image.unionByName(there.join(ids, "id", "left_anti"))
            touched = touched.unionByName(there.join(ids, "id", "left_semi").select("src"))
        touched = touched.distinct()
        node = ref_of(self._catalog.node_types[item.from_type])
        if self._replaces(node):
            ids = self.staged(node).select(f.col("id").alias("src"))
            touched = touched.join(ids, "src", "left_semi")
        counts = final.groupBy("src").agg(f.count("id").alias("edges"))
        found = touched.join(counts, "src", "left").fillna({"edges": 0})
        broken = f.col("edges") < low
        if high is not None:
            broken = broken | (f.col("edges") > high)
        failing = found.filter(broken).select(
            f.col("src").alias("id"),
            f.lit(-1).cast("bigint").alias(PLACE),
            f.col("edges").cast("string").alias("first"),
            f.lit(None).cast("string").alias("second"),
        )
        return RelationCheck(
            code=Code.CARDINALITY_VIOLATION,
            ref=ref,
            failing=failing,
            violation=lambda row: cardinality_violation(
                item, row.subject.entity_id or "", edges=int(row.first or 0)
            ),
        )


def _found(rows: DataFrame, *, first: str | None = None, second: str | None = None) -> DataFrame:
    """Failing rows in the one shape that all checks have."""

    def text(name: str | None) -> Any:  # noqa: ANN401 - a column of whichever client Spark has
        return f.lit(None).cast("string") if name is None else f.col(name)

    return rows.select("id", f.col(PLACE), text(first).alias("first"), text(second).alias("second"))


@dataclass(frozen=True)
class _FirstRows:
    """The first of some rows, up to the one with which their texts are larger than a bound."""

    most_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs on an executor, over the one partition that a limit leaves."""
        taken = 0
        for batch in batches:
            ends = taken + np.cumsum(_text_bytes(batch))
            at = int(np.searchsorted(ends, self.most_bytes, side="right"))
            yield batch.slice(0, at + 1)
            if at < len(ends):
                return
            taken = int(ends[-1]) if len(ends) else taken


def _text_bytes(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """How large the texts of each row are."""
    sizes = np.zeros(rows.num_rows, np.int64)
    for name in ("id", "first", "second"):
        lengths = pc.binary_length(cast("pa.StringArray", rows.column(name)))  # cast: all are texts
        sizes += lengths.fill_null(0).to_numpy()
    return sizes


def failed_row(row: Mapping[str, Any]) -> FailedRow:  # Any: one value per column
    """A row of `RelationCheck.failing`."""
    place = row[PLACE] if row[PLACE] >= 0 else None
    subject = Subject(entity_id=row["id"], input_line=place, row=place)
    return FailedRow(subject=subject, first=row["first"], second=row["second"])


def _unique(
    item: NodeType | EdgeType, names: Sequence[str], row: FailedRow, *, place: int
) -> Violation:
    return unique_violation(
        item,
        names,
        row.subject,
        values=_shown(item, names, row.first or ""),
        held_by=row.second or "",
        place=place,
    )


def _shown(item: NodeType | EdgeType, names: Sequence[str], spelled: str) -> list[Shown]:
    """The values of a tuple, from its canonical spelling."""
    kinds = [item.properties[name].type if name in item.properties else STRING for name in names]
    spellings = [spelled] if len(names) == 1 else json.loads(spelled)
    return [
        # cast: the reader of spellings gives what a column of the type holds.
        show_value(cast("StoredValue", read_spelling(text, kind)), kind)
        for text, kind in zip(spellings, kinds, strict=True)
    ]
