"""What a load leaves behind and must not: files that no commit took, views, paid vectors."""

from __future__ import annotations

import logging
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
from omnigraph.pipeline.staging.job_files import noted_files, remove_folder, staging_folder
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.pipeline.load.input import LoadInput
    from omnigraph.pipeline.load.load_run import LoadRun
    from omnigraph.pipeline.staging.detached_views import StagedViews
    from omnigraph.pipeline.staging.job_files import StagedFiles
    from omnigraph.pipeline.upsert.strategy import Upserts

log = logging.getLogger(__name__)

_FAILURES: Final = (OmnigraphError, StorageSignal)


class LoadLeftovers:
    """Removes what can be removed; a failure leaves it to cleanup and says so in the log.

    The load is decided by then: neither its success nor its error may be hidden.
    """

    def __init__(
        self,
        run: LoadRun,
        taken_in: LoadInput,
        views: StagedViews,
        upserts: Upserts,
        staged: StagedFiles,
        *,
        took_over: bool,
    ) -> None:
        self._run = run
        self._storage = run.graph.storage
        self._operation_id = run.operation_id
        self._input = taken_in
        self._views = views
        self._upserts = upserts
        self._staged = staged
        self._took_over = took_over
        self._mark: str | None = None
        self.removed = 0
        """How many files were removed."""

    def take_over(self) -> Commit | None:
        """Go on with a load that is dead; what it has committed after all.

        Raises:
            InvalidArgument: it seems to run.
        """
        self._mark = take_over(self._run.graph, self._operation_id)
        return self._committed()

    def remove_files(self, *, is_committed: bool = False) -> None:
        """Delete the files of tasks and of the driver, but for those that were committed.

        Without a commit also those of tasks whose result was lost; else they are left to cleanup.
        A load that went on for another keeps what was taken in, for the next try: the one before
        may live and use it too.
        """
        try:
            written = {*self._upserts.written, *self._staged.written, *self._input.files}
            if is_committed:
                written -= self._staged.taken
            elif self._took_over:
                written -= set(self._input.files)
            else:
                # Nobody may go on with files that are about to go; who did already is seen now.
                forget_intake(self._storage, self._operation_id)
                written.update(noted_files(self._storage, self._operation_id))
            # Only now: whoever noted one of these files had said before that it goes on.
            if self._is_shared(is_committed=is_committed):
                return
            for path in sorted(written):
                self.removed += self._storage.objects.delete_tree(path)
        except _FAILURES as error:
            log.warning("files of a load stay", extra={"why": str(error)})

    def forget_paid(self) -> None:
        """Delete the vectors that a load which is committed paid for."""
        try:
            remove_folder(self._storage, self._input.paid_folder)
        except _FAILURES as error:
            log.warning("paid vectors stay", extra={"why": str(error)})

    def clear(self, *, is_done: bool, is_open: bool = False) -> None:
        """Remove what only this job could use.

        Args:
            is_done: it is committed.
            is_open: a recovery may still commit it.
        """
        try:
            self._views.close()
            if not self._took_over:
                self.removed += remove_staging(self._storage, self._operation_id)
            elif is_done:
                # Whoever else goes on with it finds the commit.
                remove_folder(self._storage, staging_folder(self._operation_id))
            elif self._mark is not None and not is_open:
                self.removed += give_back(self._storage, self._operation_id, self._mark)
        except _FAILURES as error:
            log.warning("staged files stay", extra={"why": str(error)})

    def _is_shared(self, *, is_committed: bool) -> bool:
        """Two loads know of the same staged files: one was thought dead.

        A mark is taken away only after the commit of whoever made it, so it is looked for first.
        """
        if is_taken_over(self._storage, self._operation_id, but_for=self._mark):
            return True
        # Nobody was told of a rehearsal; what is not committed of an own commit is of no use; and
        # what was not taken in by this load is its own.
        is_alone = is_committed or self._took_over or self._run.is_rehearsal
        return not is_alone and self._committed() is not None

    def _committed(self) -> Commit | None:
        """The commit of this load, whoever made it."""
        graph, options = self._run.graph, self._run.options
        branch = readable_branch(graph, options.branch, options.from_)
        try:
            lines = [graph.lines.read(graph.branch_id(branch))]
        except BranchNotFound:
            # Branches that were made from it have its commits.
            lines = list(graph.live_lines())
        for line in lines:
            row = line.commit_of_job(self._operation_id)
            if row is not None:
                return commit_on(line, row)
        return None
