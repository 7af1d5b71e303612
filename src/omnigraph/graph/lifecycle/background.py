"""Work in a thread after a write that has landed: it may fail to begin, and the write stands."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)


def start_quietly(work: Callable[[], None], name: str) -> threading.Thread | None:
    """The thread that does it, which the process does not wait for; `None` if none can be had."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        # The system gives no more threads, or the interpreter ends. Later writes come here again.
        log.warning("no thread", extra={"work": name, "cause": str(error)})
        return None
    return thread
