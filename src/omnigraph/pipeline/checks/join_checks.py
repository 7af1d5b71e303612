"""Checks 5 to 7 of a load as joins on Spark: unique values, ends of edges, cardinality.

The list of rules is the validator's (`relation_rules`), and so are texts and order. One query finds
whether anything is wrong at all. Only then is each check counted exactly, and its first violations
by id are fetched, of one check after the other and no more than fit. So memory does not grow with
the number of faults.
"""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, assert_never, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as f

from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation import Findings, Subject, gather
from omnigraph.graph.validation.bare_nodes import required_edges
from omnigraph.graph.validation.identity import read_spelling
from omnigraph.graph.validation.relation_rules import (
    CardinalityRule,
    EndRule,
    KeptEndRule,
    NewIdRule,
    RelationRule,
    UniqueRule,
    list_rules,
)
from omnigraph.graph.validation.spelling import show_value
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.intake.part_findings import COLLECTED_BYTES, halvings
from omnigraph.pipeline.staging.key_columns import NO_PLACE, PLACE, key_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Shown, Violation
    from omnigraph.graph.validation.relation_rules import EndpointRule, KeyRule
    from omnigraph.graph.validation.spelling import StoredValue
    from omnigraph.lang.catalog import Catalog, NodeType
    from omnigraph.pipeline.checks.asked_frames import AskedFrames
    from omnigraph.pipeline.spark.stage_runner import StageRunner
    from omnigraph.pipeline.staging.key_frames import StagedTable

