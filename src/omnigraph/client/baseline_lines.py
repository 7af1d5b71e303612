"""The end of a baseline: its last line, which tells that the stream is complete."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from omnigraph.errors import InvalidArgument, ServerUnavailable
from omnigraph.graph.changes.change_pages import Baseline

_MOST_TAIL: Final = 16 << 10


class BaselineLines:
    """Keeps the end of the chunks that were seen, in which the last record is."""

    def __init__(self) -> None:
        self._tail = b""
        self._baseline: Baseline | None = None

    def see(self, chunk: bytes) -> None:
        """A chunk went by."""
        self._tail = (self._tail + chunk)[-_MOST_TAIL:]

    def require_complete(self) -> None:
        """The stream is over.

        Raises:
            ServerUnavailable: it has no last record.
        """
        last = self._tail.rstrip(b"\n").rpartition(b"\n")[2]
        try:
            record = msgspec.json.decode(last, type=dict[str, Any])["baseline"]  # Any: JSON
            self._baseline = Baseline(**record)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ServerUnavailable(
                "the baseline is incomplete: its last record is missing; discard it and take"
                " another one"
            ) from error

    @property
    def baseline(self) -> Baseline:
        """What the last record says.

        Raises:
            InvalidArgument: it has not come yet.
        """
        if self._baseline is None:
            raise InvalidArgument("a baseline is known when its stream has been read to the end")
        return self._baseline
