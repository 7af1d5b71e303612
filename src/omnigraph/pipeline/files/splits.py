"""Input files cut into splits: byte ranges of plain text, whole files of compressed text.

A range owns the lines that start in it. So every line belongs to exactly one split, wherever the
cuts fall, and a split knows its lines by number only within itself; the driver adds up.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import ResourceLimit, SourceError
from omnigraph.limits import MAX_NDJSON_LINE_BYTES
from omnigraph.pipeline.files.ranged_reader import FileRanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.storage.input_files import InputFile, InputFiles

_STEP_BYTES: Final = 1 << 20
_GZIP: Final = 31
_GZIP_SUFFIXES: Final = (".gz", ".gzip")
_OTHER_SUFFIXES: Final = (".zst", ".bz2", ".xz", ".lz4", ".snappy", ".zip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of one file."""

    source: int
    """Which file of the job, counted from 0."""
    file: InputFile
    start: int
    end: int
    is_compressed: bool = False


def cut(files: Sequence[InputFile], split_bytes: int) -> list[Split]:
    """The splits of files, in their order; an empty file has none.

    Raises:
        SourceError: a file is compressed in a way that cannot be read.
    """
    splits: list[Split] = []
    for source, file in enumerate(files):
        name = file.uri.lower()
        if name.endswith(_OTHER_SUFFIXES):
            raise SourceError(
                f"{file.uri} is compressed in a way that is not read; use gzip, or plain text",
                path=file.uri,
            )
        if name.endswith(_GZIP_SUFFIXES):
            whole = Split(
                source=source, file=file, start=0, end=file.size_bytes, is_compressed=True
            )
            splits.append(whole)
            continue
        splits.extend(
            Split(
                source=source,
                file=file,
                start=start,
                end=min(start + split_bytes, file.size_bytes),
            )
            for start in range(0, file.size_bytes, split_bytes)
        )
    return splits


def read_blocks(files: InputFiles, split: Split, block_bytes: int) -> Iterator[bytes]:
    """The lines of a split in blocks of about this size, each without its last line feed.

    Raises:
        InputChanged, SourceError: the file changed, or cannot be read.
        ResourceLimit: a line is too long.
    """
    pieces = _unpacked(files, split) if split.is_compressed else _owned(files, split)
    held = b""
    for piece in pieces:
        held += piece
        if len(held) < block_bytes:
            continue
        end = held.rfind(b"\n")
        if end >= 0:
            yield held[:end]
            held = held[end + 1 :]
        elif len(held) > MAX_NDJSON_LINE_BYTES:
            raise _too_long(split)
    if held:
        yield held.removesuffix(b"\n")


def _owned(files: InputFiles, split: Split) -> Iterator[bytes]:
    """The bytes of the lines that start in the range."""
    at = split.start
    if at:
        # The byte before decides whether a line starts at the very first one.
        at = _after_newline(files, split, at - 1)
    while at < split.end:
        piece = files.read(split.file, at, min(at + _STEP_BYTES, split.end))
        yield piece
        at += len(piece)
        if at >= split.end and not piece.endswith(b"\n"):
            yield from _rest_of_line(files, split)


def _after_newline(files: InputFiles, split: Split, start: int) -> int:
    """The first place behind a line feed at or after `start`; the end if there is none before."""
    at = start
    while at < split.end:
        piece = files.read(split.file, at, min(at + _STEP_BYTES, split.end))
        newline = piece.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(piece)
    return split.end


def _rest_of_line(files: InputFiles, split: Split) -> Iterator[bytes]:
    at = split.end
    while at < split.file.size_bytes:
        piece = files.read(split.file, at, at + _STEP_BYTES)
        end = piece.find(b"\n")
        if end >= 0:
            yield piece[: end + 1]
            return
        yield piece
        at += len(piece)
        if at - split.end > MAX_NDJSON_LINE_BYTES:
            raise _too_long(split)


def _unpacked(files: InputFiles, split: Split) -> Iterator[bytes]:
    source = io.BufferedReader(FileRanges(files, split.file), _STEP_BYTES)
    packed = zlib.decompressobj(wbits=_GZIP)
    is_inside = False
    while data := source.read(_STEP_BYTES):
        while data:
            try:
                # A little packed text may be very much: it is unpacked in steps too.
                yield packed.decompress(data, _STEP_BYTES)
            except zlib.error as error:
                raise _no_gzip(split, str(error)) from error
            is_inside = not packed.eof
            data = packed.unused_data if packed.eof else packed.unconsumed_tail
            if packed.eof:  # A file may be several gzip members, one after the other.
                packed = zlib.decompressobj(wbits=_GZIP)
                data = data.lstrip(b"\0")  # Some writers pad the last one.
    if is_inside:
        raise _no_gzip(split, "it ends too early")


def _no_gzip(split: Split, reason: str) -> SourceError:
    return SourceError(f"{split.file.uri} is no whole gzip file: {reason}", path=split.file.uri)


def _too_long(split: Split) -> ResourceLimit:
    return ResourceLimit(
        f"{split.file.uri} has a line of more than {MAX_NDJSON_LINE_BYTES:,} bytes after byte"
        f" {split.start:,}; a value of that size is loaded as"
        " Arrow data, or as a Blob that lies outside the graph",
        resource="graph_batch_line_bytes",
        limit=MAX_NDJSON_LINE_BYTES,
        path=split.file.uri,
    )
