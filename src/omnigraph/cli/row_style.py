"""The forms in which the rows of a query are printed, and the choice between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from omnigraph.cli.output import Output
    from omnigraph.graph.results.query_result import QueryResult


class RowFormat(StrEnum):
    """One form of a result."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


class CellLayout(StrEnum):
    """What a table does with a value that is wider than its column."""

    TRUNCATE = "truncate"
    WRAP = "wrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStyle:
    """How rows are printed unless an option says otherwise."""

    format: RowFormat = RowFormat.TABLE
    table_max_column_width: int = 80
    table_cell_layout: CellLayout = CellLayout.TRUNCATE

    def choose_format(self, asked: RowFormat | None, *, as_json: bool) -> RowFormat:
        """The format of one result: `--format`, then `--json`, then this style."""
        if asked is not None:
            return asked
        return RowFormat.JSON if as_json else self.format

    def write(self, result: QueryResult, form: RowFormat, output: Output) -> None:
        """Write a result to standard output; the forms for programs are UTF-8 in every locale."""
        match form:
            case RowFormat.TABLE:
                wraps = self.table_cell_layout is CellLayout.WRAP
                output.write(result.to_table(max_width=self.table_max_column_width, wrap=wraps))
            case RowFormat.KV:
                output.write(result.to_kv())
            case RowFormat.CSV:
                output.write_data(result.to_csv().encode())
            case RowFormat.JSONL:
                output.write_data(result.to_jsonl().encode())
            case RowFormat.JSON:
                output.write_json(result.to_dict())
            case _:
                assert_never(form)
