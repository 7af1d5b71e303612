"""The NDJSON graph format, read strictly: one node or one edge in each line that is not blank.

    {"type": "Person", "data": {"name": "Ada"}}
    {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": 1840}}

A line that is no record is a finding with its number, one for each line; the others become rows of
JSON values by column name. Nothing is guessed: a member twice, a member that the type does not
have, and a name that the system keeps for itself are refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from omnigraph.errors import ResourceLimit
from omnigraph.graph.validation import (
    REPORTED_VIOLATIONS,
    Code,
    EntityKind,
    Findings,
    Subject,
    Violation,
)
from omnigraph.graph.validation.findings import OF_EACH_KIND
from omnigraph.lang.catalog import EdgeType
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.values import describe_json
from omnigraph.limits import MAX_NDJSON_LINE_BYTES, MAX_NDJSON_STRUCTURAL_SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.lang.catalog import Catalog, NodeType

NODE_MEMBERS: Final = ("type", "data")
EDGE_MEMBERS: Final = ("edge", "from", "to", "data")
_ENDS: Final = {"from": "src", "to": "dst"}
_SYSTEM_NAMES: Final = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_distance",
        "_score",
    }
)
_MARK: Final = b"\xef\xbb\xbf"
# Possessive, and content without the closing quote: a long string, also a cut one, is passed once.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?')
_MEMBER_NAME: Final = re.compile(rb'"[ \t\r]*:')
_STRUCTURAL: Final = b"{}[],:"
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")


@dataclass(slots=True)
class TypeRecords:
    """Records of one type, as they stand in the input."""

    item: NodeType | EdgeType
    members: frozenset[str]
    """What `data` may hold."""
    rows: list[dict[str, object]] = field(default_factory=list)
    """JSON values by column name, the ends of an edge among them."""
    lines: list[int] = field(default_factory=list)


class GraphLineReader:
    """Sorts lines into records by type, and keeps what was wrong with the others."""

    def __init__(self, catalog: Catalog, *, limit: int = REPORTED_VIOLATIONS) -> None:
        self._catalog = catalog
        self._limit = limit
        self._nodes = {name: _records(item) for name, item in catalog.node_types.items()}
        self._edges = {name: _records(item) for name, item in catalog.edge_types.items()}
        self._decode = msgspec.json.Decoder().decode
        self._violations: list[Violation] = []
        self._counts: Counter[Code] = Counter()
        self._kinds: Counter[tuple[Code, EntityKind | None, str | None]] = Counter()

    @property
    def findings(self) -> Findings:
        """The lines that were no records; of many the first, and the first few of every kind."""
        return Findings(violations=tuple(self._violations), counts=dict(self._counts))

    def take(self) -> list[TypeRecords]:
        """The records read since the last call, nodes first, by name; without the empty types."""
        taken: list[TypeRecords] = []
        for held in (self._nodes, self._edges):
            for name in sorted(held):
                if held[name].rows:
                    taken.append(held[name])
                    held[name] = _records(held[name].item)
        return taken

    def read(self, lines: Iterable[bytes], *, first: int = 1) -> None:
        """Read lines that are numbered from `first` on; each is without its line feed.

        Raises:
            ResourceLimit: a line is too long, or would become too many objects.
        """
        decode, nodes, edges = self._decode, self._nodes, self._edges
        for number, line in enumerate(lines, first):
            if len(line) > MAX_NDJSON_STRUCTURAL_SLOTS:
                _require_size(line, number)
            try:
                record = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                if line.strip():
                    self._refuse(number, Code.JSON_ERROR, _why_malformed(line))
                continue
            # What most lines are, without a call; all else is looked at in `_look`.
            if type(record) is dict and type(data := record.get("data")) is dict:
                size = len(record)
                known = None
                if size == 2 and type(name := record.get("type")) is str:
                    known = nodes.get(name)
                elif (
                    size == 4
                    and "from" in record
                    and "to" in record
                    and type(name := record.get("edge")) is str
                ):
                    known = edges.get(name)
                if (
                    known is not None
                    and data.keys() <= known.members
                    and line.count(b":") == size + len(data)
                ):
                    if size == 4:
                        data["src"] = record["from"]
                        data["dst"] = record["to"]
                    known.rows.append(data)
                    known.lines.append(number)
                    continue
            self._look(number, line, record)

    def _look(self, number: int, line: bytes, record: object) -> None:
        """A line of a rarer shape: a record, or a finding."""
        if not isinstance(record, dict):
            self._refuse(number, Code.JSON_ERROR, f"{_A_RECORD}, not {describe_json(record)}")
            return
        data = record.get("data", {})
        members = len(record) + (len(data) if isinstance(data, dict) else 0)
        if len(_MEMBER_NAME.findall(line)) != members:
            try:
                repeated = repeated_member(line)
            except RecursionError:
                self._refuse(number, Code.JSON_ERROR, _TOO_DEEP)
                return
            if repeated is not None:
                self._refuse(number, Code.JSON_ERROR, _twice(repeated), member=repeated)
                return
        if ("type" in record) is ("edge" in record):
            has = "both" if "type" in record else "neither"
            self._refuse(number, Code.JSON_ERROR, f"{_A_RECORD}; this object has {has}")
            return
        if "type" in record:
            self._look_at(number, record, data, EntityKind.NODE, self._nodes)
        else:
            self._look_at(number, record, data, EntityKind.EDGE, self._edges)

    def _look_at(
        self,
        number: int,
        record: Mapping[str, object],
        data: object,
        kind: EntityKind,
        types: Mapping[str, TypeRecords],
    ) -> None:
        type_member, allowed = (
            ("type", NODE_MEMBERS) if kind is EntityKind.NODE else ("edge", EDGE_MEMBERS)
        )
        name = record[type_member]
        known = types.get(name) if isinstance(name, str) else None
        if known is None:
            self._refuse(
                number, Code.UNKNOWN_TYPE, _unknown_type(kind, name, sorted(types)), kind=kind
            )
            return
        for member in record:
            if member not in allowed:
                self._refuse_member(number, known, member, kind, where="the record")
                return
        if not isinstance(data, dict):
            text = f"`data` is an object with the properties, not {describe_json(data)}"
            self._refuse(number, Code.JSON_ERROR, text, kind=kind, type=known.item.name)
            return
        for member in data:
            if member not in known.members:
                self._refuse_member(number, known, member, kind, where="`data`")
                return
        ends = (
            {end: record[member] for member, end in _ENDS.items() if member in record}
            if kind is EntityKind.EDGE
            else {}
        )
        known.rows.append({**data, **ends})
        known.lines.append(number)

    def _refuse_member(
        self, number: int, known: TypeRecords, name: str, kind: EntityKind, *, where: str
    ) -> None:
        item = known.item
        is_end = _is_end(item, name)
        if where == "`data`" and is_reserved(item, name):
            remedy = "; the ends of an edge are `from` and `to` beside `data`" if is_end else ""
            code, text = (
                Code.RESERVED_MEMBER,
                f'"{name}" is a name that the system keeps for itself{remedy}',
            )
        elif where == "the record":
            allowed = EDGE_MEMBERS if kind is EntityKind.EDGE else NODE_MEMBERS
            inside = "; properties and the id go into `data`" if name in known.members else ""
            code, text = (
                Code.UNKNOWN_MEMBER,
                f'unknown member "{_cut(name)}" of the record, which has {", ".join(allowed)}'
                f"{inside}",
            )
        else:
            hint = did_you_mean(name, sorted(known.members), otherwise="it has")
            code, text = (
                Code.UNKNOWN_MEMBER,
                f"{item.name} has no property `{_cut(name)}`{hint}",
            )
        self._refuse(number, code, text, kind=kind, type=item.name, member=name)

    def _refuse(
        self,
        number: int,
        code: Code,
        message: str,
        *,
        kind: EntityKind | None = None,
        type: str | None = None,  # noqa: A002 - as the violation calls it
        member: str | None = None,
    ) -> None:
        self._counts[code] += 1
        self._kinds[code, kind, type] += 1
        is_rare = self._kinds[code, kind, type] <= OF_EACH_KIND
        if is_rare or len(self._violations) < self._limit:
            self._violations.append(
                Violation(
                    code=code,
                    message=message,
                    kind=kind,
                    type=type,
                    properties=() if member is None else (_cut(member),),
                    subject=Subject(input_line=number),
                )
            )


_TOO_DEEP: Final = "the line is nested too deeply"
_A_RECORD: Final = 'a line is an object with a "type" (a node) or an "edge"'


def is_reserved(item: NodeType | EdgeType, name: str) -> bool:
    """Whether the system keeps a name for itself, so that `data` cannot have it."""
    return _is_end(item, name) or name in _SYSTEM_NAMES


def _is_end(item: NodeType | EdgeType, name: str) -> bool:
    return isinstance(item, EdgeType) and name in {*_ENDS, *_ENDS.values()}


def _records(item: NodeType | EdgeType) -> TypeRecords:
    return TypeRecords(item, frozenset({"id", *item.properties}))


def _unknown_type(kind: EntityKind, name: object, known: Sequence[str]) -> str:
    member = "type" if kind is EntityKind.NODE else "edge"
    if not isinstance(name, str):
        return f"`{member}` is the name of a type, not {describe_json(name)}"
    hint = did_you_mean(name, known, otherwise="the schema has")
    return f"unknown {kind.value} type `{_cut(name)}`{hint}"


def _require_size(line: bytes, number: int) -> None:
    if len(line) > MAX_NDJSON_LINE_BYTES:
        raise ResourceLimit(
            f"line {number} has {len(line):,} bytes and may have {MAX_NDJSON_LINE_BYTES:,}; a"
            " value of that size is loaded as Arrow data, or as a Blob that lies outside the graph",
            resource="graph_batch_line_bytes",
            limit=MAX_NDJSON_LINE_BYTES,
            actual=len(line),
            input_line=number,
        )
    bare = _STRING.sub(b"", line)
    slots = len(bare) - len(bare.translate(None, _STRUCTURAL))
    if slots > MAX_NDJSON_STRUCTURAL_SLOTS:
        raise ResourceLimit(
            f"line {number} has {slots:,} brackets, commas and colons and may have"
            f" {MAX_NDJSON_STRUCTURAL_SLOTS:,}; split the record",
            resource="graph_batch_json_structural_slots",
            limit=MAX_NDJSON_STRUCTURAL_SLOTS,
            actual=slots,
            input_line=number,
        )


class _Repeated(Exception):
    """A member stands twice in one object."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def repeated_member(line: bytes) -> str | None:
    """The first member that an object of the line has twice."""

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    raise _Repeated(name)
                seen.add(name)
        return members

    try:
        # Numbers of any length are read by the other parser already.
        json.loads(line, object_pairs_hook=collect, parse_int=str)
    except _Repeated as repeated:
        return repeated.name
    return None


