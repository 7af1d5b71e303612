"""The version stamp of a graph: what it is, who made it, which shape its manifest has.

The stamp is part of the manifest's first version, so a graph without one cannot be created. It is
looked at before anything else, at every open and at every read of a line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    StorageVersionMissing,
    StorageVersionTooNew,
    StorageVersionTooOld,
)
from omnigraph.ids import GraphId

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERNAL_MANIFEST_SCHEMA_VERSION: Final = 1
VERSION_KEY: Final = "omnigraph:internal_schema_version"
_GRAPH_KEY: Final = "omnigraph:graph_id"
_MAKER_KEY: Final = "omnigraph:created_by"
_CLONE_KEY: Final = "omnigraph:clone"
_UNFINISHED: Final = "unfinished"
FINISHED: Final = {_CLONE_KEY: "finished"}
"""The change of the stamp by which a clone becomes a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Identity and shape of a graph."""

    version: int
    graph_id: GraphId
    release: str
    claim_id: str
    is_unfinished: bool = False
    """A clone that is still being filled: no graph yet. Told by the main line alone."""

    def encode(self) -> dict[str, str]:
        """The metadata of the manifest's schema."""
        maker = {"claim_id": self.claim_id, "release": self.release}
        return {
            VERSION_KEY: str(self.version),
            _GRAPH_KEY: self.graph_id,
            _MAKER_KEY: json.dumps(maker, sort_keys=True, separators=(",", ":")),
            **({_CLONE_KEY: _UNFINISHED} if self.is_unfinished else {}),
        }


def decode_stamp(metadata: Mapping[str, str]) -> Stamp:
    """The stamp of a manifest.

    Raises:
        StorageVersionMissing: it carries none that can be read.
    """
    try:
        maker = json.loads(metadata[_MAKER_KEY])
        return Stamp(
            version=int(metadata[VERSION_KEY]),
            graph_id=GraphId(metadata[_GRAPH_KEY]),
            release=maker["release"],
            claim_id=maker["claim_id"],
            is_unfinished=metadata.get(_CLONE_KEY) == _UNFINISHED,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StorageVersionMissing(
            "the manifest carries no version stamp: this is not a graph of omnigraph, or it is"
            " damaged; nothing was changed"
        ) from error


def require_readable(stamp: Stamp, *, readable_from: int) -> None:
    """Refuse a manifest whose shape this release does not know.

    Raises:
        StorageVersionTooNew: a later release wrote it.
        StorageVersionTooOld: no migration leads from it to this release.
    """
    known = INTERNAL_MANIFEST_SCHEMA_VERSION
    if stamp.version > known:
        raise StorageVersionTooNew(
            f"the graph has storage format {stamp.version}, written by omnigraph {stamp.release};"
            f" this release reads {known}: upgrade omnigraph",
            found=stamp.version,
            known=known,
        )
    if stamp.version < readable_from:
        raise StorageVersionTooOld(
            f"the graph has storage format {stamp.version}, written by omnigraph {stamp.release};"
            f" this release reads {readable_from} and later. Export it with that release"
            " (`omnigraph export OLD > graph.ndjson`), then `omnigraph init NEW --schema FILE` and"
            " `omnigraph load NEW --data graph.ndjson --mode append`",
            found=stamp.version,
            known=known,
            release=stamp.release,
        )
