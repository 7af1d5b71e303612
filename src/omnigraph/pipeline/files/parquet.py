"""Parquet files of the input, read in ranges through the one reader of input files."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import SourceError
from omnigraph.pipeline.files.ranged_reader import FileRanges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.storage.input_files import InputFile, InputFiles


@contextmanager
def open_parquet(files: InputFiles, file: InputFile) -> Iterator[pq.ParquetFile]:
    """The file, opened for reading.

    Raises:
        SourceError: it is no Parquet file, or cannot be read.
        InputChanged: it is not the file that was found.
    """
    try:
        with pq.ParquetFile(
            pa.PythonFile(FileRanges(files, file), mode="r"), pre_buffer=True
        ) as opened:
            yield opened
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"cannot read {file.uri} as Parquet: {error}", path=file.uri) from error
