"""Texts of graph lines: plain ones of every property type, and all the ways to be otherwise."""

import json
import random  # noqa: TID251 - seeded
from collections.abc import Sequence

SCHEMA = """
node Person { name: String @key  age: I32?  src: String?  note: String? @default("none") }
node All {
  s: String?  b: Bool?  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?
  day: Date?  at: DateTime?  e: enum(a, b)?  v: Vector(2)?  blob: Blob?
  ss: [String]?  bs: [Bool]?  ls: [I64]?  ds: [F64]?  days: [Date]?  ats: [DateTime]?
}
node Day { day: Date @key  count: I32? @default(7) }
node Size { size: F64  unit: String  @key(size, unit) }
node Doc { text: String  vec: Vector(2) @embed("text") }
edge Knows: Person -> Person { since: I32? }
edge All: All -> Person { weight: F64  at: DateTime? }
edge On: Day -> Day
"""

_TEXTS = ["a", "b", "é😀", "", "Ada", "x: y", 'say "x": y', '}{"', "}\n{", "a : b", "\\", "\u2028"]
_DAYS = ["2024-02-29", "0001-01-01", "9999-12-31"]
_MOMENTS = ["2024-01-01T00:00:00Z", "2024-01-01T10:11:12.123Z", "2024-01-01 10:11:12.5Z"]
_WHOLE = ["0", "7", "-7", "2147483647", "2147483648", "9223372036854775807", "18446744073709551615"]
_FLOATS = ["0.5", "-0.0", "-0", "1e3", "1E+2", "3", "0.1", "1e-46", "3.5e38", "9007199254740993"]
PLAIN: dict[str, Sequence[str]] = {
    "text": [json.dumps(each, ensure_ascii=False) for each in _TEXTS] + [r'"\u0061\ud83d\ude00"'],
    "bool": ["true", "false"],
    "whole": _WHOLE,
    "float": _FLOATS,
    "day": [json.dumps(each) for each in _DAYS],
    "at": [json.dumps(each) for each in _MOMENTS],
    "enum": ['"a"', '"b"', '"c"'],
    "vector": ["[1,2]", "[0.5,-0.0]", "[ 1 , 1e3 ]"],
    "blob": ['"base64:AAEC"', '"base64:"'],
    "texts": ["[]", '["a"]', '["a", null, "b:c"]'],
    "bools": ["[true]"],
    "wholes": ["[1,2,3]", "[null]"],
    "floats": ["[1,2.5,-0.0]"],
    "days": ['["2024-02-29",null]'],
    "ats": ['["2024-01-01T00:00:00Z"]'],
}
ODD_VALUES = (
    *("null", "1.0", "1e400", "01", "NaN", "-Infinity", "tru", "", "9" * 60, "-" + "9" * 400),
    *('"7"', '"-007"', '"2024-13-01"', '"2024-01-01T24:00:00Z"', '"2024-01-01T10Z"', "19723"),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\x"', '"base64:%"', '"\t"', '"a', "{}", '{"a":1}'),
    *('{"a":1,"a":2}', '{"a":{"b":[{"c":1}]}}', "[", "[[1]]", '["a"', "[1,", "true", "5e-324"),
    *(rf'"{name}":1' for name in ("name", "type", "data", "nobody")),
)
KINDS = {
    "Person": {"name": "text", "age": "whole", "src": "text", "note": "text", "id": "text"},
    "All": {
        "id": "text",
        "s": "text",
        "b": "bool",
        **dict.fromkeys("ilwu", "whole"),
        **dict.fromkeys("fd", "float"),
        "day": "day",
        "at": "at",
        "e": "enum",
        "v": "vector",
        "blob": "blob",
        "ss": "texts",
        "bs": "bools",
        "ls": "wholes",
        "ds": "floats",
        "days": "days",
        "ats": "ats",
    },
    "Day": {"day": "day", "count": "whole", "id": "day"},
    "Size": {"size": "float", "unit": "text", "id": "text"},
    "Doc": {"text": "text", "vec": "vector"},
}
EDGE_KINDS = {
    "Knows": {"since": "whole", "id": "text"},
    "All": {"weight": "float", "at": "at"},
    "On": {"id": "day"},
}
NAMES = ("x", "src", "from", "_rowid", "na\\u006de", "data", "type", "", "é", "a:b")
BYTES = (
    *(b"\r", b" ", b"\t", b"\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\\", b'"', b"{", b"}"),
    *(b":", b",", b"[", b"]", b"}{", b"} {", b"}\n{", b",\n", b"\n\n", b'"name":"x",', b'"id":1,'),
)


def spelled(rng: random.Random, members: Sequence[tuple[str, str]], *, odd: float) -> str:
    """An object, sometimes with blanks, names in escapes, members twice or others."""
    found = list(members)
    if rng.random() < odd:
        rng.shuffle(found)
    if found and rng.random() < odd:
        found.insert(rng.randrange(len(found) + 1), rng.choice(found))
    if rng.random() < odd:
        found.insert(rng.randrange(len(found) + 1), (rng.choice(NAMES), rng.choice(ODD_VALUES)))
    colon, comma = rng.choice(((":", ","), (":", ","), (": ", ", "), (" : ", " , "), ("\t :", ",")))
    return "{" + comma.join(f'"{name}"{colon}{value}' for name, value in found) + "}"


def line(rng: random.Random, *, odd: float) -> bytes:
    """One record; `odd` is how often it is anything but plain, in each of many ways."""
    is_edge = rng.random() < 0.4
    kinds = EDGE_KINDS if is_edge else KINDS
    name = rng.choice(sorted(kinds))
    data = [
        (each, rng.choice(ODD_VALUES if rng.random() < odd else PLAIN[kind]))
        for each, kind in kinds[name].items()
        if rng.random() < (0.2 if each == "id" else 0.7)
    ]
    if rng.random() < odd:
        name = rng.choice(("Nobody", "", "Pers\\u006fn", name.lower()))
    members = [("edge" if is_edge else "type", f'"{name}"')]
    if is_edge:
        members += [(end, rng.choice(PLAIN["text"])) for end in ("from", "to")]
    members.append(("data", spelled(rng, data, odd=odd)))
    if rng.random() < odd:
        del members[rng.randrange(len(members))]
    if rng.random() < odd:
        at = rng.randrange(len(members))
        members[at] = (members[at][0], rng.choice(ODD_VALUES))
    made = bytearray(spelled(rng, members, odd=odd / 2).encode())
    for _ in range(rng.randrange(1, 3) if rng.random() < odd else 0):
        at = rng.randrange(len(made) + 1)
        made[at : at + rng.randrange(2)] = rng.choice(BYTES)
    return bytes(made)


def text(rng: random.Random, lines: int) -> bytes:
    """Some lines, in most texts all plain or but for one."""
    odd = rng.choice((0.0, 0.0, 0.02, 0.1))
    made = [line(rng, odd=odd) for _ in range(lines)]
    if rng.random() < 0.2:
        made.insert(rng.randrange(len(made) + 1), rng.choice((b"", b" ", b"\r", b"{}", b"null")))
    between = rng.choice((b"\n", b"\n", b"\n", b"\r\n"))
    return between.join(made) + rng.choice((b"", b"", b"\n", b"\r\n", b"\n\n"))
