"""Tables by the name of their type as lines of the load format, which is what a request carries.

A line says whether it is a node or an edge, so the schema of the graph is needed. What no line can
say is refused here, before anything is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from omnigraph.client.calls import not_served
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from omnigraph.graph.validation import ArrowRows
    from omnigraph.lang import Catalog

_REPLACING: Final = "overwrite"
_ROWS_AT_ONCE: Final = 10_000


def table_lines(catalog: Catalog, given: Mapping[str, ArrowRows], *, mode: str) -> bytes:
    """The rows of all tables as lines.

    Raises:
        InvalidArgument: an unknown type or one that comes twice, a column that the type does not
            have, or no Arrow data.
        NotServed: a load that replaces a type has no row of it.
    """
    from omnigraph.graph.ndjson.rejected_lines import given_line
    from omnigraph.graph.type_names import find_type
    from omnigraph.graph.validation import arrow_table, check_columns

    lines: list[bytes] = []
    seen: set[tuple[type, str]] = set()
    for name, rows in given.items():
        item = find_type(catalog, str(name))
        if (type(item), item.name) in seen:
            raise InvalidArgument(f"{item.name} is given twice; give it once", type=name)
        seen.add((type(item), item.name))
        table = arrow_table(str(name), rows)
        check_columns(item, table)
        if mode == _REPLACING and not table.num_rows:
            raise not_served(
                f"load(mode='overwrite') of {item.name} without a row",
                "delete its rows by a mutation, or load with access to storage",
            )
        lines += [given_line(item, row) for row in _rows(table)]
    return b"".join(line + b"\n" for line in lines)


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:  # Any: values as Arrow gives them
    moments = _moments_in_utc(table)
    for batch in moments.to_batches(max_chunksize=_ROWS_AT_ONCE):
        yield from batch.to_pylist()


def _moments_in_utc(table: pa.Table) -> pa.Table:
    """A moment without a zone is one of UTC, which its text has to say."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            moments = table.column(at).cast(pa.timestamp("us", "UTC"), safe=False)
            table = table.set_column(at, field.name, moments)
    return table
