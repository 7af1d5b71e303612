"""Every line belongs to exactly one split, wherever the cuts fall."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import InputChanged, ResourceLimit, SourceError
from omnigraph.pipeline.files import splits
from omnigraph.pipeline.files.splits import cut, read_blocks
from omnigraph.settings import StorageSettings
from omnigraph.storage.input_files import InputFiles

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = {
    "plain": b"one\ntwo\nthree\nfour\n",
    "no last line feed": b"one\ntwo\nthree",
    "carriage returns": b"one\r\ntwo\r\nthree\r\n",
    "blank lines": b"\n\none\n\n\ntwo\n\n",
    "one long line": b"x" * 37,
    "only line feeds": b"\n\n\n\n",
    "many bytes": "ä\nöü\n€uro\n".encode(),
}


def lines_of(text: bytes) -> list[bytes]:
    """The lines of a text: a last one without a line feed counts, an empty one does not."""
    found = text.split(b"\n")
    return found[:-1] if text.endswith(b"\n") else found


@pytest.fixture
def files() -> InputFiles:
    return InputFiles(StorageSettings())


@pytest.mark.parametrize("block_bytes", [1, 5, 1_000])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_cuts_at_every_byte_lose_and_repeat_no_line(
    text: bytes, block_bytes: int, files: InputFiles, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl"
    path.write_bytes(text)
    found = files.find(str(path))
    for split_bytes in range(1, len(text) + 2):
        read = [
            line
            for split in cut(found, split_bytes)
            for block in read_blocks(files, split, block_bytes)
            for line in block.split(b"\n")
        ]
        assert read == lines_of(text), split_bytes


def test_cuts_agree_when_lines_are_longer_than_one_read(
    files: InputFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "_STEP_BYTES", 4)
    text = b"".join(b"%d" % number * 7 + b"\n" for number in range(9))
    path = tmp_path / "input.jsonl"
    path.write_bytes(text)
    found = files.find(str(path))
    for split_bytes in range(1, len(text) + 2):
        read = [
            line
            for split in cut(found, split_bytes)
            for block in read_blocks(files, split, 8)
            for line in block.split(b"\n")
        ]
        assert read == lines_of(text), split_bytes


def test_an_empty_file_has_no_split(files: InputFiles, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    assert cut(files.find(str(tmp_path / "empty.jsonl")), 10) == []


def test_a_compressed_file_is_one_split_with_all_its_members(
    files: InputFiles, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree\n"))
    (split,) = cut(files.find(str(path)), 3)
    assert b"\n".join(read_blocks(files, split, 4)).split(b"\n") == [b"one", b"two", b"three"]


@pytest.mark.parametrize("cut_bytes", [1, 9, 20])
def test_a_compressed_file_that_ends_too_early_is_refused(
    cut_bytes: int, files: InputFiles, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n" * 100)[:-cut_bytes])
    (split,) = cut(files.find(str(path)), 1_000)
    with pytest.raises(SourceError, match="no whole gzip file"):
        list(read_blocks(files, split, 1_000))


def test_a_file_that_is_no_gzip_or_packed_otherwise_is_refused(
    files: InputFiles, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl.gz"
    path.write_bytes(b"plain text")
    (split,) = cut(files.find(str(path)), 1_000)
    with pytest.raises(SourceError, match="no whole gzip file"):
        list(read_blocks(files, split, 1_000))
    (tmp_path / "input.jsonl.zst").write_bytes(b"x")
    with pytest.raises(SourceError, match="use gzip"):
        cut(files.find(str(tmp_path / "input.jsonl.zst")), 1_000)


def test_a_line_that_is_too_long_is_refused(
    files: InputFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "MAX_NDJSON_LINE_BYTES", 50)
    monkeypatch.setattr(splits, "_STEP_BYTES", 16)
    path = tmp_path / "input.jsonl"
    path.write_bytes(b"x" * 200)
    for split in cut(files.find(str(path)), 10)[:1]:
        with pytest.raises(ResourceLimit, match="more than 50 bytes"):
            list(read_blocks(files, split, 10))


def test_a_file_that_changed_since_it_was_found_is_refused(
    files: InputFiles, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl"
    path.write_bytes(b"one\n")
    (split,) = cut(files.find(str(path)), 100)
    path.write_bytes(b"two\nthree\n")
    with pytest.raises(InputChanged, match="run the load again"):
        list(read_blocks(files, split, 100))
    path.unlink()
    with pytest.raises(InputChanged):
        list(read_blocks(files, split, 100))


def test_a_small_file_that_unpacks_to_very_much_comes_in_steps(
    files: InputFiles, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl.gz"
    path.write_bytes(
        gzip.compress(b"x" * 99 + b"\n") + gzip.compress((b"y" * 99 + b"\n") * 300_000)
    )
    (split,) = cut(files.find(str(path)), 1_000)
    blocks = list(read_blocks(files, split, 1 << 20))
    assert max(map(len, blocks)) <= 3 << 20
    assert sum(block.count(b"\n") + 1 for block in blocks) == 300_001


def test_zeros_behind_the_last_member_are_padding(files: InputFiles, tmp_path: Path) -> None:
    path = tmp_path / "input.jsonl.gz"
    path.write_bytes(gzip.compress(b"one\n") + bytes(512))
    (split,) = cut(files.find(str(path)), 1_000)
    assert list(read_blocks(files, split, 1_000)) == [b"one"]