def decode_line(line: bytes) -> tuple[object, str | None]:
    """The JSON value of a line and nothing, or nothing and why it is none: as strict as a load."""
    try:
        value = msgspec.json.decode(line)
        repeated = repeated_member(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, _why_malformed(line)
    return (value, None) if repeated is None else (None, _twice(repeated))


def _twice(member: str) -> str:
    return f'duplicate member "{_cut(member)}"'


def _why_malformed(line: bytes) -> str:
    """What is wrong with a line that the fast parser refused, with the column where known."""
    if line.startswith(_MARK):
        return "the line begins with a byte order mark; save the file as plain UTF-8"
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start + 1} of the line"
    try:
        json.loads(text, parse_constant=_refuse_constant, parse_int=str)
    except json.JSONDecodeError as error:
        return f"malformed JSON at column {error.colno}: {error.msg}"
    except _Constant as constant:
        return f"{constant} is no JSON number; write a finite number or null"
    except RecursionError:
        return _TOO_DEEP
    surrogate = _lone_surrogate(text)
    if surrogate is not None:
        return f"malformed JSON at column {surrogate + 1}: a lone surrogate is no text"
    return "a number of the line is too large for any type"


def _lone_surrogate(text: str) -> int | None:
    """Where the first escape stands that is half a character; the text is JSON otherwise."""
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(text):
        unit = int(escape[1] or "0", 16)
        is_low = 0xDC00 <= unit < 0xE000
        if high is not None and not (is_low and high.end() == escape.start()):
            return high.start()
        if is_low and high is None:
            return escape.start()
        high = escape if 0xD800 <= unit < 0xDC00 else None
    return None if high is None else high.start()


class _Constant(Exception):
    """`NaN` or an infinity, which JSON does not have."""


def _refuse_constant(text: str) -> NoReturn:
    raise _Constant(text)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
