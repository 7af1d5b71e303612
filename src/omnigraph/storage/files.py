"""Which files an operation wrote, by name below the root of the graph.

Lance returns metadata, not names; the names follow from it. They are what is synced before a write
is announced and what a cleanup may find unreferenced later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance import LanceOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance.dataset import Index
    from lance.fragment import FragmentMetadata

    from omnigraph.storage.handles import Pin
    from omnigraph.storage.location import GraphLocation

_GREATEST_VERSION = 2**64 - 1
_MANIFEST_SUFFIX = ".manifest"


def version_name(version: int) -> str:
    """The name of the file that makes a version.

    Lance counts the names down, so that a listing shows the newest first.
    """
    return f"{_GREATEST_VERSION - version:020d}{_MANIFEST_SUFFIX}"


def version_of_name(name: str) -> int | None:
    """The number of the version that a file of this name makes, if it is one of a line."""
    stem = name.removesuffix(_MANIFEST_SUFFIX)
    if stem == name or not (stem.isascii() and stem.isdigit()):
        return None
    return _GREATEST_VERSION - int(stem)


def line_folder(location: str, branch: str | None) -> str:
    """The folder of a line of a table: that of the table, or a tree inside it."""
    return location if branch is None else f"{location}/tree/{branch}"


def version_files(pin: Pin, base_version: int, uuid: str) -> tuple[str, ...]:
    """The two files that a commit on `base_version` writes: the version and its transaction."""
    folder = line_folder(pin.location, pin.branch)
    return (
        f"{folder}/_versions/{version_name(pin.version)}",
        f"{folder}/_transactions/{base_version}-{uuid}.txn",
    )


def fork_files(location: str, name: str) -> tuple[str, ...]:
    """What the creation of a line writes: its ref, and a tree with its first version."""
    return f"{location}/_refs/branches/{name}.json", line_folder(location, name)


def written_files(
    root: GraphLocation, pin: Pin, operation: LanceOperation.BaseOperation
) -> tuple[str, ...]:
    """The files and folders that staging this operation on this line wrote."""
    folder = line_folder(pin.location, pin.branch)
    match operation:
        case LanceOperation.Append() | LanceOperation.Overwrite():
            paths = list(_data(root, folder, operation.fragments))
        case LanceOperation.Update():
            paths = [
                *_data(root, folder, operation.new_fragments),
                *_deletions(folder, operation.updated_fragments),
            ]
        case LanceOperation.Delete():
            paths = list(_deletions(folder, operation.updated_fragments))
        case LanceOperation.Rewrite():
            paths = [
                name
                for group in operation.groups
                for name in _data(root, folder, group.new_fragments)
            ]
        case LanceOperation.CreateIndex():
            paths = [segment_folder(pin, index) for index in operation.new_indices]
        case _:
            paths = []
    return tuple(paths)


def segment_folder(pin: Pin, segment: Index) -> str:
    """The folder that a segment of an index was written to."""
    return f"{line_folder(pin.location, pin.branch)}/_indices/{segment.uuid}"


def fragment_files(
    root: GraphLocation, pin: Pin, fragments: Iterable[FragmentMetadata]
) -> tuple[str, ...]:
    """The files that new fragments were written to, and the folders of their blobs."""
    return tuple(_data(root, line_folder(pin.location, pin.branch), fragments))


def _data(root: GraphLocation, folder: str, fragments: Iterable[FragmentMetadata]) -> Iterator[str]:
    for fragment in fragments:
        for file in fragment.files:
            yield f"{folder}/data/{file.path}"
            # Blobs above some size lie beside the file, in a folder of its name.
            blobs = f"{folder}/data/{file.path.removesuffix('.lance')}"
            if root.is_local and root.path(blobs).is_dir():
                yield blobs


def _deletions(folder: str, fragments: Iterable[FragmentMetadata]) -> Iterator[str]:
    for fragment in fragments:
        deleted = fragment.deletion_file
        if deleted is not None and deleted.base_id is None:
            yield f"{folder}/{deleted.path(fragment.id)}"
