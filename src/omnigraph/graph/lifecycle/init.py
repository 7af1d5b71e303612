"""How a graph begins: everything is written first, then the manifest in one commit.

Creating the manifest is the single moment at which the graph exists. A crash before it leaves a
root that a forced init clears; a crash after it leaves a good graph.

An init that was only paused may wake up at any point of the forced one. It cannot be stopped from
writing a file, but it is kept from making a graph of what is left or of what the other has made:
before anything is cleared, a fence takes the version that its manifest would have become.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import (
    GraphExists,
    InitInProgress,
    ManifestCorrupt,
    OmnigraphError,
    RootNotEmpty,
    StorageUnavailable,
)
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.lifecycle.init_claim import (
    CLAIM_PATH,
    InitClaim,
    find_claim,
    in_progress,
    release_claim,
    require_claim,
    take_claim,
)
from omnigraph.graph.lifecycle.unfinished import is_unfinished, remove_unfinished
from omnigraph.graph.manifest.pauses import Pauses
from omnigraph.graph.manifest.rows import (
    CommitRow,
    HeadRow,
    PinRow,
    Row,
    SchemaRow,
    TableRow,
    encode_rows,
)
from omnigraph.graph.manifest.schemas import Schemas
from omnigraph.graph.manifest.stamp import INTERNAL_MANIFEST_SCHEMA_VERSION, Stamp, decode_stamp
from omnigraph.graph.manifest.table_refs import CatalogTables
from omnigraph.graph.recovery.leases import LeaseLost, Leases
from omnigraph.graph.recovery.process_identity import this_process
from omnigraph.ids import (
    MAIN_BRANCH,
    MAIN_BRANCH_ID,
    new_commit_id,
    new_graph_id,
    new_operation_id,
)
from omnigraph.lang import accept_schema, compile_schema, require_meant_annotations
from omnigraph.storage.location import refuse_file
from omnigraph.storage.manifest import MANIFEST
from omnigraph.storage.probe import probe_store
from omnigraph.storage.signals import AlreadyExists, CommitRefused, ObjectMissing, StorageSignal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.clock import Clock
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.recovery.leases import Lease
    from omnigraph.ids import IdSource
    from omnigraph.lang import AcceptedSchema
    from omnigraph.settings import StorageSettings
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableLayout
    from omnigraph.storage.objects import StorageAdapter

log = logging.getLogger(__name__)

_PROBE_PREFIX = "__probe-"
_CLEARING_SCOPE = "init"
_CLEARING = f"__leases/{_CLEARING_SCOPE}/"
_FENCES = f"{MANIFEST}/"
_SHOWN_OBJECTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The graph that a new one will be filled from."""

    accepted: AcceptedSchema
    """Its schema, with the ids that it gave."""
    stats: Mapping[str, Any]
    """What the first commit tells of it."""


