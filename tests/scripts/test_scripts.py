"""The runner of scripts: what it lets pass, what it refuses, and what `--rewrite` writes."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.scripts.script_executors import (
    EXECUTORS,
    Answer,
    Column,
    LoadMode,
    Merged,
    OnSpark,
    Receipt,
)
from tests.scripts.script_format import ScriptError, extended_executors, read_script
from tests.scripts.script_run import Failure, rewrite, run_script
from tests.scripts.script_values import SpellingError, cells_of, parse_value, spell_value

from omnigraph.errors import ConstraintViolation, InvalidArgument, MergeConflicts

SCHEMA = "schema\nnode P { name: String @key }\n\n"


@dataclass(slots=True)
class Recited:
    """An executor, and its graph, that answers what it was told to."""

    answer: Answer = field(default_factory=lambda: Answer([Column("n", "I64")], [(1,), (2,)]))
    receipt: Receipt = field(
        default_factory=lambda: Receipt(nodes=1, edges=0, has_commit=True, warnings=())
    )
    error: Exception | None = None
    moves: bool = True
    calls: list[str] = field(default_factory=list)
    name: str = "recited"

    def plays(self, path: Path) -> bool:
        return path.suffix == ".test"

    def is_extended(self, path: Path) -> bool:
        return path.suffix != ".test"

    def open(
        self, folder: Path, schema: str, settings: Mapping[str, str]
    ) -> AbstractContextManager["Recited"]:
        assert not folder.exists()
        self.calls.append(f"open {schema} {dict(settings)}")
        return nullcontext(self)

    def query(
        self, source: str, params: Mapping[str, object], *, branch: str, commit: str | None
    ) -> Answer:
        self.calls.append(f"query {source} {dict(params)} {branch} {commit}")
        if self.error is not None:
            raise self.error
        return self.answer

    def mutate(self, source: str, params: Mapping[str, object], *, branch: str) -> Receipt:
        self.calls.append(f"mutate {source} {dict(params)} {branch}")
        if self.error is not None:
            raise self.error
        return self.receipt

    def load(self, lines: bytes, *, mode: LoadMode, branch: str) -> None:
        self.calls.append(f"load {mode} {branch} {lines.decode()}")
        if self.error is not None:
            raise self.error

    def head(self, branch: str) -> str:
        return f"{branch}-{len(self.calls) if self.moves else 0}"

    def create_branch(self, name: str, origin: str) -> None:
        self.calls.append(f"create {name} {origin}")

    def delete_branch(self, name: str) -> None:
        self.calls.append(f"delete {name}")

    def merge(self, source: str, target: str, *, strategy: str) -> Merged:
        if strategy == "fail":
            conflict = {"kind": "divergent_update", "type_name": "A", "entity_id": source}
            raise MergeConflicts("both changed it", merge_conflicts=[conflict], total=1)
        self.calls.append(f"merge {source} into {target} by {strategy}")
        return Merged(outcome="merged", has_commit=True)

    def build_indexes(self, branch: str) -> None:
        self.calls.append(f"indexes {branch}")

    def compact(self, type_name: str, branch: str) -> None:
        self.calls.append(f"compact {type_name} {branch}")


def play(tmp_path: Path, text: str, told: Recited | None = None) -> list[Failure]:
    path = tmp_path / "x.test"
    path.write_text(SCHEMA + text, encoding="utf-8")
    return run_script(path, told or Recited(), tmp_path)


def expecting(*lines: str, words: str = "") -> str:
    return "\n".join([f"query{words}", "ask", "----", *lines, ""])


@pytest.mark.parametrize(
    "text",
    [
        expecting("n", "1", "2"),
        expecting("n: I64", "1", "2"),
        expecting("n", "2", "1", words=" unordered"),
    ],
)
def test_the_expected_rows_pass(tmp_path: Path, text: str) -> None:
    assert play(tmp_path, text) == []


@pytest.mark.parametrize(
    "text",
    [
        expecting("n", "1", "3"),
        expecting("n", "1", "2.0"),
        expecting("n", "1", '"2"'),
        expecting("n", "2", "1"),
        expecting("n", "1"),
        expecting("n", "1", "2", "3"),
        expecting("n", "1", "1", words=" unordered"),
        expecting("m", "1", "2"),
        expecting("n: I32", "1", "2"),
        expecting("n: I64?", "1", "2"),
        expecting("n | m", "1 | 1", "2 | 2"),
        expecting("error invalid_argument"),
        expecting(),
    ],
)
def test_any_other_row_column_type_or_order_fails(tmp_path: Path, text: str) -> None:
    (failure,) = play(tmp_path, text)
    assert failure.step.line == 4
    assert failure.actual[0].startswith("n")


def test_an_extra_column_of_the_answer_fails(tmp_path: Path) -> None:
    wide = Answer([Column("n", "I64"), Column("m", "I64")], [(1, 1), (2, 2)])
    assert len(play(tmp_path, expecting("n", "1", "2"), Recited(answer=wide))) == 1


def test_floats_differ_only_as_far_as_the_step_says(tmp_path: Path) -> None:
    told = Recited(answer=Answer([Column("x", "F64")], [(1.0 + 1e-13,), (-0.0,)]))
    assert len(play(tmp_path, expecting("x", "1.0", "-0.0"), told)) == 1
    assert play(tmp_path, expecting("x", "1.0", "-0.0", words=" approx 1e-12"), told) == []
    assert play(tmp_path, expecting("x", "1.0", "0.0", words=" within 1e-12"), told) == []
    assert len(play(tmp_path, expecting("x", "1.1", "0.0", words=" within 1e-12"), told)) == 1
    with pytest.raises(ScriptError, match=r"x\.test:4: a tolerance"):
        play(tmp_path, expecting("x", "1.0", words=" approx much"), told)


@pytest.mark.parametrize(
    ("lines", "passes"),
    [
        (["error invalid_argument"], True),
        (["error invalid_argument", 'says "0 to 2"'], True),
        (["error invalid_argument", 'says "0 to 3"'], False),
        (["error invalid_argument", 'detail argument = "edits"'], True),
        (["error invalid_argument", 'detail argument = "other"'], False),
        (["error invalid_argument", "violation range_violation"], False),
        (["error parameter_error"], False),
        (["n", "1"], False),
        ([], False),
    ],
)
def test_an_error_is_the_expected_one_or_a_failure(
    tmp_path: Path, lines: list[str], *, passes: bool
) -> None:
    told = Recited(error=InvalidArgument("edits are 0 to 2", argument="edits"))
    failures = play(tmp_path, expecting(*lines), told)
    assert (failures == []) == passes
    for failure in failures:
        assert failure.actual == ["error invalid_argument"]


def test_all_violations_are_told_in_their_order(tmp_path: Path) -> None:
    codes = [{"code": "range_violation"}, {"code": "orphan_edge"}]
    told = Recited(error=ConstraintViolation("no", violations=codes), moves=False)
    head = ["mutation", "do", "----", "error constraint_violation", "violation range_violation"]
    assert len(play(tmp_path, "\n".join(head), told)) == 1
    assert play(tmp_path, "\n".join([*head, "violation orphan_edge"]), told) == []


def test_a_refused_write_must_not_move_its_branch(tmp_path: Path) -> None:
    text = "load merge on side\nnode P\nname\n1\n----\nerror invalid_argument"
    told = Recited(error=InvalidArgument("no"), moves=False)
    assert play(tmp_path, text, told) == []
    with pytest.raises(AssertionError, match="the branch moved, though nothing was written"):
        play(tmp_path, text, Recited(error=InvalidArgument("no")))


def test_a_receipt_has_counts_commit_and_pieces_of_warnings(tmp_path: Path) -> None:
    still = Receipt(nodes=0, edges=2, has_commit=False, warnings=("P.v is old",))
    told = Recited(receipt=still, moves=False)
    text = (
        'mutation on side\nwith a = [1, 2.5]\ndo\n----\n0 nodes, 2 edges\nno commit\nwarning "P.v"'
    )
    assert play(tmp_path, text, told) == []
    assert told.calls[-1] == "mutate do {'a': [1, 2.5]} side"
    for wrong in (("0 nodes", "1 nodes"), ("\nno commit", ""), ("P.v", "P.w")):
        assert len(play(tmp_path, text.replace(*wrong), told)) == 1, wrong


def test_cases_are_asked_one_by_one(tmp_path: Path) -> None:
    told = Recited()
    text = (
        "query cases\nwith y = true\nask ${what}\n----\n"
        "what | $x         | => n\none | 2024-01-01 | [1, 2]\ntwo |  | [1, 2]\n"
    )
    assert play(tmp_path, text, told) == []
    assert told.calls[1:] == [
        "query ask one {'y': True, 'x': datetime.date(2024, 1, 1)} main None",
        "query ask two {'y': True} main None",
    ]
    for wrong in (("[1, 2]\n", "[1]\n"), ("=> n", "=> m"), ("[1, 2]\n", "error internal\n")):
        (failure,) = play(tmp_path, text.replace(*wrong), told)
        assert failure.actual[1:] == ["one  | 2024-01-01 | [1, 2]", "two  |            | [1, 2]"]


def test_the_other_steps_reach_the_graph(tmp_path: Path) -> None:
    told = Recited(moves=False)
    text = (
        'load overwrite\nnode P\nname | day\n"a|b" |\n"c" | 2024-01-01\nedge E\nfrom | to | w\n'
        '"a" | "c" | 0.5\n\nbranch create b from side\n\ncommit first on b\n\nindexes on b\n\n'
        "compact P\n\nquery at first\nask\n----\nn\n1\n2\n\nbranch delete b\n"
    )
    assert play(tmp_path, text, told) == []
    assert told.calls[1:] == [
        'load overwrite main {"type": "P", "data": {"name": "a|b"}}\n'
        '{"type": "P", "data": {"name": "c", "day": "2024-01-01"}}\n'
        '{"edge": "E", "from": "a", "to": "c", "data": {"w": 0.5}}',
        "create b side",
        "indexes b",
        "compact P main",
        "query ask {} main b-0",
        "delete b",
    ]


def test_loops_and_included_files_are_steps_of_the_script(tmp_path: Path) -> None:
    told = Recited()
    (tmp_path / "more.steps").write_text("query\nask ${a} ${b}\n----\nn\n1\n2\n", encoding="utf-8")
    text = "for a in 1 'two words'\n\nfor b in x y\n\ninclude more.steps\n\nend\n\nend\n"
    assert play(tmp_path, text, told) == []
    asked = [call.removeprefix("query ask ").removesuffix(" {} main None") for call in told.calls]
    assert asked[1:] == ["1 x", "1 y", "two words x", "two words y"]


def test_a_schema_starts_a_new_graph_with_its_settings(tmp_path: Path) -> None:
    told = Recited()
    assert play(tmp_path, 'schema\nwith OMNIGRAPH_X = "1"\nnode Q {}\n', told) == []
    assert told.calls == [
        "open node P { name: String @key } {}",
        "open node Q {} {'OMNIGRAPH_X': '1'}",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ask\n", "4: unknown step `ask`"),
        ("query\nask\n", "4: `query` must have an expectation"),
        ("query on\nask\n----\nn\n", "4: a value is missing after `on`"),
        ("query quickly\nask\n----\nn\n", "4: `query` has 0 words"),
        ("query\n----\nn\n", "4: `query` must have a text"),
        ("indexes\nx\n", "4: `indexes` never have a text"),
        ("# note\nload swiftly\nnode P\nname\n1\n", "5: `load` is followed by append or merge"),
        ("load append\nname\n1\n", "4: `node Type`, `edge Type` or a line of JSON"),
        ("load append\nnode P\na | b\n1\n", "4: a row of 2 cells"),
        ("load append\nnode P\na\nx\n", "4: no value is spelled `x`"),
        ("query\nwith a = [1\nask\n----\nn\n", r"4: a list does not end in `\[1`"),
        ("query\nask\n----\nn\n1 2\n", "4: one value is expected"),
        ("query\nask\n----\nn\n1 | 2\n", "4: a row of 1 cells"),
        ("query cases\nask\n----\na | b\n", "4: the last column of a table of cases"),
        ("query cases\nask\n----\n", "4: a table of cases is missing"),
        ("query cases\nask\n----\na | => n\n1\n", "4: a row of 2 cells"),
        ("query at noon\nask\n----\nn\n", "4: no commit is named `noon`"),
        ("branch move b\n", "4: `branch` is followed by create or delete"),
        ("for a in 1 2\n\nindexes\n", "4: the loop has no `end`"),
        ("end\n", "4: `end` without a loop"),
        ("extended csr\n", "4: `extended` stands before the schema"),
        ("include none.steps\n", "4: there is no file `none.steps`"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(ScriptError, match=rf"x\.test:{complaint}"):
        play(tmp_path, text)


def test_an_error_is_told_by_known_lines_alone(tmp_path: Path) -> None:
    told = Recited(error=InvalidArgument("no"))
    with pytest.raises(ScriptError, match=r"x\.test:4: an error is told by"):
        play(tmp_path, expecting("error invalid_argument", "because"), told)


def test_a_script_begins_with_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.test"
    path.write_text("# nothing\n\nindexes\n", encoding="utf-8")
    with pytest.raises(ScriptError, match=r"x\.test:1: a script begins with a schema"):
        read_script(path)


def test_a_failure_shows_both_sides_and_goes_on_to_the_next_query(tmp_path: Path) -> None:
    text = expecting("n", "1", "9") + "\n" + expecting("n", "7")
    first, second = play(tmp_path, text)
    assert first.render() == (
        f"{tmp_path}/x.test:4: query (recited)\n    ask\n\n"
        "    expected      actual\n    n             n\n    1             1\n    9         !=  2"
    )
    assert second.step.line == 11


def test_a_merge_is_told_by_its_outcome_or_its_conflicts(tmp_path: Path) -> None:
    right = 'merge b\n----\nerror merge_conflicts\nconflict divergent_update A "b"\n'
    assert play(tmp_path, right + "\nmerge b into c by ours\n----\nmerged\n") == []
    wrong = play(tmp_path, right.replace('"b"', '"c"'))
    assert [failure.actual for failure in wrong] == [right.split("\n")[2:4]]
    more = play(tmp_path, right + "conflict delete_vs_update A 1\n")
    assert [failure.step.kind for failure in more] == ["merge"]


def test_a_wrong_write_ends_the_script(tmp_path: Path) -> None:
    text = "mutation\ndo\n----\n9 nodes, 9 edges\n\n" + expecting("n", "7")
    assert [failure.step.kind for failure in play(tmp_path, text)] == ["mutation"]


def test_rewrite_makes_a_failing_file_pass_and_touches_nothing_else(tmp_path: Path) -> None:
    head = "# about\n\n"
    right = "# kept   as it is\n" + expecting("n", "1", "  2")
    cases = "query cases\nask ${a}\n----\na|=> n\nx|[1,2]\ny|[]\n"
    path = tmp_path / "x.test"
    wrong = [
        expecting("n: I64", "3"),
        "mutation\ndo\n----\nerror internal\n",
        "indexes\n----\nno\n",
    ]
    path.write_text(
        "\n".join([head + SCHEMA + right, *wrong, cases]) + "\n# end\n", encoding="utf-8"
    )
    failures = run_script(path, Recited(), tmp_path, goes_on=True)
    assert rewrite(failures) == 4
    fixed = [
        expecting("n: I64", "1", "2"),
        "mutation\ndo\n----\n1 nodes, 0 edges\n",
        "indexes\n",
        "query cases\nask ${a}\n----\na | => n\nx | [1,2]\ny | [1, 2]\n",
    ]
    written = path.read_text(encoding="utf-8")
    assert written == "\n".join([head + SCHEMA + right, *fixed]) + "\n# end\n"
    assert run_script(path, Recited(), tmp_path) == []


def test_rewrite_leaves_a_loop_with_two_outcomes_alone(tmp_path: Path) -> None:
    text = "for a in 1 2\n\nquery cases\nask\n----\na | => n\n${a} | []\n\nend\n"
    failures = play(tmp_path, text)
    assert len(failures) == 2
    with pytest.raises(ScriptError, match="different outcomes"):
        rewrite(failures)


@pytest.mark.parametrize(
    "spelled",
    [
        *("null", "true", "3", "-3", "3.0", "-0.0", "1e+300", "5e-324", "NaN", "inf", "-inf"),
        *('"a"', '"a\\"b"', '"\\u0301"', '"\\uffff"', '"é"', "2024-02-29", 'x"6869"', "[]"),
        *("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.001Z", "[1, null, [2.5]]", '["a, b"]'),
    ],
)
def test_a_value_is_read_as_it_is_spelled(spelled: str) -> None:
    assert spell_value(parse_value(spelled)) == spelled


def test_spellings_of_unlike_values_differ() -> None:
    for one, other in ((1, 1.0), (0.0, -0.0), (True, 1), ("1", 1), (None, "null"), ([1], [1.0])):
        assert spell_value(one) != spell_value(other)


@pytest.mark.parametrize(
    "text", ["", "nul", "1 2", "[1", "[1 2]", "[1,]", "[,]", "]", '"a', "2024-13-01"]
)
def test_what_spells_no_value_is_refused(text: str) -> None:
    with pytest.raises(SpellingError):
        parse_value(text)


def test_a_bar_divides_cells_but_not_texts() -> None:
    assert cells_of('a | "b|c" |  | [1, "|"]') == ["a", '"b|c"', "", '[1, "|"]']
    with pytest.raises(SpellingError, match="does not end"):
        cells_of('a | "b')


def test_the_executors_of_this_process_run_a_script_from_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / "x.test"
    path.write_text(
        "schema\nnode P { name: String @key  v: Vector(2)?  l: [I32]? }\n\n"
        'load append\nnode P\nname | v | l\n"a" | [1.0, 0.5] | [1, null]\n\ncommit first\n\n'
        'mutation\nquery m() { insert P { name: "b" } }\n----\n1 nodes, 0 edges\n\n'
        "query at first\nquery q() { match { $p: P } return { $p, $p.v, $p.l } }\n----\n"
        'p: String | p.v: Vector(2)? | p.l: [I32]?\n"a" | [1.0, 0.5] | [1, null]\n\n'
        "indexes\n\ncompact P\n\nbranch create side\n\nbranch delete side\n",
        encoding="utf-8",
    )
    for executor in EXECUTORS:
        if not isinstance(executor, OnSpark):
            assert run_script(path, executor, tmp_path) == []


def test_a_script_names_the_executors_that_are_extended(tmp_path: Path) -> None:
    path = tmp_path / "x.test"
    path.write_text(f"# about\n\nextended csr indexed\n\n{SCHEMA}", encoding="utf-8")
    assert extended_executors(path) == {"csr", "indexed"}
    assert [step.kind for step in read_script(path)] == ["schema"]
    path.write_text(SCHEMA, encoding="utf-8")
    assert extended_executors(path) == set()


def test_only_scripts_about_groups_are_streamed() -> None:
    played = [executor.name for executor in EXECUTORS if executor.plays(Path("order.test"))]
    assert played == ["csr", "indexed", "evicting", "http", "spark"]
    assert all(executor.plays(Path("aggregates.test")) for executor in EXECUTORS)


def test_most_scripts_ask_spark_in_the_full_products_only() -> None:
    (spark,) = (executor for executor in EXECUTORS if isinstance(executor, OnSpark))
    for name, is_extended, is_slow in (
        ("zeros.test", False, False),
        ("optional.test", True, False),
        ("order.test", True, True),
    ):
        assert (spark.is_extended(Path(name)), spark.is_slow(Path(name))) == (is_extended, is_slow)
