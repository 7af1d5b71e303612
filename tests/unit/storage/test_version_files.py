"""The newest version of a local line: found without listing, and never an older one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.storage import version_files
from omnigraph.storage.files import version_name, version_of_name
from omnigraph.storage.version_files import (
    cleaned_mark,
    cleaned_upto,
    newest_version,
    spent_marks,
)


class Line:
    """The files of a line, without their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "_versions").mkdir(parents=True, exist_ok=True)
        for each in (folder / "_versions").iterdir():
            each.unlink()
        for each in folder.glob("cleaned-*"):
            each.unlink()
        self.versions: set[int] = set()

    def make(self, *versions: int) -> None:
        for version in versions:
            (self.folder / "_versions" / version_name(version)).touch()
            self.versions.add(version)

    def remove(self, *versions: int) -> None:
        for version in versions:
            (self.folder / "_versions" / version_name(version)).unlink()
            self.versions.discard(version)

    def hint(self, text: str) -> None:
        (self.folder / "_versions" / "latest_version_hint.json").write_text(text)

    def mark(self, version: int) -> None:
        (self.folder / cleaned_mark(version)).touch()


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path / "line")


@pytest.fixture
def no_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, a listing of the folder fails the test."""

    def forbid() -> None:
        def fail(folder: Path) -> int:
            raise AssertionError(f"{folder} was listed")

        monkeypatch.setattr(version_files, "_listed", fail)

    return forbid


@pytest.mark.parametrize("newest", [1, 2, 3, 7, 8, 9, 100, 1_000])
@pytest.mark.parametrize("known", [1, 2, 7, 1_000])
def test_a_known_version_leads_to_the_newest_without_a_listing(
    line: Line, no_listing: Callable[[], None], newest: int, known: int
) -> None:
    line.make(*range(1, newest + 1))
    line.hint(json.dumps({"version": 1}))
    no_listing()
    assert newest_version(line.folder, min(known, newest)) == newest


@pytest.mark.parametrize("hint", ["", "{", "[]", "{}", '{"version": "x"}', '{"version": 99}'])
def test_a_hint_that_says_nothing_costs_a_listing(line: Line, hint: str) -> None:
    line.make(1, 2, 3)
    line.hint(hint)
    (line.folder / "_versions" / "d17.manifest").touch()
    (line.folder / "_versions" / f"{version_name(9)}.torn").touch()
    assert newest_version(line.folder) == 3


def test_a_gap_that_a_removal_made_is_not_taken_for_the_end(line: Line) -> None:
    line.make(*range(1, 40))
    line.mark(30)
    line.remove(*range(11, 31))
    assert newest_version(line.folder, 10) == 39
    assert newest_version(line.folder, 31) == 39


def test_above_the_mark_nothing_is_listed(line: Line, no_listing: Callable[[], None]) -> None:
    line.make(*range(31, 40))
    line.mark(30)
    no_listing()
    assert newest_version(line.folder, 31) == 39


def test_a_mark_that_somebody_leaves_late_takes_nothing_back(line: Line) -> None:
    line.make(1, 2, 5)
    line.mark(4)
    line.mark(2)
    assert cleaned_upto(line.folder) == 4
    assert newest_version(line.folder, 1) == 5


def test_the_marks_that_may_go_are_not_those_that_count(line: Line) -> None:
    for version in (9, 10, 100, 20):
        line.mark(version)
    (line.folder / "cleaned-1000#1").touch()  # What the store leaves of a creation that was cut.
    assert spent_marks(line.folder) == [cleaned_mark(9), cleaned_mark(10)]
    assert cleaned_upto(line.folder) == 100


@pytest.mark.parametrize("known", [None, 4])
def test_a_line_without_versions_is_missing(line: Line, known: int | None) -> None:
    with pytest.raises(FileNotFoundError):
        newest_version(line.folder, known)
    with pytest.raises(FileNotFoundError):
        newest_version(line.folder / "elsewhere", known)


@pytest.mark.parametrize(
    "name", ["d5.manifest", "x.manifest", "5.torn", "latest_version_hint.json"]
)
def test_other_files_are_no_versions(name: str) -> None:
    assert version_of_name(name) is None
    assert version_of_name(version_name(5)) == 5


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_after_any_commits_and_removals_the_newest_is_found(
    tmp_path: Path, data: st.DataObject
) -> None:
    _find_the_newest(tmp_path, data)


@pytest.mark.extended
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_after_many_commits_and_removals_the_newest_is_found(
    tmp_path: Path, data: st.DataObject
) -> None:
    _find_the_newest(tmp_path, data)


def _find_the_newest(folder: Path, data: st.DataObject) -> None:
    line = Line(folder / "line")
    line.make(1)
    seen = 1
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            top = max(line.versions)
            line.make(*range(top + 1, top + 1 + data.draw(st.integers(1, 9))))
            if data.draw(st.booleans()):
                line.hint(json.dumps({"version": data.draw(st.integers(1, max(line.versions)))}))
        else:
            old = sorted(line.versions)[:-1]
            gone = data.draw(st.lists(st.sampled_from(old), unique=True)) if old else []
            if gone:
                line.mark(max(gone))
                line.remove(*gone)
        if data.draw(st.booleans()):
            seen = newest_version(line.folder, seen)
            assert seen == max(line.versions)
    assert newest_version(line.folder, seen) == max(line.versions)