def create_graph(
    storage: GraphStorage,
    source: str,
    *,
    clock: Clock,
    ids: IdSource,
    settings: StorageSettings,
    release: str,
    actor_id: str | None = None,
    force: bool = False,
    origin: Origin | None = None,
) -> None:
    """Create a graph with this schema where there is none.

    With an origin it is unfinished, and keeps its claim, until `finish`.

    Raises:
        SchemaInvalid: the schema does not compile; nothing was written.
        GraphExists, RootNotEmpty, InitInProgress: something is there; it is unchanged.
    """
    accepted = accept_schema(compile_schema(source)) if origin is None else origin.accepted
    if origin is None:
        require_meant_annotations(source)
    refuse_file(storage.location)
    objects = storage.objects
    if force:
        leases = Leases(objects, clock, ids, Pauses(ids), settings, this_process())
        _clear_abandoned(storage, clock, leases)
    elif storage.manifest.exists():
        raise _exists(storage)
    probe_store(storage.location, objects, ids)
    # Before the claim: whoever clears this init has seen the claim, and fences what it starts from.
    base = storage.manifest.base()
    if base is None:
        raise _exists(storage)
    claim = InitClaim(
        claim_id=ids.next_ulid(),
        started_at=clock.now_us(),
        schema_hash=accepted.schema_hash,
        **this_process().to_dict(),
    )
    take_claim(objects, claim)
    maybe_fail("init.post_claim")
    try:
        _require_empty(storage)
    except (GraphExists, RootNotEmpty):
        release_claim(objects, claim.claim_id)
        raise
    try:
        _store_schema(objects, accepted, source)
        maybe_fail("init.post_schema")
        stats = {} if origin is None else origin.stats
        rows = _genesis(accepted, stats, clock=clock, ids=ids, actor_id=actor_id)
        for ref, layout in CatalogTables(accepted.catalog).layouts.items():
            require_claim(objects, claim.claim_id)
            rows += _made_table(storage, ref, layout)
            maybe_fail("init.post_table_create")
        require_claim(objects, claim.claim_id)
    except OmnigraphError:
        _take_back(objects, claim.claim_id)
        raise
    storage.sync_root()
    stamp = Stamp(
        version=INTERNAL_MANIFEST_SCHEMA_VERSION,
        graph_id=new_graph_id(ids),
        release=release,
        claim_id=claim.claim_id,
        is_unfinished=origin is not None,
    )
    _create_manifest(storage, rows, stamp, base)
    maybe_fail("init.post_manifest_pre_unclaim")
    if origin is None:
        release_claim(objects, claim.claim_id)


def _store_schema(objects: StorageAdapter, accepted: AcceptedSchema, source: str) -> None:
    """Write the schema; ids that another init gave its types must not become those of this one."""
    Schemas(objects).store(accepted, source)
    try:
        stored = Schemas(objects).load(accepted.schema_hash)
    except ManifestCorrupt as cleared:
        raise in_progress(find_claim(objects)) from cleared
    if stored.ids_json() != accepted.ids_json():
        raise in_progress(find_claim(objects))


def _create_manifest(storage: GraphStorage, rows: list[Row], stamp: Stamp, base: int) -> None:
    try:
        storage.manifest.create(encode_rows(rows), stamp.encode(), base)
    except (StorageUnavailable, StorageSignal):
        # The answer was lost, not necessarily the commit: the claim in the stamp tells whose it is.
        try:
            handle = storage.manifest.open_line(MAIN_BRANCH_ID)
        except ObjectMissing:
            handle = None
        if handle is None:
            raise
        if storage.manifest.is_fence(handle):
            if handle.version == base:
                raise
            raise in_progress(find_claim(storage.objects)) from None
        if decode_stamp(storage.manifest.stamp(handle)).claim_id != stamp.claim_id:
            raise _exists(storage) from None
        storage.manifest.renew(handle)


def _genesis(
    accepted: AcceptedSchema,
    stats: Mapping[str, Any],
    *,
    clock: Clock,
    ids: IdSource,
    actor_id: str | None,
) -> list[Row]:
    commit_id = new_commit_id(ids)
    return [
        CommitRow(
            commit_id=commit_id,
            seq=0,
            parent=None,
            kind="genesis",
            schema_hash=accepted.schema_hash,
            operation_id=new_operation_id(ids),
            authored_at=clock.now_us(),
            authored_branch=MAIN_BRANCH,
            actor_id=actor_id,
            stats=stats,
        ),
        HeadRow(commit_id=commit_id, seq=0, branch_id=MAIN_BRANCH_ID),
        SchemaRow(
            schema_hash=accepted.schema_hash,
            next_type_id=accepted.next_type_id,
            next_property_id=accepted.next_property_id,
        ),
    ]


