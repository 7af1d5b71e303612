"""Lines that are read many at once: the very rows, ids and findings of reading them one by one."""

import gc
import random  # noqa: TID251 - seeded

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.graph_texts import SCHEMA, line, text
from tests.property.profiles import quick

from omnigraph.clock import ManualClock
from omnigraph.errors import OmnigraphError
from omnigraph.graph.blobs.blob_values import BlobBudget
from omnigraph.graph.load.rows import RowReading
from omnigraph.graph.ndjson import reader as line_columns
from omnigraph.graph.ndjson.bulk_reader import PlainLines
from omnigraph.graph.ndjson.reader import LineColumnReader
from omnigraph.ids import seeded_ids
from omnigraph.lang import accept_schema, compile_schema

CATALOG = accept_schema(compile_schema(SCHEMA)).catalog
ALWAYS, NEVER = 0, 1 << 60


def outcome(content: bytes) -> object:
    """All that a load sees of a text, bit by bit, or the error."""
    ids = seeded_ids(1, ManualClock(now_us=1_000_000))
    try:
        rows = RowReading(catalog=CATALOG, ids=ids, blobs=BlobBudget()).read_lines(content)
    except OmnigraphError as error:
        return type(error), error.message, error.details
    tables = []
    for ref, each in rows.tables.items():
        assert each.lines is not None
        each.table.validate(full=True)
        # As text: zeros have signs.
        held = {name: repr(each.table[name].to_pylist()) for name in each.table.column_names}
        tables.append(
            (ref, each.table.schema, held, each.lines.to_pylist(), each.findings, each.respelled)
        )
    return tables, rows.findings, ids.next_ulid()


def require_same(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(line_columns, "_WORTH_BYTES", NEVER)
    strict = outcome(content)
    monkeypatch.setattr(line_columns, "_WORTH_BYTES", ALWAYS)
    assert outcome(content) == strict, content


@pytest.mark.parametrize("piece_bytes", [200, 2 << 20])
@quick(60)
@given(rng=st.randoms(use_true_random=False), lines=st.integers(1, 6))
def test_any_text_loads_as_if_read_line_by_line(
    piece_bytes: int, rng: random.Random, lines: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(line_columns, "_PIECE_BYTES", piece_bytes)
        require_same(monkeypatch, text(rng, lines))


@pytest.mark.parametrize(
    "texts",
    [
        150,
        pytest.param(500, marks=pytest.mark.extended),
        pytest.param(40_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_many_texts_load_as_if_read_line_by_line(
    monkeypatch: pytest.MonkeyPatch, texts: int
) -> None:
    rng = random.Random(texts)  # noqa: S311 - seeded
    taken = lines = 0
    for _ in range(texts):
        content = text(rng, rng.randint(1, 12))
        require_same(monkeypatch, content)
        lines += content.count(b"\n") + 1
        taken += PlainLines(CATALOG).read(content.removesuffix(b"\n")) is not None
    assert lines > texts * 6
    assert texts / 4 < taken < texts * 3 / 4


def test_ordinary_lines_are_never_left_to_the_strict_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(1)  # noqa: S311 - seeded
    lines = [line(rng, odd=0) for _ in range(2_000)]
    reader = LineColumnReader(CATALOG)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the strict reader was asked")

    monkeypatch.setattr(reader._strict, "read", refuse)
    for ending in (b"\n", b"\r\n"):
        parts = list(reader.read(ending.join(lines)))
        assert sum(part.rows.count for part in parts) == len(lines)
    assert reader.lines == 2 * len(lines)


def test_nesting_is_refused_at_the_same_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    # What listens to the collector would itself be nested too deeply.
    gc.disable()
    try:
        for depth in (*range(1, 20), *range(850, 1_010)):
            nested = b"[" * depth + b"]" * depth
            require_same(monkeypatch, b'{"type":"Person","data":{"name":"a","age":%b}}' % nested)
    finally:
        gc.enable()
