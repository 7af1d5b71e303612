"""When two forms of an entity are equal: value by value, by type, blobs by their bytes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import committed, quick

from omnigraph import Graph
from omnigraph.graph.changes import row_pairs
from omnigraph.graph.changes.row_pairs import equal_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from omnigraph.graph.changes.entity_change import EntityChange

SCHEMA = """
node Every {
  name: String @key
  b: Bool?  i: I32?  n: U64?  f: F32?  g: F64?  s: String?  d: Date?  t: DateTime?
  v: Vector(2)?  l: [String]?  r: [F64]?  e: enum(one, two)?  x: Blob?  y: Blob?
}
"""
BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
OUT = "outside:"
"""How a case writes an address outside the graph."""

# Property, value before, value after.
DIFFERENT = [
    ("s", None, ""),
    ("s", "", None),
    ("s", "é", "e\u0301"),
    ("s", "a", "A"),
    ("b", None, False),
    ("i", None, 0),
    ("i", 0, 1),
    ("n", 2**64 - 1, 2**64 - 2),
    ("f", 0.5, 0.25),
    ("g", 0.1, 0.1 + 2**-55),
    ("d", date(1970, 1, 1), None),
    ("t", NOON, NOON.replace(microsecond=1_000)),
    ("v", [1.0, 2.0], [2.0, 1.0]),
    ("v", None, [0.0, 1.0]),
    ("l", None, []),
    ("l", [], [""]),
    ("l", ["a", "b"], ["b", "a"]),
    ("l", ["a"], ["a", "a"]),
    ("l", ["ab", "c"], ["a", "bc"]),
    ("r", [0.0], [1.0]),
    ("e", "one", "two"),
    ("x", b"ab", b"ba"),
    ("x", b"ab", b"abc"),
    ("x", None, b""),
    ("x", b"", None),
    ("x", b"", b"a"),
    ("x", b"a", None),
    ("x", OUT + "a", OUT + "b"),
    ("x", OUT + "a", None),
    ("x", OUT + "a", b""),
    ("x", b"same", OUT + "a"),
]
EQUAL = [
    *((name, None, None) for name in ("s", "i", "g", "v", "l", "x")),
    ("s", "", ""),
    ("b", False, False),
    ("n", 2**64 - 1, 2**64 - 1),
    ("f", 0.0, -0.0),
    ("g", -0.0, 0.0),
    ("d", date(1, 1, 1), date(1, 1, 1)),
    ("t", NOON, NOON),
    ("v", [0.0, 1.0], [-0.0, 1.0]),
    ("l", [], []),
    ("l", ["a", ""], ["a", ""]),
    ("r", [0.0, 1.5], [-0.0, 1.5]),
    ("e", "one", "one"),
    ("x", b"", b""),
    ("x", b"\x00ab", b"\x00ab"),
    ("x", b"piece" * 20_000, b"piece" * 20_000),
    ("x", OUT + "a", OUT + "a"),
]
Case = tuple[str, Any, Any]  # Any: a value of any type


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EntityChange]]:
    """What a diff finds when every case is one entity, by its id."""
    folder = tmp_path_factory.mktemp("equality")
    for name in "ab":
        (folder / name).write_bytes(b"same")
    opened = Graph.init(
        folder / "g", schema=SCHEMA, external_blobs=[folder.as_uri()], settings=quick()
    )
    with opened as graph:
        commits = []
        for side in (1, 2):
            with graph.write() as writer:
                given = [_row(number, case, side) for number, case in enumerate(_cases())]
                writer.upsert("Every", _arrow(graph, given, folder))
                commits.append(committed(writer.commit()).graph_commit_id)
        yield {change.id: change for change in graph.diff(*commits)}


def _cases() -> list[Case]:
    return [*DIFFERENT, *EQUAL]


def _row(number: int, case: Case, side: int) -> dict[str, object]:
    return {"name": str(number), case[0]: case[side], "y": b"kept"}


def _arrow(graph: Graph, given: list[dict[str, object]], folder: Path) -> pa.Table:
    columns = {}
    for field in graph.snapshot().type("Every").arrow_schema:
        values = [row.get(field.name) for row in given]
        if field.name in ("x", "y"):
            columns[field.name] = pa.array([_blob(value, folder) for value in values], BLOB)
        elif field.name != "id":
            columns[field.name] = pa.array(values, field.type)
    return pa.table(columns)


def _blob(value: object, folder: Path) -> Mapping[str, object] | None:
    if isinstance(value, str):
        return {"data": None, "uri": (folder / value.removeprefix(OUT)).as_uri()}
    return None if value is None else {"data": value, "uri": None}


def _numbered(cases: list[Case], start: int = 0) -> list[Any]:  # Any: pytest has no name for it
    return [
        pytest.param(str(at), case[0], id=f"{case[0]} {str(case[1:])[:40]}")
        for at, case in enumerate(cases, start)
    ]


@pytest.mark.parametrize(("number", "name"), _numbered(DIFFERENT))
def test_a_value_that_differs_is_an_update_with_both_forms(
    found: dict[str, EntityChange], number: str, name: str
) -> None:
    change = found[number]
    assert change.op == "update"
    assert change.before is not None
    assert change.after is not None
    before, after = change.before.properties, change.after.properties
    assert [each for each in before if before[each] != after[each]] == [name]


@pytest.mark.parametrize(("number", "name"), _numbered(EQUAL, len(DIFFERENT)))
def test_an_equal_value_that_was_written_again_is_no_change(
    found: dict[str, EntityChange], number: str, name: str
) -> None:
    assert number not in found, name


def test_images_have_the_values_in_the_form_of_results(found: dict[str, EntityChange]) -> None:
    def shown(number: int) -> tuple[object, object]:
        change, name = found[str(number)], DIFFERENT[number][0]
        assert change.before is not None
        assert change.after is not None
        return change.before.properties[name], change.after.properties[name]

    assert shown(0) == (None, "")
    assert shown(DIFFERENT.index(("n", 2**64 - 1, 2**64 - 2))) == (2**64 - 1, 2**64 - 2)
    assert shown(DIFFERENT.index(("d", date(1970, 1, 1), None))) == ("1970-01-01", None)
    assert shown(DIFFERENT.index(("v", None, [0.0, 1.0]))) == (None, [0.0, 1.0])
    assert shown(DIFFERENT.index(("x", b"ab", b"ba"))) == ("base64:YWI=", "base64:YmE=")
    assert shown(DIFFERENT.index(("x", None, b""))) == (None, "base64:")
    _, address = shown(DIFFERENT.index(("x", b"same", OUT + "a")))
    assert str(address).startswith("file://")


def test_an_image_has_every_property_once_and_the_untouched_blob_too(
    found: dict[str, EntityChange],
) -> None:
    image = found["0"].after
    assert image is not None
    names = ["name", "b", "i", "n", "f", "g", "s", "d", "t", "v", "l", "r", "e", "x", "y"]
    assert list(image.properties) == names
    assert image.properties["y"] == "base64:a2VwdA=="
    assert image.endpoints is None


def test_blobs_longer_than_a_piece_are_compared_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pairs, "_PIECE_BYTES", 4)
    with Graph.init(
        tmp_path / "g", schema="node F { name: String @key  x: Blob? }", settings=quick()
    ) as graph:
        for ends in ((b"1", b"1"), (b"1", b"2")):
            with graph.write() as writer:
                content = pa.array([b"12345678" + end for end in ends], pa.large_binary())
                writer.upsert("F", pa.table({"name": ["a", "b"], "x": content}))
                last = committed(writer.commit()).graph_commit_id
        assert [change.id for change in graph.commits.changes(last)] == ["b"]


# --- columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "pairs", "expected"),
    [
        (
            pa.string(),
            [(None, ""), ("", ""), (None, None), ("a", None), ("a", "a")],
            [0, 1, 1, 0, 1],
        ),
        (pa.float64(), [(0.0, -0.0), (None, 0.0), (1.0, 2.0)], [1, 0, 0]),
        (
            pa.list_(pa.float32()),
            [([0.0], [-0.0]), ([], None), ([], []), ([1], [1, 1])],
            [1, 0, 1, 0],
        ),
        (
            pa.list_(pa.float32(), 2),
            [([0, 1], [-0.0, 1]), (None, None), (None, [0, 0]), ([1, 2], [1, 3]), ([1, 2], [1, 2])],
            [1, 1, 0, 0, 1],
        ),
        (pa.list_(pa.float32(), 2), [(None, None), (None, None)], [1, 1]),
        (pa.int64(), [], []),
    ],
)
def test_null_equals_null_only_and_the_sign_of_zero_does_not_count(
    kind: pa.DataType, pairs: list[tuple[object, object]], expected: list[int]
) -> None:
    one, other = (pa.array([pair[side] for pair in pairs], kind) for side in (0, 1))
    assert equal_values(one, other).tolist() == [bool(each) for each in expected]


def test_a_slice_of_vectors_is_compared_at_its_own_place() -> None:
    whole = pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.float32(), 2))
    same = pa.array([None, [3, 4], [5, 7]], pa.list_(pa.float32(), 2))
    assert equal_values(whole.slice(1), same).tolist() == [True, True, False]