_Rule = TypeVar("_Rule", bound=RelationRule, covariant=True)
_FAILING_DDL: Final = f"id string, {PLACE} bigint, first string, second string"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationCheck(Generic[_Rule]):
    """One rule, and the rows that break it."""

    rule: _Rule
    failing: DataFrame
    """`id`, `place`, and in `first` and `second` the texts that a violation is made of."""

    @property
    def ref(self) -> TableRef:
        """The table of the rule."""
        return ref_of(self.rule.item)

    @property
    def is_committed(self) -> bool:
        """The rows that fail are not of the input."""
        return isinstance(self.rule, KeptEndRule)

    def violation(self, row: FailedRow) -> Violation:
        """What is said about a row that fails."""
        return _violation(self.rule, row)


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
        written = [table.item for table in tables.values() if table.parts]
        self._rules = list_rules(catalog, written)
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
        places: dict[TableRef, list[int]] = {}
        for ref in self._repeated:
            if self._may_repeat(self._tables[ref].item):
                last = Window.partitionBy("id").orderBy(f.desc(PLACE))
                older = self.staged(ref).withColumn("rank", f.row_number().over(last))
                older = older.filter("rank > 1").select(PLACE)
                rows = self._runner.run("check", older.toArrow)
                if rows.num_rows:
                    places[ref] = [int(each) for each in rows.column(0).to_numpy()]
        return places

    def findings(self) -> Findings:
        """Everything that is wrong across rows: counts, and the first violations of each check."""
        checks = list(self._checks(self._rules))
        if not checks:
            return Findings()
        anything = checks[0].failing
        for check in checks[1:]:
            anything = anything.unionByName(check.failing)
        if not self._runner.run("check", anything.limit(1).toArrow).num_rows:
            return Findings()
        return gather(map(self.findings_of, checks), limit=self._sample)

    def findings_of(self, check: RelationCheck[RelationRule]) -> Findings:
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
        kept_rows = rows.slice(0, kept).to_pylist()
        violations = tuple(check.violation(failed_row(row)) for row in kept_rows)
        return Findings(violations=violations, counts={check.rule.code: count}, halved_to=halved_to)

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
        union = parts[0]
        for part in parts[1:]:
            union = union.unionByName(part)
        rows = self._runner.run("check", union.toArrow)
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

    def _replaces(self, item: NodeType | EdgeType) -> bool:
        return self._mode is LoadMode.OVERWRITE and bool(self._tables[ref_of(item)].parts)

    def _may_repeat(self, item: NodeType | EdgeType) -> bool:
        """An id may come twice in the input: the last record of it wins."""
        return self._mode.upserts and isinstance(item, EdgeType)

    def key_checks(self) -> Iterator[RelationCheck[KeyRule]]:
        """Check 5."""
        return self._checks(self._rules.keys)

    def endpoint_checks(self) -> Iterator[RelationCheck[EndpointRule]]:
        """Check 6."""
        return self._checks(self._rules.endpoints)

    def cardinality_checks(self) -> Iterator[RelationCheck[CardinalityRule]]:
        """Check 7; what fails are sources, with the number of their edges."""
        return self._checks(self._rules.cardinality)

    def node_ref(self, item: EdgeType) -> TableRef:
        """The table of the sources of an edge type."""
        return ref_of(self._catalog.node_types[item.from_type])

    def bare_nodes(self) -> Iterator[tuple[EdgeType, DataFrame]]:
        """Id and place of nodes of the input without an edge of a type that asks for one.

        What others do to their edges meanwhile changes no verdict: such a node only waits.
        """
        for item in required_edges(self._catalog):
            node_ref, edge_ref = self.node_ref(item), ref_of(item)
            if not self._tables[node_ref].parts:
                continue
            bare = self.staged(node_ref).select("id", PLACE)
            staged = bool(self._tables[edge_ref].parts)
            if staged:
                starts = self.image(edge_ref).select(f.col("src").alias("id"))
                bare = bare.join(starts, "id", "left_anti")
            there = None if self._replaces(item) else self._frames.all_committed(edge_ref)
            if there is not None:
                if staged:
                    ids = self.image(edge_ref).select("id")
                    there = there.join(ids, "id", "left_anti")
                bare = bare.join(there.select(f.col("src").alias("id")), "id", "left_anti")
            yield item, bare

    def counted(self, rule: CardinalityRule) -> DataFrame | None:
        """Key columns of committed edges that stay, for the sources that the load touches."""
        # Ids that were minted here are of no edge that is there.
        return self._stays(rule, moves=ref_of(rule.item) in self._given_ids)

    def _stays(self, rule: RelationRule, *, moves: bool = False) -> DataFrame | None:
        """Key columns of the committed rows that a rule asks and that stay; `None` for none."""
        if rule.asked is None or self._replaces(rule.asked):
            return None
        return self._frames.committed(rule, moves=moves)

    def _checks(self, rules: Iterable[_Rule]) -> Iterator[RelationCheck[_Rule]]:
        """The rules that some row may break."""
        for rule in rules:
            failing = self._failing(rule)
            if failing is not None:
                yield RelationCheck(rule=rule, failing=failing)

    def _failing(self, rule: RelationRule) -> DataFrame | None:
        match rule:
            case NewIdRule():
                return self._key_conflicts(rule)
            case UniqueRule():
                return self._repeated_tuples(rule)
            case EndRule():
                return self._orphans(rule)
            case KeptEndRule():
                return self._left_behind(rule)
            case CardinalityRule():
                return self._sources(rule)
            case _:
                assert_never(rule)

    def _key_conflicts(self, rule: NewIdRule) -> DataFrame | None:
        ref = ref_of(rule.item)
        if self._mode is not LoadMode.APPEND or ref not in self._given_ids:
            return None
        there = self._stays(rule)
        if there is None:
            return None
        return _found(self.image(ref).join(there.select("id"), "id", "left_semi"))

    def _repeated_tuples(self, rule: UniqueRule) -> DataFrame | None:
        ref, may_repeat = ref_of(rule.item), self._may_repeat(rule.item)
        if rule.is_identity and (may_repeat or ref not in self._repeated):
            return None
        column = key_column(rule)
        records = self.image(ref) if may_repeat else self.staged(ref)
        records = records.filter(f.col(column).isNotNull())
        records = records.select(*dict.fromkeys(("id", PLACE, column)))
        order = Window.partitionBy(column).orderBy("id", PLACE)
        ranked = records.withColumn("rank", f.row_number().over(order)).withColumn(
            "holder", f.first("id").over(order)
        )
        failing = _found(ranked.filter("rank > 1"), first=column, second="holder")
        first = ranked.withColumn("next", f.lead("id").over(order)).filter("rank = 1")
        held = self._holders(rule)
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
            return failing.unionByName(_found(met, first=column, second="holder"))
        if held is not None:
            met = first.join(held, column)
            return failing.unionByName(_found(met, first=column, second="held_by"))
        return failing

    def _holders(self, rule: UniqueRule) -> DataFrame | None:
        """Tuples of committed rows that the load leaves as they are, and the first id of each."""
        there = self._stays(rule)
        if there is None:
            return None
        column = key_column(rule)
        touched = self.image(ref_of(rule.item)).select(f.col("id").alias("held_by"))
        held = there.select(f.col("id").alias("held_by"), column)
        held = held.filter(f.col(column).isNotNull()).join(touched, "held_by", "left_anti")
        return held.groupBy(column).agg(f.min("held_by").alias("held_by"))

    def _orphans(self, rule: EndRule) -> DataFrame:
        nodes = self._stays(rule)
        return self._without_nodes(self.image(ref_of(rule.item)), rule, nodes)

    def _left_behind(self, rule: KeptEndRule) -> DataFrame | None:
        """No node goes away but with all nodes of its type."""
        edges = self._stays(rule) if self._replaces(rule.node) else None
        return None if edges is None else self._without_nodes(edges, rule, None)

    def _without_nodes(
        self, edges: DataFrame, rule: EndpointRule, there: DataFrame | None
    ) -> DataFrame:
        """Edges whose node is neither staged nor among those that are there."""
        endpoint = rule.endpoint
        ends = edges.filter(f.col(endpoint).isNotNull()).select("id", PLACE, endpoint)
        nodes = None if there is None else there.select("id")
        ref = ref_of(rule.node)
        if self._tables[ref].parts:
            staged = self.staged(ref).select("id")
            nodes = staged if nodes is None else nodes.unionByName(staged)
        if nodes is not None:
            ends = ends.join(nodes.select(f.col("id").alias(endpoint)), endpoint, "left_anti")
        return _found(ends, first=endpoint)

    def _sources(self, rule: CardinalityRule) -> DataFrame:
        ref = ref_of(rule.item)
        image = self.image(ref).filter("src is not null").select("id", "src")
        final, touched = image, image.select("src")
        there = self.counted(rule)
        if there is not None:
            there = there.select("id", "src")
            ids = self.image(ref).select("id")
            final = image.unionByName(there.join(ids, "id", "left_anti"))
            touched = touched.unionByName(there.join(ids, "id", "left_semi").select("src"))
        touched = touched.distinct()
        if self._replaces(rule.node):
            ids = self.staged(ref_of(rule.node)).select(f.col("id").alias("src"))
            touched = touched.join(ids, "src", "left_semi")
        counts = final.groupBy("src").agg(f.count("id").alias("edges"))
        sources = touched.join(counts, "src", "left").fillna({"edges": 0})
        broken = f.col("edges") < rule.low
        if rule.high is not None:
            broken = broken | (f.col("edges") > rule.high)
        return sources.filter(broken).select(
            f.col("src").alias("id"),
            f.lit(NO_PLACE).cast("bigint").alias(PLACE),
            f.col("edges").cast("string").alias("first"),
            f.lit(None).cast("string").alias("second"),
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
    place = row[PLACE] if row[PLACE] != NO_PLACE else None
    subject = Subject(entity_id=row["id"], input_line=place, row=place)
    return FailedRow(subject=subject, first=row["first"], second=row["second"])


def _violation(rule: RelationRule, row: FailedRow) -> Violation:
    match rule:
        case NewIdRule():
            return rule.violation(row.subject)
        case UniqueRule():
            values = _shown(rule, row.first or "")
            return rule.violation(row.subject, values=values, held_by=row.second or "")
        case EndRule() | KeptEndRule():
            return rule.violation(row.subject, node_id=row.first or "")
        case CardinalityRule():
            return rule.violation(row.subject.entity_id or "", edges=int(row.first or 0))
        case _:
            assert_never(rule)


def _shown(rule: UniqueRule, spelled: str) -> list[Shown]:
    """The values of a tuple, from its canonical spelling."""
    spellings = [spelled] if len(rule.names) == 1 else json.loads(spelled)
    return [
        # cast: the reader of spellings gives what a column of the type holds.
        show_value(cast("StoredValue", read_spelling(text, kind)), kind)
        for text, kind in zip(spellings, rule.kinds, strict=True)
    ]
