"""Files of bad rows: one folder for each load that has any, one NDJSON line for each row.

    <rejects>/<operation_id>/rejects.ndjson
    <rejects>/<operation_id>/_COMMITTED      the id of the commit, written after it

A line has `source`, `line`, `code`, `message`, `property` and `raw`: where the row stands, the
first rule that it breaks, what is to be said about all of them, and the row itself. Of a file of
lines `raw` is the exact line, so it can be mended and loaded; a line that is no UTF-8 is in base64,
and the member `encoding` says so. Of a table it is a line of the graph format. An edge to a
rejected node has `caused_by`, the place and the code of that node. Lines stand in the order of the
input. Without `_COMMITTED` a folder describes a load that did not happen.
"""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph.errors import InvalidArgument, OmnigraphError
from omnigraph.storage.output_files import OutputFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.graph.load.reject_options import RejectOptions
    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.graph.validation import Code
    from omnigraph.storage.location import GraphLocation

log = logging.getLogger(__name__)

REJECTS_FILE: Final = "rejects.ndjson"
COMMITTED_FILE: Final = "_COMMITTED"

_ENCODER: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectCause:
    """The rejected node for whose sake an edge is rejected."""

    source: str | None
    line: int
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """One bad row, as it is written."""

    source: str | None
    """The file, the frame or the type; `None` for lines in memory."""
    line: int
    code: Code
    message: str
    properties: Sequence[str]
    raw: bytes
    caused_by: RejectCause | None = None

    def to_line(self) -> bytes:
        """The line of the file."""
        out: dict[str, Any] = {
            "source": self.source,
            "line": self.line,
            "code": self.code.value,
            "message": self.message,
            "property": _property(self.properties),
        }
        try:
            out["raw"] = self.raw.decode()
        except UnicodeDecodeError:
            out |= {"raw": base64.b64encode(self.raw).decode(), "encoding": "base64"}
        if self.caused_by is not None:
            cause = self.caused_by
            out["caused_by"] = {
                "source": cause.source,
                "line": cause.line,
                "code": cause.code.value,
            }
        return _ENCODER.encode(out) + b"\n"


def _property(names: Sequence[str]) -> str | list[str] | None:
    if len(names) > 1:
        return list(names)
    return names[0] if names else None


class RejectFiles:
    """The files that one load writes, over all its attempts."""

    def __init__(self, options: RejectOptions, graph: GraphLocation) -> None:
        """Look at the place only.

        Raises:
            InvalidArgument: it is inside the graph, or a file.
        """
        self._options = options
        self._written: dict[str, OutputFolder] = {}
        if options.place is not None:
            _require_folder(options.place, graph)

    def write(self, operation_id: str, rejects: Iterable[Reject]) -> str:
        """Write the bad rows of one attempt; the address of their folder.

        Raises:
            StorageDenied, StorageUnavailable: it cannot be written.
        """
        place = self._options.place
        if place is None:
            raise InvalidArgument("rejects have no place", argument="rejects")
        folder = OutputFolder(replace(place, root=place.uri(operation_id)), self._options.storage)
        with folder.writing(REJECTS_FILE) as file:
            for each in rejects:
                file.write(each.to_line())
        self._written[operation_id] = folder
        return str(folder.location)

    def finish(self, row: CommitRow | None) -> tuple[str, ...]:
        """Mark the files of the attempt that was committed, and remove those of the others.

        The load is decided: what fails here is a warning.
        """
        warnings: list[str] = []
        kept = next(reversed(self._written), None) if row is None else row.operation_id
        for operation_id, folder in self._written.items():
            try:
                if operation_id != kept:
                    _remove(folder)
                elif row is not None:
                    folder.create(COMMITTED_FILE, f"{row.commit_id}\n".encode())
            except OmnigraphError as error:
                log.warning("rejects not finished", extra={"why": error.message})
                if operation_id == kept:
                    warnings.append(
                        f"{COMMITTED_FILE} could not be written to {folder.location}, although the"
                        f" load is committed: {error.message}"
                    )
        return tuple(warnings)


def _require_folder(place: GraphLocation, graph: GraphLocation) -> None:
    if f"{place}/".startswith(f"{graph}/"):
        raise InvalidArgument(
            f"{place} is inside the graph {graph}, whose folder holds nothing else; name a place"
            " for rejects outside of it",
            argument="rejects",
        )
    path = place.path("") if place.is_local else None
    for each in () if path is None else (path, *path.parents):
        if each.exists() and not each.is_dir():
            raise InvalidArgument(
                f"{each} is a file; name a folder for rejects", argument="rejects"
            )


def _remove(folder: OutputFolder) -> None:
    folder.remove([REJECTS_FILE])
    if folder.location.is_local:
        try:
            folder.location.path("").rmdir()
        except OSError as error:
            log.warning("an empty folder stays", extra={"why": str(error)})
