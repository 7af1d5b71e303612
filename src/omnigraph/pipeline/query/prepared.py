"""A read query that is ready for Spark; made before Spark starts, so mistakes are told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import InternalError
from omnigraph.lang import bind_params, compile_query
from omnigraph.lang.ir import QueryIR
from omnigraph.lang.ir_counts import bind_counts
from omnigraph.lang.query_ast import NOW_PARAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.history.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkQuery:
    """A read query with its parameters bound, on one snapshot."""

    name: str
    query: QueryIR
    params: Mapping[str, object]
    snapshot: Snapshot


def prepare(
    snapshot: Snapshot,
    source: str,
    name: str | None,
    params: Mapping[str, object] | None,
    *,
    now_ms: int,
) -> SparkQuery:
    """The query, compiled against the schema of the snapshot.

    Raises:
        QueryInvalid, QuerySelectionError: it does not compile, or is no read.
        ParameterError: the parameters do not fit.
    """
    compiled = compile_query(snapshot.catalog, source, name, expect_mutation=False)
    if not isinstance(compiled.ir, QueryIR):
        raise InternalError(f"`{compiled.query.name}` was compiled as a read and is none")
    values = bind_params(params, compiled.ir.params)
    return SparkQuery(
        name=compiled.query.name,
        query=bind_counts(compiled.ir, values),
        params={**values, NOW_PARAM: now_ms},
        snapshot=snapshot,
    )
