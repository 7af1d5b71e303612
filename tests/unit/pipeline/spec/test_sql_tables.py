"""What a query names in the places of tables."""

from pathlib import Path

import pytest

from omnigraph.pipeline.spec.sql_tables import (
    named_in,
    reads_only,
    tables_of,
    with_files_from,
    within_brackets,
)

NAMES = ("people", "planes", "o.p")


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT a.x, planes FROM people a", ["people"]),
        ("select * from people, planes p", ["people", "planes"]),
        ("select * from a left anti join planes on a.x = planes.x", ["planes"]),
        ("select * from `people`, `o.p`", ["people", "o.p"]),
        ("select (select max(n) from planes) from (select * from people)", ["people", "planes"]),
        ("with people as (select * from people) select * from people", ["people"]),
        ("table people", ["people"]),
        ("from people |> join planes", ["people", "planes"]),
        ("select 'from people', \"from planes\", r'\\' -- from people\n from x", []),
        ("select /* from people */ 1 from lake.people, people(3), People", []),
        ("select * from x where people in (1, planes) order by people, planes", []),
        ("select f(a, people) from x group by planes", []),
        ("", []),
    ],
)
def test_a_name_counts_where_a_table_stands(query: str, named: list[str]) -> None:
    assert named_in(query, NAMES) == named


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from people", True),
        ("with x as (select * from people) select * from x join planes", True),
        ("select * from people, lake.other", False),
        ("select * from people join csv.`a.csv`", False),
        ("select * from people, range(3)", False),
        ("select 1", False),
    ],
)
def test_a_query_is_known_if_all_that_it_reads_is(query: str, expected: bool) -> None:  # noqa: FBT001
    assert reads_only(query, NAMES) is expected


def test_relative_paths_start_at_a_folder_and_others_stay() -> None:
    query = "select 'csv.`a`' from csv.`a b/*.csv` a, parquet.`/p`, orc.`s3://b/o`, db.`t`"
    assert with_files_from(query, Path("/data/[x]`y")) == query.replace(
        "`a b/*.csv`", "`file:///data/\\[x\\]``y/a b/*.csv`"
    )


def test_a_query_without_a_file_stays_as_it_is() -> None:
    query = "select 1 from people -- `"
    assert with_files_from(query, Path("/data")) == query
    assert [each.parts for each in tables_of(query)] == [("people",)]


def test_a_semicolon_at_the_end_goes_and_one_in_a_text_stays() -> None:
    assert within_brackets("select ';' ;; -- end;") == "(\nselect ';'  -- end;\n)"
