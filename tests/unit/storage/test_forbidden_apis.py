"""Only `storage/` touches Lance and the object store, and only three files of it may commit."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "omnigraph"
FOREIGN = ("lance", "obstore")
ALLOWED = {"storage/lance_writes.py", "storage/manifest.py", "storage/moved_lines.py"}
"""The last of them commits only to memory."""

COMMITTING = {
    "delete",
    "update",
    "create_index",
    "create_scalar_index",
    "optimize_indices",
    "compact_files",
    "restore",
    "add_columns",
    "drop_columns",
    "alter_columns",
    "write_dataset",
    "execute",
    "commit",
    "cleanup_old_versions",
    "update_config",
    "delete_config_keys",
    "create_branch",
    "merge_insert",
}
"""Calls that move the head of a table as they write, or remove what it may still need."""

OWN_MODULES = {
    "commits",
    "lance_writes",
    "maintenance",
    "self",
    "staged_fragments",
    "table_store",
    "writes",
}
"""A call on one of these is ours, and is looked at where it is defined."""


def _modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path.read_text()))


def _imported(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                yield node.module or ""
            case _:
                pass


def _is_foreign(name: str) -> bool:
    return name.partition(".")[0] in FOREIGN


def _committing_calls(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner))) if owner in OWN_MODULES:
                pass
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                if name in COMMITTING:
                    yield f"line {node.lineno}: {name}("
            case _:
                pass


def test_only_storage_imports_lance_and_obstore() -> None:
    outside = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in _modules()
        if "storage" not in path.relative_to(SOURCE).parts
        for name in _imports(path)
        if _is_foreign(name)
    ]
    assert outside == []


def test_only_two_files_call_what_commits() -> None:
    found = [
        f"{path.relative_to(SOURCE)} {call}"
        for path in _modules()
        if any(name.partition(".")[0] == "lance" for name in _imports(path))
        and path.relative_to(SOURCE).as_posix() not in ALLOWED
        for call in _committing_calls(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "dataset.delete('x')",
        "handle.dataset.branches.delete('b')",
        "lance.write_dataset(rows, uri)",
        "write_dataset(rows, uri)",
        "LanceDataset.commit(dataset, made)",
        "dataset.merge_insert('id').when_matched_update_all().execute(rows)",
        "dataset.optimize.compact_files()",
        "Compaction.commit(dataset, results)",
        "dataset.restore()",
    ],
)
def test_the_scan_sees_every_form_of_a_committing_call(code: str) -> None:
    assert list(_committing_calls(code)) != []


@pytest.mark.parametrize("allowed", sorted(ALLOWED))
def test_the_allowed_files_are_there(allowed: str) -> None:
    assert (SOURCE / allowed).is_file()
