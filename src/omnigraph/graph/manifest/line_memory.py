"""What one process has seen arrive on one line since it first read it.

A write asks under its lease whether its own commit, a recovery of it, or an earlier send of the
same request is on the line. Each of them can only have come after the write began, or within the
newest ten thousand commits, so what has arrived answers, and the history need not be read.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from omnigraph.graph.manifest.rows import RowKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.manifest.rows import RawRow

MOST_ARRIVALS: Final = 4_096
MOST_KEYS: Final = 20_000

KEY_MARK: Final = '"idempotency_key"'
"""What the text of every commit with a key contains."""

_KINDS: Final = (RowKind.GRAPH_COMMIT, RowKind.RECOVERY)


class LineMemory:
    """Commits and recoveries that arrived on a line, and the idempotency keys of its commits."""

    def __init__(self, since: int) -> None:
        self._lock = threading.Lock()
        self._since = since
        self._rows: OrderedDict[str, tuple[int, RawRow]] = OrderedDict()
        self._keys: dict[tuple[str, str], int] = {}
        self._knows_keys = False

    def note(self, version: int, rows: Iterable[RawRow]) -> None:
        """Rows that this version, and none that was noted before, has."""
        with self._lock:
            for row in rows:
                if row["object_type"] not in _KINDS or row["object_id"] in self._rows:
                    continue
                self._rows[row["object_id"]] = version, row
                self._note_key(row)
            while len(self._rows) > MOST_ARRIVALS:
                _, (self._since, _) = self._rows.popitem(last=False)

    def find(self, object_id: str, upto: int) -> RawRow | None:
        """The row of that id, if it arrived with this version or an earlier one."""
        with self._lock:
            version, row = self._rows.get(object_id, (upto + 1, None))
        return row if version <= upto else None

    def commits_with(self, text: str, upto: int) -> list[RawRow]:
        """The commits that arrived with this version or an earlier one and mention a text."""
        with self._lock:
            rows = list(self._rows.values())
        return [
            row
            for version, row in rows
            if version <= upto
            and row["object_type"] == RowKind.GRAPH_COMMIT
            and text in (row["metadata"] or "")
        ]

    def has_all_since(self, version: int) -> bool:
        """Whether everything that arrived after a version is known."""
        return version >= self._since

    @property
    def knows_keys(self) -> bool:
        """Whether the keys of the commits before the first read are known too."""
        return self._knows_keys

    def learn_keys(self, rows: Iterable[RawRow]) -> None:
        """The commits among which keys are looked for, as the history has them."""
        with self._lock:
            for row in rows:
                self._note_key(row)
            self._knows_keys = True

    def number_of_key(self, key: str, branch: str, after: int, upto: int) -> int | None:
        """The number of the newest commit that was sent to a branch with a key.

        `None` also if it is above `upto`: others may have seen a newer version of the line by now.
        """
        with self._lock:
            if len(self._keys) > MOST_KEYS:
                self._keys = {held: seq for held, seq in self._keys.items() if seq > after}
            seq = self._keys.get((key, branch), after)
        return seq if after < seq <= upto else None

    def _note_key(self, row: RawRow) -> None:
        if row["seq"] is None or KEY_MARK not in (row["metadata"] or ""):
            return
        metadata = json.loads(row["metadata"])
        name = metadata.get("idempotency_key"), metadata.get("authored_branch")
        self._keys[name] = max(self._keys.get(name, -1), row["seq"])
