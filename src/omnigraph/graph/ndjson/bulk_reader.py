"""Graph lines that are plainly records, many at once: from text to columns without a Python loop.

A text is taken as a whole or not at all: whatever the strict reader might refuse in it makes the
whole text one for the strict reader, so nothing is reported here. Values are those of the same JSON
parser, not converted.

Why a text that is taken holds one good record in each line:

- Each line feed stands between `}` and `{`, which is nowhere inside of a JSON value. So no record
  goes over two lines and no line is blank, and as many records as lines are one in each.
- The parser knows the members of each record and its data, and refuses others and missing ones.
- A member that stands twice is counted: each line has at least the members that the parser kept,
  so equal sums leave room for no other. A line in which more looks like names of members is read
  once more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import compress
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.graph.ndjson.strict_reader import repeated_member
from omnigraph.graph.validation import JsonRows, JsonValues
from omnigraph.lang.catalog import EdgeType
from omnigraph.lang.types import STRING, Scalar
from omnigraph.limits import MAX_NDJSON_STRUCTURAL_SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from omnigraph.lang.catalog import Catalog, NodeType

    Positions = npt.NDArray[np.int64]
    Octets = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]

_LINE_FEED, _RETURN, _QUOTE, _COLON, _OPEN, _CLOSE, _LETTER_E = b'\n\r":{}e'
_LONGEST: Final = MAX_NDJSON_STRUCTURAL_SLOTS
"""No longer line has to be measured."""
_SHORTEST: Final = len("{}\r\n")
_FIRST: Final = np.zeros(1, np.int64)
_IS_BLANK: Final = np.isin(np.arange(256), list(b" \t\r"))
_IS_BEFORE_BLANK: Final = _IS_BLANK | (np.arange(256) == _QUOTE)
_REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NO_TYPE: Final = ""
_OWN_MEMBERS: Final = 2
"""Of each record, that are no columns: its type, and `data`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRecords:
    """The records of one type in a text."""

    item: NodeType | EdgeType
    at: Positions
    """In which line each stands, counted from 0."""
    rows: JsonRows

    @property
    def members(self) -> int:
        """Of all records and their data."""
        columns = self.rows.columns.values()
        full = self.rows.count * (_OWN_MEMBERS + len(columns))
        return full - sum(column.absent_count for column in columns)

    def members_by_row(self) -> Positions:
        """The same for each record."""
        columns = self.rows.columns.values()
        counts = np.full(self.rows.count, _OWN_MEMBERS + len(columns))
        for column in columns:
            counts -= column.absent()
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainText:
    """What a text of plain records holds."""

    lines: int
    records: Sequence[PlainRecords]


