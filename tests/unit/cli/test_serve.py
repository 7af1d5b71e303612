"""`serve` refuses a wrong start as wrong usage, before anything is opened or listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.cli.conftest import Result


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "the address of one graph"),
        (("people.omni", "--graph", "a=people.omni"), "the address of one graph"),
        (("--graph", "a=x", "--graph", "a=y"), "given twice"),
        (("--graph", "people.omni"), "ID=URI"),
        (("people.omni", "--graph-id", "a b"), "no graph id"),
        (("--graph", "a=x", "--graph-id", "a"), "--graph-id"),
    ],
)
def test_exactly_one_source_of_graphs_is_given(
    call: Callable[..., Result], words: tuple[str, ...], why: str
) -> None:
    result = call("serve", *words, "--unauthenticated", "--bind", "127.0.0.1:0")
    assert (result.returncode, result.stdout) == (2, "")
    assert why in result.stderr
