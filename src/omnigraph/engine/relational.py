"""Relational work that outgrows arrays of numbers: joins by value, large sorts, by DataFusion.

Each call has a session of its own whose memory pool is the query's budget, with spilling to disk;
what goes in and comes out are keys and row positions, never whole rows. DataFusion is loaded when
one of these is first needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.errors import ResourceLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datafusion import DataFrame, SessionContext

    from omnigraph.graph.arrays import Numbers, Values
    from omnigraph.graph.query.budget import Budget


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One sort key; null is smaller than any value."""

    values: Values
    is_descending: bool


def join_rows(
    left: Sequence[Values], right: Sequence[Values], budget: Budget
) -> tuple[Numbers, Numbers]:
    """The positions of all pairs of rows whose keys are equal; null equals nothing."""
    session = open_session(budget)
    first = session.from_arrow(_keys(left, "l"))
    second = session.from_arrow(_keys(right, "r"))
    names = range(len(left))
    joined = first.join(
        second,
        left_on=[f"l{number}" for number in names],
        right_on=[f"r{number}" for number in names],
        how="inner",
    )
    # One more than may be held is enough to know.
    pairs = collect(joined.select("l_at", "r_at").limit(budget.max_rows + 1), budget)
    budget.require_rows(pairs.num_rows, "a join of two parts of the match")
    return pairs["l_at"].to_numpy(), pairs["r_at"].to_numpy()


def sort_rows(keys: Sequence[SortColumn], budget: Budget) -> Numbers:
    """The positions of the rows in order; rows that are equal in every key come in any order."""
    from datafusion import col

    session = open_session(budget)
    frame = session.from_arrow(_keys([key.values for key in keys], "k"))
    ordered = frame.sort(
        *(
            col(f"k{number}").sort(
                ascending=not key.is_descending, nulls_first=not key.is_descending
            )
            for number, key in enumerate(keys)
        )
    )
    return collect(ordered.select("k_at"), budget)["k_at"].to_numpy()


def open_session(budget: Budget) -> SessionContext:
    """A session within the budget; it must live as long as its frames."""
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

    runtime = RuntimeEnvBuilder().with_disk_manager_os()
    runtime = runtime.with_fair_spill_pool(budget.memory_bytes)
    return SessionContext(SessionConfig(), runtime)


def _keys(columns: Sequence[Values], prefix: str) -> pa.Table:
    named = {f"{prefix}{number}": values for number, values in enumerate(columns)}
    return pa.table({**named, f"{prefix}_at": pa.array(np.arange(len(columns[0])))})


def collect(frame: DataFrame, budget: Budget) -> pa.Table:
    """The rows of a frame.

    Raises:
        ResourceLimit: they take more memory than the query may use, spilling included.
    """
    budget.check()
    try:
        table = frame.to_arrow_table()
    except Exception as error:  # DataFusion raises a bare Exception
        if "Resources exhausted" in str(error):
            raise ResourceLimit(
                f"the query needs more than its {budget.memory_bytes:,} bytes of memory; filter"
                " more, return less, or raise OMNIGRAPH_QUERY_MEMORY_BYTES",
                resource="query_memory_bytes",
                limit=budget.memory_bytes,
                actual=None,
            ) from error
        raise
    budget.check()
    return table
