"""Log lines of the layers below, for people, on standard error.

An event and its fields make one line. With `--json` a failure leaves exactly one line on standard
error, so there only what was asked for by name, or is an error itself, is shown.
"""

import logging
from collections.abc import Mapping
from typing import Final

from omnigraph.cli.session import Session
from omnigraph.settings import LogLevel

_VARIABLE: Final = "OMNIGRAPH_LOG"
_SPARK_BRIDGE: Final = "py4j"  # tells every connection that it closes
_PLAIN_FIELDS: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
)


class EventFormatter(logging.Formatter):
    """`WARNING omnigraph.graph.lifecycle.coordinator recovery blocked branch_id=main why=…`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line: level, logger, event, fields."""
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN_FIELDS}
        line = " ".join(
            [super().format(record), *(f"{name}={value}" for name, value in fields.items())]
        )
        return line if record.exc_info else " ".join(line.split())


def start_logging(session: Session, *, is_asked: bool) -> None:
    """Show events from the session's level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(EventFormatter("%(levelname)s %(name)s %(message)s"))
    level = session.log_level.upper()
    if session.output.is_json and not (is_asked or _is_set(session.environ)):
        level = "ERROR"
    logging.basicConfig(level=level, handlers=[handler])
    if session.log_level is not LogLevel.DEBUG:
        logging.getLogger(_SPARK_BRIDGE).setLevel(logging.WARNING)


def _is_set(environ: Mapping[str, str]) -> bool:
    return bool(environ.get(_VARIABLE))
