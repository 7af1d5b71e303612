"""The CSV form of a query result: RFC 4180 with LF.

Null is the empty field and the empty string is `""`, so that both read back; lists and vectors are
JSON text. In a result of one column a null is therefore an empty line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from omnigraph.graph.results.values import cell_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from omnigraph.lang.types import PropType

_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|\A\Z')


def render_csv(table: pa.Table, kinds: Sequence[PropType]) -> str:
    """A header and a line per row; each ends in LF."""
    columns = [
        [_field(name), *map(_field, cell_texts(values, kind))]
        for name, values, kind in zip(table.column_names, table.columns, kinds, strict=True)
    ]
    return "".join(f"{','.join(row)}\n" for row in zip(*columns, strict=True))


def _field(text: str | None) -> str:
    if text is None:
        return ""
    if _NEEDS_QUOTES.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'