def _made_table(storage: GraphStorage, ref: TableRef, layout: TableLayout) -> list[Row]:
    try:
        pin = storage.tables.create_table(layout)
    except (AlreadyExists, CommitRefused) as error:
        # The root was empty: only another init can have made it.
        raise in_progress(find_claim(storage.objects)) from error
    return [
        TableRow(ref=ref, table_key=layout.table_key, location=layout.location),
        PinRow(
            ref=ref,
            seq=0,
            table_key=layout.table_key,
            location=layout.location,
            branch=None,
            version=pin.version,
            row_count=0,
        ),
    ]


def _require_empty(storage: GraphStorage) -> None:
    if storage.manifest.exists():
        raise _exists(storage)
    paths = [info.path for info in storage.objects.list("", limit=100)]
    others = sorted(
        path
        for path in paths
        if path != CLAIM_PATH and not path.startswith((_PROBE_PREFIX, _CLEARING, _FENCES))
    )
    if others:
        more = ", …" if len(others) > _SHOWN_OBJECTS else ""
        shown = ", ".join(others[:_SHOWN_OBJECTS]) + more
        raise RootNotEmpty(
            f"{storage.location} is not empty ({shown}); give a new or empty folder or prefix",
            location=str(storage.location),
        )


def _clear_abandoned(storage: GraphStorage, clock: Clock, leases: Leases) -> None:
    """Remove what a crashed init or clone left; never a graph, never a root without a claim.

    Two that clear one root must not meet: the slower one would remove what the faster one has
    already made anew.
    """
    if storage.manifest.exists() and not is_unfinished(storage):
        raise _exists(storage)
    if find_claim(storage.objects) is None:
        return
    try:
        with leases.holding(_CLEARING_SCOPE) as lease:
            _clear(storage, clock, lease)
    except LeaseLost as lost:
        raise in_progress(find_claim(storage.objects)) from lost
    finally:
        leases.close()


def _clear(storage: GraphStorage, clock: Clock, lease: Lease) -> None:
    is_clone = storage.manifest.exists()
    if is_clone and not is_unfinished(storage):
        raise _exists(storage)
    claim = find_claim(storage.objects)
    if claim is None:
        return
    if is_clone and not this_process().knows_gone(claim.process):
        raise in_progress(claim)
    if not claim.is_abandoned(this_process(), clock):
        raise in_progress(claim)
    if is_clone:
        remove_unfinished(storage, lease.check, kept=(_CLEARING,))
    else:
        _fence(storage)
        for path in _left_by_init(storage.objects):
            lease.check()
            storage.objects.delete(path)
    lease.check()
    release_claim(storage.objects, claim.claim_id)


def _fence(storage: GraphStorage) -> None:
    """Keep the init whose claim is cleared from creating its manifest, however late it wakes up."""
    base = storage.manifest.base()
    if base is None:
        raise _exists(storage)
    try:
        storage.manifest.fence(base)
    except (StorageUnavailable, StorageSignal):
        current = storage.manifest.base()
        if current is None:
            raise _exists(storage) from None
        if current == base:
            raise
        # An answer was lost, or another fence does the same.


def _take_back(objects: StorageAdapter, claim_id: str) -> None:
    """Remove what this init wrote before it failed, so that the next one can begin at once."""
    try:
        for path in _left_by_init(objects):
            require_claim(objects, claim_id)
            objects.delete(path)
        release_claim(objects, claim_id)
    except (OmnigraphError, StorageSignal) as error:
        log.warning("a failed init left its files", extra={"cause": str(error)})


def _left_by_init(objects: StorageAdapter) -> list[str]:
    """Everything but fences, and the claim, which goes last: it tells what this root is."""
    paths = (info.path for info in reversed(objects.list("")))
    kept = (_CLEARING, _FENCES)
    return [path for path in paths if path != CLAIM_PATH and not path.startswith(kept)]


def _exists(storage: GraphStorage) -> GraphExists | InitInProgress:
    if is_unfinished(storage):
        return in_progress(find_claim(storage.objects))
    return GraphExists(
        f"there is a graph at {storage.location} already; open it, or give another location",
        location=str(storage.location),
    )
