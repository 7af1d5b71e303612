"""Lines of a graph that was copied or moved: read where their files are now.

Lance keeps the absolute path of a table in every line that grew from another, and no call changes
it. The files lie below the same folders of the graph as before, so where they are is known: a view
is a dataset in memory that names the same fragments there. It shows the rows, row ids and versions
of rows that the line shows, and no index covers them. Nothing is written, and nothing may be
committed through it: what it shows is not the line.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final

from lance import DatasetBasePath, LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.errors import StorageUnsupported
from omnigraph.storage.files import line_folder
from omnigraph.storage.indexes import build_segment, text_specs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.storage.handles import TableHandle, TableLayout
    from omnigraph.storage.location import GraphLocation

_MEMORY: Final = "memory://"
_ROW_METADATA: Final = ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")

_Json = dict[str, Any]  # Any: the metadata of a fragment as Lance writes it


def is_view(dataset: LanceDataset) -> bool:
    """Whether the dataset is a view of a line that was moved."""
    return dataset.uri.startswith(_MEMORY)


def refuse_moved(location: GraphLocation, what: str) -> StorageUnsupported:
    """The error of a write to a line that was moved."""
    return StorageUnsupported(
        f"{what} can be read, but not be written to: the graph at {location} was copied or moved;"
        f" `omnigraph clone {location} DST` makes a graph of it whose branches can be written to",
        location=str(location),
    )


def require_line(location: GraphLocation, handle: TableHandle) -> None:
    """Refuse to write to a table that is only a view.

    Raises:
        StorageUnsupported: it is one.
    """
    if is_view(handle.dataset):
        raise refuse_moved(location, f"{handle.layout.table_key} on this branch")


def readable(
    location: GraphLocation, table: str, branch: str | None, dataset: LanceDataset
) -> LanceDataset:
    """The version of a line as it is, or a view of it if the graph was moved since.

    Args:
        location: where the graph is.
        table: the folder of the table below its root.
        branch: the line.
        dataset: the version.

    Raises:
        StorageUnsupported: it names files that are not of this graph.
    """
    if branch is None:
        return dataset
    bases = {number: base.path for number, base in dataset.base_paths().items()}
    own = _bare(location.uri(table))
    if all(f"{_bare(path)}/".startswith(f"{own}/") for path in bases.values()):
        return dataset
    folders: dict[int | None, str] = {
        number: _folder(location, table, path) for number, path in bases.items()
    }
    return _view(location, folders | {None: line_folder(table, branch)}, dataset)


def starts_on(dataset: LanceDataset, branch: str | None) -> set[int]:
    """The versions of a line from which others grew."""
    lines = dataset.branches.list().values()
    return {line["parent_version"] for line in lines if line["parent_branch"] == branch}


def with_text_indexes(view: LanceDataset, layout: TableLayout) -> LanceDataset:
    """The view with untrained text indexes, which every search for a text needs."""
    segments = [build_segment(view, layout, spec, (), {}) for spec in text_specs(layout)]
    return _after(view, LanceOperation.CreateIndex(segments, [])) if segments else view


def _folder(location: GraphLocation, table: str, path: str) -> str:
    """Where what lay at a path is now, below the root."""
    before, found, inside = f"{path.rstrip('/')}/".rpartition(f"/{table}/")
    if not found or not before:
        raise StorageUnsupported(
            f"{table}: a branch names files at {path}, which are not of the graph at {location};"
            " restore the graph from a copy",
            location=str(location),
            original=path,
        )
    return f"{table}/{inside}".rstrip("/")


def _view(
    location: GraphLocation, folders: Mapping[int | None, str], dataset: LanceDataset
) -> LanceDataset:
    numbers = {base: number for number, base in enumerate(folders, start=1)}
    bases = [
        DatasetBasePath(
            location.uri(folder),
            name=f"moved-{numbers[base]}",
            is_dataset_root=True,
            id=numbers[base],
        )
        for base, folder in folders.items()
    ]
    whole = [_rebased(fragment.metadata.to_json(), numbers) for fragment in dataset.get_fragments()]
    # A fragment keeps its number, after which its deletion file is named, and its row ids; only in
    # steps does Lance take it so. What stands for numbers that are not there goes again.
    known = {int(fragment["id"]): _fragment(_undeleted(fragment)) for fragment in whole}
    every = range(max(known, default=-1) + 1)
    missing = [number for number in every if number not in known]
    stand_ins = dict.fromkeys(missing, _fragment(_stand_in(whole[0]))) if missing else {}
    numbered = known | stand_ins
    placed = [numbered[number] for number in every]
    view = LanceDataset.commit(
        f"{_MEMORY}moved-{secrets.token_hex(8)}",
        LanceOperation.Overwrite(dataset.lance_schema, placed, initial_bases=bases),
        enable_stable_row_ids=any(fragment["row_id_meta"] for fragment in whole),
        storage_options=dict(location.options) or None,
    )
    if missing:
        view = _after(view, LanceOperation.Delete([], missing, "true"))
    if whole:
        view = _after(
            view, LanceOperation.Merge([_fragment(each) for each in whole], dataset.lance_schema)
        )
    return view


def _after(view: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    return LanceDataset.commit(view, operation, read_version=view.version)


def _rebased(fragment: _Json, numbers: Mapping[int | None, int]) -> _Json:
    """The fragment with its files named by the bases of the view."""
    files = [file | {"base_id": numbers[file["base_id"]]} for file in fragment["files"]]
    marks = fragment["deletion_file"]
    if marks is not None:
        marks = marks | {"base_id": numbers[marks["base_id"]]}
    return fragment | {"files": files, "deletion_file": marks}


def _undeleted(fragment: _Json) -> _Json:
    return fragment | {"deletion_file": None}


def _stand_in(fragment: _Json) -> _Json:
    return _undeleted(fragment) | dict.fromkeys(_ROW_METADATA)


def _fragment(described: _Json) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps(described))


def _bare(uri: str) -> str:
    return uri.partition("://")[2].strip("/") if "://" in uri else uri.strip("/")
