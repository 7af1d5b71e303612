r"""The forms of a query result for people: a table, blocks of names and values, and HTML.

Their look may change; programs read the other forms. Null is `null`, a newline is `\n`, and no
value reaches a terminal or a page as anything but text.
"""

from __future__ import annotations

import html
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument
from omnigraph.graph.results.terminal_text import cell_width, cut, harmless, padded, wrapped
from omnigraph.graph.results.values import cell_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from omnigraph.lang.types import PropType

DEFAULT_MAX_WIDTH: Final = 80

_NO_ROWS: Final = "(no rows)"
_NULL: Final = "null"
_HTML_ROWS: Final = 50


def render_heading(row_count: int, target: str, query_name: str) -> str:
    """`2 rows from branch main via find`."""
    return harmless(f"{_rows(row_count)} from {target} via {query_name}")


def render_table(
    table: pa.Table, kinds: Sequence[PropType], heading: str, *, max_width: int, wrap: bool
) -> str:
    """The heading and a table whose columns take at most `max_width` cells each.

    Raises:
        InvalidArgument: `max_width` is not positive.
    """
    if max_width < 1:
        raise InvalidArgument(
            f"max_width is the number of terminal cells of a column, at least 1, not {max_width}",
            argument="max_width",
        )
    if not table.num_rows:
        return f"{heading}\n{_NO_ROWS}"
    columns = [
        [wrapped(cell, max_width) if wrap else [cut(cell, max_width)] for cell in column]
        for column in _columns(table, kinds)
    ]
    widths = [max(cell_width(line) for cell in column for line in cell) for column in columns]
    header, *rows = zip(*columns, strict=True)
    rule = "-+-".join("-" * width for width in widths)
    lines = [heading, *_row_lines(header, widths), rule]
    lines += [line for row in rows for line in _row_lines(row, widths)]
    return "\n".join(lines)


def render_kv(table: pa.Table, kinds: Sequence[PropType], heading: str) -> str:
    """The heading, then a block per row with a line per column; nothing is cut."""
    if not table.num_rows:
        return f"{heading}\n{_NO_ROWS}"
    names, *rows = zip(*_columns(table, kinds), strict=True)
    blocks = [
        "\n".join(
            [f"row {at}", *(f"{name}: {cell}" for name, cell in zip(names, row, strict=True))]
        )
        for at, row in enumerate(rows, start=1)
    ]
    return "\n\n".join([heading, *blocks])


def render_html(table: pa.Table, kinds: Sequence[PropType], heading: str) -> str:
    """A table of the first rows, long values cut, with a note on how many more there are."""
    columns = [
        [html.escape(cut(cell, DEFAULT_MAX_WIDTH)) for cell in column]
        for column in _columns(table.slice(0, _HTML_ROWS), kinds)
    ]
    header, *rows = zip(*columns, strict=True)
    left_out = table.num_rows - len(rows)
    return "".join(
        [
            f"<div><p>{html.escape(heading)}</p><table><thead>",
            _html_row(header, "th"),
            "</thead><tbody>",
            *(_html_row(row, "td") for row in rows),
            "</tbody></table>",
            f"<p>… {left_out} more {'row' if left_out == 1 else 'rows'}</p>" if left_out else "",
            "</div>",
        ]
    )


def _columns(table: pa.Table, kinds: Sequence[PropType]) -> Iterator[list[str]]:
    """Of each column the name and the values, as harmless text."""
    for name, values, kind in zip(table.column_names, table.columns, kinds, strict=True):
        cells = cell_texts(values, kind)
        yield [harmless(name), *(_NULL if cell is None else harmless(cell) for cell in cells)]


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _row_lines(row: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """A row as lines: one, or as many as its highest cell has."""
    for pieces in zip_longest(*row, fillvalue=""):
        cells = [padded(piece, width) for piece, width in zip(pieces, widths, strict=True)]
        yield " | ".join(cells).rstrip()


def _html_row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"
