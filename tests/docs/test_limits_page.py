"""The limits page names every setting with its default, and the limits that hold today."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from tests.docs.emitted import LANG
from tests.docs.markdown import read_page

from omnigraph import limits
from omnigraph.settings import Settings, Variable, list_variables

_PAGE = read_page("docs/limits.md")
_SETTING_ROW = re.compile(r"^\| `(?P<name>[A-Z][A-Z0-9_]+)` \| (?P<default>[^|]+) \|")
_LIMIT_ROW = re.compile(r"^\| .* \| (?P<value>[0-9,]+)(?: bytes)? \| `(?P<name>MAX_[A-Z_]+)` \|")
_DEPENDS_ON_THE_MACHINE = {
    "OMNIGRAPH_HOME",
    "OMNIGRAPH_LOAD_CONCURRENCY",
    "OMNIGRAPH_ENGINE_THREADS",
    "OMNIGRAPH_PIPELINE_MERGE_DRIVER_BYTES",
    "OMNIGRAPH_PIPELINE_CHECK_DRIVER_BYTES",
    "OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES",
}


def _setting_rows() -> list[tuple[str, str]]:
    """Name and shown default of each setting."""
    return [
        (match["name"], match["default"].strip())
        for _, line in _PAGE.prose
        if (match := _SETTING_ROW.match(line))
    ]


def test_every_setting_has_a_row_and_no_row_is_left_over() -> None:
    rows = [name for name, _ in _setting_rows()]
    assert sorted(rows) == sorted(variable.name for variable in list_variables())


@pytest.mark.parametrize("variable", list_variables(), ids=lambda variable: variable.name)
def test_the_default_shown_is_the_default_in_force(variable: Variable) -> None:
    if variable.name in _DEPENDS_ON_THE_MACHINE:
        return
    shown = dict(_setting_rows())[variable.name]
    section = getattr(Settings(), variable.section)
    default = getattr(section, variable.field)
    if not shown.startswith("`"):
        assert not default, shown
    else:
        source = next(item for item in fields(section) if item.name == variable.field)
        assert source.metadata["source"].parse(shown.strip("`")) == default


def test_the_limits_shown_are_those_in_use() -> None:
    shown = {
        match["name"]: int(match["value"].replace(",", ""))
        for _, line in _PAGE.prose
        if (match := _LIMIT_ROW.match(line))
    }
    assert shown == {name: getattr(limits, name) for name in _limits_in_use(LANG.parent)}


def _limits_in_use(package: Path) -> set[str]:
    others = (path for path in package.rglob("*.py") if path != package / "limits.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in others)
    return {name for name in vars(limits) if name.startswith("MAX_") and name in text}
