"""The source of a load: what is read, what is refused, and what needs the other lane."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.api.load_source import Lane, LoadSource, choose_lane, read_content
from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.settings import load_settings

TEXT = b'{"type":"Person","data":{"name":"a"}}\n'


def read(source: object, *, form: str | None = None, most_bytes: int = 1_000) -> object:
    given: Any = source  # wrong ones too
    lane = choose_lane(given, format=form, engine="local", most_bytes=most_bytes)
    assert lane == Lane(engine="local")
    return read_content(given, most_bytes=most_bytes)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a folder" / "people.jsonl"
    path.parent.mkdir()
    path.write_bytes(TEXT)
    return path


def test_a_file_is_named_by_a_text_a_path_or_an_address(file: Path) -> None:
    for source in (file, str(file), f"file://{file}", file.as_uri()):
        assert read(source) == TEXT
        assert read(source, form="ndjson") == TEXT


@pytest.mark.parametrize("source", [TEXT, bytearray(TEXT), memoryview(TEXT)])
def test_bytes_are_the_input_itself(source: object) -> None:
    assert read(source) == TEXT


def test_a_binary_file_is_read_to_its_end_however_little_it_gives_at_once(file: Path) -> None:
    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self._left = io.BytesIO(TEXT)

        def read(self, size: int = -1, /) -> bytes:
            return self._left.read(min(3, size))

    assert read(Slow()) == TEXT
    with file.open("rb") as opened:
        opened.seek(1)
        assert read(opened) == TEXT[1:]


def test_a_stream_is_not_read_beyond_the_limit() -> None:
    source = io.BytesIO(b"x" * 10_000)
    with pytest.raises(InvalidArgument, match="write it to a file"):
        read(source, most_bytes=100)
    assert source.tell() == 101


def test_a_text_file_is_refused(file: Path) -> None:
    with file.open(encoding="utf-8") as opened, pytest.raises(InvalidArgument, match="binary mode"):
        read(opened)
    with pytest.raises(InvalidArgument, match="binary mode"):
        read(io.StringIO("x"))


def test_a_stream_that_cannot_be_read_is_an_error_of_the_source(file: Path) -> None:
    with file.open("rb") as closed:
        pass
    with pytest.raises(SourceError, match="closed"):
        read(closed)
    with file.open("ab") as written, pytest.raises(SourceError):
        read(written)


def test_a_file_that_is_not_there_or_may_not_be_read_is_an_error_of_the_source(
    tmp_path: Path,
) -> None:
    with pytest.raises(SourceError, match=r"there is no file .*nothing\.jsonl") as caught:
        read(tmp_path / "nothing.jsonl")
    assert caught.value.details["path"] == str(tmp_path / "nothing.jsonl")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(SourceError, match="cannot read"):
        read(loop)
    with pytest.raises(SourceError, match="cannot read"):
        read("x" * 5_000)


def test_the_text_of_an_input_is_no_path() -> None:
    for source in (TEXT.decode(), "a\0b", Path("a\0b"), "{}\n{}"):
        with pytest.raises(InvalidArgument, match="give NDJSON as bytes"):
            read(source)


def test_what_belongs_to_the_other_lane_takes_it_or_says_so(tmp_path: Path) -> None:
    (tmp_path / "large.jsonl").write_bytes(TEXT * 100)
    for source in (
        tmp_path,
        str(tmp_path / "*.jsonl"),
        str(tmp_path / "part-?.jsonl"),
        tmp_path / "x.jsonl.gz",
        tmp_path / "large.jsonl",
        "s3://bucket/people.jsonl",
    ):
        lane = choose_lane(source, format=None, engine="auto", most_bytes=1_000)
        assert (lane.engine, bool(lane.why)) == ("spark", True)
        assert choose_lane(source, format=None, engine="spark", most_bytes=1_000) == lane
        with pytest.raises(InvalidArgument, match="needs Spark"):
            choose_lane(source, format=None, engine="local", most_bytes=1_000)


def test_rows_in_memory_stay_in_this_process() -> None:
    sources: list[LoadSource] = [TEXT, io.BytesIO(TEXT), {}]
    for source in sources:
        for has_session in (True, False):
            lane = choose_lane(
                source, format=None, engine="auto", most_bytes=1, has_session=has_session
            )
            assert lane == Lane(engine="local")
        with pytest.raises(InvalidArgument, match="Spark reads files"):
            choose_lane(source, format=None, engine="spark", most_bytes=1)
    with pytest.raises(InvalidArgument, match="one of files"):
        choose_lane(TEXT, format="csv", engine="auto", most_bytes=1)


def test_a_csv_or_parquet_file_is_read_here_if_its_text_and_options_allow_it(
    tmp_path: Path,
) -> None:
    def why(name: str, **options: str) -> str:
        path = tmp_path / name
        lane = choose_lane(path, format=None, engine="auto", most_bytes=200, options=options)
        assert (lane.engine == "spark") is bool(lane.why)
        if lane.why:
            with pytest.raises(InvalidArgument, match="needs Spark"):
                choose_lane(path, format=None, engine="local", most_bytes=200, options=options)
        return lane.why

    (tmp_path / "p.csv").write_text('a,b\n1,"x ""y"""\n')
    (tmp_path / "P.TSV").write_text("a\tb\n1\t2\n")
    (tmp_path / "quotes.csv").write_text('a,b\n1,"x\n2,3\n')
    (tmp_path / "large.csv").write_text("a\n" * 200)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "p.parquet")
    pq.write_table(pa.table({"a.b": [1]}), tmp_path / "dots.parquet")
    assert not any(why(name) for name in ("p.csv", "P.TSV", "missing.csv"))
    assert not why("p.csv", sep=";")
    assert why("p.csv", inferSchema="true") == "an option of Spark's reader"
    assert why("p.csv", sep="||") == "an option of Spark's reader"
    assert why("quotes.csv").startswith("a CSV whose quotes")
    assert why("large.csv").startswith("a file of 400 bytes")
    size = (tmp_path / "p.parquet").stat().st_size
    for name, expected in (("p.parquet", ""), ("dots.parquet", "a column whose name has a dot")):
        lane = choose_lane(tmp_path / name, format=None, engine="auto", most_bytes=size * 2)
        assert lane.why == expected
    asked = choose_lane(tmp_path / "p.csv", format=None, engine="spark", most_bytes=200)
    assert asked.engine == "spark"


