"""`pipeline.yaml`: what it may say, and that every mistake in it is told with its place."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument, SettingInvalid
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.reject_options import ErrorAction
from omnigraph.pipeline.spec.pipeline_file import parse_pipeline, read_pipeline
from omnigraph.pipeline.spec.pipeline_spec import (
    Column,
    Cursor,
    CursorType,
    Dedupe,
    Expression,
    Keep,
    KeyParts,
    OnError,
    PipelineSpec,
    SourceFormat,
)
from omnigraph.pipeline.spec.secrets import (
    holds_url_secret,
    is_secret_option,
    parse_duration_us,
)

NIGHTLY = """\
version: 1
name: crm_nightly
graph: s3://acme/crm.omni
branch: main
mode: merge
on_error: {action: quarantine, rejects: s3://acme/rejects, max_reject_ratio: 0.001}
sources:
  people: {format: parquet, path: "s3://in/people/*.parquet"}
  orders:
    format: jdbc
    options: {url: "${ORDERS_URL}", dbtable: orders}
    cursor: {column: updated_at, type: timestamp, lag: 10m}
nodes:
  - type: Person
    from: people
    columns: {slug: person_id, name: full_name, age: {expr: "cast(age as int)"}}
edges:
  - type: Placed
    from: orders
    id: {expr: "concat('o-', order_id)"}
    src: customer_id
    dst: {expr: "order_id"}
    where: "status <> 'test'"
"""
ENVIRON = {"ORDERS_URL": "jdbc:postgresql://db/orders", "PASSWORD": "hunter2"}
HEAD = "version: 1\nname: n\nmode: merge\n"


def parse(text: str, **environ: str) -> PipelineSpec:
    return parse_pipeline(text, ENVIRON | environ, path="p.yaml")


def with_source(source: str, *, mode: str = "merge") -> str:
    return (
        f"version: 1\nname: n\nmode: {mode}\nsources:\n  s: {source}\n"
        "nodes: [{type: T, from: s, columns: {a: b}}]\n"
    )


def dated(cursor: str) -> str:
    return f"{{format: csv, path: x, cursor: {{{cursor}}}}}"


def with_node(node: str) -> str:
    return f"{HEAD}sources: {{s: {{format: parquet, path: x}}}}\nnodes:\n  - {node}\n"


def problems(text: str, **environ: str) -> list[tuple[str, str, int, int]]:
    """Key, reason, line and column of everything that is wrong."""
    with pytest.raises(SettingInvalid) as caught:
        parse(text, **environ)
    found: Any = caught.value.details["diagnostics"]  # Any: JSON
    assert caught.value.details["name"] == "p.yaml"
    return [
        (each["key"], each["reason"], each["span"]["line"], each["span"]["column"])
        for each in found
    ]


def message(text: str, **environ: str) -> str:
    with pytest.raises(SettingInvalid) as caught:
        parse(text, **environ)
    return caught.value.message


def test_the_whole_file_becomes_one_typed_value() -> None:
    spec = parse(NIGHTLY)
    assert (spec.name, spec.mode, spec.graph) == (
        "crm_nightly",
        LoadMode.MERGE,
        "s3://acme/crm.omni",
    )
    assert (spec.branch, spec.embed) == ("main", False)
    assert spec.on_error == OnError(
        action=ErrorAction.QUARANTINE, rejects="s3://acme/rejects", max_reject_ratio=0.001
    )
    people, orders = spec.sources["people"], spec.sources["orders"]
    assert (people.format, people.path) == (SourceFormat.PARQUET, "s3://in/people/*.parquet")
    assert orders.options == {"url": "jdbc:postgresql://db/orders", "dbtable": "orders"}
    assert orders.cursor == Cursor(
        column="updated_at", type=CursorType.TIMESTAMP, lag=600 * 1_000_000
    )
    (person,), (placed,) = spec.nodes, spec.edges
    assert person.columns == {
        "slug": Column(name="person_id"),
        "name": Column(name="full_name"),
        "age": Expression(sql="cast(age as int)"),
    }
    assert (person.type, person.source, person.id, person.where) == ("Person", "people", None, None)
    assert placed.id == Expression(sql="concat('o-', order_id)")
    assert (placed.src, placed.dst) == (Column(name="customer_id"), Expression(sql="order_id"))
    assert (placed.where, placed.columns) == ("status <> 'test'", {})


def test_what_is_left_out_has_the_default_of_a_load() -> None:
    spec = parse(f"{HEAD}sources: {{s: {{format: ndjson, path: in.jsonl}}}}")
    assert (spec.graph, spec.branch, spec.on_error, spec.nodes) == (None, "main", OnError(), ())


def test_an_endpoint_may_be_the_key_of_a_node_part_by_part() -> None:
    text = NIGHTLY.replace("src: customer_id", "src: {key: {country: c, number: {expr: upper(n)}}}")
    (placed,) = parse(text).edges
    assert placed.src == KeyParts(
        parts={"country": Column(name="c"), "number": Expression(sql="upper(n)")}
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{format: csv, path: x, schema: {id: bigint, price: 'decimal(10, 2)'}}", SourceFormat.CSV),
        ("{format: json, path: x, options: {multiLine: true}}", SourceFormat.JSON),
        ("{format: orc, path: x}", SourceFormat.ORC),
        ("{format: table, table: db.people}", SourceFormat.TABLE),
        ("{format: sql, query: select 1 as b}", SourceFormat.SQL),
        ("{format: jdbc, options: {url: x, query: select 1}}", SourceFormat.JDBC),
        ("{format: table, table: t, timezone: Europe/Berlin}", SourceFormat.TABLE),
        ("{format: csv, path: x, timezone: Europe/Berlin}", SourceFormat.CSV),
        ("{format: orc, path: x, timezone: Europe/Berlin}", SourceFormat.ORC),
    ],
)
def test_every_format_has_its_own_keys(source: str, expected: SourceFormat) -> None:
    assert parse(with_source(source)).sources["s"].format is expected


def test_options_are_spelled_as_spark_reads_them() -> None:
    text = with_source("{format: csv, path: x, options: {header: yes, sep: '|', maxColumns: 12}}")
    assert parse(text).sources["s"].options == {"header": "true", "sep": "|", "maxColumns": "12"}


def test_names_that_yaml_takes_for_booleans_are_names_where_they_are_keys() -> None:
    (node,) = parse(with_node("{type: T, from: s, columns: {no: a, on: b, y: c}}")).nodes
    assert list(node.columns) == ["no", "on", "y"]


def test_on_error_may_be_one_word() -> None:
    assert (
        parse(
            NIGHTLY.replace(
                "on_error: {action: quarantine, rejects: s3://acme/rejects, "
                "max_reject_ratio: 0.001}",
                "on_error: fail",
            )
        ).on_error
        == OnError()
    )


@pytest.mark.parametrize(
    ("cursor", "lag"),
    [
        ("{column: c, type: timestamp, lag: 500ms}", 500_000),
        ("{column: c, type: date, lag: 2d}", 2),
        ("{column: c, type: integer, lag: 100}", 100),
        ("{column: c, type: string}", 0),
    ],
)
def test_the_unit_of_a_lag_is_that_of_its_cursor(cursor: str, lag: int) -> None:
    source = parse(with_source(f"{{format: parquet, path: x, cursor: {cursor}}}")).sources["s"]
    assert source.cursor is not None
    assert source.cursor.lag == lag


@pytest.mark.parametrize(
    ("text", "value"),
    [("500ms", 500_000), ("30s", 30_000_000), ("10m", 600_000_000), ("2h", 7_200_000_000)],
)
def test_durations_are_microseconds(text: str, value: int) -> None:
    assert parse_duration_us(text) == value


@pytest.mark.parametrize("text", ["", "10", "m", "-1m", "1.5h", "10 m", "1w", "1h30m"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration_us(text)


def test_variables_are_filled_in_and_doubled_dollars_are_one() -> None:
    text = with_source('{format: parquet, path: "s3://${BUCKET}/$${x}/a$b/${DAY}"}')
    spec = parse(text, BUCKET="in", DAY="2024-01-01")
    assert spec.sources["s"].path == "s3://in/${x}/a$b/2024-01-01"


def test_a_variable_is_text_and_never_yaml() -> None:
    text = with_source('{format: parquet, path: "${PATH_OF_DATA}"}')
    spec = parse(text, PATH_OF_DATA="x, format: csv}\nnodes: []")
    assert spec.sources["s"].path == "x, format: csv}\nnodes: []"


def test_a_number_may_come_from_a_variable() -> None:
    text = NIGHTLY.replace("max_reject_ratio: 0.001", 'max_rejects: "${MOST}"')
    assert parse(text, MOST="7").on_error.max_rejects == 7


def test_a_missing_variable_is_named() -> None:
    text = with_source('{format: parquet, path: "s3://${BUCKET}/${DAY}"}')
    found = message(text, DAY="1")
    assert found == (
        "p.yaml:5:30: sources.s.path: the variable BUCKET is not set in the environment"
    )


def test_a_variable_that_is_not_closed_is_refused() -> None:
    text = with_source('{format: parquet, path: "s3://${BUCKET"}')
    assert problems(text) == [("sources.s.path", "variable", 5, 30)]


@pytest.mark.parametrize(
    ("old", "new", "key", "reason", "at"),
    [
        ("version: 1\n", "", "", "missing_key", "name: crm"),
        ("mode: merge\n", "", "", "missing_key", "version"),
        ("name: crm_nightly\n", "", "", "missing_key", "version"),
        ("version: 1", "version: 2", "version", "value", "version: 2"),
        ("crm_nightly", '"crm nightly"', "name", "value", "name: "),
        ("branch: main", "branch: a/.b", "branch", "value", "branch"),
        ("mode: merge", "mode: mrege", "mode", "value", "mrege"),
        ("mode: merge", "modes: merge", "modes", "unknown_key", "modes"),
        ("from: people", "form: people", "nodes[0].form", "unknown_key", "form: people"),
        ("from: people", "from: poeple", "nodes[0].from", "unknown_source", "from: poeple"),
        (
            "column: updated",
            "colum: updated",
            "sources.orders.cursor.colum",
            "unknown_key",
            "colum:",
        ),
        ("lag: 10m", "lag: 10 minutes", "sources.orders.cursor.lag", "value", "10 minutes"),
        ("type: timestamp", "type: time", "sources.orders.cursor.type", "value", "time,"),
        ("mode: merge", "mode: append", "sources.orders.cursor.lag", "not_allowed", "lag: "),
        ("dbtable: orders", "table: orders", "sources.orders.options", "missing_key", "options"),
        ("rejects: s3://acme/rejects, ", "", "on_error", "missing_key", "on_error"),
        ("0.001", "1.001", "on_error.max_reject_ratio", "value", "1.001"),
        ("    src: customer_id\n", "", "edges[0]", "missing_key", "type: Placed"),
        ("src: customer_id", "src: [a]", "edges[0].src", "type", "[a]"),
        ("src: customer_id", "src: {key: {}}", "edges[0].src", "value", "src: "),
        ("type: Placed", "type: Person", "edges[0].type", "duplicate", "type: Person\n    from: o"),
        ('{expr: "order_id"}', "{exp: x}", "edges[0].dst.exp", "unknown_key", "exp: x"),
        ("slug: person_id", "slug: 12", "nodes[0].columns.slug", "type", "12"),
        ("slug: person_id", "slug: {a: b}", "nodes[0].columns.slug.a", "unknown_key", "a: b}"),
        ("branch: main", "embed: maybe", "embed", "type", "maybe"),
        ("branch: main", "embed:", "embed", "type", "embed"),
        ("where: \"status <> 'test'\"", "where: ''", "edges[0].where", "type", "''"),
    ],
)
def test_a_mistake_is_told_with_its_key_line_and_column(
    old: str, new: str, key: str, reason: str, at: str
) -> None:
    text = NIGHTLY.replace(old, new)
    before = text[: text.index(at)]
    place = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    assert (key, reason, *place) in problems(text)


@pytest.mark.parametrize(
    ("source", "key", "reason"),
    [
        ("{path: x}", "sources.s", "missing_key"),
        ("{format: xml, path: x}", "sources.s.format", "value"),
        ("{format: parquet}", "sources.s", "missing_key"),
        ("{format: parquet, path: [a, b]}", "sources.s.path", "type"),
        ("{format: parquet, path: x, table: t}", "sources.s.table", "not_allowed"),
        ("{format: parquet, path: x, schema: {a: int}}", "sources.s.schema", "not_allowed"),
        ("{format: sql, query: q, options: {a: b}}", "sources.s.options", "not_allowed"),
        ("{format: jdbc, options: {dbtable: t}}", "sources.s.options", "missing_key"),
        ("{format: jdbc, options: {url: u}}", "sources.s.options", "missing_key"),
        ("{format: csv, path: x, schema: {a: text}}", "sources.s.schema.a", "value"),
        ("{format: csv, path: x, options: {a: {b: c}}}", "sources.s.options.a", "type"),
        ("{format: csv, path: x, options: [a]}", "sources.s.options", "type"),
        (dated("column: c, type: date, lag: 5h"), "sources.s.cursor.lag", "value"),
        (dated("column: c, type: string, lag: 5h"), "sources.s.cursor.lag", "not_allowed"),
        (dated("column: c, type: integer, lag: 5h"), "sources.s.cursor.lag", "value"),
        (dated("type: date"), "sources.s.cursor", "missing_key"),
        ("{format: sql, query: q, timezone: Europe/Berlni}", "sources.s.timezone", "value"),
        ("{format: ndjson, path: x}", "nodes[0].from", "not_allowed"),
        ("people.parquet", "sources.s", "type"),
    ],
)
def test_a_source_that_contradicts_itself_is_refused(source: str, key: str, reason: str) -> None:
    assert [(each[0], each[1]) for each in problems(with_source(source))] == [(key, reason)]


@pytest.mark.parametrize(
    ("node", "key", "reason"),
    [
        ("{type: T, from: s}", "nodes[0]", "missing_key"),
        ("{from: s, columns: {a: b}}", "nodes[0]", "missing_key"),
        ("{type: T, columns: {a: b}}", "nodes[0]", "missing_key"),
        ("{type: T, from: s, columns: [a]}", "nodes[0].columns", "type"),
        ("{type: T, from: s, columns: {a: b}, src: x}", "nodes[0].src", "unknown_key"),
        ("just text", "nodes[0]", "type"),
    ],
)
def test_a_node_that_is_not_complete_is_refused(node: str, key: str, reason: str) -> None:
    assert (key, reason) in [(each[0], each[1]) for each in problems(with_node(node))]


def test_the_same_declaration_twice_is_refused_and_two_of_one_type_are_not() -> None:
    first = "{type: T, from: s, columns: {a: b}}"
    again = "{from: s, columns: {a: b}, type: T}"
    other = "{type: T, from: s, columns: {a: c}}"
    assert problems(with_node(f"{first}\n  - {again}")) == [("nodes[1]", "duplicate", 7, 5)]
    assert len(parse(with_node(f"{first}\n  - {other}")).nodes) == 2


def test_a_source_that_feeds_nothing_is_refused() -> None:
    text = NIGHTLY.replace("  orders:\n", "  extra: {format: orc, path: x}\n  orders:\n")
    assert problems(text) == [("sources.extra", "unused", 9, 10)]


QUERIES = """\
sources:
  a: {format: csv, path: a.csv}
  b: {format: sql, query: "select * from a"}
  c: {format: sql, query: "select * from b join `b`"}
nodes: [{type: T, from: c, columns: {a: b}}]
"""
SQL = HEAD + QUERIES


def test_a_source_that_only_a_query_reads_is_used() -> None:
    pipeline = parse(SQL)
    assert list(pipeline.read_by("c")) == ["b"]
    assert [name for name in pipeline.sources if pipeline.feeds_types(name)] == ["c"]
    changed = parse(SQL.replace("a.csv", "z.csv"))
    assert changed.mapping_hash("c") != pipeline.mapping_hash("c")


def test_queries_that_wait_for_each_other_are_refused_once() -> None:
    assert problems(SQL.replace("from a", "from c")) == [
        ("sources.a", "unused", 5, 6),
        ("sources.b.query", "circle", 6, 27),
    ]
    own = SQL.replace("select * from a", "select * from b join a")
    assert list(parse(own).read_by("b")) == ["a"]


def test_a_query_cannot_read_lines_that_name_their_own_types() -> None:
    assert problems(SQL.replace("csv", "ndjson", 1)) == [("sources.b.query", "not_allowed", 6, 27)]


def test_a_mapping_may_take_one_of_equal_rows() -> None:
    node = "{type: T, from: s, columns: {a: b}, distinct: true, dedupe: {by: [b, c], order: d}}"
    (mapping,) = parse(with_node(node)).nodes
    assert mapping.distinct
    assert mapping.dedupe == Dedupe(by=("b", "c"), order="d", keep=Keep.LAST)


@pytest.mark.parametrize(
    ("dedupe", "key", "reason"),
    [
        ("{by: [], order: d}", "nodes[0].dedupe.by", "value"),
        ("{by: b, order: d}", "nodes[0].dedupe.by", "type"),
        ("{by: [b]}", "nodes[0].dedupe", "missing_key"),
        ("{order: d}", "nodes[0].dedupe", "missing_key"),
        ("{by: [b], order: d, keep: best}", "nodes[0].dedupe.keep", "value"),
    ],
)
def test_a_dedupe_that_is_not_complete_is_refused(dedupe: str, key: str, reason: str) -> None:
    node = f"{{type: T, from: s, columns: {{a: b}}, dedupe: {dedupe}}}"
    assert [found[:2] for found in problems(with_node(node))] == [(key, reason)]


def test_no_sources_at_all_are_refused() -> None:
    assert problems(f"{HEAD}sources: {{}}") == [("sources", "value", 4, 1)]


def test_all_mistakes_are_told_together_in_the_order_of_the_file() -> None:
    text = (
        NIGHTLY.replace("version: 1", "version: 3")
        .replace("format: parquet", "formt: parquet")
        .replace("lag: 10m", "lag: 10x")
        .replace("from: orders", "from: order")
    )
    assert [each[0] for each in problems(text)] == [
        "version",
        "sources.people",
        "sources.people.formt",
        "sources.orders.cursor.lag",
        "edges[0].from",
    ]
    assert message(text).splitlines()[2] == (
        "p.yaml:8:12: sources.people.formt: unknown key; did you mean `format`?"
    )


def test_no_more_mistakes_are_told_than_anybody_reads() -> None:
    text = NIGHTLY + "".join(f"unknown{number}: 1\n" for number in range(500))
    assert len(problems(text)) == 100
    assert message(text).endswith("more than 100 errors; the rest is not shown")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("a: [", "syntax"),
        ("a: 'x", "syntax"),
        ("a: 1\n---\nb: 2\n", "syntax"),
        ("{a: " * 3_000, "syntax"),
        ("\x07", "syntax"),
        ("- 1", "type"),
        ("!!python/object/apply:os.getcwd []", "tag"),
        ("a: !!python/name:os.getcwd x", "tag"),
        ("a: !mine x", "tag"),
        ("a: &x {b: 1}\nc: *x", "alias"),
        ("a: &x [*x]", "alias"),
        ("a: 1\na: 2", "duplicate_key"),
        ("? [a]\n: b", "key"),
        ("a: " + "[" * 80 + "]" * 80, "nesting"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: str, reason: str) -> None:
    assert reason in [each[1] for each in problems(text)]


def test_a_duplicate_key_is_told_at_its_second_place() -> None:
    text = with_source("{format: parquet, path: a, path: b}")
    assert problems(text) == [("sources.s.path", "duplicate_key", 5, 33)]


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "user.password", "dbPassword", "passwd", "pwd", "passphrase"),
        *(
            "secret",
            "clientSecret",
            "fs.s3a.secret.key",
            "fs.s3a.access.key",
            "fs.s3a.session.token",
        ),
        *(
            "token",
            "authToken",
            "api_key",
            "apiKey",
            "accountKey",
            "private-key",
            "sasToken",
            "key",
        ),
        "credentials",
    ],
)
def test_an_option_named_like_a_secret_takes_it_from_a_variable(name: str) -> None:
    assert is_secret_option(name)
    literal = with_source(f"{{format: csv, path: x, options: {{{name}: hunter2}}}}")
    found = message(literal)
    assert "hunter2" not in found
    assert found.startswith(f"p.yaml:5:{found.split(':')[2]}: sources.s.options.{name}: do not put")
    given = with_source(f"{{format: csv, path: x, options: {{{name}: '${{PASSWORD}}'}}}}")
    assert parse(given).sources["s"].options[name] == "hunter2"


@pytest.mark.parametrize(
    "name",
    ["partitionColumn", "keyspace", "user", "url", "tokenizer", "header", "primaryKeys", "sep"],
)
def test_other_options_may_be_written_out(name: str) -> None:
    assert not is_secret_option(name)


@pytest.mark.parametrize(
    ("address", "is_secret"),
    [
        ("jdbc:postgresql://me:hunter2@db/x", True),
        ("https://:hunter2@host/x", True),
        ("jdbc:postgresql://db/x?user=me&password=hunter2", True),
        ("jdbc:sqlserver://db;user=me;password=hunter2", True),
        ("https://host/file.csv?sig=1&accessToken=hunter2", True),
        ("jdbc:derby:memory:x;user=me;password=hunter2", True),
        ("jdbc:db2:host:50000/d:user=me;password=hunter2;", True),
        ("jdbc:oracle:thin:scott/hunter2@host:1521/x", True),
        ("jdbc:oracle:thin:scott/${PASSWORD}@host:1521/x", False),
        ("jdbc:derby:memory:x;password=${PASSWORD}", False),
        ("jdbc:postgresql://me:${PASSWORD}@db/x", False),
        ("jdbc:postgresql://db/x?user=me&password=${PASSWORD}", False),
        ("jdbc:postgresql://db:5432/x?ssl=true", False),
        ("s3://bucket/a@b:c/x", False),
        ("postgresql://me@db/x", False),
        ("a = b and password = 'x'", False),
    ],
)
def test_an_address_carries_no_secret(address: str, is_secret: bool) -> None:  # noqa: FBT001
    assert holds_url_secret(address) is is_secret
    text = with_source(f'{{format: jdbc, options: {{url: "{address}", dbtable: t}}}}')
    if is_secret:
        found = message(text)
        assert "hunter2" not in found
        assert "sources.s.options.url: the address carries a secret" in found
    else:
        assert "url" in parse(text).sources["s"].options


def test_no_text_form_of_a_pipeline_shows_a_secret() -> None:
    text = with_source('{format: jdbc, options: {url: u, dbtable: t, password: "${PASSWORD}"}}')
    assert "hunter2" not in repr(parse(text))


def test_a_mapping_has_one_hash_whatever_the_order_of_its_keys() -> None:
    shuffled = NIGHTLY.replace(
        "columns: {slug: person_id, name: full_name", "columns: {name: full_name, slug: person_id"
    ).replace(
        '{format: parquet, path: "s3://in/people/*.parquet"}',
        ('{path: "s3://in/people/*.parquet", format: parquet}'),
    )
    assert parse(shuffled).mapping_hash("people") == parse(NIGHTLY).mapping_hash("people")


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("name: full_name", "name: other", {"people"}),
        ("*.parquet", "*.pq", {"people"}),
        ("type: Person", "type: Human", {"people"}),
        ("dbtable: orders", "dbtable: sales", {"orders"}),
        ("src: customer_id", "src: buyer_id", {"orders"}),
        ("where: \"status <> 'test'\"", "where: 'true'", {"orders"}),
        ("column: updated_at", "column: created_at", {"orders"}),
        ("lag: 10m", "lag: 1h", set()),
        ("max_reject_ratio: 0.001", "max_rejects: 5", set()),
        ("graph: s3://acme/crm.omni", "graph: s3://acme/other.omni", set()),
    ],
)
def test_a_hash_changes_with_what_its_source_feeds(old: str, new: str, changed: set[str]) -> None:
    before, after = parse(NIGHTLY), parse(NIGHTLY.replace(old, new))
    assert {
        name for name in before.sources if before.mapping_hash(name) != after.mapping_hash(name)
    } == changed


def test_a_database_that_moved_is_no_new_mapping() -> None:
    moved = parse(NIGHTLY, ORDERS_URL="jdbc:postgresql://other/orders")
    assert moved.mapping_hash("orders") == parse(NIGHTLY).mapping_hash("orders")


@pytest.mark.parametrize(
    ("old", "new", "source"),
    [
        ("s3://in/people/*.parquet", "s3://in/${DAY}/*.parquet", "people"),
        ("cast(age as int)", "'${DAY}'", "people"),
        ("status <> 'test'", "day = '${DAY}'", "orders"),
        ("dbtable: orders", 'dbtable: "orders_${DAY}"', "orders"),
    ],
)
def test_a_variable_that_says_what_is_read_is_part_of_the_mapping(
    old: str, new: str, source: str
) -> None:
    text = NIGHTLY.replace(old, new)
    assert text != NIGHTLY
    first, again, other = (parse(text, DAY=day).mapping_hash(source) for day in "112")
    assert first == again != other


def test_a_column_is_mentioned_however_its_name_is_spelled() -> None:
    text = NIGHTLY.replace("name: full_name", 'name: "größe"').replace(
        "cast(age as int)", 'cast(`we\\"ird` as int)'
    )
    spec = parse(text)
    assert spec.mentions("people", "größe")
    assert spec.mentions("people", 'we"ird')
    assert spec.mentions("people", "person_id")
    assert not spec.mentions("people", "person")
    star = parse(NIGHTLY.replace("cast(age as int)", "xxhash64(*)"))
    assert star.mentions("people", "anything")
    assert not star.mentions("orders", "anything")


def test_a_secret_is_not_part_of_the_mapping() -> None:
    options = 'url: u, dbtable: t, password: "${PASSWORD}"'
    texts = [
        with_source(f"{{format: jdbc, options: {{{options}}}}}"),
        with_source('{format: parquet, path: "s3://key:${PASSWORD}@in/x.parquet"}'),
    ]
    for text in texts:
        (name, *_) = parse(text).sources
        one, other = (parse(text, PASSWORD=each).mapping_hash(name) for each in ("a1", "b2"))
        assert one == other


def test_a_hash_stays_the_same_between_releases() -> None:
    assert parse(NIGHTLY).mapping_hash("people") == "21316fd6c374bf04b0854053b0083157"


def test_a_source_that_is_not_there_has_no_hash() -> None:
    with pytest.raises(InvalidArgument, match="no source 'x'; it has people, orders"):
        parse(NIGHTLY).mapping_hash("x")


def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + NIGHTLY.encode())
    assert read_pipeline(path, ENVIRON) == parse(NIGHTLY)


def test_a_file_that_cannot_be_read_is_told_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match=r"nowhere\.yaml.*No such file"):
        read_pipeline(tmp_path / "nowhere.yaml", {})


@pytest.mark.parametrize("data", [b"name: \xff", b"#" * 1_048_577])
def test_bytes_that_are_no_text_of_a_sensible_size_are_refused(data: bytes) -> None:
    with pytest.raises(SettingInvalid, match=r"UTF-8|the limit is"):
        parse_pipeline(data, {})


def test_reading_a_pipeline_needs_no_spark() -> None:
    code = "import sys, omnigraph.pipeline.spec.pipeline_file; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
