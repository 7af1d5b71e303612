"""The load format against slow readers of it: the same records, and the same values of columns."""

import json
import random  # noqa: TID251 - seeded
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.profiles import many, quick

from omnigraph.graph.ndjson.strict_reader import GraphLineReader
from omnigraph.graph.validation import Code
from omnigraph.graph.validation.json_columns import JsonValues, fit_json_column
from omnigraph.lang import compile_schema
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import UnfitValue, read_json

# --- values of a column -----------------------------------------------------------------------

EDGES = [
    *(0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, 2**53, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, 10**400),
    *(-719_162, -719_163, 2_932_896, 2_932_897, -62_135_596_800_000, 253_402_300_799_999),
    *(-62_135_596_800_001, 253_402_300_800_000, 2**54 + 2**30 + 1, 16_777_217),
    *(0.0, -0.0, 0.5, 1e-46, -1e-46, 1e-45, 3.4028234e38, 3.4028235677973366e38, 3.5e38, -1e300),
    *(5e-324, 1.0, 16_777_217.0, 0.1),
]
TEXTS = [
    *(
        "",
        "a",
        "é",
        "7",
        "-7",
        "007",
        "+7",
        "7.0",
        "1e3",
        " 7",
        "9" * 41,
        str(2**63),
        str(-(2**63)),
    ),
    *(
        "0001-01-01",
        "9999-12-31",
        "0000-01-01",
        "2024-02-29",
        "2023-02-29",
        "2024-1-1",
        "10000-01-01",
    ),
    *("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.1239Z"),
    *("2024-01-01 10:11:12", "2024-01-01T10:11:12+05:30", "0001-01-01T00:00:00+00:01"),
    *("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-00:01", "2024-01-01T24:00:00Z"),
    *(
        "2024-01-01T00:00:60Z",
        "2024-01-01T00:00:00z",
        "2024-01-01\n",
        "true",
        "null",
        "base64:AA==",
    ),
]
DIGITS = st.integers(-2, 10_001)
DATES = st.builds(
    lambda y, m, d: f"{y:04}-{m:02}-{d:02}", DIGITS, st.integers(0, 13), st.integers(0, 32)
)
MOMENTS = st.builds(
    lambda day, mark, h, m, s, part, zone: f"{day}{mark}{h:02}:{m:02}:{s:02}{part}{zone}",
    DATES,
    st.sampled_from(["T", " ", "t", ""]),
    st.integers(0, 25),
    st.integers(0, 61),
    st.integers(0, 61),
    st.sampled_from(["", ".1", ".12", ".123", ".1234", ".", ".000"]),
    st.sampled_from(["Z", "", "+01:00", "-23:59", "+24:00", "z", "Z "]),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(EDGES),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(TEXTS),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    DATES,
    MOMENTS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=6,
)
PLAIN: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(2**31), 2**31 - 1),
    Scalar.I64: st.integers(-(2**63), 2**63 - 1),
    Scalar.U32: st.integers(0, 2**32 - 1),
    Scalar.U64: st.integers(0, 2**64 - 1),
    Scalar.F32: st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60),
    Scalar.DATE: st.dates().map(str),
    Scalar.DATETIME: st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z"),
}
"""What most columns hold: these are converted as a whole."""


@st.composite
def columns(draw: st.DrawFn) -> tuple[PropType, list[object]]:
    """A type, and values of which most, some or none are of it."""
    scalar = draw(st.sampled_from(sorted(PLAIN)))
    shape = draw(st.sampled_from(["one", "one", "list", "vector", "enum"]))
    plain: st.SearchStrategy[Any] = PLAIN[scalar]
    if shape == "vector":
        kind = PropType(scalar=Scalar.VECTOR, vector_dim=3)
        part = st.sampled_from([each for each in EDGES if abs(each) < 2**70]) | st.floats(-9, 9)
        plain = st.lists(part, min_size=3, max_size=3)
    elif shape == "list":
        kind = PropType(scalar=scalar, is_list=True)
        plain = st.lists(st.none() | plain, max_size=4)
    elif shape == "enum":
        kind = PropType(scalar=Scalar.STRING, enum_values=("a", "b"))
        plain = st.sampled_from(["a", "b", "c", ""])
    else:
        kind = PropType(scalar=scalar)
    item = st.none() | plain
    if draw(st.booleans()):
        item |= VALUES
    if shape == "list" and draw(st.booleans()):
        item |= st.lists(SCALARS, max_size=3)
    return kind, draw(st.lists(item, max_size=6))