def test_every_other_tabular_format_takes_spark_or_says_so(tmp_path: Path) -> None:
    for name, form in (("p.orc", None), *(("x.csv", form) for form in ("json", "orc", "table"))):
        lane = choose_lane(tmp_path / name, format=form, engine="auto", most_bytes=1)
        assert (lane.engine, lane.why.startswith("the format ")) == ("spark", True)
        with pytest.raises(InvalidArgument, match=r"the format [a-z]+ needs Spark"):
            choose_lane(tmp_path / name, format=form, engine="local", most_bytes=1)


def test_an_active_session_takes_every_file_unless_it_is_told_otherwise(file: Path) -> None:
    def lane(engine: str) -> Lane:
        return choose_lane(file, format=None, engine=engine, most_bytes=1_000, has_session=True)

    assert lane("auto") == Lane(engine="spark", why="a Spark session is active")
    assert lane("local") == Lane(engine="local")
    assert lane("spark") == Lane(engine="spark")


def test_a_tabular_file_belongs_to_the_load_of_the_pipeline(tmp_path: Path) -> None:
    with Graph.init(tmp_path / "g", schema="node Person { name: String @key }") as graph:
        for name, form in (("people.csv", None), ("people", "parquet")):
            with pytest.raises(InvalidArgument, match=r"graph\.pipeline\(\)\.load\(…, type=…\)"):
                graph.load(tmp_path / name, mode="append", format=form)


def test_a_name_with_the_signs_of_a_pattern_is_a_file_when_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "part[1]*.jsonl"
    path.write_bytes(TEXT)
    assert read(path) == TEXT


def test_a_format_that_is_given_wins_over_the_name(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(TEXT)
    assert read(path, form="ndjson") == TEXT


def test_an_unknown_format_or_engine_is_refused() -> None:
    with pytest.raises(SourceError, match="there is no format 'xml'; the formats are: `csv`"):
        read(TEXT, form="xml")
    with pytest.raises(InvalidArgument, match="'auto', 'local' or 'spark'"):
        choose_lane(TEXT, format=None, engine="gpu", most_bytes=10)


@pytest.mark.parametrize("extra", [0, 1])
def test_more_than_the_limit_is_refused_whatever_the_source(file: Path, extra: int) -> None:
    sources: list[LoadSource] = [TEXT, io.BytesIO(TEXT)]
    for source in sources:
        if extra:
            with pytest.raises(InvalidArgument, match="OMNIGRAPH_SPARK_MIN_INPUT_BYTES") as caught:
                read(source, most_bytes=len(TEXT) - extra)
            assert caught.value.details["limit"] == len(TEXT) - extra
        else:
            assert read(source, most_bytes=len(TEXT)) == TEXT
    if extra:
        with pytest.raises(InvalidArgument, match="needs Spark"):
            read(file, most_bytes=len(TEXT) - extra)
    else:
        assert read(file, most_bytes=len(TEXT)) == TEXT


@pytest.mark.parametrize("source", [None, 3, [TEXT], pa.table({"name": ["a"]}), object()])
def test_what_is_no_source_is_refused(source: object) -> None:
    with pytest.raises(InvalidArgument, match="a source is a path"):
        read(source)


def test_a_mapping_gives_tables_by_type(file: Path) -> None:
    table = pa.table({"name": ["a"]})
    found = read({"Person": table.to_reader()})
    assert isinstance(found, dict)
    assert found["Person"].equals(table)
    for bad in ({"name": ["a"]}, None, str(file), [1], TEXT):
        with pytest.raises(InvalidArgument, match="rows of Person come as Arrow"):
            read({"Person": bad})


def test_the_limit_of_a_load_is_that_of_the_settings(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "OMNIGRAPH_DURABILITY": "process",
            "OMNIGRAPH_SPARK_MIN_INPUT_BYTES": str(len(TEXT)),
        }
    )
    schema = "node Person { name: String @key }"
    with Graph.init(tmp_path / "g", schema=schema, settings=settings) as graph:
        assert graph.load(TEXT, mode="append").commit is not None
        with pytest.raises(InvalidArgument, match="write it to a file"):
            graph.load(TEXT + b" ", mode="merge")


@pytest.mark.parametrize("source", ["", "  ", "file://"])
def test_an_empty_source_is_not_the_folder_one_is_in(source: str) -> None:
    for engine in ("auto", "local", "spark"):
        with pytest.raises(InvalidArgument, match="the source is empty"):
            choose_lane(source, format=None, engine=engine, most_bytes=100)


def test_what_has_no_end_is_not_read_to_it() -> None:
    with pytest.raises(InvalidArgument, match="more than 100 bytes"):
        read("/dev/zero", most_bytes=100)
