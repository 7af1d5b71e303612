"""Log lines: an event and its fields, as text for people or as JSON for machines.

Every line that is logged while a request is answered carries the id of the request, in whichever
thread it is logged. No line holds a token, a parameter, a value or the text of a query.
"""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from omnigraph.graph.results.terminal_text import harmless
from omnigraph.settings import LogFormat, LogLevel

if TYPE_CHECKING:
    from omnigraph.settings import ServerSettings

_TALKATIVE: Final = (
    "py4j",  # tells every connection that it closes
    "pylance",  # tells how long each index took
    "uvicorn",  # tells that it starts and ends, which the server says itself
    "asyncio",
    "httpx",
)
_UNGUARDED: Final = ("boto3", "botocore", "s3transfer", "urllib3", "httpcore")
"""Libraries that tell, at their lowest levels, what they send and get: headers, tokens, secrets."""
_PLAIN_FIELDS: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}
)

current_request: Final[ContextVar[str | None]] = ContextVar("omnigraph_request", default=None)
"""The id of the request that is answered in this context."""


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a record is shown: libraries that tell much are heard from warnings on.

    Levels of their loggers would not last: Lance sets its own when it is imported.
    """
    is_talk = record.name.partition(".")[0] in _TALKATIVE
    return record.levelno >= logging.WARNING or not is_talk


def tells_no_secret(record: logging.LogRecord) -> bool:
    """Whether a record may be shown at all, however much is asked for."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] not in _UNGUARDED


class EventFormatter(logging.Formatter):
    """`WARNING omnigraph.graph.lifecycle.coordinator recovery blocked branch_id=main why=…`.

    A value that could be taken for more fields stands in quotes, so that nobody writes a line of
    their own by the name of a branch.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line: level, logger, event, fields."""
        line = " ".join(
            [
                super().format(record),
                *(f"{name}={_shown(value)}" for name, value in event_fields(record).items()),
            ]
        )
        return line if record.exc_info else " ".join(line.split())


def _shown(value: object) -> str:
    text = harmless(" ".join(str(value).split()))
    return json.dumps(text, ensure_ascii=False) if "=" in text or '"' in text else text


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The event with its time, level, logger and fields."""
        event: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **event_fields(record),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str, ensure_ascii=False)


def event_fields(record: logging.LogRecord) -> dict[str, object]:
    """What an event tells beside its name."""
    return {name: value for name, value in vars(record).items() if name not in _PLAIN_FIELDS}


class _RequestField(logging.Filter):
    """Adds the id of the request to lines that have none."""

    def filter(self, record: logging.LogRecord) -> bool:
        request_id = current_request.get()
        if request_id is not None and not hasattr(record, "request_id"):
            record.request_id = request_id
        return True


def start_server_logging(settings: ServerSettings) -> None:
    """Log to standard error, from the level and in the form of the settings."""
    import time

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_RequestField())
    handler.addFilter(tells_no_secret)
    if settings.log_level is not LogLevel.DEBUG:
        handler.addFilter(is_worth_a_line)
    formatter: logging.Formatter
    if settings.log_format is LogFormat.JSON:
        formatter = JsonFormatter()
    else:
        formatter = EventFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for other in list(root.handlers):
        if isinstance(other.formatter, EventFormatter | JsonFormatter):
            root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
