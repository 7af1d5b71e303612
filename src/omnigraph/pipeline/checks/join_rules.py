"""Which rows break the rules across rows, by joins on Spark: for loads that set bad rows aside.

No more rows are fetched than show that there are too many.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from omnigraph.errors import InternalError
from omnigraph.graph.load.quarantine import Broken, BrokenRow
from omnigraph.graph.validation import Findings, Subject, gather
from omnigraph.graph.validation.violation import bare_node
from omnigraph.pipeline.checks.join_checks import failed_row
from omnigraph.pipeline.staging.key_columns import PLACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Violation
    from omnigraph.graph.validation.relation_rules import CardinalityRule, RelationRule
    from omnigraph.pipeline.checks.join_checks import LoadChecks, RelationCheck
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spark.stage_runner import StageRunner


class JoinRelations:
    """The `RelationRules` of a load whose keys do not fit one process."""

    def __init__(
        self,
        checks: LoadChecks,
        session: PipelineSession,
        runner: StageRunner,
        *,
        most: int,
    ) -> None:
        self._checks = checks.for_rejects()
        self._session = session
        self._runner = runner
        self._limit = most + 1
        self._dropped: defaultdict[TableRef, list[int]] = defaultdict(list)

    def drop(self, places: Mapping[TableRef, Sequence[int]]) -> None:
        """Leave rows out of all joins."""
        for ref, each in places.items():
            self._dropped[ref] += each
            table = pa.table({PLACE: pa.array(self._dropped[ref], pa.int64())})
            self._checks.leave_out(ref, self._session.spark.createDataFrame(table))

    def keys(self) -> Broken:
        """Check 5."""
        return Broken(rows=self._failing(list(self._checks.key_checks())))

    def endpoints(self) -> Broken:
        """Check 6; nobody can be blamed for edges that are committed."""
        checks = list(self._checks.endpoint_checks())
        blocking = [self._checks.findings_of(each) for each in checks if each.is_committed]
        rows = self._failing([each for each in checks if not each.is_committed])
        return Broken(rows=rows, blocking=gather(blocking))

    def cardinality(self) -> Broken:
        """Check 7, by the records that bring edges to a source or take them away."""
        rows: list[BrokenRow] = []
        blocking: list[Findings] = []
        for check in self._checks.cardinality_checks():
            sources = self._fetched(check.failing.limit(self._limit))
            if sources:
                by_source = {row["id"]: check.violation(failed_row(row)) for row in sources}
                records = self._of_sources(check, by_source)
                blamed = {each.violation.subject.entity_id for each in records}
                left = tuple(each for name, each in by_source.items() if name not in blamed)
                rows += records
                counts = {check.rule.code: len(left)} if left else {}
                blocking.append(Findings(violations=left, counts=counts))
        return Broken(rows=rows, blocking=gather(blocking))

    def bare_nodes(self) -> Broken:
        """Nodes that no edge of a type starts at which asks for one."""
        rows: list[BrokenRow] = []
        for item, bare in self._checks.bare_nodes():
            ref = self._checks.node_ref(item)
            for row in self._fetched(bare.limit(self._limit)):
                place = int(row[PLACE])
                subject = Subject(entity_id=row["id"], input_line=place)
                violation = bare_node(item, row["id"], row=subject)
                rows.append(BrokenRow(table=ref, place=place, violation=violation))
        return Broken(rows=rows)

    def superseded(self) -> dict[TableRef, list[int]]:
        """Records of an edge id that a later one replaces."""
        return self._checks.superseded()

    def _failing(self, checks: Sequence[RelationCheck[RelationRule]]) -> list[BrokenRow]:
        """The rows that fail any of the checks, in one query."""
        if not checks:
            return []
        frames = [
            check.failing.withColumn("number", f.lit(number)) for number, check in enumerate(checks)
        ]
        failing = frames[0]
        for frame in frames[1:]:
            failing = failing.unionByName(frame)
        # A row may fail every check: so many pairs are certainly of too many rows.
        rows = self._fetched(failing.limit(self._limit * len(checks)))
        return [_broken(checks[row["number"]], row) for row in rows]

    def _of_sources(
        self, check: RelationCheck[CardinalityRule], by_source: Mapping[str, Violation]
    ) -> list[BrokenRow]:
        ref = check.ref
        low = check.rule.low
        failing = check.failing.select(
            f.col("id").alias("source"), f.col("first").cast("bigint").alias("edges")
        )
        records = self._checks.staged(ref).select("id", "src", PLACE)
        blamed = records.join(failing, records["src"] == failing["source"]).select(PLACE, "source")
        there = self._checks.counted(check.rule) if low else None
        if there is not None:
            few = failing.filter(f.col("edges") < low)
            blamed = blamed.unionByName(self._moved(ref, there, few))
        return [
            BrokenRow(table=ref, place=int(row[PLACE]), violation=by_source[row["source"]])
            for row in self._fetched(blamed.limit(2 * self._limit))
            if row["source"] in by_source
        ]

    def _moved(self, ref: TableRef, there: DataFrame, few: DataFrame) -> DataFrame:
        """Records that take an edge from a source which is left with too few."""
        held = there.select("id", f.col("src").alias("source"))
        held = held.join(few.select("source"), "source", "left_semi")
        records = self._checks.image(ref).select("id", "src", PLACE)
        moved = records.join(held, "id").filter("src is null or src <> source")
        return moved.select(PLACE, "source")

    def _fetched(self, frame: DataFrame) -> list[dict[str, Any]]:  # Any: one value per column
        rows: list[dict[str, Any]] = self._runner.run("check", frame.toArrow).to_pylist()
        return rows


def _broken(check: RelationCheck[RelationRule], row: Mapping[str, Any]) -> BrokenRow:
    failed = failed_row(row)
    if failed.subject.input_line is None:
        raise InternalError(f"a row of {check.ref} has no place; please report this")
    return BrokenRow(
        table=check.ref, place=failed.subject.input_line, violation=check.violation(failed)
    )
