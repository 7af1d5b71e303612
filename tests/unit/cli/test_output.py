"""Tables of a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.cli.output import Output

if TYPE_CHECKING:
    import pytest

ID = "01M7R4V3CE86NBKSKMBVKN0EYB"


def test_a_narrow_terminal_cuts_no_id_and_loses_no_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    header = ("commit", "version", "kind", "branch", "actor", "committed at", "rows", "pipeline")
    row = (
        ID,
        "12",
        "load",
        "a-long-branch/name",
        "act-me",
        "2026-01-31T12:00:00.000000Z",
        "+1",
        "-",
    )
    Output(allows_color=False).write_table(header, [row, row])
    text = capsys.readouterr().out
    assert text.count(ID) == 2
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_nothing_is_known_of_leaves_its_room_to_ids_and_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    header = ("commit", "version", "kind", "branch", "actor", "committed at", "rows", "pipeline")
    time = "2026-01-31T12:00:00.000000Z"
    Output(allows_color=False).write_table(
        header, [(ID, "2", "load", "main", "-", time, "+1", "-")]
    )
    *_, line = capsys.readouterr().out.splitlines()
    assert line.split() == [ID, "2", "load", "main", time, "+1"]
