"""How often a property is tried: a few seconds by default, many examples under the `slow` mark.

The default run is derandomized, so that a failure is a change of the code and not of the dice.
"""

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings

_Test = TypeVar("_Test", bound=Callable[..., object])
_SLOW_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def quick(examples: int) -> Callable[[_Test], _Test]:
    """Settings of the default run."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=_SLOW_CHECKS,
        # Explaining a failure takes longer than a test may.
        phases=[phase for phase in Phase if phase is not Phase.explain],
    )


def more(examples: int) -> Callable[[_Test], _Test]:
    """Mark and settings of a run in continuous integration: the same examples every time."""

    def marked(test: _Test) -> _Test:
        tried = quick(examples)(test)
        pytest.mark.extended(tried)
        return tried

    return marked


def many(test: _Test) -> _Test:
    """Mark and settings of a long run; new examples each time."""
    tried = settings(
        max_examples=2_000, deadline=None, suppress_health_check=_SLOW_CHECKS, print_blob=True
    )(test)
    pytest.mark.slow(tried)
    pytest.mark.timeout(1800)(tried)
    return tried
