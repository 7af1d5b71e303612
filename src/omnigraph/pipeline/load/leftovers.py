"""What a load leaves behind and must not: files that no commit took, views, paid vectors."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from omnigraph.errors import BranchNotFound, OmnigraphError
from omnigraph.graph.history.commit_graph import commit_on
from omnigraph.graph.load.load_branch import readable_branch
from omnigraph.pipeline.load.resume import (
    forget_intake,
    give_back,
    is_taken_over,
    remove_staging,
    take_over,
)
from omnigraph.pipeline.staging.job_files import (
    StagedFiles,
    noted_files,
    remove_folder,
    staging_folder,
)
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.pipeline.load.input import LoadInput
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.staging.detached_views import StagedViews
    from omnigraph.pipeline.upsert.strategy import Upserts

log = logging.getLogger(__name__)

_FAILURES: Final = (OmnigraphError, StorageSignal)


class StagedState(Enum):
    """Who may commit what a load has staged, and so what of it may be deleted."""

    OURS = auto()
    """Nobody but this load knows of it: all of it may go."""
    HANDED_OVER = auto()
    """The intent is written: a recovery may commit it, so all of it stays."""
    COMMITTED = auto()
    """A commit holds the load: what that did not take may go."""


class LoadLeftovers:
    """Removes what can be removed; a failure leaves it to cleanup and says so in the log.

    The load is decided by then: neither its success nor its error may be hidden.
    """

    def __init__(
        self,
        job: JobContext,
        request: LoadRequest,
        taken_in: LoadInput,
        views: StagedViews,
        upserts: Upserts,
    ) -> None:
        self._graph = job.graph
        self._storage = job.storage
        self._operation_id = job.operation_id
        self._request = request
        self._took_over = request.resume is not None
        self._input = taken_in
        self._views = views
        self._upserts = upserts
        self.staged = StagedFiles()
        """The files that the driver staged for the commit."""
        self._state = StagedState.OURS
        self._mark: str | None = None
        self._removed = 0

    def take_over(self) -> Commit | None:
        """Go on with a load that is dead; what it has committed after all.

        Raises:
            InvalidArgument: it seems to run.
        """
        self._mark = take_over(self._graph, self._operation_id)
        commit = self._committed()
        if commit is not None:
            self._state = StagedState.COMMITTED
        return commit

    def start_over(self) -> None:
        """An attempt begins: nothing of the one before is committed."""
        self._state = StagedState.OURS
        self.staged.start_over()

    def hand_over(self) -> None:
        """From now on a recovery may commit what was staged."""
        self._state = StagedState.HANDED_OVER

    def abandon(self) -> None:
        """The load failed: remove what it staged, unless a recovery may still commit it."""
        if self._state is StagedState.OURS:
            self.remove_files()

    def settle(self, *, is_committed: bool, is_own: bool) -> None:
        """Remove what tasks wrote and the commit did not take: rows that were merged, and the like.

        Of a commit that somebody else made, or an earlier attempt, it is not known what it took: a
        load that went on elsewhere takes the files of the one that was thought dead.
        """
        if is_committed:
            self._state = StagedState.COMMITTED
        if is_own or not is_committed:
            self.remove_files()
        if is_committed:
            self._forget_paid()

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Remove what only this job could use when the block ends; an error says how many."""
        try:
            yield
        except BaseException as error:
            self._clear()
            if self._removed:
                counted = f"{self._removed:,} staged files of {self._operation_id}"
                error.add_note(f"{counted} were removed")
            raise
        self._clear()

    def remove_files(self) -> None:
        """Delete the files of tasks and of the driver, but for those that were committed.

        Without a commit also those of tasks whose result was lost; else they are left to cleanup.
        A load that went on for another keeps what was taken in, for the next try: the one before
        may live and use it too.
        """
        try:
            written = {*self._upserts.written, *self.staged.written, *self._input.files}
            if self._state is StagedState.COMMITTED:
                written -= self.staged.taken
            elif self._took_over:
                written -= set(self._input.files)
            else:
                # Nobody may go on with files that are about to go; who did already is seen now.
                forget_intake(self._storage, self._operation_id)
                written.update(noted_files(self._storage, self._operation_id))
            # Only now: whoever noted one of these files had said before that it goes on.
            if self._is_shared():
                return
            for path in sorted(written):
                self._removed += self._storage.objects.delete_tree(path)
        except _FAILURES as error:
            log.warning("files of a load stay", extra={"why": str(error)})

    def _forget_paid(self) -> None:
        """Delete the vectors that a load which is committed paid for."""
        try:
            remove_folder(self._storage, self._input.paid_folder)
        except _FAILURES as error:
            log.warning("paid vectors stay", extra={"why": str(error)})

    def _clear(self) -> None:
        """Remove what only this job could use."""
        try:
            self._views.close()
            if not self._took_over:
                self._removed += remove_staging(self._storage, self._operation_id)
            elif self._state is StagedState.COMMITTED:
                # Whoever else goes on with it finds the commit.
                remove_folder(self._storage, staging_folder(self._operation_id))
            elif self._mark is not None and self._state is StagedState.OURS:
                self._removed += give_back(self._storage, self._operation_id, self._mark)
        except _FAILURES as error:
            log.warning("staged files stay", extra={"why": str(error)})

    def _is_shared(self) -> bool:
        """Two loads know of the same staged files: one was thought dead.

        A mark is taken away only after the commit of whoever made it, so it is looked for first.
        """
        if is_taken_over(self._storage, self._operation_id, but_for=self._mark):
            return True
        # Nobody was told of a rehearsal; what is not committed of an own commit is of no use; and
        # what was not taken in by this load is its own.
        is_committed = self._state is StagedState.COMMITTED
        is_alone = is_committed or self._took_over or self._request.dry_run
        return not is_alone and self._committed() is not None

    def _committed(self) -> Commit | None:
        """The commit of this load, whoever made it."""
        graph, request = self._graph, self._request
        branch = readable_branch(graph, request.branch, request.from_)
        try:
            lines = [graph.lines.read(graph.branch_id(branch))]
        except BranchNotFound:
            # Branches that were made from it have its commits.
            lines = list(graph.lines.live_lines())
        for line in lines:
            row = line.commit_of_job(self._operation_id)
            if row is not None:
                return commit_on(line, row)
        return None
