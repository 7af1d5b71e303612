"""Every point of the write paths is registered, passed by the source, and used by a test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import omnigraph
from omnigraph.failpoints import NAMES, STEPS, WRITERS

SOURCE = Path(omnigraph.__file__).parent
TESTS = Path(__file__).parents[1]


@cache
def _calls() -> list[tuple[Path, ast.expr]]:
    return [
        (path, node.args[0])
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "maybe_fail"
    ]


def _named(argument: ast.expr) -> list[str]:
    """The points that a call can mean: one, or one per kind of writer."""
    match argument:
        case ast.Constant(value=str(name)):
            return [name]
        case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str(step))]):
            return [f"{kind}{step}" for kind in WRITERS]
        case _:
            raise AssertionError(f"a failpoint must be spelled out: {ast.dump(argument)}")


def test_every_point_that_the_source_passes_is_registered() -> None:
    unknown = {
        name: path.name
        for path, argument in _calls()
        for name in _named(argument)
        if name not in NAMES
    }
    assert unknown == {}


def test_every_registered_point_is_passed_by_the_source() -> None:
    passed = {name for _, argument in _calls() for name in _named(argument)}
    assert NAMES - passed == set()


def test_every_writer_has_every_step() -> None:
    assert {f"{kind}.{step}" for kind in WRITERS for step in STEPS} <= NAMES


def test_every_registered_point_is_used_by_a_test() -> None:
    own = Path(__file__)
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted(TESTS.rglob("*.py"))
        if path != own and path.name != "test_failpoints.py"
    ]
    spelled = set(re.findall(r'"([a-z_]+\.[a-z_]+)"', "\n".join(texts)))
    assert NAMES - spelled == set()
