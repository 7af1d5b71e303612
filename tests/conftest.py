"""Tests on Spark are in `tests/spark`, and one worker runs them all: one Java is started.

Modules that tests share are imported as `tests.…`.
"""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from omnigraph.server.logs import EventFormatter, JsonFormatter

if TYPE_CHECKING:
    from collections.abc import Generator

_ROOT = str(Path(__file__).parents[1])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

_ON_SPARK = "tests/spark/"
_OF_SPARK = "@spark"
_SESSIONS = "omnigraph.pipeline.spark.session"
_FOLDERS = frozenset({"tmp_path", "tmp_path_factory"})


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """Sends every test on Spark to one worker, and each of the others to whichever is free."""

    def _split_scope(self, nodeid: str) -> str:
        is_on_spark = nodeid.startswith(_ON_SPARK) or nodeid.endswith(_OF_SPARK)
        return "spark" if is_on_spark else nodeid


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of `tests/scripts/`; pytest asks for options before it reads that folder."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what scripts of tests/scripts got in place of what they expect",
    )


def pytest_configure() -> None:
    """A run in the background ignores Ctrl-C, and so would the programs that tests send it to."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what writes files, before tests are chosen by their marks: it takes most of the time."""
    for item in items:
        if not _FOLDERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.disk)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """A test that is not about Spark finds no session that others left: it would be used."""
    if _SESSIONS not in sys.modules or item.get_closest_marker("spark") is not None:
        return (yield)
    with patch(f"{_SESSIONS}.find_active_session", return_value=None):
        return (yield)


def pytest_runtest_teardown() -> None:
    """Take back the log of a command that served: it writes where the output of its test went."""
    for handler in list(logging.root.handlers):
        if isinstance(handler.formatter, EventFormatter | JsonFormatter):
            logging.root.removeHandler(handler)
            logging.root.setLevel(logging.WARNING)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneSpark:
    """Whatever is asked for with `--dist`."""
    return OneSpark(config, log)
