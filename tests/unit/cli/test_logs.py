import logging
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from omnigraph.server.logs import EventFormatter, is_worth_a_line

Door = Callable[..., CompletedProcess[str]]


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels that the log was started with."""
    found: list[str] = []
    monkeypatch.setattr(logging, "basicConfig", lambda *, level, **_: found.append(level))
    return found


def test_an_event_is_one_line_with_its_fields() -> None:
    record = logging.makeLogRecord(
        {"name": "omnigraph.x", "levelname": "WARNING", "msg": "left", "why": "a\nb", "pin": 3}
    )
    line = EventFormatter("%(levelname)s %(name)s %(message)s").format(record)
    assert line == "WARNING omnigraph.x left why=a b pin=3"


def test_a_value_adds_no_field_and_moves_no_cursor() -> None:
    record = logging.makeLogRecord(
        {"name": "x", "msg": "decided", "branch": "a allowed=True\x1b[2J", "allowed": False}
    )
    line = EventFormatter("%(message)s").format(record)
    assert line == r'decided branch="a allowed=True\\x1b[2J" allowed=False'


@pytest.mark.parametrize(
    ("words", "environ", "level"),
    [
        ([], {}, "INFO"),
        (["--json"], {}, "ERROR"),
        (["--json", "--log-level", "info"], {}, "INFO"),
        (["--json"], {"OMNIGRAPH_LOG": "warning"}, "WARNING"),
    ],
)
def test_with_json_only_errors_are_logged_unless_more_is_asked_for(
    call: Door, levels: list[str], words: list[str], environ: dict[str, str], level: str
) -> None:
    assert call("version", *words, environ=environ).returncode == 0
    assert levels == [level]


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> list[logging.Handler]:
    """The handlers that the log was started with."""
    found: list[logging.Handler] = []
    monkeypatch.setattr(logging, "basicConfig", lambda *, handlers, **_: found.extend(handlers))
    return found


@pytest.mark.parametrize(("words", "is_shown"), [([], False), (["--log-level", "debug"], True)])
def test_what_libraries_tell_of_their_work_is_for_debugging(
    call: Door, handlers: list[logging.Handler], words: list[str], *, is_shown: bool
) -> None:
    assert call("version", *words).returncode == 0
    record = logging.makeLogRecord({"name": "pylance", "levelno": logging.INFO})
    assert bool(handlers[0].filter(record)) is is_shown
    secret = logging.makeLogRecord({"name": "botocore.parsers", "levelno": logging.DEBUG})
    assert not handlers[0].filter(secret)


@pytest.mark.parametrize(
    ("name", "level", "is_shown"),
    [
        ("pylance", logging.INFO, False),
        ("py4j.clientserver", logging.INFO, False),
        ("pylance", logging.WARNING, True),
        ("omnigraph.graph", logging.INFO, True),
    ],
)
def test_warnings_and_events_of_our_own_are_shown(name: str, level: int, *, is_shown: bool) -> None:
    assert is_worth_a_line(logging.makeLogRecord({"name": name, "levelno": level})) is is_shown
