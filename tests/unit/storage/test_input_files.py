"""Input files are found by path, folder and pattern, sorted, and read as they were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import InputChanged, SourceError
from omnigraph.settings import StorageSettings
from omnigraph.storage.input_files import InputFiles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def files() -> InputFiles:
    return InputFiles(StorageSettings())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.jsonl", "a.jsonl", "c.csv", "_SUCCESS", ".hidden", "deep/d.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("a.jsonl", ["a.jsonl"]),
        ("_SUCCESS", ["_SUCCESS"]),
        ("", ["a.jsonl", "b.jsonl", "c.csv"]),
        ("*.jsonl", ["a.jsonl", "b.jsonl"]),
        ("?.csv", ["c.csv"]),
        ("[ab].jsonl", ["a.jsonl", "b.jsonl"]),
        ("*/*.jsonl", ["d.jsonl"]),
        ("**/*.jsonl", ["a.jsonl", "b.jsonl", "d.jsonl"]),
    ],
)
def test_a_path_a_folder_and_a_pattern_mean_files_by_name(
    where: str, names: list[str], files: InputFiles, folder: Path
) -> None:
    found = files.find(f"{folder}/{where}".rstrip("/"))
    assert [each.uri.rpartition("/")[2] for each in found] == names


@pytest.mark.parametrize("where", ["nothing.jsonl", "*.parquet", "none/*.jsonl"])
def test_what_is_not_there_is_refused(where: str, files: InputFiles, folder: Path) -> None:
    with pytest.raises(SourceError, match="there is no file"):
        files.find(f"{folder}/{where}")


def test_a_range_is_read_and_ends_with_the_file(files: InputFiles, folder: Path) -> None:
    (file,) = files.find(str(folder / "a.jsonl"))
    assert files.read(file, 2, 5) == b"jso"
    assert files.read(file, 5, 100) == b"nl"
    assert files.read(file, 100, 200) == b""


def test_another_content_of_the_same_size_is_noticed(files: InputFiles, folder: Path) -> None:
    path = folder / "a.jsonl"
    (file,) = files.find(str(path))
    path.write_bytes(b"A.JSONL")
    with pytest.raises(InputChanged):
        files.read(file, 0, 3)


def test_an_address_of_a_file_is_decoded(files: InputFiles, tmp_path: Path) -> None:
    (tmp_path / "my file.jsonl").write_bytes(b"x")
    (found,) = files.find(f"file://{tmp_path}/my%20file.jsonl")
    assert files.read(found, 0, 1) == b"x"


def test_what_is_no_pattern_is_refused(files: InputFiles, tmp_path: Path) -> None:
    for where in (f"{tmp_path}/**x.jsonl", "s3://bucket/x[z-a].jsonl"):
        with pytest.raises(SourceError, match="no pattern of file names"):
            files.find(where)
