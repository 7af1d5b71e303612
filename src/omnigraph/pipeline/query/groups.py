"""Groups of the rows of a match: whole numbers are added exactly, floats with compensation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType

from omnigraph.graph.query.overflow import too_long_collect
from omnigraph.lang import ir
from omnigraph.lang.ir import AggFunc
from omnigraph.lang.types import Scalar
from omnigraph.limits import MAX_COLLECTED
from omnigraph.pipeline.query.group_values import KIND_END, GroupReader, GroupValue
from omnigraph.pipeline.query.match_frame import KIND
from omnigraph.pipeline.query.values import Cell, column_of
from omnigraph.pipeline.spark.errors import describe_failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from omnigraph.pipeline.query.expressions import Expressions
    from omnigraph.pipeline.query.match_frame import MatchFrame, Names
    from omnigraph.pipeline.query.values import Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """A row for each group; a column for each projection, in their order."""

    frame: DataFrame
    columns: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]]
    """Beside columns of ids of several types, the columns of those types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouper:
    """Makes the groups of one query."""

    query: ir.QueryIR
    expressions: Expressions
    names: Names

    def group(self, rows: MatchFrame) -> Grouped:
        """The groups of the rows, in no order."""
        columns: list[str] = []
        keys: list[str] = []
        kinds: dict[str, tuple[str, ...]] = {}
        picked: list[Column] = []
        aggregates: list[tuple[ir.Agg, Operand, GroupValue]] = []
        for projection in self.query.returns:
            name = self.names.fresh()
            columns.append(name)
            arg = projection.expr.arg if isinstance(projection.expr, ir.Agg) else projection.expr
            kind = _kind(arg, rows)
            if not isinstance(projection.expr, ir.Agg):
                keys.append(name)
                picked.append(
                    _one_zero(self.expressions.operand(projection.expr, rows)).alias(name)
                )
                if kind is not None:
                    kinds[name] = (self.names.fresh(),)
                    keys += kinds[name]
                    picked.append(kind.alias(kinds[name][0]))
                continue
            operand = self.expressions.operand(projection.expr.arg, rows)
            value = GroupValue(
                func=projection.expr.func,
                column=self.names.fresh(),
                is_distinct=bool(projection.expr.distinct),
                name=name,
                is_typed=bool(projection.expr.distinct) and kind is not None,
            )
            column = _one_zero(operand)
            if kind is not None and value.is_typed:
                column = F.concat(kind, F.lit(KIND_END), column)
            picked.append(column.alias(value.column))
            aggregates.append((projection.expr, operand, value))
        given = rows.frame.select(*picked)
        if not aggregates:
            frame = given.distinct()
        elif any(_adds_floats(agg, operand) for agg, operand, _ in aggregates):
            frame = self._read_groups(given, keys, [value for _, _, value in aggregates])
        else:
            frame = given.groupBy(*keys).agg(
                *(_aggregated(value).alias(value.name) for _, _, value in aggregates)
            )
        return Grouped(frame=frame, columns=tuple(columns), kinds=kinds)

    def _read_groups(
        self, given: DataFrame, keys: Sequence[str], values: Sequence[GroupValue]
    ) -> DataFrame:
        """Groups that Python reads, one after the other, batch by batch."""
        grouping = list(keys)
        if not keys:
            grouping = [self.names.fresh()]
            given = given.withColumn(grouping[0], F.lit(1))
        kinds = {each.name: each.dataType for each in given.schema.fields}
        schema = StructType(
            [
                *(StructField(name, kinds[name]) for name in grouping),
                *(
                    StructField(each.name, _result_type(each, kinds[each.column]))
                    for each in values
                ),
            ]
        )
        reader = GroupReader(
            values=tuple(values),
            schema=to_arrow_schema(schema, timezone="UTC"),
        )

        def read(
            key: tuple[pa.Scalar, ...],  # type: ignore[type-arg]  # Spark reads these hints
            batches: Iterator[pa.RecordBatch],
        ) -> Iterator[pa.RecordBatch]:
            yield from reader.read(key, batches)

        # Spark tells the kind of a function by its hints, as objects and not as texts.
        read.__annotations__ = {
            "key": tuple[pa.Scalar, ...],  # type: ignore[type-arg]  # as above
            "batches": Iterator[pa.RecordBatch],
            "return": Iterator[pa.RecordBatch],
        }
        frame = given.groupBy(*grouping).applyInArrow(read, schema)
        return frame if keys else self._at_least_one(frame, grouping[0], values, schema)

    def _at_least_one(
        self, frame: DataFrame, key: str, values: Sequence[GroupValue], schema: StructType
    ) -> DataFrame:
        """The one group of all rows, also when there are none."""
        kinds = {each.name: each.dataType for each in schema.fields}
        one = self.names.fresh()
        alone = frame.sparkSession.range(1).select(F.lit(1).alias(one))
        joined = alone.join(frame, F.col(one) == F.col(key), "left")
        return joined.select(*(_filled(each, kinds[each.name]).alias(each.name) for each in values))