class PlainLines:
    """Reads texts of plain records against one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def read(self, text: bytes) -> PlainText | None:
        """The records of a text, or `None` where any of its lines is in doubt."""
        octets = np.frombuffer(text, np.uint8)
        starts = np.concatenate((_FIRST, np.flatnonzero(octets == _LINE_FEED) + 1))
        sizes = np.diff(starts, append=len(text) + 1)
        if sizes.max() > _LONGEST or sizes.min() < _SHORTEST or not _stand_apart(octets, starts):
            return None
        # The third octet tells `{"edge"` from all else.
        records = self._records(text, octets[starts + 2] == _LETTER_E)
        if records is None or not _has_each_member_once(text, octets, starts, records):
            return None
        return PlainText(lines=len(starts), records=records)

    def _records(self, text: bytes, may_be_edge: Mask) -> list[PlainRecords] | None:
        at = np.arange(len(may_be_edge))
        if may_be_edge.all():
            return self._edges.read(text, at)
        if not may_be_edge.any():
            # Edges of another order of members cost one line until they are known as such.
            return self._nodes.read(text, at) or self._edges.read(text, at)
        lines = text.split(b"\n")
        nodes = self._nodes.read(b"\n".join(compress(lines, ~may_be_edge)), at[~may_be_edge])
        if nodes is None:
            return None
        edges = self._edges.read(b"\n".join(compress(lines, may_be_edge)), at[may_be_edge])
        return None if edges is None else nodes + edges

    @cached_property
    def _nodes(self) -> _Records:
        return _Records("type", self._catalog.node_types.values())

    @cached_property
    def _edges(self) -> _Records:
        return _Records("edge", self._catalog.edge_types.values())


def _stand_apart(octets: Octets, starts: Positions) -> bool:
    """Whether each line feed follows a record that was closed and comes before an opened one."""
    before = octets[starts[1:] - 2]
    is_return = before == _RETURN
    if is_return.any():
        before = np.where(is_return, octets[starts[1:] - 3], before)
    return bool((before == _CLOSE).all() and (octets[starts[1:]] == _OPEN).all())


def _has_each_member_once(
    text: bytes, octets: Octets, starts: Positions, records: Sequence[PlainRecords]
) -> bool:
    """Whether no member stands twice; `found` are the records of all lines."""
    kept = sum(part.members for part in records)
    if np.count_nonzero(octets == _COLON) == kept:
        return True
    is_name = _may_end_name(octets)
    if np.count_nonzero(is_name) == kept:
        return True
    kept_in = np.zeros(len(starts), np.int64)
    for part in records:
        kept_in[part.at] = part.members_by_row()
    doubtful = np.flatnonzero(np.add.reduceat(is_name, starts, dtype=np.int64) != kept_in)
    ends = np.append(starts[1:], len(text) + 1) - 1
    try:
        return all(repeated_member(text[starts[line] : ends[line]]) is None for line in doubtful)
    except RecursionError:
        return False


def _may_end_name(octets: Octets) -> Mask:
    """Colons that follow a quote or blanks: those behind the name of a member, perhaps others."""
    is_name = np.zeros(len(octets), np.bool_)
    is_colon = octets[1:] == _COLON
    is_name[1:] = is_colon & (octets[:-1] == _QUOTE)
    rest = np.flatnonzero(is_colon & ~is_name[1:]) + 1
    is_name[rest] = _IS_BLANK[octets[rest - 1]] & _IS_BEFORE_BLANK[octets[rest - 2]]
    return is_name


class _Records:
    """Records of all types of one kind."""

    def __init__(self, member: str, items: Iterable[NodeType | EdgeType]) -> None:
        self._shapes = {shape.record: shape for shape in (_shape(member, item) for item in items)}
        # With a single type the parser would do without the member that names it.
        no_type = msgspec.defstruct("NoType", [], tag_field=member, tag=_NO_TYPE)
        kinds: Any = reduce(or_, self._shapes, no_type)  # Any: a union of types made here
        self._decode: Callable[[bytes], list[Any]] = msgspec.json.Decoder(kinds).decode_lines

    def read(self, text: bytes, at: Positions) -> list[PlainRecords] | None:
        """The records of some lines by type, members that stand twice among them."""
        try:
            records = self._decode(text)
        except _REFUSALS:
            return None
        if len(records) != len(at):
            return None
        records_by_type: list[PlainRecords] = []
        for kind, chosen, places in _by_kind(records, at):
            shape = self._shapes.get(kind)
            if shape is None:
                return None
            rows = JsonRows(count=len(chosen), columns=shape.columns(chosen))
            records_by_type.append(PlainRecords(item=shape.item, at=places, rows=rows))
        return records_by_type


def _by_kind(
    records: Sequence[object], at: Positions
) -> Iterator[tuple[type, Sequence[object], Positions]]:
    """The records of each type, with their lines."""
    if len(set(map(type, records))) == 1:
        yield type(records[0]), records, at
        return
    held: defaultdict[type, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        held[type(record)].append(place)
    for kind, places in held.items():
        yield kind, [records[place] for place in places], at[places]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How the records of one type are spelled."""

    item: NodeType | EdgeType
    record: type
    in_record: Sequence[_Read]
    in_data: Sequence[_Read]

    def columns(self, records: Sequence[Any]) -> dict[str, JsonValues]:
        data = list(map(_DATA, records))
        columns: dict[str, JsonValues] = {}
        for owners, reads in ((records, self.in_record), (data, self.in_data)):
            for read in reads:
                columns[read.column] = read.make(list(map(read.value, owners)))
        return columns


@dataclass(frozen=True, slots=True)
class _Read:
    """How the values of a column are found."""

    column: str
    value: attrgetter[object]
    make: Callable[[list[object]], JsonValues]


_DATA: Final = attrgetter("data")
_TEXTS: Final = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})


def _shape(member: str, item: NodeType | EdgeType) -> _Shape:
    ends = {"src": "from", "dst": "to"} if isinstance(item, EdgeType) else {}
    names = ["id", *item.properties]
    # Fields have names of their own: those of properties may be words of Python.
    data = msgspec.defstruct(
        "Data",
        [
            (f"p{at}", Any, msgspec.field(name=name, default=msgspec.UNSET))
            for at, name in enumerate(names)
        ],
        forbid_unknown_fields=True,
        gc=False,
    )
    record = msgspec.defstruct(
        "Record",
        [
            ("data", data),
            *((column, Any, msgspec.field(name=spelled)) for column, spelled in ends.items()),
        ],
        tag_field=member,
        tag=item.name,
        forbid_unknown_fields=True,
        gc=False,
    )
    return _Shape(
        item=item,
        record=record,
        in_record=[_Read(column, attrgetter(column), JsonValues.of_texts) for column in ends],
        in_data=[
            _Read(name, attrgetter(f"p{at}"), _maker(item, name)) for at, name in enumerate(names)
        ],
    )


def _maker(item: NodeType | EdgeType, name: str) -> Callable[[list[object]], JsonValues]:
    kind = item.properties[name].type if name in item.properties else STRING
    is_text = kind.scalar in _TEXTS and not kind.is_list
    return JsonValues.of_texts if is_text else JsonValues.of
