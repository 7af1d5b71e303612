"""Where the values of a result are written: one property of the nodes of one type.

What can be told of the property is told before anything is measured. The write is an update: only
this property changes, of nodes that exist, as one commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import BranchName
from omnigraph.lang.arrow_schema import arrow_field
from omnigraph.lang.suggest import did_you_mean
from omnigraph.pipeline.analytics.measures import ShortestPaths
from omnigraph.pipeline.load.job import SparkLoad
from omnigraph.pipeline.sources.local_source import TableSource
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.pipeline.spec.column_map import TargetSpec
from omnigraph.pipeline.spec.column_types import widens

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.lang.catalog import Catalog, NodeType
    from omnigraph.lang.ir import Column
    from omnigraph.pipeline.analytics.measures import Measure
    from omnigraph.pipeline.analytics.scope import Scope
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """One property, and the column of the result that it gets."""

    type_name: str
    name: str
    column: str

    @property
    def spec(self) -> TargetSpec:
        """As a load takes it: the columns `id` and that of the property."""
        return TargetSpec(type=f"node:{self.type_name}", keeps_values=True)

    def rows_of(self, table: pa.Table) -> LoadSource:
        """The rows of the type, in memory."""
        own = table.filter(pc.field("type") == self.type_name).select(["id", self.column])
        rows = own.rename_columns(["id", self.name])
        return TableSource(name="analytics", target=self.spec, rows=rows)

    def frame_of(self, frame: DataFrame, settings: Settings) -> LoadSource:
        """The rows of the type, on Spark."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        own = frame.filter(F.col("type") == F.lit(self.type_name))
        rows = own.select("id", F.col(self.column).alias(self.name))
        request = SourceRequest(source=rows, type=self.type_name, keeps_values=True)
        return plan_source(request, settings)


def plan_target(
    catalog: Catalog, scope: Scope, measure: Measure, text: str, column: str | None
) -> WriteTarget:
    """The property that a text `Type.property` names, if it can take the values.

    Raises:
        InvalidArgument: there is none, it is of another type, or there is not one value for a node.
    """
    item, name = _property(catalog, scope, text)
    values = _values(measure, column)
    prop = item.properties[name]
    wanted = f"{name}: {values.type.as_nullable(nullable=True)}"
    if not widens(arrow_field(values.name, values.type).type, prop.type) or prop.type.enum_values:
        raise InvalidArgument(
            f"{item.name}.{name} is {prop.type}, and {values.name} of {measure.name} is"
            f" {values.type.scalar}; write it to a property that is declared as `{wanted}`",
            argument="property",
            property=name,
        )
    if item.key is not None and name in item.key:
        raise InvalidArgument(
            f"{item.name}.{name} is in the key of {item.name}, which never changes; write to"
            " another property",
            argument="property",
            property=name,
        )
    if values.type.nullable and not prop.type.nullable:
        raise InvalidArgument(
            f"{item.name}.{name} must be given, and {values.name} of {measure.name} may be null;"
            f" write it to a property that is declared as `{wanted}`",
            argument="property",
            property=name,
        )
    return WriteTarget(type_name=item.name, name=name, column=values.name)


def write_update(
    job: JobContext,
    source: LoadSource,
    *,
    branch: str,
    actor_id: str | None,
    external: ExternalBlobs,
) -> JobReport:
    """Commit the rows of a source; no commit if nothing changes.

    Raises:
        LoadRejected: a node is gone meanwhile, or a value breaks a rule of the schema.
        ReadSetChanged: others changed the nodes again and again.
    """
    request = LoadRequest(mode=LoadMode.UPDATE, branch=BranchName(branch), actor_id=actor_id)
    return SparkLoad(job, [source], request, external=external).report()


def _property(catalog: Catalog, scope: Scope, text: str) -> tuple[NodeType, str]:
    type_name, dot, name = text.partition(".") if isinstance(text, str) else ("", "", "")
    types = {item.name: item for item in scope.nodes}
    if not dot or not type_name or not name:
        raise InvalidArgument(
            f"a property is written as {scope.nodes[0].name}.name, not {text!r}",
            argument="property",
        )
    if type_name not in types or type_name not in catalog.node_types:
        hint = did_you_mean(type_name, types, otherwise="its nodes are")
        raise InvalidArgument(
            f"{scope.edge.name} joins no nodes of the type `{type_name}`{hint}",
            argument="property",
            type=type_name,
        )
    item = catalog.node_types[type_name]
    if name not in item.properties:
        hint = did_you_mean(name, item.properties, otherwise="it has")
        raise InvalidArgument(
            f"{type_name} has no property `{name}`{hint}", argument="property", property=name
        )
    return item, name


def _values(measure: Measure, column: str | None) -> Column:
    if isinstance(measure, ShortestPaths) and len(measure.landmarks) > 1:
        raise InvalidArgument(
            "distances from several landmarks are several values for each node; write those from"
            " one landmark at a time",
            argument="landmarks",
        )
    known = {each.name: each for each in measure.columns}
    name = measure.written if column is None else column
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name), known, otherwise="it has")
        raise InvalidArgument(
            f"{measure.name} has no column `{name}`{hint}", argument="column", column=name
        )
    return known[name]