def _filled(value: GroupValue, kind: DataType) -> Column:
    column = F.col(value.name)
    match value.func:
        case AggFunc.COUNT:
            return F.coalesce(column, F.lit(0).cast("bigint"))
        case AggFunc.COLLECT:
            return F.coalesce(column, F.array().cast(kind))
        case _:
            return column


def _adds_floats(agg: ir.Agg, operand: Operand) -> bool:
    return agg.func in (AggFunc.SUM, AggFunc.AVG) and operand.type.scalar.is_float


def _kind(expr: ir.Expr, rows: MatchFrame) -> Column | None:
    """The type of each node, of an expression that is a node of one of several types."""
    if not isinstance(expr, ir.NodeId) or (expr.var, KIND) not in rows.columns:
        return None
    return rows.column((expr.var, KIND))


def _one_zero(operand: Operand) -> Column:
    """The value, and of the two zeros of floats always the same."""
    column = column_of(operand)
    if isinstance(operand, Cell) and operand.type.scalar.is_float and not operand.type.is_list:
        return column + F.lit(0.0).cast("float" if operand.type.scalar is Scalar.F32 else "double")
    return column


def _result_type(value: GroupValue, kind: DataType) -> DataType:
    match value.func:
        case AggFunc.COUNT:
            return LongType()
        case AggFunc.SUM | AggFunc.AVG:
            return DoubleType()
        case AggFunc.COLLECT:
            return ArrayType(kind)
        case AggFunc.MIN | AggFunc.MAX:
            return kind


def _aggregated(value: GroupValue) -> Column:
    column = F.col(value.column)
    count = F.count_distinct(column) if value.is_distinct else F.count(column)
    match value.func:
        case AggFunc.COUNT:
            return count
        case AggFunc.SUM | AggFunc.AVG:
            whole = column.cast("decimal(38,0)")
            total = (F.sum_distinct(whole) if value.is_distinct else F.sum(whole)).cast("double")
            if value.func is AggFunc.SUM:
                return total
            return F.when(count > F.lit(0), total / count.cast("double"))
        case AggFunc.MIN:
            return F.min(column)
        case AggFunc.MAX:
            return F.max(column)
        case AggFunc.COLLECT:
            items = F.collect_set(column) if value.is_distinct else F.collect_list(column)
            if value.is_typed:
                items = F.transform(items, lambda item: F.split(item, KIND_END, 2)[1])
            return _short(F.sort_array(items))


_ANY_COUNT = 987_654_321


def _short(items: Column) -> Column:
    """A list that is not too long; the error tells how long it is."""
    error: Any = too_long_collect(_ANY_COUNT, MAX_COLLECTED)
    told = str(describe_failure(error, partition=0, attempt=1).to_exception())
    size = F.size(items)
    text = F.replace(F.lit(told), F.lit(str(_ANY_COUNT)), size.cast("string"))
    return F.when(size > F.lit(MAX_COLLECTED), F.raise_error(text)).otherwise(items)
