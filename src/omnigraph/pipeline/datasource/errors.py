"""How an error of ours looks when Spark reports it: its code and its message.

Spark shows what the data source raises as text and nothing else, so the class and its details do
not arrive. Text that names the code can be looked up like any other error. Where rows were refused,
the counts by rule and the first rows follow, one in a line.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmnigraphError, StorageInternalError
from omnigraph.pipeline.spark.errors import is_failure

if TYPE_CHECKING:
    from collections.abc import Iterator


_SHOWN: Final = 10
"""How many bad rows are told."""


class DataSourceFailed(Exception):
    """`code: message`, and bad rows, of the error that ended a call of the data source."""


@contextmanager
def told_to_spark() -> Iterator[None]:
    """Raise an error of ours so that Spark shows its code; what is not ours passes as it is."""
    try:
        yield
    except OmnigraphError as error:
        raise _told(error) from None
    except BaseException as error:
        if isinstance(error, Exception) or not is_failure(error):
            raise
        # A native panic, which Spark's worker would take for a request to stop.
        raise _told(StorageInternalError(f"failed inside the storage engine: {error}")) from None


def _told(error: OmnigraphError) -> DataSourceFailed:
    return DataSourceFailed("\n".join([f"{error.code}: {error.message}", *_bad_rows(error)]))


def _bad_rows(error: OmnigraphError) -> Iterator[str]:
    counts, violations = error.details.get("counts"), error.details.get("violations")
    if not isinstance(counts, dict) or not isinstance(violations, list):
        return
    yield "  " + ", ".join(f"{code}: {count:,}" for code, count in counts.items())
    told = [each for each in violations if isinstance(each, dict)][:_SHOWN]
    for each in told:
        row = each.get("input_line")
        yield f"  {each['message']}" if row is None else f"  row {row:,}: {each['message']}"
    total = error.details.get("total")
    if isinstance(total, int) and total > len(told):
        yield f"  and {total - len(told):,} more"