def expected(value: object, kind: PropType) -> tuple[object, str | None]:
    """What the one reader of JSON values makes of it, bit by bit, or why it does not."""
    if value is None:
        return None, None
    if kind.enum_values is not None and isinstance(value, str):
        return value, None
    try:
        return _bits(read_json(value, kind, epoch_numbers=True), kind), None
    except UnfitValue as error:
        return None, str(error)


def _bits(value: object, kind: PropType) -> object:
    """The value with floats as their bytes: zeros have signs."""
    if isinstance(value, list):
        return [_bits(each, kind) for each in value]
    if isinstance(value, float):
        return struct.pack("<d" if kind.scalar is Scalar.F64 else "<f", value)
    return value


def stored(kind: PropType, values: list[object]) -> tuple[list[object], dict[int, str]]:
    """What the column holds, bit by bit, and why some of it is null."""
    found = fit_json_column(JsonValues.of(values), kind)
    column = found.fitted.values
    column.validate(full=True)
    assert [bool(each) for each in found.fitted.unfit] == [
        at in found.reasons for at in range(len(values))
    ]
    listed = column.to_pylist() if not _is_time(kind) else _numbers(kind, column)
    return [_bits(each, kind) for each in listed], dict(found.reasons)


def _is_time(kind: PropType) -> bool:
    return kind.scalar in (Scalar.DATE, Scalar.DATETIME)


def _numbers(kind: PropType, column: Any) -> list[object]:  # noqa: ANN401 - any Arrow column
    """Days and milliseconds as Arrow holds them."""
    width = "int32" if kind.scalar is Scalar.DATE else "int64"
    if not kind.is_list:
        return list(column.view(width).to_pylist())
    return [None if not each.is_valid else each.values.view(width).to_pylist() for each in column]


def require_same_column(given: tuple[PropType, list[object]]) -> None:
    kind, values = given
    wanted = [expected(value, kind) for value in values]
    held, reasons = stored(kind, values)
    assert held == [value for value, _ in wanted]
    assert reasons == {at: why for at, (_, why) in enumerate(wanted) if why is not None}


@quick(150)
@example((PropType(scalar=Scalar.F64), [2**53 + 1, 0.5]))
@example((PropType(scalar=Scalar.F32), [-0.0, 1, None]))
@example((PropType(scalar=Scalar.DATETIME), ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.1Z"]))
@given(columns())
def test_a_column_holds_what_its_values_hold_one_by_one(
    given: tuple[PropType, list[object]],
) -> None:
    require_same_column(given)


@many
@given(columns())
def test_a_column_holds_what_its_values_hold_one_by_one_many_times(
    given: tuple[PropType, list[object]],
) -> None:
    require_same_column(given)


@pytest.mark.parametrize("scalar", sorted(PLAIN))
def test_every_value_of_the_pools_fits_alike_alone_and_among_plain_ones(scalar: Scalar) -> None:
    for kind in (PropType(scalar=scalar), PropType(scalar=scalar, is_list=True)):
        pool: list[object] = [*EDGES, *TEXTS, None, True, [], {}]
        for value in pool:
            given = [value] if kind.is_list else value
            require_same_column((kind, [given]))
            require_same_column((kind, [given, None, given]))
            require_same_column((kind, [given, "x"]))


# --- lines ------------------------------------------------------------------------------------

SCHEMA = """
node Person { name: String @key  age: I32?  src: String? }
edge Knows: Person -> Person { since: I32? }
"""
CATALOG = compile_schema(SCHEMA)
NODE_NAMES, EDGE_NAMES = {"id", "name", "age", "src"}, {"id", "since"}
RESERVED = {"_rowid", "_rowaddr", "_rowoffset", "_distance", "_score"} | {
    "_row_created_at_version",
    "_row_last_updated_at_version",
}


class _Broken(Exception):
    """No JSON in the strict sense."""


def judged(line: bytes) -> set[Code]:
    """Every code that a line deserves; none for a record, and for a blank line."""
    if not line.strip():
        return set()
    repeated: list[str] = []

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in found]
        repeated.extend(name for name in names if names.count(name) > 1)
        return dict(found)

    def constant(text: str) -> object:
        raise _Broken(text)

    def floating(text: str) -> float:
        if abs(float(text)) == float("inf"):
            raise _Broken(text)
        return float(text)

    try:
        text = line.decode()
        record = json.loads(
            text, object_pairs_hook=pairs, parse_constant=constant, parse_float=floating
        )
        json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, _Broken):
        return {Code.JSON_ERROR}
    codes = {Code.JSON_ERROR} if repeated else set()
    return codes | _judged_record(record)


