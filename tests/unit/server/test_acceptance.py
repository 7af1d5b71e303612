"""The form of rows is the one that the client says it prefers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.server.acceptance import preferred
from omnigraph.server.rows import ARROW_STREAM, JSON, MEDIA_TYPES, NDJSON

if TYPE_CHECKING:
    import httpx

ALL = {"query": "query all() { match { $p: Person } return { $p.name } }"}


@pytest.mark.parametrize(
    ("accepted", "form"),
    [
        ([], JSON),
        ([""], JSON),
        (["*/*"], JSON),
        (["application/*"], JSON),
        (["text/html"], JSON),
        ([f"{ARROW_STREAM}, application/json"], ARROW_STREAM),
        ([f"application/json, {ARROW_STREAM}"], JSON),
        ([f"{ARROW_STREAM};q=0, {NDJSON}"], NDJSON),
        ([f"{ARROW_STREAM};q=0.1, application/json;q=0.9"], JSON),
        ([f"{ARROW_STREAM};q=0.1", f"{NDJSON}; Q = 0.2"], NDJSON),
        ([f"*/*, {ARROW_STREAM}"], ARROW_STREAM),
        (["application/json;q=0, */*"], NDJSON),
        (["application/json;q=0.1, application/*;q=0.5"], NDJSON),
        (["application/json;charset=utf-8;q=0.3, application/x-ndjson;q=0.30"], JSON),
        (["*/*;q=0"], JSON),
        ([f"{ARROW_STREAM};q=2, {NDJSON};q=x, application/json;q=0.1"], JSON),
        ([f"*/json, {NDJSON}"], NDJSON),
        (["APPLICATION/X-NDJSON"], NDJSON),
        ([", ,;q=1,/,application/"], JSON),
    ],
)
def test_the_highest_quality_wins_and_none_excludes(accepted: list[str], form: str) -> None:
    assert preferred(accepted, MEDIA_TYPES) == form


def test_rows_come_in_the_preferred_form(http: httpx.Client) -> None:
    accepted = f"{ARROW_STREAM};q=0, application/json;q=0.5, {NDJSON};q=0.8"
    answer = http.post("/graphs/default/query", json=ALL, headers={"Accept": accepted})
    assert answer.headers["Content-Type"].startswith(NDJSON)
