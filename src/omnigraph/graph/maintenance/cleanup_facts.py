"""What a cleanup must know before it removes anything: who still needs which version.

Everything comes from rows of the manifest and from control objects. If one live line, sidecar or
pin cannot be read, nothing is known, and the error ends the cleanup before it begins.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.errors import ManifestCorrupt
from omnigraph.graph.history.named_rows import live_branches
from omnigraph.graph.history.tags import tagged_pins
from omnigraph.graph.jobs.pins import all_pins
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage.handles import LINE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import PinRow, TableRef, TableRow

Place: TypeAlias = tuple[str, str | None]
"""A line of a table: the location of the table, and the Lance branch."""

Named: TypeAlias = "Mapping[Place, frozenset[int]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupFacts:
    """The state of a graph from which everything that may go is told."""

    lines: Mapping[BranchId, ManifestLine]
    tables: Mapping[TableRef, TableRow]
    """Every table that a live line registers, ended ones too."""

    heads: Named
    """What heads of live branches pin, also where a branch shares the line of another."""

    forks: Named
    """Where live branches and lines of tables begin, and where branches were last merged."""

    tagged: Named

    recent: Named
    """What the newest commits of live branches show, as many as the policy keeps."""

    @property
    def main(self) -> ManifestLine:
        """The main line."""
        return self.lines[MAIN_BRANCH_ID]


def gather_facts(graph: GraphCoordinator, *, commits: int = 0) -> CleanupFacts:
    """Read every live line, and of each the states of so many of its newest commits.

    Raises:
        BranchNotFound: a branch was deleted meanwhile; look again.
        ManifestCorrupt: a line contradicts itself.
    """
    lines = {branch_id: graph.lines.read(branch_id) for branch_id in graph.lines.live_branch_ids()}
    tables = {row.ref: row for line in lines.values() for row in line.registrations()}
    heads = [pin for line in lines.values() for pin in line.pins.values()]
    begins = _begins(lines)
    return CleanupFacts(
        lines=lines,
        tables=tables,
        heads=_by_place(heads),
        forks=_joined(
            _by_place([*_fork_points(lines, begins), *_merged_points(lines)]),
            _line_starts(graph, tables.values()),
        ),
        tagged=_by_place(tagged_pins(graph.lines)),
        recent=_by_place(_recent_pins(lines, begins, commits)),
    )


def needed_now(graph: GraphCoordinator) -> Mapping[str, Named]:
    """What sidecars and jobs that may still run name: read again before each removal.

    Raises:
        RecoveryBlocked, StorageVersionTooNew: one cannot be read.
    """
    living, _ = all_pins(graph.storage.objects, graph.clock)
    pinned: defaultdict[Place, set[int]] = defaultdict(set)
    for pin in living:
        for each in pin["pins"]:
            pinned[each["location"], each["branch"]].add(int(each["version"]))
    return {"pins": _frozen(pinned), "sidecars": _frozen(_armed(graph))}


def _armed(graph: GraphCoordinator) -> defaultdict[Place, set[int]]:
    found: defaultdict[Place, set[int]] = defaultdict(set)
    for branch_id in graph.sidecars.branches():
        for path in graph.sidecars.of(branch_id):
            sidecar = graph.sidecars.read(path, branch_id)
            if sidecar is None:
                continue
            for table in sidecar.tables:
                found[table.location, table.branch].add(table.expected_version)
            for pin in sidecar.intent.pins:
                found[pin.location, pin.branch].add(pin.version)
                if pin.expected_version is not None:
                    found[pin.location, pin.expected_branch].add(pin.expected_version)
    return found


def _begins(lines: Mapping[BranchId, ManifestLine]) -> dict[BranchId, tuple[BranchId, int]]:
    """Of each live branch the origin, and the number there of the commit where it began.

    Raises:
        ManifestCorrupt: an origin does not have that commit.
    """
    begins = {}
    for row in live_branches(lines[MAIN_BRANCH_ID]).values():
        parent = lines.get(row.parent_branch_id)
        commit = None if parent is None else parent.commit(row.forked_at)
        if parent is None or commit is None:
            raise ManifestCorrupt(
                f"the branch {row.name!r} began at commit {row.forked_at}, which its origin does"
                " not have; restore __manifest from a copy",
                branch=row.name,
            )
        begins[row.branch_id] = (row.parent_branch_id, commit.seq)
    return begins


def _fork_points(
    lines: Mapping[BranchId, ManifestLine], begins: Mapping[BranchId, tuple[BranchId, int]]
) -> Iterator[PinRow]:
    """The state from which each live branch began: the base of its first merge."""
    for parent_id, seq in begins.values():
        yield from lines[parent_id].pins_at(seq).values()


def _recent_pins(
    lines: Mapping[BranchId, ManifestLine],
    begins: Mapping[BranchId, tuple[BranchId, int]],
    commits: int,
) -> Iterator[PinRow]:
    """What the newest commits that each branch made itself show."""
    if not commits:
        return
    for branch_id, line in lines.items():
        _, begin = begins.get(branch_id, (MAIN_BRANCH_ID, 0))
        oldest = max(begin, line.head.seq - commits + 1)
        yield from line.pins_at(oldest).values()
        yield from line.pins_between(oldest, line.head.seq)


def _merged_points(lines: Mapping[BranchId, ManifestLine]) -> Iterator[PinRow]:
    """What each live line last merged of every other one: the bases of their next merges."""
    if len(lines) == 1:
        return
    for line in lines.values():
        merged = [row.merged_parent for row in line.merges() if row.merged_parent is not None]
        for other in lines.values():
            if other is not line:
                held = other.own_commits(merged)
                if held:
                    yield from other.pins_at(max(row.seq for row in held)).values()


def _line_starts(graph: GraphCoordinator, tables: Iterable[TableRow]) -> Named:
    found: defaultdict[Place, set[int]] = defaultdict(set)
    for table in tables:
        layout = bare_layout(table.ref, table.table_key, table.location)
        for name in graph.storage.old_versions.lines_of(table.location):
            if not name.startswith(LINE_PREFIX):
                continue
            start = graph.tables.fork_state(layout, BranchId(name.removeprefix(LINE_PREFIX)))
            if start is not None:
                found[table.location, start.parent_branch].add(start.parent_version)
    return _frozen(found)


def _by_place(pins: Iterable[PinRow]) -> Named:
    found: defaultdict[Place, set[int]] = defaultdict(set)
    for pin in pins:
        found[pin.location, pin.branch].add(pin.version)
    return _frozen(found)


def _frozen(found: Mapping[Place, set[int]]) -> Named:
    return {place: frozenset(versions) for place, versions in found.items()}


def _joined(one: Named, other: Named) -> Named:
    none: frozenset[int] = frozenset()
    return {
        place: one.get(place, none) | other.get(place, none) for place in one.keys() | other.keys()
    }