def _judged_record(record: object) -> set[Code]:
    if not isinstance(record, dict) or ("type" in record) == ("edge" in record):
        return {Code.JSON_ERROR}
    is_node = "type" in record
    codes: set[Code] = set()
    if record["type" if is_node else "edge"] != ("Person" if is_node else "Knows"):
        codes.add(Code.UNKNOWN_TYPE)
    if record.keys() - ({"type", "data"} if is_node else {"edge", "from", "to", "data"}):
        codes.add(Code.UNKNOWN_MEMBER)
    data = record.get("data", {})
    if not isinstance(data, dict):
        return codes | {Code.JSON_ERROR}
    for name in data.keys() - (NODE_NAMES if is_node else EDGE_NAMES):
        ends = set() if is_node else {"src", "dst", "from", "to"}
        codes.add(Code.RESERVED_MEMBER if name in RESERVED | ends else Code.UNKNOWN_MEMBER)
    return codes


def require_judged(lines: list[bytes]) -> None:
    reader = GraphLineReader(CATALOG, limit=len(lines))
    reader.read(lines)
    found = {each.subject.input_line: each.code for each in reader.findings.violations}
    assert len(found) == reader.findings.total
    rows = {
        number: row
        for each in reader.take()
        for number, row in zip(each.lines, each.rows, strict=True)
    }
    for number, line in enumerate(lines, 1):
        codes = judged(line)
        if codes:
            assert found.get(number) in codes, line
            assert number not in rows, line
            continue
        assert number not in found, line
        assert (number in rows) is bool(line.strip()), line
        if number in rows:
            record = json.loads(line)
            ends = {} if "type" in record else {"src": record.get("from"), "dst": record.get("to")}
            assert rows[number] == record.get("data", {}) | ends


SEEDS = (
    b'{"type":"Person","data":{"name":"a:\\"b\\u00e9\\ud83d\\ude00","age":-1}}',
    b'{ "type" : "Person" , "data" : { "age" : 1.5e3 , "src" : "s" } }',
    b'{"edge":"Knows","from":"a","to":"\xc3\xa9","data":{"since":3,"id":"e"}}',
    b'{"edge":"Knows","from":"a","to":null,"data":{}}',
    b'{"type":"Person"}',
    b'{"type":"Person","data":{"name":"a","age":[{"b":{}}]}}',
)
PIECES = (
    *(
        b'"name":"x",',
        b'"age":1,',
        b'"src":"s",',
        b'"data":{},',
        b'"type":"Person",',
        b'"_rowid":1,',
    ),
    *(b'"n\\u0061me":1,', b'"edge":"Knows",', b'"from":"a",', b'"x":{"y":1,"y":2},', b'"":0,'),
    *(
        b"\\u0061",
        b"\\ud800",
        b"NaN",
        b"1e400",
        b"null",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\r",
        b"\\",
        b'"',
    ),
    *(b":", b",", b"{", b"}", b"[", b"]", b" ", b"\t", b"-", b"0", b"\x00"),
)


def bent(rng: random.Random) -> bytes:
    """A record with up to three changes, often of a kind that keeps it JSON."""
    line = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(line) + 1)
        match rng.randrange(4):
            case 0:
                del line[at : at + rng.randint(1, 2)]
            case 1:
                line[at:at] = rng.choice(PIECES)
            case _:
                # After an opening brace, where a member may stand.
                braces = [place for place, byte in enumerate(line) if byte == ord("{")]
                if braces:
                    place = rng.choice(braces) + 1
                    line[place:place] = rng.choice(PIECES[:11])
    return bytes(line)


@pytest.mark.parametrize(
    "lines", [20_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_lines_are_judged_as_by_a_slow_reader(lines: int) -> None:
    rng = random.Random(lines)  # noqa: S311 - seeded
    made = [bent(rng) for _ in range(lines)]
    require_judged(made)
    kinds = [codes for line in made[:20_000] if len(codes := judged(line)) == 1]
    reached = {code for codes in kinds for code in codes}
    assert reached == {
        Code.JSON_ERROR,
        Code.UNKNOWN_TYPE,
        Code.UNKNOWN_MEMBER,
        Code.RESERVED_MEMBER,
    }
    assert sum(not judged(line) for line in made[:2_000]) > 200
