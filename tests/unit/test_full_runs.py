"""The parts of `make test-all` have every slow test once, and each has its row in the record."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.race.serial_orders import PLACES

ROOT = Path(__file__).parents[2]
# Any: what a script defines
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "test_all.py"))
SLOW = re.compile(r"mark\.(slow|cluster)|profiles import many")


def slow_files() -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path != Path(__file__) and SLOW.search(path.read_text())
    ]


@pytest.mark.parametrize("path", slow_files())
def test_a_slow_test_is_in_one_part(path: str) -> None:
    holding = [
        part.named
        for part in SCRIPT["PARTS"].values()
        if any(path == each or path.startswith(f"{each}/") for each in part.paths)
    ]
    assert holding in ([""], [f"{place}]" for place in PLACES]), holding


def test_every_path_of_a_part_exists() -> None:
    paths = [each for part in SCRIPT["PARTS"].values() for each in part.paths]
    assert [each for each in paths if not (ROOT / each).exists()] == []


def test_every_part_has_its_row_and_no_row_is_left_over() -> None:
    lines = SCRIPT["RECORD"].read_text().splitlines()
    rows = [match["part"] for line in lines if (match := SCRIPT["_ROW"].match(line))]
    assert rows == list(SCRIPT["PARTS"])
