"""A folder that a job fills: one owner, whole files, nothing left of what failed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import InvalidArgument, RootNotEmpty, StorageDenied, StorageUnavailable
from omnigraph.settings import StorageSettings
from omnigraph.storage.output_files import OutputFolder, find_output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def folder_at(path: Path | str) -> OutputFolder:
    settings = StorageSettings()
    return OutputFolder(find_output(path, settings), settings)


def names(path: Path) -> list[str]:
    return sorted(each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file())


@pytest.mark.parametrize("size", [0, 5, 25_000_000])
def test_a_file_appears_whole_with_its_length_and_checksum(tmp_path: Path, size: int) -> None:
    folder = folder_at(tmp_path / "out")
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with folder.writing("a/b.bin") as file:
        for start in range(0, size, 1_000_000):
            file.write(data[start : start + 1_000_000])
        assert names(tmp_path) in ([], ["out/a/b.bin#1"])
    assert (tmp_path / "out/a/b.bin").read_bytes() == data
    assert file.written.size_bytes == size
    assert file.written.sha256 == hashlib.sha256(data).hexdigest()
    if size:
        assert folder.read("a/b.bin", 1, size).to_pybytes() == data[1:]


def failing(size: int) -> Iterator[bytes]:
    yield b"x" * size
    raise ZeroDivisionError


@pytest.mark.parametrize("size", [5, 25_000_000])
def test_a_file_whose_writer_fails_never_appears(tmp_path: Path, size: int) -> None:
    folder = folder_at(tmp_path / "out")
    with pytest.raises(ZeroDivisionError), folder.writing("a.bin") as file:
        file.writelines(failing(size))
    del file
    assert names(tmp_path) == []


def test_a_claimed_folder_is_refused_to_others_until_it_is_released(tmp_path: Path) -> None:
    first, second = folder_at(tmp_path / "deep/out"), folder_at(tmp_path / "deep/out")
    first.require_empty()
    first.claim("first")
    with pytest.raises(RootNotEmpty, match="another job writes there, or one was cut off"):
        second.claim("second")
    first.release()
    assert list(tmp_path.iterdir()) == []
    second.claim("second")


def test_a_job_that_finished_between_look_and_claim_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_at(tmp_path / "out")

    def missing(folder: OutputFolder) -> tuple[Path, ...]:
        folder.create("_manifest.json", b"{}")
        return ()

    with monkeypatch.context() as patch:
        patch.setattr(OutputFolder, "_missing_folders", missing)
        with pytest.raises(RootNotEmpty, match=r"it holds _manifest\.json"):
            folder.claim("late")
    assert names(tmp_path) == ["out/_manifest.json"]


def test_files_are_moved_and_what_is_temporary_goes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    folder = folder_at(out)
    folder.claim("job")
    for name in ("a", "b", "left"):
        with folder.writing(f"_temporary/job/{name}") as file:
            file.write(name.encode())
    folder.move([("_temporary/job/a", "a"), ("_temporary/job/b", "b")])
    folder.create("_manifest.json", b"{}")
    (out / "_temporary/job/left#7").write_text("of a killed process")
    folder.release()
    assert names(out) == ["_manifest.json", "a", "b"]
    assert not (out / "_temporary").exists()
    assert (out / "a").read_text() == "a"
    folder.remove(["a", "b", "_manifest.json", "never"])
    assert names(out) == []
    assert out.is_dir()


def test_files_that_somebody_removed_are_told(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "out")
    folder.claim("job")
    with pytest.raises(StorageUnavailable, match="somebody removed it"):
        folder.move([("_temporary/job/a", "a")])
    with pytest.raises(StorageUnavailable, match="somebody removed it"):
        folder.read("_temporary/job/a", 0, 1)
    folder.create("a", b"1")
    with pytest.raises(RootNotEmpty, match="it holds a"):
        folder.create("a", b"2")


def test_places_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidArgument, match="is a file; name a folder"):
            folder_at(path).claim("job")
    with pytest.raises(StorageDenied, match="cannot write to /proc/none"):
        folder_at("/proc/none").claim("job")
    for text in ("", "  "):
        with pytest.raises(InvalidArgument, match="no place to write to"):
            folder_at(text)
