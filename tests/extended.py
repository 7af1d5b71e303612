"""Cases that the default suite leaves to continuous integration.

The default suite has at least one case of every promise and runs in ten minutes. More inputs, lanes
and services of the same promise are marked `extended`; `.ci/run` runs them after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark.structures import ParameterSet


def thinned(cases: Iterable[object], *, keep: int = 1) -> list[ParameterSet]:
    """The first cases for the default suite, the others extended.

    Args:
        cases: the values of one parameter, or tuples for several.
        keep: how many the default suite runs.
    """
    return [
        _param(case) if number < keep else _param(case, pytest.mark.extended)
        for number, case in enumerate(cases)
    ]


def _param(case: object, *marks: pytest.MarkDecorator) -> ParameterSet:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=marks)
