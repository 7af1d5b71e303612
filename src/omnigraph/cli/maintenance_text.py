"""What commands that change no row have in common: the words for what they left, and the body."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.maintenance.index_report import PendingIndex

_REASONS: Final = {"no_rows": "no rows yet", "no_vectors": "no vectors yet"}


def left_of(pending: "Iterable[PendingIndex]", *, is_busy: bool) -> str:
    """Why a table is not as it should be yet: `vec (no vectors yet)`."""
    waiting = [f"{index.property_name} ({_REASONS[index.reason]})" for index in pending]
    if is_busy:
        waiting.append("others write to it too often: run this again later")
    return ", ".join(waiting) or "-"


# Any: a report as JSON.
def with_commit(body: dict[str, Any], commit: "Commit | None") -> dict[str, Any]:
    """A report whose commit is the one of the contract."""
    from omnigraph.graph.bodies import commit_body

    return body | {"commit": None if commit is None else commit_body(commit)}
