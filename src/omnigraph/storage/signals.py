"""What storage tells the graph layer and no caller ever sees.

These are outcomes of the commit protocol, not errors of a user: `graph/` acts on each of them and
turns what is left into a class of `omnigraph.errors`.
"""

from __future__ import annotations


class StorageSignal(Exception):
    """Base of the signals; never leaves the graph layer."""


class AlreadyExists(StorageSignal):
    """A create-if-absent found the object there."""


class ObjectMissing(StorageSignal):
    """The object, table, line or version is not there."""


class CommitRefused(StorageSignal):
    """Lance refused to commit a staged transaction; nothing of it landed.

    `is_final` tells that no retry on the same base can ever land: the table was restored or
    overwritten since, which is how recovery fences a late writer.
    """

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        self.is_final = is_final


class Interleaved(StorageSignal):
    """A commit landed, but on top of a version that its writer had not seen."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class NotDurable(StorageSignal):
    """What was written is there for every reader, and a power cut may take it."""


class LeadsOut(StorageSignal):
    """A link on the way to a file leads out of the folder in which it must lie."""


class LineHasChildren(StorageSignal):
    """A line of a table cannot be deleted: another line grew from it."""


class FragmentsChanged(StorageSignal):
    """A staged compaction does not fit a newer version: what it read is not there any more."""
