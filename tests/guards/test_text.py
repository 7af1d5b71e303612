"""Full-text search: one analyzer, right answers without training, and where Lance differs."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.query import MatchQuery, PhraseQuery
from tests.guards.lance_tables import (
    SCHEMA,
    TEXT_ANALYZER,
    IndexSpec,
    commit,
    create_table,
    inverted,
    matching,
    rows,
    search,
    stage_append,
    stage_index,
)

DOCUMENTS = {
    "a": "The Running Wolf, café",
    "b": "wolf-like runs",
    "c": "Big Bad Wolf",
    "n": None,
}


def _documents(path: Path) -> LanceDataset:
    columns = {"id": list(DOCUMENTS), "body": list(DOCUMENTS.values()), "rank": [0] * 4}
    return create_table(path, pa.table(columns, schema=SCHEMA))


def _indexed(path: Path, *, train: bool = True) -> LanceDataset:
    table = _documents(path)
    return commit(table, stage_index(table, [inverted("body", "ix_body", train=train)]))


def test_lance_guard_without_an_index_search_is_case_sensitive_and_does_not_stem(
    tmp_path: Path,
) -> None:
    """Why: such answers are wrong, so a property without an index is indexed in memory first."""
    table = _documents(tmp_path / "t")
    assert search(table, "wolf") == ["b"]
    assert search(table, "Wolf") == ["a", "c"]
    assert search(table, "run") == []


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("wolf", ["a", "b", "c"]),
        ("WOLF", ["a", "b", "c"]),
        ("run", ["a", "b"]),
        ("cafe", ["a"]),
        ("like", ["b"]),
        ("bad bear", ["c"]),
        ("the", []),
        ("", []),
    ],
)
def test_lance_guard_trained_or_not_an_index_gives_its_analyzer_to_every_row(
    tmp_path: Path, words: str, found: list[str], *, train: bool
) -> None:
    """Why: an index is registered untrained and training is never a condition for right answers."""
    assert search(_indexed(tmp_path / "t", train=train), words) == found


@pytest.mark.parametrize("train", [False, True])
def test_lance_guard_phrases_work_trained_or_not(tmp_path: Path, *, train: bool) -> None:
    """Why: `match_text` relies on positions, also for rows that are not covered."""
    table = _indexed(tmp_path / "t", train=train)
    table = commit(table, stage_append(table, rows("d", body="a bad wolf den")))
    assert matching(table, PhraseQuery("bad wolf", "body")) == ["c", "d"]
    assert matching(table, PhraseQuery("wolf bad", "body")) == []


def test_lance_guard_phrases_need_positions(tmp_path: Path) -> None:
    """Why: every text index is built with them."""
    table = _documents(tmp_path / "t")
    without = {**TEXT_ANALYZER, "with_position": False}
    table = commit(table, stage_index(table, [IndexSpec("body", "INVERTED", "ix", without)]))
    with pytest.raises(ValueError, match="position is not found"):
        matching(table, PhraseQuery("bad wolf", "body"))


def test_lance_guard_fuzzy_neither_lowers_nor_stems_its_query(tmp_path: Path) -> None:
    """Why: `fuzzy` is computed by the engine, not by Lance."""
    table = _indexed(tmp_path / "t")
    assert matching(table, MatchQuery("wolv", "body", fuzziness=1)) == ["a", "b", "c"]
    assert matching(table, MatchQuery("WOLV", "body", fuzziness=1)) == []
    assert matching(table, MatchQuery("running", "body", fuzziness=1)) == []


def test_lance_guard_fuzzy_does_not_see_uncovered_rows(tmp_path: Path) -> None:
    """Why: the second reason why `fuzzy` is computed by the engine."""
    table = _indexed(tmp_path / "t")
    table = commit(table, stage_append(table, rows("d", body="wolf")))
    assert matching(table, MatchQuery("wolv", "body", fuzziness=1)) == ["a", "b", "c"]


def test_lance_guard_scores_of_uncovered_rows_use_other_statistics(tmp_path: Path) -> None:
    """Why: `explain` says `lagging`, and limits are not pushed into such a search."""
    table = _indexed(tmp_path / "t")
    table = commit(table, stage_append(table, rows("d", body="big bad wolf")))
    query = MatchQuery("wolf", "body")
    found = table.to_table(columns=["id", "_score"], full_text_query=query).to_pylist()
    scores = {row["id"]: row["_score"] for row in found}
    assert scores["c"] != scores["d"], "the same text"


def test_lance_guard_tokens_of_forty_characters_are_already_dropped(tmp_path: Path) -> None:
    """Why: `max_token_length=40` keeps 39; longer words cannot be found."""
    table = create_table(tmp_path / "t", rows("a", body=f"{'x' * 39} {'y' * 40}"))
    table = commit(table, stage_index(table, [inverted("body", "ix_body")]))
    assert search(table, "x" * 39) == ["a"]
    assert search(table, "y" * 40) == []


def test_lance_guard_a_table_in_memory_can_be_indexed_and_searched(tmp_path: Path) -> None:
    """Why: the ephemeral text index lives in memory and leaves no file."""
    texts = _documents(tmp_path / "t").to_table(columns=["id", "body"])
    memory = lance.write_dataset(texts, "memory://ephemeral-text")
    memory.create_scalar_index("body", "INVERTED", **TEXT_ANALYZER)
    assert search(memory, "WOLF") == ["a", "b", "c"]
