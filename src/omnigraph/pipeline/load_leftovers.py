"""What a load leaves behind and must not: files that no commit took, views, paid vectors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.resume import forget_intake, is_taken_over, remove_staging_of_both
from omnigraph.pipeline.staged_files import noted_files, staging_folder

if TYPE_CHECKING:
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.load_run import LoadRun
    from omnigraph.pipeline.staged_views import StagedViews
    from omnigraph.pipeline.upsert import Upserts

log = logging.getLogger(__name__)


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
        *,
        took_over: bool,
    ) -> None:
        self._storage = run.graph.storage
        self._operation_id = run.operation_id
        self._input = taken_in
        self._views = views
        self._upserts = upserts
        self._took_over = took_over
        self.removed = 0
        """How many files were removed."""

    def remove_files(self, but: frozenset[str] = frozenset()) -> None:
        """Delete the files of tasks, but for those that were committed.

        Without a commit also those of tasks whose result was lost; else they are left to cleanup.
        """
        try:
            if not but:
                # Nobody may go on with files that are about to go; who did already is seen now.
                forget_intake(self._storage, self._operation_id)
            if self._is_shared:
                return
            written = {*self._upserts.written, *self._input.files}
            if not but:
                written.update(noted_files(self._storage, self._operation_id))
            for path in sorted(written - but):
                self.removed += self._storage.objects.delete_tree(path)
        except OmnigraphError as error:
            log.warning("files of a load stay", extra={"why": error.message})

    def forget_paid(self) -> None:
        """Delete the vectors that a load which is committed paid for."""
        try:
            self._storage.objects.delete_prefix(self._input.paid_folder)
        except OmnigraphError as error:
            log.warning("paid vectors stay", extra={"why": error.message})

    def clear(self, *, is_done: bool) -> None:
        """Remove what only this job could use."""
        try:
            self._views.close()
            if self._took_over:
                # What was not used stays, for another try.
                if is_done:
                    remove_staging_of_both(self._storage, self._operation_id)
            elif not self._is_shared:
                folder = staging_folder(self._operation_id)
                self.removed += self._storage.objects.delete_prefix(folder)
        except OmnigraphError as error:
            log.warning("staged files stay", extra={"why": error.message})

    @property
    def _is_shared(self) -> bool:
        """Two loads know of the same staged files: one was thought dead."""
        return is_taken_over(self._storage, self._operation_id)
