"""A folder that a job fills in a bucket: the promises of a local one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import obstore
import pytest
from tests.s3.stand_in import Access, StandIn

from omnigraph.errors import RootNotEmpty, StorageDenied
from omnigraph.settings import load_settings
from omnigraph.storage.output_files import OutputFolder, find_output

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.s3


def folder_in(s3: StandIn, path: str = "out") -> OutputFolder:
    settings = load_settings(s3.environment()).storage
    return OutputFolder(find_output(s3.uri(path), settings), settings)


def names(s3: StandIn) -> list[str]:
    found = obstore.list(s3.endpoint.store()).collect()
    return sorted(each["path"].partition("out/")[2] for each in found)


@pytest.mark.parametrize("size", [0, 5, 25_000_000])
def test_files_are_written_read_and_moved(s3: StandIn, size: int) -> None:
    folder = folder_in(s3)
    folder.claim("job")
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with folder.writing("_temporary/job/a") as file:
        for start in range(0, size, 1_000_000):
            file.write(data[start : start + 1_000_000])
    assert file.written.size_bytes == size
    if size:
        found = folder.read("_temporary/job/a", 1, size)
        assert found.to_pybytes() == data[1:]
    folder.move([("_temporary/job/a", "a")])
    folder.create("_manifest.json", b"{}")
    folder.release()
    assert names(s3) == ["_manifest.json", "a"]
    assert bytes(obstore.get(s3.endpoint.store("out"), "a").bytes()) == data


def failing(size: int) -> Iterator[bytes]:
    yield b"x" * size
    raise ZeroDivisionError


@pytest.mark.parametrize("size", [5, 25_000_000])
def test_a_file_whose_writer_fails_leaves_nothing(s3: StandIn, size: int) -> None:
    folder = folder_in(s3)
    with pytest.raises(ZeroDivisionError), folder.writing("a") as file:
        file.writelines(failing(size))
    assert names(s3) == []


def test_one_job_at_a_time_fills_an_empty_prefix(s3: StandIn) -> None:
    first, second = folder_in(s3), folder_in(s3)
    first.claim("first")
    with pytest.raises(RootNotEmpty, match="another job writes there"):
        second.claim("second")
    first.release()
    second.claim("second")
    second.create("_manifest.json", b"{}")
    second.release()
    with pytest.raises(RootNotEmpty, match=r"it holds _manifest\.json"):
        first.claim("first")


def test_credentials_that_may_not_write_are_told(s3: StandIn) -> None:
    s3.access = Access.READ_ONLY
    with pytest.raises(StorageDenied, match="cannot write to s3://"):
        folder_in(s3).claim("job")
