from pathlib import Path

import pytest

from omnigraph.cli.operator_config import Alias, Binding, OperatorConfig, read_operator_config
from omnigraph.cli.row_style import CellLayout, RowFormat, RowStyle
from omnigraph.errors import SettingInvalid

COMPLETE = """
operator: { actor: act-me }
servers:  { prod: { url: https://graph.example.com } }
clusters: { brain: { root: s3://acme/clusters/brain } }
defaults: { server: prod, default_graph: knowledge, output: table, table_max_column_width: 80 }
profiles:
  staging:     { server: prod, default_graph: knowledge }
  literal:     { server: "https://other.example.com" }
  brain-admin: { cluster: brain, default_graph: knowledge }
  scratch:     { store: ./scratch.omni }
aliases:
  triage: { server: prod, graph: knowledge, query: weekly, args: [since], params: { limit: 20 } }
spark: { master: "local[2]" }
pipeline:
"""


def read(folder: Path, text: str | bytes) -> OperatorConfig:
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "config.yaml").write_bytes(data)
    return read_operator_config(folder)


def test_the_example_of_the_contract_is_read_without_a_warning(tmp_path: Path) -> None:
    assert read(tmp_path, COMPLETE) == OperatorConfig(
        actor="act-me",
        defaults=Binding(server="prod", default_graph="knowledge"),
        profiles={
            "staging": Binding(server="prod", default_graph="knowledge"),
            "literal": Binding(server="https://other.example.com"),
            "brain-admin": Binding(cluster="brain", default_graph="knowledge"),
            "scratch": Binding(store="./scratch.omni"),
        },
        servers={"prod": "https://graph.example.com"},
        aliases={
            "triage": Alias(
                query="weekly",
                server="prod",
                graph="knowledge",
                args=("since",),
                params={"limit": 20},
            )
        },
        settings={"spark": {"master": "local[2]"}, "pipeline": None},
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "operator:\nprofiles: {}\n"])
def test_a_file_that_says_nothing_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == OperatorConfig()
    assert read_operator_config(tmp_path / "gone") == read_operator_config(None) == OperatorConfig()


def test_the_style_of_rows_is_that_of_the_defaults(tmp_path: Path) -> None:
    text = "defaults: {output: jsonl, table_max_column_width: 9, table_cell_layout: wrap}"
    assert read(tmp_path, text).row_style == RowStyle(
        format=RowFormat.JSONL, table_max_column_width=9, table_cell_layout=CellLayout.WRAP
    )


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("default: {store: x}", "default", "defaults"),
        ("defaults: {stroe: x}", "defaults.stroe", "store"),
        ("profiles: {p: {store: x, graf: y}}", "profiles.p.graf", "default_graph"),
        ("operator: {1: 2}", "operator.1", "actor"),
    ],
)
def test_an_unknown_key_is_a_warning_with_the_nearest(
    tmp_path: Path, text: str, key: str, nearest: str
) -> None:
    [warning] = read(tmp_path, text).warnings
    assert f"unknown key {key} " in warning
    assert warning.endswith(f"the nearest is {nearest}")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("defaults: {server: a, store: b}", "both store and server"),
        ("defaults: {store: b, default_graph: g}", "both store and default_graph"),
        ("profiles: {p: {}}", "profiles.p must bind exactly one"),
        ("profiles: {p: {store: a, cluster: b}}", "binds cluster and store"),
        ("profiles: {p: {server: x}}", "profiles.p.server: 'x'"),
        ("aliases: {a: {server: x, query: q}}", "aliases.a.server: 'x'"),
        ("operator: {actor: [a]}", "operator.actor: expected a text"),
        ("operator: {actor: 2024-01-01}", "operator.actor: expected a text"),
        ("operator: {actor: ' '}", "operator.actor: expected a text"),
        ("defaults: {output: xml}", "defaults.output: expected one of table, kv, csv"),
        ("defaults: {output: [json]}", "defaults.output: expected one of table, kv, csv"),
        ("defaults: {table_cell_layout: cut}", "expected one of truncate, wrap, not 'cut'"),
        ("defaults: {table_max_column_width: 0}", "at least 1, not 0"),
        ("defaults: {table_max_column_width: 8.5}", "at least 1, not 8.5"),
        ("defaults: {table_max_column_width: true}", "at least 1, not True"),
        ("profiles: [a]", "profiles: expected keys"),
        ("profiles: {p: a}", "profiles.p: expected keys"),
        ("- a", "the file: expected keys"),
        ("a: [", "is not YAML"),
        ("[" * 5_000, "is not YAML"),
        (b"a: \xff", "is not YAML"),
        (b"a: \x00", "is not YAML"),
        (b"#" * (1 << 20) + b"#", "larger than"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(
    tmp_path: Path, text: str | bytes, named: str
) -> None:
    with pytest.raises(SettingInvalid) as caught:
        read(tmp_path, text)
    assert caught.value.message.startswith(f"operator config '{tmp_path}/config.yaml': ")
    assert named in caught.value.message
    assert "\n" not in caught.value.message


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(SettingInvalid, match="cannot be read"):
        read_operator_config(tmp_path)
