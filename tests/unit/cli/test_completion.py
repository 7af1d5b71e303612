"""What a shell offers when a word of the command line is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.cli.conftest import Result


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param("branch ", {"create", "list", "merge", "delete"}, id="commands of a group"),
        pytest.param("query --pa", {"--params", "--params-file"}, marks=pytest.mark.extended),
        pytest.param("ensu", {"ensure-indices"}, marks=pytest.mark.extended),
    ],
)
def test_a_shell_offers_the_words_that_may_follow(
    start: Callable[..., Result], words: str, offered: set[str]
) -> None:
    line = f"omnigraph {words}"
    environ = {
        "_OMNIGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    result = start(environ=environ)
    assert (result.returncode, result.stderr) == (0, "")
    assert set(result.stdout.split()) == offered
