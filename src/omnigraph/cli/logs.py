"""Log lines of the layers below, for people, on standard error.

An event and its fields make one line. With `--json` a failure leaves exactly one line on standard
error, so there only what was asked for by name, or is an error itself, is shown.
"""

import logging
from collections.abc import Mapping
from typing import Final

from omnigraph.cli.session import Session
from omnigraph.server.logs import EventFormatter, is_worth_a_line, tells_no_secret
from omnigraph.settings import LogLevel

_VARIABLE: Final = "OMNIGRAPH_LOG"


def start_logging(session: Session, *, is_asked: bool) -> None:
    """Show events from the session's level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(EventFormatter("%(levelname)s %(name)s %(message)s"))
    handler.addFilter(tells_no_secret)
    if session.log_level is not LogLevel.DEBUG:
        handler.addFilter(is_worth_a_line)
    level = session.log_level.upper()
    if session.output.is_json and not (is_asked or _is_set(session.environ)):
        level = "ERROR"
    logging.basicConfig(level=level, handlers=[handler])


def _is_set(environ: Mapping[str, str]) -> bool:
    return bool(environ.get(_VARIABLE))
