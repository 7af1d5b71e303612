"""One S3 stand-in for the whole run; every test finds it empty, fast and obedient."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.s3.stand_in import StandIn

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)


@pytest.fixture(scope="session")
def server() -> "Iterator[StandIn]":
    """A running stand-in, with whatever the last test left in it."""
    from tests.s3.stand_in import StandIn  # found only through the path that was added above

    with StandIn() as running:
        yield running


@pytest.fixture
def s3(server: "StandIn") -> "StandIn":
    """The stand-in without objects, delays, refusals and failures."""
    server.forget()
    return server
