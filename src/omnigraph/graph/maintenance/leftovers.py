"""What lies beside the versions of tables and nobody needs: found by facts, removed by name.

Lines and leases of branches that are gone, lines of creations that died, and of schema changes;
versions of no line; pins and work files of dead jobs; tables that no line names; old versions of
the manifest. Each kind waits until no writer can be about to name it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from omnigraph.graph.jobs.pins import all_pins
from omnigraph.graph.maintenance.kept_versions import DAY_US, YOUNG_US
from omnigraph.graph.manifest.rows import BranchState
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.graph.recovery.leases import BRANCH_SCOPE, LEASES, branch_scope
from omnigraph.ids import BranchId
from omnigraph.storage.handles import LINE_PREFIX
from omnigraph.storage.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.cleanup_facts import CleanupFacts, Named
    from omnigraph.graph.maintenance.kept_versions import CleanupPolicy

_HOUR_US: Final = 3600 * 1_000_000
UNREGISTERED_US: Final = _HOUR_US
"""A line that no row names, because its branch is being made."""

SCRATCH_US: Final = _HOUR_US
STRAY_TABLE_US: Final = DAY_US
_STAGING: Final = "__staging"
TABLE_FOLDERS: Final = ("nodes", "edges")


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Something that may go, and how."""

    kind: str
    name: str
    remove: Callable[[], object]


def due_leftovers(
    graph: GraphCoordinator,
    facts: CleanupFacts,
    needed: Mapping[str, Named],
    policy: CleanupPolicy,
) -> Iterator[Due]:
    """Everything that may go now, children before what they grew from."""
    now_us = graph.clock.now_us()
    yield from _lines(graph, facts, now_us)
    yield from _leases(graph, facts, now_us - UNREGISTERED_US)
    yield from _jobs(graph, now_us - policy.work_us)
    yield from _detached(graph, facts, needed, now_us - policy.work_us)
    yield from _stray_tables(graph, facts, now_us)
    yield from _ended_tables(graph, facts, needed, policy, now_us)
    for branch_id in facts.lines:
        yield from _manifest_versions(graph, branch_id)


def _lines(graph: GraphCoordinator, facts: CleanupFacts, now_us: int) -> Iterator[Due]:
    """Lines of tables first: that of the manifest tells of them until it goes."""
    named = {branch for _, branch in facts.heads}
    for table in facts.tables.values():
        made = graph.storage.old_versions.lines_of(table.location)
        for name in sorted(made, reverse=True):
            if name not in named and _is_gone(facts, name, now_us - made[name]):
                layout = bare_layout(table.ref, table.table_key, table.location)
                yield Due(
                    kind="table line",
                    name=f"{table.table_key} {name}",
                    remove=_line_remover(
                        graph,
                        partial(graph.tables.delete_line, layout, name),
                        f"{table.location}/tree/{name}",
                    ),
                )
    made = graph.storage.old_versions.lines_of(MANIFEST)
    for name in sorted(made, reverse=True):
        if name.startswith(LINE_PREFIX) and _is_gone(facts, name, now_us - made[name]):
            branch_id = BranchId(name.removeprefix(LINE_PREFIX))
            yield Due(
                kind="branch",
                name=branch_id,
                remove=_line_remover(
                    graph,
                    partial(graph.storage.manifest.delete_line, branch_id),
                    f"{MANIFEST}/tree/{name}",
                ),
            )


def _is_gone(facts: CleanupFacts, name: str, age_us: int) -> bool:
    """Whether a line belongs to no branch that is, or may be about to be, live."""
    if not name.startswith(LINE_PREFIX):
        return name.startswith("scratch-") and age_us > SCRATCH_US
    branch_id = name.removeprefix(LINE_PREFIX)
    states = {row.branch_id: row.state for row in facts.main.branches().values()}
    if branch_id not in states:
        return age_us > UNREGISTERED_US
    return states[BranchId(branch_id)] is BranchState.DELETED


def _leases(graph: GraphCoordinator, facts: CleanupFacts, before_us: int) -> Iterator[Due]:
    """Those of branches that are gone, once nobody who was at work there can be left."""
    newest: dict[str, int] = {}
    for info in graph.storage.objects.list(LEASES):
        scope = info.path.removeprefix(f"{LEASES}/").partition("/")[0]
        newest[scope] = max(newest.get(scope, 0), info.modified_us)
    live = set(map(branch_scope, facts.lines))
    for scope, modified_us in newest.items():
        if scope.startswith(BRANCH_SCOPE) and scope not in live and modified_us < before_us:
            yield Due(kind="leases", name=scope, remove=_tree_remover(graph, f"{LEASES}/{scope}"))


