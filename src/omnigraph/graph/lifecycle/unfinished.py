"""A graph that is still being filled from another: no graph for anybody, until its stamp says so.

It has a manifest, because its content is written by commits. Its claim stays until the end, and
tells whose work it is. What a clone left that was cut off is removed only when its process is known
to be gone: nothing else would keep it from writing into what comes after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import StorageInternalError, StorageUnavailable, StorageVersionMissing
from omnigraph.graph.lifecycle.init_claim import CLAIM_PATH, release_claim
from omnigraph.graph.manifest.stamp import FINISHED, decode_stamp
from omnigraph.ids import MAIN_BRANCH_ID
from omnigraph.storage.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.storage.graph_storage import GraphStorage

_VERSIONS: Final = f"{MANIFEST}/_versions/"


def is_unfinished(storage: GraphStorage) -> bool:
    """Whether the manifest, which is there, is that of a clone that has not ended."""
    try:
        handle = storage.manifest.open_line(MAIN_BRANCH_ID)
        return decode_stamp(storage.manifest.stamp(handle)).is_unfinished
    except (StorageVersionMissing, StorageInternalError, StorageUnavailable):
        return False  # No clone, or damaged: whoever opens it will say so.


def finish(storage: GraphStorage, claim_id: str) -> None:
    """Make it a graph, in one commit."""
    storage.manifest.set_stamp(storage.manifest.open_line(MAIN_BRANCH_ID), FINISHED)
    release_claim(storage.objects, claim_id)


def remove_unfinished(
    storage: GraphStorage, check: Callable[[], None], *, kept: tuple[str, ...] = ()
) -> None:
    """Remove everything but the claim.

    Args:
        storage: where it lies.
        check: raises if this process may not remove anything any more.
        kept: the beginnings of paths that stay.
    """
    paths = [info.path for info in storage.objects.list("")]
    # Whatever ends this half-way, the newest version that is left says what it is: the versions go
    # last, and a listing has the newest first.
    for path in sorted(paths, key=lambda path: (path.startswith(_VERSIONS), path)):
        if path != CLAIM_PATH and not path.startswith(kept or ("\0",)):
            check()
            storage.objects.delete(path)
    storage.objects.remove_empty_folders("")
