import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.cli.change_text import change_line, excerpts
from omnigraph.graph.changes.entity_change import EntityChange, Image, Op
from omnigraph.graph.validation import EntityKind

Door = Callable[..., CompletedProcess[str]]
SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People on `main`, and a branch `draft` on which they changed."""
    path = tmp_path_factory.mktemp("teams") / "team.omni"
    with Graph.init(path, schema=SCHEMA, settings=quick()) as graph:
        with graph.write() as writer:
            writer.append("Person", pa.table({"name": ["Ada", "Bob", "Cid"], "age": AGES}))
            writer.append("Knows", _edge("Ada", "Bob"))
            writer.commit()
        graph.branches.create("draft")
        with graph.write("draft") as writer:
            writer.upsert("Person", pa.table({"name": ["Ada", "Dan"], "age": AGES[1:]}))
            writer.delete("Person", ["Cid"])
            writer.upsert("Knows", _edge("Bob", "Dan"))
            writer.commit()
    return path


AGES = pa.array([1, 2, None], pa.int32())
TEXT = """\
~  node:Person  Ada  age: 1 -> 2
-  node:Person  Cid
+  node:Person  Dan
~  edge:Knows  k1  Bob -> Dan  (was Ada -> Bob)
"""


def _edge(source: str, target: str) -> pa.Table:
    return pa.table({"id": ["k1"], "src": [source], "dst": [target]})


def test_each_change_is_a_line_and_the_count_is_told_beside_them(start: Door, team: Path) -> None:
    result = start("diff", "main", "draft", "--uri", team)
    assert (result.returncode, result.stdout, result.stderr) == (0, TEXT, "4 changes\n")


def test_equal_states_have_no_lines(call: Door, team: Path) -> None:
    result = call("diff", "main", "main", "--store", team)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "0 changes\n")


@pytest.mark.parametrize(
    ("words", "lines", "count"),
    [
        (["--kind", "edge"], [3], "1 change"),
        (["--type", "Person", "--op", "insert", "--op", "delete"], [1, 2], "2 changes"),
        (["--type", "node:Person", "--type", "Knows"], [0, 1, 2, 3], "4 changes"),
        (["--limit", "2"], [0, 1], "4 changes"),
    ],
)
def test_options_choose_among_the_changes(
    call: Door, team: Path, words: list[str], lines: list[int], count: str
) -> None:
    result = call("diff", "main", "draft", "--uri", team, *words)
    assert result.stdout.splitlines() == [TEXT.splitlines()[each] for each in lines]
    assert result.stderr == f"{count}\n"


def test_json_is_the_change_set(call: Door, team: Path) -> None:
    result = call("diff", "main", "draft", "--uri", team, "--json")
    with Graph.open(team, mode="read_only") as graph:
        assert json.loads(result.stdout) == graph.diff("main", "draft").to_dict()
    assert result.stderr == ""
    limited = json.loads(
        call("diff", "main", "draft", "--uri", team, "--json", "--limit", "1").stdout
    )
    assert len(limited["changes"]) == 1
    assert limited["stats"] == json.loads(result.stdout)["stats"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["main", "nope"], 1, "there is no branch, no commit and no tag 'nope'"),
        (["main", "draft", "--type", "Cat"], 1, "there is no type 'Cat'"),
        (["main", "draft", "--kind", "nodes"], 1, "'nodes'"),
        (["main", "draft", "--op", "merge"], 1, "'merge'"),
        (["main", "draft", "--limit", "0"], 2, "--limit"),
        (["main"], 2, "'TO'"),
    ],
)
def test_what_cannot_be_compared_is_an_error(
    call: Door, team: Path, words: list[str], code: int, text: str
) -> None:
    result = call("diff", *words, "--uri", team)
    assert (result.returncode, result.stdout) == (code, "")
    assert text in result.stderr


# --- lines ------------------------------------------------------------------------------------


def change(before: Image | None, after: Image | None, entity_id: str = "x") -> EntityChange:
    op = Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE
    return EntityChange(
        kind=EntityKind.NODE,
        type_id=1,
        type_name="Person",
        id=entity_id,
        op=op,
        before=before,
        after=after,
    )


def test_a_line_of_an_update_has_only_what_differs() -> None:
    before = Image(properties={"a": None, "b": 1, "c": [1]})
    after = Image(properties={"a": "", "b": 1, "c": []})
    assert change_line(change(before, after)) == '~  node:Person  x  a: null -> ""  c: [1] -> []'


def test_a_long_value_is_cut() -> None:
    before, after = Image(properties={"a": "é" * 100}), Image(properties={"a": "b"})
    line = change_line(change(before, after))
    assert line == f'~  node:Person  x  a: "{"é" * 58}… -> "b"'


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["é" * 60, "b"], ["é" * 60, "b"]),
        (["a" * 40 + "b", "a" * 40 + "c"], ["a" * 40 + "b", "a" * 40 + "c"]),
        (["a" * 41 + "b", "a" * 41 + "c"], [f"…{'a' * 20}b", f"…{'a' * 20}c"]),
        (["a" * 90, "a" * 80], [f"…{'a' * 30}", f"…{'a' * 20}"]),
        (["x", "a" * 90 + "b", "a" * 90 + "c"], ["x", f"…{'a' * 20}b", f"…{'a' * 20}c"]),
        (["a" * 90 + "z", "b", "c"], ["a" * 59 + "…", "b", "c"]),
        (["a" * 90], ["a" * 59 + "…"]),
        ([], []),
    ],
)
def test_long_values_are_shown_from_where_they_differ(values: list[str], shown: list[str]) -> None:
    assert excerpts(*values) == shown


def test_an_edge_shows_its_ends_whatever_happened_to_it() -> None:
    image = Image(properties={}, endpoints=("a", "b"))
    assert change_line(change(None, image)).endswith("x  a -> b")
    assert change_line(change(image, None)).endswith("x  a -> b")


def test_an_id_cannot_write_to_the_terminal(call: Door, graph: Path) -> None:
    with Graph.open(graph) as opened, opened.write() as writer:
        writer.append("Person", pa.table({"name": ["a\n\x1b[2J"]}))
        writer.commit()
    with Graph.open(graph, mode="read_only") as opened:
        first = opened.snapshot(0).graph_commit_id
    shown = call("diff", first, "main", "--uri", graph).stdout
    assert shown == "+  node:Person  a\\n\\x1b[2J\n"
