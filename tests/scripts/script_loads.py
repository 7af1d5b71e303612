"""The rows of a `load` step as lines of the graph format.

    load merge
    node Person
    name  | age
    "Ann" | 3
    edge Knows
    from  | to
    "Ann" | "Bob"

A table per type, or lines of the format as they are; an empty cell is left out of its row.
"""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from datetime import date

from tests.scripts.script_format import Step
from tests.scripts.script_values import Value, cells_of, parse_value

_TABLE = re.compile(r"(?P<kind>node|edge) (?P<name>\w+)")


def load_lines(step: Step) -> bytes:
    """The lines that the step loads.

    Raises:
        ScriptError, SpellingError: its text does not follow the format.
    """
    return "\n".join(_lines(step)).encode()


def _lines(step: Step) -> Iterator[str]:
    table: re.Match[str] | None = None
    header: Sequence[str] | None = None
    for line in step.text.split("\n"):
        if match := _TABLE.fullmatch(line):
            table, header = match, None
        elif table is None:
            if not line.startswith("{"):
                raise step.error(
                    f"`node Type`, `edge Type` or a line of JSON is expected: `{line}`"
                )
            yield line
        elif header is None:
            header = cells_of(line)
        else:
            yield json.dumps(_record(step, table, header, line))


def _record(
    step: Step, table: re.Match[str], header: Sequence[str], line: str
) -> dict[str, object]:
    cells = cells_of(line)
    if len(cells) != len(header):
        raise step.error(f"a row of {len(header)} cells is expected, not `{line}`")
    given = zip(header, cells, strict=True)
    data = {name: _json(parse_value(cell)) for name, cell in given if cell}
    if table["kind"] == "node":
        return {"type": table["name"], "data": data}
    ends = {name: data.pop(name, None) for name in ("from", "to")}
    return {"edge": table["name"], **ends, "data": data}


def _json(value: Value) -> object:
    match value:
        case date():
            return value.isoformat()
        case bytes():
            return f"base64:{base64.b64encode(value).decode()}"
        case list():
            return [_json(each) for each in value]
        case _:
            return value
