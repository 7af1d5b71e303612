import logging
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from omnigraph.cli.logs import EventFormatter

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
