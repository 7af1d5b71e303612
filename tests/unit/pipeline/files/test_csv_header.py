"""What the header of a CSV tells before Spark, and where it tells nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph.pipeline.files.csv_header import CsvHeader
from omnigraph.settings import Settings
from omnigraph.storage.input_files import InputFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def header(
    folder: Path,
    *texts: bytes,
    options: Mapping[str, str] | None = None,
    declared: Mapping[str, str] | None = None,
) -> CsvHeader:
    for number, text in enumerate(texts):
        (folder / f"{number}.csv").write_bytes(text)
    reader = InputFiles(Settings().storage)
    return CsvHeader(
        reader=reader, files=reader.find(str(folder)), options=options or {}, declared=declared
    )


def columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


def test_columns_are_texts_unless_their_types_are_guessed_or_declared(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf\n\nname,age\r\nx,1\n"
    plain = columns(name=pa.string(), age=pa.string())
    assert header(tmp_path, b"", text).schema == plain
    assert header(tmp_path, b"", text.replace(b",", b";"), options={"sep": ";"}).schema == plain
    guessed = header(tmp_path, b"", text, options={"inferSchema": "true"}).schema
    assert guessed == columns(name=pa.null(), age=pa.null())
    declared = header(tmp_path, b"", text, declared={"who": "STRING", "at": "timestamp"}).schema
    assert declared == columns(who=pa.string(), at=pa.null())


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (b"", {}),
        (b"\n \n", {}),
        (b'"name",age\n', {}),
        (b"n\xff,age\n", {}),
        (b"name,name\n", {}),
        (b"name,\n", {}),
        (b"\x1f\x8b\x08name", {}),
        (b"x" * (1 << 17), {}),
        (b"name,age\n", {"header": "false"}),
        (b"name,age\n", {"comment": "n"}),
        (b"name,age\n", {"encoding": "UTF-16"}),
        (b"name,age\n", {"delimiter": "n"}),
    ],
)
def test_what_only_spark_knows_is_not_told(
    tmp_path: Path, text: bytes, options: dict[str, str]
) -> None:
    assert header(tmp_path, text, options=options).schema is None
