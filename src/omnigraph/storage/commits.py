"""Makes staged writes part of a line, and lines part of a table.

These are the steps that change what a table shows. Each proves its own outcome: a commit by the
number of the version that it made, a fork by what the store lists after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance import LanceOperation, Transaction

from omnigraph.errors import StorageError, StorageUnavailable
from omnigraph.ids import new_link_uuid
from omnigraph.storage import lance_writes
from omnigraph.storage.files import fork_files, line_folder, version_files
from omnigraph.storage.handles import CREATION, ForkState, Pin, lance_branch
from omnigraph.storage.layout import physical_schema
from omnigraph.storage.moved_lines import require_line
from omnigraph.storage.power_loss import remove_torn_refs
from omnigraph.storage.signals import (
    AlreadyExists,
    CommitRefused,
    Interleaved,
    LineHasChildren,
    ObjectMissing,
    StorageSignal,
)
from omnigraph.storage.writes import text_indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance import LanceDataset

    from omnigraph.ids import BranchId
    from omnigraph.storage.handles import (
        Link,
        StagedWrite,
        TableHandle,
        TableLayout,
        WriteStamp,
    )
    from omnigraph.storage.table_versions import Lines
    from omnigraph.storage.transactions import Writing


def create_table(writing: Writing, lines: Lines, layout: TableLayout) -> Pin:
    """An empty table with its text indexes, untrained; durable, unreachable until registered.

    Raises:
        AlreadyExists: there is a table at this location.
    """
    with writing.calls.making("create_table", layout.table_key):
        try:
            dataset = lance_writes.create(
                lines.location.uri(layout.location),
                physical_schema(layout),
                lines.location.options,
                lines.session,
            )
        except OSError as error:
            # The only text of Lance that is read here: no other call tells that a table is there.
            if "already exists" in str(error):
                raise AlreadyExists(f"{layout.table_key} at {layout.location}") from error
            raise
    handle = lines.keep(layout, None, dataset)
    operation = text_indexes(writing, handle)
    if operation is not None:
        properties = {"omnigraph.kind": CREATION}
        registered = Transaction(
            handle.pin.version, operation, new_link_uuid(writing.ids), properties
        )
        handle = lines.keep(layout, None, _commit(writing, handle, registered))
    writing.durable.sync([layout.location])
    return handle.pin


def sync_staged(writing: Writing, staged: StagedWrite) -> None:
    """Make the files of a staged write durable, before anything names them."""
    writing.durable.sync(staged.files)


def sync_links(
    writing: Writing, layout: TableLayout, line: str | None, base_version: int, uuids: Sequence[str]
) -> None:
    """Make the versions durable that these links made on top of a base, one after the other.

    Whoever made them may have failed to.
    """
    for version, uuid in enumerate(uuids, start=base_version):
        made = Pin(location=layout.location, branch=line, version=version + 1)
        # A version carries its transaction, so a power cut may have taken the other file.
        writing.durable.renew(version_files(made, version, uuid)[:1])


def commit_staged(writing: Writing, lines: Lines, handle: TableHandle, link: Link) -> TableHandle:
    """The version that a link makes on top of the handle, durable.

    Raises:
        CommitRefused: another commit stands in the way; nothing landed.
        Interleaved: it landed, but not as the next version.
    """
    transaction = link.stage(handle)
    try:
        dataset = _commit(writing, handle, transaction)
    except StorageUnavailable:
        if isinstance(transaction.operation, LanceOperation.Rewrite):
            _require_not_overtaken(lines, handle, link)
        raise
    if dataset.version != handle.pin.version + 1:
        raise Interleaved(
            f"{handle.layout.table_key}: staged at version {handle.pin.version}, landed as"
            f" {dataset.version}",
            version=dataset.version,
        )
    committed = lines.keep(handle.layout, handle.pin.branch, dataset)
    writing.durable.sync(version_files(committed.pin, handle.pin.version, link.uuid))
    return committed


def _commit(writing: Writing, handle: TableHandle, transaction: Transaction) -> LanceDataset:
    require_line(writing.location, handle)
    with writing.calls.making("commit", handle.layout.table_key):
        return lance_writes.commit(handle.dataset, transaction)


def _require_not_overtaken(lines: Lines, handle: TableHandle, link: Link) -> None:
    """Tell a refused compaction, for which Lance has no error of its own, from an outage."""
    layout, pin = handle.layout, handle.pin
    head = lines.head_version(layout, pin.branch)
    made = [
        lines.trace(layout, pin.branch, version) for version in range(pin.version + 1, head + 1)
    ]
    if made and all(earlier.uuid != link.uuid for earlier in made):
        raise CommitRefused(
            f"{layout.table_key}: version {pin.version + 1} is of another writer", is_final=False
        )


def restore(
    writing: Writing,
    lines: Lines,
    layout: TableLayout,
    line: str | None,
    version: int,
    stamp: WriteStamp,
) -> TableHandle:
    """Shows an older version again, as a new one on top of the head, durable.

    Never refused, so it is only called by the holder of the line; everything that was staged
    before is refused from then on.
    """
    head = lines.head(layout, line)
    uuid = new_link_uuid(writing.ids)
    operation = LanceOperation.Restore(version)
    transaction = Transaction(head.pin.version, operation, uuid, stamp.properties)
    restored = lines.keep(layout, line, _commit(writing, head, transaction))
    writing.durable.sync(version_files(restored.pin, head.pin.version, uuid))
    return restored


def fork(
    writing: Writing,
    lines: Lines,
    handle: TableHandle,
    branch_id: BranchId,
    delete_prefix: Callable[[str], object],
) -> Pin:
    """A line for a graph branch that starts at this handle, durable.

    One that is already there is used if it starts at the same place and has not moved; one that
    starts elsewhere is made anew, for nothing was ever written on it. Creation is two steps inside
    Lance, so a crash can leave a tree without its ref, which blocks the name: then the tree is
    removed and the creation repeated, once.

    Raises:
        AlreadyExists: the line is there and holds commits.
    """
    require_line(writing.location, handle)
    layout, name = handle.layout, _line_name(branch_id)
    try:
        _create_line(writing, handle, name)
    except (StorageSignal, StorageError, StorageUnavailable):
        state = fork_state(lines, layout, branch_id)
        if state is None or not _starts_at(state, handle):
            delete_fork(writing, lines, layout, branch_id, delete_prefix)
            _create_line(writing, handle, name)
        else:
            return _adopted(writing, handle, name)
    writing.durable.sync(fork_files(layout.location, name))
    return _fork_pin(handle, name)


def _adopted(writing: Writing, handle: TableHandle, name: str) -> Pin:
    """A line that was found; whoever made it may not have made it durable."""
    pin = _fork_pin(handle, name)
    ref, _ = fork_files(pin.location, name)
    version, _ = version_files(pin, pin.version, "")
    writing.durable.renew([ref, version])
    return pin


def _fork_pin(handle: TableHandle, name: str) -> Pin:
    return Pin(location=handle.pin.location, branch=name, version=handle.pin.version)


def _create_line(writing: Writing, handle: TableHandle, name: str) -> None:
    with writing.calls.making("fork", handle.layout.table_key):
        lance_writes.create_line(handle.dataset, name, handle.pin.branch, handle.pin.version)


def _starts_at(state: ForkState, handle: TableHandle) -> bool:
    if state.head != state.parent_version:
        raise AlreadyExists(
            f"{handle.layout.table_key}: a line of this branch starts at"
            f" {state.parent_branch}@{state.parent_version} and is already at {state.head}"
        )
    return (state.parent_branch, state.parent_version) == (handle.pin.branch, handle.pin.version)


def fork_state(lines: Lines, layout: TableLayout, branch_id: BranchId) -> ForkState | None:
    """The line of a graph branch as the store has it, if it does.

    Raises:
        ObjectMissing: there is no such table.
    """
    name = _line_name(branch_id)
    start = lines.start_of(layout, name)
    if start is None:
        return None
    return ForkState(
        parent_branch=start.parent,
        parent_version=start.version,
        head=lines.head_version(layout, name),
    )


def delete_fork(
    writing: Writing,
    lines: Lines,
    layout: TableLayout,
    branch_id: BranchId,
    delete_prefix: Callable[[str], object],
) -> None:
    """Remove the line of a graph branch, and what is left of one whose ref is gone.

    Raises:
        LineHasChildren: another line grew from it.
    """
    delete_line(writing, lines, layout, _line_name(branch_id), delete_prefix)


def delete_line(
    writing: Writing,
    lines: Lines,
    layout: TableLayout,
    name: str,
    delete_prefix: Callable[[str], object],
) -> None:
    """Remove a line by its name, as `delete_fork` does."""
    try:
        try:
            _delete_line(writing, lines, layout, name)
        except (StorageError, StorageUnavailable):
            # Lance has no class for its refusal to delete a line from which another grew, and it
            # stumbles over the torn ref of any line.
            remove_torn_refs(writing.location, writing.calls, layout.location)
            _require_childless(lines, layout, name)
            _delete_line(writing, lines, layout, name)
    except ObjectMissing:
        delete_prefix(line_folder(layout.location, name))
    lines.forget_line(layout, name)


def _delete_line(writing: Writing, lines: Lines, layout: TableLayout, name: str) -> None:
    with writing.calls.making("delete_fork", layout.table_key):
        lance_writes.delete_line(lines.root(layout), name)


def _require_childless(lines: Lines, layout: TableLayout, name: str) -> None:
    branches = lines.branches(layout)
    children = sorted(child for child, facts in branches.items() if facts["parent_branch"] == name)
    if children:
        raise LineHasChildren(f"{layout.table_key}: {', '.join(children)} grew from {name}")


def _line_name(branch_id: BranchId) -> str:
    name = lance_branch(branch_id)
    if name is None:
        raise AlreadyExists("the main line of a table is never forked nor deleted")
    return name
