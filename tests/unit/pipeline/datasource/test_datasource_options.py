"""The options of the data source are checked by name, and its errors show their code."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    In,
    InputPartition,
    Not,
    StringContains,
    StringStartsWith,
)

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, SettingInvalid
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.lang import compile_schema
from omnigraph.pipeline.datasource.change_stream import CHANGE_COLUMNS
from omnigraph.pipeline.datasource.errors import DataSourceFailed
from omnigraph.pipeline.datasource.filters import table_predicate
from omnigraph.pipeline.datasource.options import (
    read_options,
    storage_settings,
    stream_options,
    write_options,
)
from omnigraph.pipeline.datasource.source import OmnigraphDataSource, PushingReader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql.datasource import DataSourceReader, Filter

SCHEMA = "node Person { name: String @key  age: I32?  tags: [String]? }"


def test_options_are_read_in_any_case() -> None:
    found = read_options({"GRAPH": "g", "Type": "Person", "columns": " name , age"})
    assert (found.graph, found.table, found.columns) == ("g", "node:Person", ("name", "age"))
    assert read_options({"graph": "g", "edge": "Knows"}).table == "edge:Knows"
    assert read_options({"graph": "g", "system": "manifest"}).table is None


@pytest.mark.parametrize(
    "text", ["2024-01-31 12:00:00", "2024-01-31T12:00:00Z", "2024-01-31T13:00:00+01:00"]
)
def test_a_time_names_a_state_of_a_branch(text: str) -> None:
    given = {"graph": "g", "type": "A", "branch": "b", "timestampAsOf": text}
    found = read_options(given)
    assert (found.branch, found.snapshot) == ("b", "2024-01-31T12:00:00.000000Z")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "A"}, "the option graph is missing"),
        ({"graph": "g"}, "exactly one of the options type, edge, system; found none"),
        ({"graph": "g", "type": "A", "edge": "B"}, "found type and edge"),
        ({"graph": "g", "type": "A", "system": "manifest"}, "found type and system"),
        (
            {"graph": "g", "type": "A", "branch": "b", "snapshot": "s"},
            "branch and snapshot exclude",
        ),
        ({"graph": "g", "system": "manifest", "branch": "b"}, "system and branch exclude"),
        (
            {"graph": "g", "type": "A", "timestampAsOf": "2024-01-01", "snapshot": "s"},
            "snapshot and timestampAsOf exclude",
        ),
        ({"graph": "g", "type": "A", "timestampAsOf": "1"}, "timestampAsOf is a time, as 2026"),
        (
            {"graph": "g", "type": "A", "timestampAsO": "1"},
            "no option 'timestampaso' here; did you mean timestampAsOf",
        ),
        ({"graph": "g", "system": "manifest", "filter": "a = 1"}, "system and filter exclude"),
        ({"graph": "g", "query": "query q() {}"}, "the option query is not in this version"),
        ({"graph": "g", "type": "A", "params": "{}"}, "the option params is not in this version"),
        (
            {"graph": "g", "type": "A", "brnach": "b"},
            "no option 'brnach' here; did you mean branch",
        ),
        ({"graph": "g", "type": "A", "mode": "merge"}, "no option 'mode' here"),
        ({"path": "g", "type": "A"}, "takes no path; name the graph with the option graph"),
        ({"graph": " ", "type": "A"}, "the option graph is empty"),
        ({"graph": "g", "type": "A", "columns": "a,,b"}, "columns is 'a,,b'"),
        ({"graph": "g", "type": "A", "pushdown": "yes"}, "pushdown is true or false, not 'yes'"),
        ({"graph": "g", "type": "A", "columns": "a, a"}, "columns is 'a, a'"),
        (
            {"graph": "g", "type": "A", "storage.aws_regoin": "x"},
            "no option 'storage.aws_regoin' here; did you mean storage.aws_region",
        ),
        ({"graph": "g", "type": "A", "storage.failpoints": "x"}, "no option 'storage.failpoints'"),
    ],
)
def test_a_wrong_option_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_options(given)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": "now"}, "the option graph is missing"),
        ({"graph": "g"}, "exactly one of the options start, cursor; found none"),
        ({"graph": "g", "start": "now", "cursor": "c"}, "found start and cursor"),
        ({"graph": "g", "start": "now", "type": "A"}, "no option 'type' here; did you mean types"),
        ({"graph": "g", "start": "now", "types": "A,A"}, "the option types is 'A,A'"),
        ({"graph": "g", "start": "now", "ops": "insert,upsert"}, "'upsert', which is none of"),
        (
            {"graph": "g", "start": "now", "maxCommitsPerTrigger": "0"},
            "maxCommitsPerTrigger is a whole number above 0, not '0'",
        ),
        (
            {"graph": "g", "start": "now", "maxCommitsPerTriger": "1"},
            "did you mean maxCommitsPerTrigger",
        ),
    ],
)
def test_a_wrong_option_of_a_stream_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        stream_options(given)
    assert message in caught.value.message


def test_a_stream_is_known_by_where_it_starts() -> None:
    source = OmnigraphDataSource({"graph": "g", "START": "now"})
    names = [each.name for each in source.schema()]
    assert names == CHANGE_COLUMNS.names
    with pytest.raises(DataSourceFailed, match=r"use spark\.readStream"):
        source.reader(source.schema())
    with pytest.raises(DataSourceFailed, match="a stream of changes has start or cursor"):
        OmnigraphDataSource({"graph": "g"}).schema()


def test_the_mode_of_a_write_is_that_of_spark_or_merge() -> None:
    given = {"Graph": "g", "edge": "Knows"}
    found = write_options(given, overwrite=False)
    assert (found.graph, found.table, found.branch) == ("g", "edge:Knows", "main")
    assert found.mode is LoadMode.APPEND
    assert write_options(given, overwrite=True).mode is LoadMode.OVERWRITE
    merging = write_options({**given, "MODE": "Merge", "branch": "b"}, overwrite=False)
    assert (merging.mode, merging.branch) == (LoadMode.MERGE, "b")


@pytest.mark.parametrize(
    ("given", "overwrite", "message"),
    [
        ({"type": "A"}, False, "the option graph is missing"),
        ({"graph": "g"}, False, "exactly one of the options type, edge; found none"),
        ({"graph": "g", "type": "A", "edge": "B"}, False, "found type and edge"),
        ({"graph": "g", "system": "manifest"}, False, "no option 'system' here"),
        ({"graph": "g", "type": "A", "snapshot": "x"}, False, "no option 'snapshot' here"),
        ({"graph": "g", "type": "A", "columns": "a"}, False, "no option 'columns' here"),
        ({"path": "g", "type": "A"}, False, "takes no path"),
        ({"graph": "g", "type": "A", "branch": " "}, False, "the option branch is empty"),
        ({"graph": "g", "type": "A", "mode": "append"}, False, "mode is merge or is left out"),
        ({"graph": "g", "type": "A", "mode": "merge"}, True, "exclude each other"),
    ],
)
def test_a_wrong_option_of_a_write_is_refused_by_name(
    given: dict[str, str],
    overwrite: bool,  # noqa: FBT001 - a case
    message: str,
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        write_options(given, overwrite=overwrite)
    assert message in caught.value.message


def test_options_of_the_storage_replace_settings_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "here")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    found = storage_settings({"aws_region": "there", "aws_allow_http": "true"})
    assert (found.aws_region, found.aws_access_key_id) == ("there", "mine")
    assert found.aws_allow_http
    with pytest.raises(SettingInvalid, match=r"storage\.\*: OMNIGRAPH_DURABILITY: 'never'"):
        storage_settings({"durability": "never"})


def test_a_secret_shows_in_no_text_and_no_error(tmp_path: Path) -> None:
    given = {"graph": "g", "type": "A", "storage.aws_secret_access_key": "hush"}
    assert "hush" not in repr(read_options(given))
    assert "hush" not in repr(storage_settings(read_options(given).storage))
    source = OmnigraphDataSource({**given, "graph": str(tmp_path / "none")})
    with pytest.raises(DataSourceFailed) as caught:
        source.schema()
    assert str(caught.value).startswith("graph_not_found: there is no graph at ")
    assert "hush" not in str(caught.value)


def test_a_scan_is_planned_on_the_snapshot_of_the_schema(tmp_path: Path) -> None:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        graph.load(b'{"type":"Person","data":{"name":"a","age":1}}', mode="append")
        source = OmnigraphDataSource({"graph": str(tmp_path / "graph"), "type": "Person"})
        schema = source.schema()
        graph.load(b'{"type":"Person","data":{"name":"b","age":2}}', mode="append")
    source = pickle.loads(pickle.dumps(source))  # noqa: S301 - as Spark hands it to the planner
    reader = source.reader(schema)
    assert _names(reader, reader.partitions()) == ["a"]
    fresh = OmnigraphDataSource({"graph": str(tmp_path / "graph"), "type": "Person"})
    reader = fresh.reader(schema)
    assert _names(reader, reader.partitions()) == ["a", "b"]


def test_only_rows_that_pass_leave_the_table_and_tasks_carry_no_other_partition(
    tmp_path: Path,
) -> None:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        for name, age in (("a", 1), ("b", 2), ("c", 3)):
            line = f'{{"type":"Person","data":{{"name":"{name}","age":{age}}}}}'
            graph.load(line.encode(), mode="append")
    source = OmnigraphDataSource(
        {
            "graph": str(tmp_path / "graph"),
            "type": "Person",
            "filter": "age < 3",
            "pushdown": "true",
        }
    )
    reader = source.reader(source.schema())
    assert isinstance(reader, PushingReader)
    left = StringContains(("name",), "b")
    assert reader.pushFilters([GreaterThan(("age",), 1), left]) == [left]
    partitions = reader.partitions()
    shipped = pickle.loads(pickle.dumps(reader))  # noqa: S301 - as Spark hands it to tasks
    assert _names(shipped, partitions) == ["b"]
    assert shipped.partitions() == []


def test_a_filter_that_no_row_can_pass_reads_nothing(tmp_path: Path) -> None:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        graph.load(b'{"type":"Person","data":{"name":"a","age":1}}', mode="append")
    source = OmnigraphDataSource(
        {"graph": str(tmp_path / "graph"), "type": "Person", "pushdown": "true"}
    )
    reader = source.reader(source.schema())
    assert isinstance(reader, PushingReader)
    assert reader.pushFilters([GreaterThan(("age",), 2**31)]) == []
    assert reader.partitions() == []
    assert _names(reader, [InputPartition(None)]) == []


@pytest.mark.parametrize(
    "left",
    [
        StringContains(("name",), "a"),
        EqualTo(("tags",), ["a"]),
        EqualTo(("name", "first"), "a"),
        EqualTo(("nope",), "a"),
        EqualTo(("age",), "a"),
        EqualTo(("name",), 1),
        In(("age",), ()),
        Not(In(("age",), ())),
        Not(Not(EqualTo(("age",), 1))),
        StringStartsWith(("age",), "1"),
    ],
    ids=str,
)
def test_what_is_no_exact_predicate_of_the_table_is_left_to_spark(left: Filter) -> None:
    item = compile_schema(SCHEMA).node_types["Person"]
    assert table_predicate(item, left) is None


def test_the_package_is_imported_without_spark() -> None:
    code = (
        "import sys, omnigraph.pipeline as p;"
        "print(p.register.__name__, [m for m in ('pyspark', 'lance') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "register []"


def _names(reader: DataSourceReader, partitions: Sequence[InputPartition]) -> list[str]:
    batches = [batch for each in partitions for batch in reader.read(each)]
    return sorted(str(row["name"]) for batch in batches for row in _rows(batch))


def _rows(batch: object) -> list[dict[str, object]]:
    assert isinstance(batch, pa.RecordBatch)
    return batch.to_pylist()
