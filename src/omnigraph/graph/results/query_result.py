"""`QueryResult`: the rows of a query, pinned to one commit, in every form a caller may want.

The rows are an Arrow table with exactly the columns that the query promises: names, types and
nullability as declared, also when there are no rows. That is checked once, here; what an executor
hands over in another shape is its defect. A result never changes and is safe to share between
threads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.graph.results.csv import render_csv
from omnigraph.graph.results.json import render_json, render_jsonl
from omnigraph.graph.results.text import (
    DEFAULT_MAX_WIDTH,
    render_heading,
    render_html,
    render_kv,
    render_table,
)
from omnigraph.graph.results.values import json_rows, python_rows
from omnigraph.lang.arrow_schema import arrow_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd  # type: ignore[import-untyped]

    from omnigraph.errors import JsonValue
    from omnigraph.graph.query.target import QueryTarget
    from omnigraph.lang.ir import Column

_ROWS_PER_STEP: Final = 1024


class QueryResult:
    """The rows of a query, with the state of the graph that they come from.

    Raises:
        InternalError: the table is not what the columns promise.
    """

    def __init__(
        self,
        table: pa.Table,
        columns: Sequence[Column],
        *,
        query_name: str,
        target: QueryTarget,
        graph_commit_id: str,
        policy_filtered: bool = False,
    ) -> None:
        self._table = _as_promised(table, columns, query_name)
        self._kinds = tuple(column.type for column in columns)
        self.query_name: Final = query_name
        self.target: Final = target
        self.graph_commit_id: Final = graph_commit_id
        self.policy_filtered: Final = policy_filtered
        """Whether data rules restricted what the actor could see."""

    @property
    def schema(self) -> pa.Schema:
        """Names, types and declared nullability of the columns."""
        return self._table.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns in return order."""
        return self._table.column_names

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[dict[str, object]]:
        for start in range(0, len(self), _ROWS_PER_STEP):
            yield from python_rows(self._table.slice(start, _ROWS_PER_STEP), self._kinds)

    def __repr__(self) -> str:
        return f"<QueryResult: {self._heading}>"

    def _repr_html_(self) -> str:
        return render_html(self._table, self._kinds, self._heading)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def to_arrow(self) -> pa.Table:
        """The rows as they are."""
        return self._table

    def to_batches(self) -> list[pa.RecordBatch]:
        """The rows as batches; none when there are no rows."""
        return self._table.to_batches()

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with pandas' nullable integers and booleans; a list is a NumPy array.

        With plain integers one null would turn a whole column into floats.
        """
        import pandas as pd

        dtypes = {
            pa.bool_(): pd.BooleanDtype(),
            pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(),
            pa.uint32(): pd.UInt32Dtype(),
            pa.uint64(): pd.UInt64Dtype(),
        }
        return self._table.to_pandas(types_mapper=dtypes.get, integer_object_nulls=True)

    def to_polars(self) -> Any:  # noqa: ANN401 - an optional part brings its own types
        """A `polars.DataFrame`.

        Raises:
            ImportError: polars is not installed.
        """
        try:
            polars = import_module("polars")
        except ImportError as error:
            raise ImportError(
                "to_polars() needs polars, an optional part: pip install '.[polars]' in the folder"
                " of this project"
            ) from error
        return polars.from_arrow(self._table)

    def to_dicts(self) -> list[dict[str, object]]:
        """A dict per row: dates, aware datetimes in UTC, lists; an F32 at its exact value."""
        return python_rows(self._table, self._kinds)

    def to_dict(self, *, js_safe: bool = False) -> dict[str, JsonValue]:
        """The whole result in JSON values, as the server answers a query."""
        body: dict[str, JsonValue] = {
            "query_name": self.query_name,
            "target": self.target.to_dict(),
            "row_count": len(self),
            "columns": [*self.columns],
            "rows": [*json_rows(self._table, self._kinds, js_safe=js_safe)],
            "graph_commit_id": self.graph_commit_id,
        }
        if self.policy_filtered:
            body["policy_filtered"] = True
        return body

    def to_json(self, *, js_safe: bool = False) -> str:
        """The rows as an array of objects; `js_safe` spells integers beyond ±(2^53 - 1)."""
        return render_json(self._table, self._kinds, js_safe=js_safe)

    def to_jsonl(self) -> str:
        """A line of metadata, then an object per line."""
        target = self.target.to_dict()
        return render_jsonl(self._table, self._kinds, query_name=self.query_name, target=target)

    def to_csv(self) -> str:
        """A header, then a line per row; null is the empty field, the empty string is `""`."""
        return render_csv(self._table, self._kinds)

    def to_table(self, *, max_width: int = DEFAULT_MAX_WIDTH, wrap: bool = False) -> str:
        """A table for a terminal; a column takes at most `max_width` cells, cut or wrapped.

        Raises:
            InvalidArgument: `max_width` is not positive.
        """
        return render_table(self._table, self._kinds, self._heading, max_width=max_width, wrap=wrap)

    def to_kv(self) -> str:
        """A block per row with a line per column, for a terminal."""
        return render_kv(self._table, self._kinds, self._heading)

    def to_parquet(self, path: str | Path) -> None:
        """Write a Parquet file."""
        from pyarrow import parquet

        parquet.write_table(self._table, path)

    def to_ipc(self, path: str | Path) -> None:
        """Write an Arrow IPC file."""
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self.schema) as writer:
            writer.write_table(self._table)

    @property
    def _heading(self) -> str:
        return render_heading(len(self), str(self.target), self.query_name)


def _as_promised(table: pa.Table, columns: Sequence[Column], query_name: str) -> pa.Table:
    """The table under the promised schema alone, without what an engine noted in its own."""
    schema = pa.schema([arrow_field(column.name, column.type) for column in columns])
    if not table.schema.equals(schema):
        raise InternalError(
            f"the result of {query_name} has the columns {_described(table.schema)}, but the query"
            f" promises {_described(schema)}; please report it with the query and the schema"
        )
    for field, values in zip(schema, table.columns, strict=True):
        if values.null_count and not field.nullable:
            raise InternalError(
                f"the column {field.name} of the result of {query_name} holds null and may not;"
                " please report it with the query and the schema"
            )
    return pa.Table.from_arrays(table.columns, schema=schema)


def _described(schema: pa.Schema) -> str:
    return ", ".join(str(field).removeprefix("pyarrow.Field") for field in schema) or "(none)"
