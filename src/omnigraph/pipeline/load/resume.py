"""What a load keeps of its intake, so that it can go on after its driver was killed.

The staged files are still there; a note beside them says which they are and what they were made
from. A load that goes on takes them only if its input, its schema and the versions it started from
are what they were. A part that had bad rows is not kept: the load would be refused again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import InvalidArgument
from omnigraph.graph.jobs.pins import living_pin
from omnigraph.graph.manifest.rows import TableRef
from omnigraph.pipeline.files.row_origin import RowRun
from omnigraph.pipeline.intake.inputs import Where
from omnigraph.pipeline.staging.job_files import staging_folder
from omnigraph.pipeline.staging.part_result import IntakeResult, TableIntake
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.staged_fragments import pieces_from_json, pieces_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableHandle

_FORMAT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeState:
    """What staged rows were made from; equal states make equal rows."""

    fingerprint: str
    """Of the input, and of how it is read."""
    schema_hash: str
    pins: Mapping[str, str]
    """The version of each table that the load started from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptIntake:
    """What was staged, and where each input begins in it."""

    results: Sequence[IntakeResult]
    begins: Sequence[Where]


def take_over(graph: GraphCoordinator, operation_id: str) -> str:
    """Make sure that the job is dead, and that its files stay if it is not after all.

    Returns:
        The mark of whoever goes on with it, which stands until `give_back` or `remove_staging`.

    Raises:
        InvalidArgument: it seems to run.
    """
    objects = graph.storage.objects
    pin = living_pin(objects, graph.clock, operation_id)
    if pin is not None:
        raise InvalidArgument(
            f"the load {operation_id} still runs (process {pin['pid']} on {pin['host']}); wait for"
            " it, or end it and try again in a minute",
            argument="resume",
        )
    # One for each: who ends must not take away the mark of whoever goes on with its own work.
    mark = f"{_marks(operation_id)}/{graph.ids.next_ulid()}.json"
    objects.put(mark, b"{}")
    return mark


def is_taken_over(storage: GraphStorage, operation_id: str, *, but_for: str | None = None) -> bool:
    """Whether a load other than that of a mark goes on with what is staged: it must stay."""
    marks = storage.objects.list(_marks(operation_id), limit=2)
    return any(each.path != but_for for each in marks)


def remove_staging(storage: GraphStorage, operation_id: str) -> int:
    """Remove the work files of a load, unless another one goes on with them; how many."""
    # Listed once: what somebody else adds after that is not removed.
    paths = [each.path for each in storage.objects.list(staging_folder(operation_id))]
    if any(path.startswith(f"{_marks(operation_id)}/") for path in paths):
        return 0
    for path in paths:
        storage.objects.delete(path)
    storage.objects.remove_empty_folders(staging_folder(operation_id))
    return len(paths)


def give_back(storage: GraphStorage, operation_id: str, mark: str) -> int:
    """End the work on a load without a commit; how many of its work files were removed.

    What can be used again stays, for another try.
    """
    storage.objects.delete(mark)
    storage.objects.remove_empty_folders(_marks(operation_id))
    if storage.objects.head(_path(operation_id)) is not None:
        return 0
    return remove_staging(storage, operation_id)


def _marks(operation_id: str) -> str:
    return f"{staging_folder(operation_id)}/taken-over"


def state_of(
    fingerprint: str, schema_hash: str, bases: Mapping[TableRef, TableHandle]
) -> IntakeState:
    """The state of a load that starts from these tables."""
    return IntakeState(
        fingerprint=fingerprint,
        schema_hash=schema_hash,
        pins={
            str(ref): f"{base.pin.location}@{base.pin.branch or ''}:{base.pin.version}"
            for ref, base in bases.items()
        },
    )


def keep_intake(
    storage: GraphStorage, operation_id: str, state: IntakeState, kept: KeptIntake
) -> None:
    """Note what was staged; nothing is noted of an intake that found bad rows."""
    if any(each.findings.counts for each in kept.results):
        return
    body = {
        "format": _FORMAT,
        "fingerprint": state.fingerprint,
        "schema_hash": state.schema_hash,
        "pins": dict(state.pins),
        "begins": [[each.source, each.first] for each in kept.begins],
        "results": [_to_json(each) for each in kept.results],
    }
    storage.objects.put(_path(operation_id), json.dumps(body).encode())


def kept_intake(storage: GraphStorage, operation_id: str, state: IntakeState) -> KeptIntake | None:
    """What a load of that operation staged, if it was made from the same state."""
    try:
        body: dict[str, Any] = json.loads(storage.objects.get(_path(operation_id)))
    except ObjectMissing:
        return None
    origin = (body["format"], body["fingerprint"], body["schema_hash"], body["pins"])
    if origin != (_FORMAT, state.fingerprint, state.schema_hash, dict(state.pins)):
        return None
    return KeptIntake(
        results=[_from_json(each) for each in body["results"]],
        begins=[Where(source=source, first=first) for source, first in body["begins"]],
    )


def forget_intake(storage: GraphStorage, operation_id: str) -> None:
    """Remove the note, so that no load goes on with what was staged."""
    storage.objects.delete(_path(operation_id))


def _path(operation_id: str) -> str:
    return f"{staging_folder(operation_id)}/intake.json"


def _to_json(result: IntakeResult) -> dict[str, Any]:
    return {
        "ordinal": result.ordinal,
        "lines": result.lines,
        "size_bytes": result.size_bytes,
        "runs": [[each.file, each.block, each.rows] for each in result.runs],
        "respelled": {name: dict(each) for name, each in result.respelled.items()},
        "lost": dict(result.lost),
        "tables": [
            {
                "ref": [ref.table_id, ref.incarnation],
                "pieces": pieces_to_json(table.pieces),
                "read": table.read,
                "staged": table.staged,
                "has_given_ids": table.has_given_ids,
                "first_line": table.first_line,
                "lines_file": table.lines_file,
            }
            for ref, table in result.tables.items()
        ],
    }


def _from_json(body: Mapping[str, Any]) -> IntakeResult:  # Any: as JSON gives it
    return IntakeResult(
        ordinal=body["ordinal"],
        lines=body["lines"],
        size_bytes=body["size_bytes"],
        runs=tuple(RowRun(file=file, block=block, rows=rows) for file, block, rows in body["runs"]),
        respelled=body["respelled"],
        lost=body.get("lost", {}),
        tables={
            TableRef(*each["ref"]): TableIntake(
                pieces=pieces_from_json(each["pieces"]),
                read=each["read"],
                staged=each["staged"],
                has_given_ids=each["has_given_ids"],
                first_line=each["first_line"],
                lines_file=each["lines_file"],
            )
            for each in body["tables"]
        },
    )
