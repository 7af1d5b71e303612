"""The newest line of each branch, as far as this process has seen it.

Every read asks storage for the newest version first; what is kept is only carried forward by the
rows that were added since.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchNotFound,
    GraphNotFound,
    InvalidArgument,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.graph.manifest.manifest_line import read_line
from omnigraph.graph.manifest.rows import BranchState
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import BranchRow
    from omnigraph.ids import BranchId, BranchName
    from omnigraph.storage.manifest import LineHandle, ManifestStorage

MOST_LINES_KEPT = 64


class ManifestCoordinator:
    """The newest line of each branch, checked against storage at every read."""

    def __init__(
        self,
        storage: ManifestStorage,
        check_stamp: Callable[[LineHandle], object],
        *,
        may_mend: bool = False,
    ) -> None:
        self._storage = storage
        self._check_stamp = check_stamp
        self._may_mend = may_mend
        self._lines: dict[BranchId, ManifestLine] = {}
        self._lock = threading.Lock()

    def read(self, branch_id: BranchId) -> ManifestLine:
        """The newest version of a branch's line.

        Raises:
            GraphNotFound: there is no manifest.
            BranchNotFound: there is no such line.
        """
        cached = self._lines.get(branch_id)
        if cached is None:
            return self._read_anew(branch_id)
        try:
            newest = self._storage.latest_version(cached.handle)
            if newest == cached.handle.version:
                return cached
            if newest > cached.handle.version:
                return self._read_forward(cached, newest)
        except ObjectMissing:
            pass  # The line, or the version, is gone: what is there now decides.
        self.forget(branch_id)
        return self._read_anew(branch_id)

    def require_writable(self, line: ManifestLine) -> None:
        """Refuse a write to a branch of a graph that was moved since the branch was made.

        Raises:
            StorageUnsupported: it can only be read.
        """
        self._storage.require_writable(line.handle)

    def read_again(self, branch_id: BranchId) -> ManifestLine:
        """The newest version, asked of storage whatever is cached."""
        return self.read(branch_id)

    def _read_forward(self, cached: ManifestLine, newest: int) -> ManifestLine:
        handle = self._storage.at_version(cached.handle, newest)
        self._check_stamp(handle)
        line = cached.forward(handle)
        self.remember(line)
        return line

    def _read_anew(self, branch_id: BranchId) -> ManifestLine:
        try:
            handle = self._open(branch_id)
            self._check_stamp(handle)
            line = read_line(self._storage, handle)
        except ObjectMissing as error:
            raise _no_line(branch_id) from error
        self.remember(line)
        return line

    def _open(self, branch_id: BranchId) -> LineHandle:
        """The newest version; one that a power cut tore is set aside by whoever may write."""
        try:
            return self._storage.open_line(branch_id)
        except (StorageInternalError, StorageUnavailable):
            if not self._may_mend:
                raise
            self._storage.remove_torn(branch_id)
            return self._storage.open_line(branch_id)

    def remember(self, line: ManifestLine) -> None:
        """Keep a line that is known to be newer than what is cached."""
        with self._lock:
            cached = self._lines.get(line.branch_id)
            if cached is None or cached.handle.version < line.handle.version:
                self._lines.pop(line.branch_id, None)
                self._lines[line.branch_id] = line
            while len(self._lines) > MOST_LINES_KEPT:
                oldest = next(branch_id for branch_id in self._lines if branch_id != MAIN_BRANCH_ID)
                del self._lines[oldest]

    def forget(self, branch_id: BranchId) -> None:
        """Drop what is cached of a branch that is gone."""
        with self._lock:
            self._lines.pop(branch_id, None)

    def branch_id(self, name: str) -> BranchId:
        """The id of the live branch of that name.

        Raises:
            BranchNotFound: there is none.
            InvalidArgument: it is no name at all.
        """
        if not isinstance(name, str):
            raise InvalidArgument(
                f"a branch is given by its name, not by {name!r}", argument="branch"
            )
        return MAIN_BRANCH_ID if name == MAIN_BRANCH else self.branch(name).branch_id

    def branch(self, name: str) -> BranchRow:
        """The live branch of that name.

        Raises:
            BranchNotFound: there is none.
        """
        rows = self.read(MAIN_BRANCH_ID).branches()
        row = rows.get(name)
        if row is None or row.state is not BranchState.LIVE:
            live = [other.name for other in rows.values() if other.state is BranchState.LIVE]
            raise BranchNotFound(
                f"there is no branch {name!r}; live branches: {', '.join(['main', *sorted(live)])}",
                branch=name,
            )
        return row

    def live_branch_ids(self) -> dict[BranchId, BranchName]:
        """Every live line by id, with its name, `main` first."""
        rows = self.read(MAIN_BRANCH_ID).branches().values()
        live = sorted(row.name for row in rows if row.state is BranchState.LIVE)
        named = {row.name: row.branch_id for row in rows}
        return {MAIN_BRANCH_ID: MAIN_BRANCH} | {named[name]: name for name in live}

    def live_lines(self) -> Iterator[ManifestLine]:
        """The line of every live branch, `main` first; one deleted meanwhile is left out."""
        for branch_id in self.live_branch_ids():
            try:
                line = self.read(branch_id)
            except BranchNotFound:
                continue
            yield line

    def branch_name(self, branch_id: BranchId) -> str:
        """The name of a live branch.

        Raises:
            BranchNotFound: it is gone.
        """
        name = self.live_branch_ids().get(branch_id)
        if name is None:
            raise _no_branch(branch_id)
        return name


def _no_line(branch_id: BranchId) -> GraphNotFound | BranchNotFound:
    if branch_id == MAIN_BRANCH_ID:
        return GraphNotFound(
            "there is no graph here; create one with Graph.init or `omnigraph init`"
        )
    return _no_branch(branch_id)


def _no_branch(branch_id: BranchId) -> BranchNotFound:
    return BranchNotFound(
        f"the branch {branch_id} is gone; list the branches that exist", branch=branch_id
    )