def _line_remover(
    graph: GraphCoordinator, delete: Callable[[], object], folder: str
) -> Callable[[], None]:
    def remove() -> None:
        delete()
        # Lance takes the folders of a whole line; those of one that was cut off stay.
        graph.storage.objects.remove_empty_folders(folder)

    return remove


def _jobs(graph: GraphCoordinator, before_us: int) -> Iterator[Due]:
    """Pins that have expired, and work files of operations that have none."""
    objects = graph.storage.objects
    living, expired = all_pins(objects, graph.clock)
    for path in expired:
        yield Due(
            kind="expired pin",
            name=path.rpartition("/")[2],
            remove=partial(objects.delete, path),
        )
    newest: dict[str, int] = {}
    for info in objects.list(_STAGING):
        first, _, rest = info.path.removeprefix(f"{_STAGING}/").partition("/")
        # Paid vectors belong to no job: each goes by its own age.
        owner = f"{first}/{rest}" if first == "embed" else first
        newest[owner] = max(newest.get(owner, 0), info.modified_us)
    running = {pin["operation_id"] for pin in living}
    for owner, modified_us in newest.items():
        if owner.partition(".")[0] not in running and modified_us < before_us:
            yield Due(
                kind="work files",
                name=owner,
                remove=_tree_remover(graph, f"{_STAGING}/{owner}"),
            )


def _tree_remover(graph: GraphCoordinator, path: str) -> Callable[[], None]:
    objects = graph.storage.objects

    def remove() -> None:
        objects.delete_tree(path)
        objects.remove_empty_folders(path)

    return remove


def _detached(
    graph: GraphCoordinator, facts: CleanupFacts, needed: Mapping[str, Named], before_us: int
) -> Iterator[Due]:
    """Versions of no line that a dead job, or a compaction that died, left."""
    pinned = {location for location, _ in needed["pins"]}
    for location, branch in facts.heads:
        if location in pinned:
            continue
        for info in graph.storage.old_versions.of(location, branch).detached:
            if info.modified_us < before_us:
                yield Due(
                    kind="detached version",
                    name=info.path,
                    remove=partial(graph.storage.objects.delete, info.path),
                )


def _stray_tables(graph: GraphCoordinator, facts: CleanupFacts, now_us: int) -> Iterator[Due]:
    """Tables that no live line registers, because whoever made them died before that."""
    objects = graph.storage.objects
    known = {table.location for table in facts.tables.values()}
    for kind in TABLE_FOLDERS:
        for name in objects.folders(kind):
            location = f"{kind}/{name}"
            if location in known:
                continue
            newest = max((info.modified_us for info in objects.list(location)), default=0)
            if now_us - newest > STRAY_TABLE_US:
                yield Due(
                    kind="unregistered table",
                    name=location,
                    remove=_tree_remover(graph, location),
                )


def _ended_tables(
    graph: GraphCoordinator,
    facts: CleanupFacts,
    needed: Mapping[str, Named],
    policy: CleanupPolicy,
    now_us: int,
) -> Iterator[Due]:
    """Tables of dropped types that no commit which stays can read."""
    floors = (facts.heads, facts.forks, facts.tagged, facts.recent, *needed.values())
    alive = {location for floor in floors for location, _ in floor}
    main = facts.main
    for ref, seq in main.tip.ended.items():
        table, commit = facts.tables.get(ref), main.commit_at(seq)
        if table is None or commit is None or table.location in alive:
            continue
        age_us = now_us - commit.authored_at
        newer = main.head.seq - seq
        if age_us < YOUNG_US or not policy.allows(newer=newer, age_us=age_us):
            continue
        if graph.storage.objects.list(table.location, limit=1):
            yield Due(
                kind="ended table",
                name=f"{table.table_key} {table.location}",
                remove=_tree_remover(graph, table.location),
            )


def _manifest_versions(graph: GraphCoordinator, branch_id: BranchId) -> Iterator[Due]:
    due = graph.upkeep.due(branch_id)
    if due:
        yield Due(
            kind="manifest versions",
            name=f"{branch_id}: {len(due)}",
            remove=partial(graph.upkeep.remove, branch_id, due),
        )
