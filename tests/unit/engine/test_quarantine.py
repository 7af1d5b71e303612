"""Bad rows of an in-process load: what is written of them, and what is committed without them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.quarantine_inputs import SCHEMA, SEED, edge, line, person

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, KeyConflict, LoadRejected, StorageUnavailable
from omnigraph.failpoints import armed
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.jobs.report import JobReport

MODES = ("append", "merge", "overwrite")


@pytest.fixture(scope="module")
def _seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "graph"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(SEED, mode="append")
    return path


@pytest.fixture
def graph(tmp_path: Path, _seeded: Path) -> Iterator[Graph]:
    with Graph.open(shutil.copytree(_seeded, tmp_path / "graph")) as opened:
        yield opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "rejects"


def set_aside(graph: Graph, text: object, place: Path, **options: Any) -> JobReport:  # noqa: ANN401
    given: dict[str, Any] = {"mode": "append", "max_reject_ratio": 1.0, "on_error": "quarantine"}
    return graph.load(text, rejects=str(place), **given | options)  # type: ignore[arg-type]


def lines_of(folder: str | Path | None) -> list[dict[str, Any]]:
    text = Path(folder or "", "rejects.ndjson").read_bytes()
    return [json.loads(each) for each in text.splitlines()]


def codes(report: JobReport) -> dict[int, str]:
    return {each["line"]: each["code"] for each in lines_of(report.rejects_uri)}


def exported(graph: Graph) -> bytes:
    return b"".join(graph.export())


def test_a_reject_has_its_place_its_reason_and_the_exact_line(graph: Graph, place: Path) -> None:
    bad = b'{"type" : "Person", "data": {"name":"\xc3\xa4", "age":900}}\r'
    report = set_aside(graph, person("new") + bad + b"\n\xff{\n\n", place)
    (first, second) = lines_of(report.rejects_uri)
    assert list(first) == ["source", "line", "code", "message", "property", "raw"]
    assert first | {"message": ""} == {
        "source": None,
        "line": 2,
        "code": "range_violation",
        "message": "",
        "property": "age",
        "raw": bad.decode(),
    }
    # What is wrong besides is said too.
    assert first["message"].startswith(
        "@range violation on Person.age: value 900 > max 150; @check"
    )
    assert (second["raw"], second["encoding"], second["property"]) == ("/3s=", "base64", None)
    assert report.commit is not None
    assert report.operation_id is not None
    assert report.rejects_uri == str(place / report.operation_id)
    marked = Path(report.rejects_uri, "_COMMITTED").read_text()
    assert marked == f"{report.commit.graph_commit_id}\n"


def test_the_source_is_the_file_or_the_name_of_the_table(
    graph: Graph, place: Path, tmp_path: Path
) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(person("new", age=-1))
    report = set_aside(graph, path, place, engine="local")
    assert [each["source"] for each in lines_of(report.rejects_uri)] == [str(path)]
    tables = {
        "edge:In": pa.table({"id": ["x"], "src": ["nobody"], "dst": ["t0"]}),
        "Team": pa.table({"id": ["t7", "t8"], "title": ["a", "b"], "code": [7, 7]}),
        "Person": pa.table({"name": ["p0", "ok"], "age": [1, 2]}),
    }
    report = set_aside(graph, tables, place)
    found = lines_of(report.rejects_uri)
    assert [(each["source"], each["line"], each["code"]) for each in found] == [
        ("edge:In", 1, "orphan_edge"),
        ("Team", 1, "unique_violation"),
        ("Team", 2, "unique_violation"),
        ("Person", 1, "key_conflict"),
    ]
    assert [json.loads(each["raw"]) for each in found] == [
        {"edge": "In", "from": "nobody", "to": "t0", "data": {"id": "x"}},
        {"type": "Team", "data": {"id": "t7", "title": "a", "code": 7}},
        {"type": "Team", "data": {"id": "t8", "title": "b", "code": 7}},
        {"type": "Person", "data": {"name": "p0", "age": 1}},
    ]
    assert [each.rejected for each in report.tables] == [1, 2, 1]


def test_numbers_that_json_does_not_know_are_spelled(tmp_path: Path, place: Path) -> None:
    schema = "node Reading { name: String @key  value: F64?  values: [F32]? }"
    rows = pa.table(
        {
            "name": ["a", "b", "c", "d"],
            "value": pa.array([float("nan"), float("inf"), 1.5, 2.5], pa.float64()),
            "values": pa.array([None, [1.0], [float("-inf"), None], [2.0]], pa.list_(pa.float32())),
        }
    )
    with Graph.init(tmp_path / "readings", schema=schema) as graph:
        report = set_aside(graph, {"Reading": rows}, place)
        assert graph.snapshot().count("Reading") == 1
        raws = [json.loads(each["raw"])["data"] for each in lines_of(report.rejects_uri)]
        assert [(each["value"], each["values"]) for each in raws] == [
            ("NaN", None),
            ("Infinity", [1.0]),
            (1.5, ["-Infinity", None]),
        ]
        # As null they would be loaded; as texts they are refused until somebody mends them.
        text = b"\n".join(str(each["raw"]).encode() for each in lines_of(report.rejects_uri))
        with pytest.raises(LoadRejected) as refused:
            graph.load(text, mode="append")
        assert refused.value.details["counts"] == {"type_error": 3}


def test_every_record_of_a_tuple_goes_and_a_conflict_with_committed_rows(
    graph: Graph, place: Path
) -> None:
    text = b"".join(
        [
            person("b", email="same"),
            person("a", email="same"),
            person("c", email="e3"),
            person("d", a=1, b="new"),
            person("e", a=1, b="new"),
            person("p5"),
            person("twice"),
            person("twice", age=1),
            person("fine", email="other"),
        ]
    )
    report = set_aside(graph, text, place)
    found = lines_of(report.rejects_uri)
    assert [(each["line"], each["code"], each["property"]) for each in found] == [
        (1, "unique_violation", "email"),
        (2, "unique_violation", "email"),
        (3, "unique_violation", "email"),
        (4, "unique_violation", ["a", "b"]),
        (5, "unique_violation", ["a", "b"]),
        (6, "key_conflict", "id"),
        (7, "unique_violation", "name"),
        (8, "unique_violation", "name"),
    ]
    assert [each["message"].partition("held by ")[2] for each in found[:5]] == [
        "'a' and 'b'",
        "'b' and 'a'",
        "'p3' and 'c'",
        "'e' and 'd'",
        "'d' and 'e'",
    ]
    assert report.violations == {"key_conflict": 1, "unique_violation": 7}
    (table,) = report.tables
    assert (table.read, table.added, table.rejected) == (9, 1, 8)


def test_a_bad_row_does_not_spoil_a_good_one_of_its_key(graph: Graph, place: Path) -> None:
    text = person("new", age=900) + person("new", age=9) + edge("Knows", "x", "new", "p0")
    report = set_aside(graph, text, place)
    assert codes(report) == {1: "range_violation"}
    found = graph.snapshot().entity("Person", "new")
    assert found is not None
    assert found["age"] == 9


def test_edges_name_the_rejected_node_that_they_lack(graph: Graph, place: Path) -> None:
    text = b"".join(
        [
            edge("Knows", "x1", "p7", "bad"),
            person("bad", age="x"),
            person("dup", email="s"),
            person("dup", email="t"),
            edge("Knows", "x2", "dup", "p7"),
            edge("Knows", "x3", "nobody", "dup"),
            edge("Knows", "x4", "p6", "nobody"),
            edge("Knows", "x5", "p6", "p7"),
        ]
    )
    report = set_aside(graph, text, place)
    causes = {each["line"]: each.get("caused_by") for each in lines_of(report.rejects_uri)}
    assert causes == {
        1: {"source": None, "line": 2, "code": "type_error"},
        2: None,
        3: None,
        4: None,
        5: {"source": None, "line": 3, "code": "unique_violation"},
        6: {"source": None, "line": 3, "code": "unique_violation"},
        7: None,
    }


def test_a_rejected_change_of_a_node_leaves_the_committed_one_for_its_edges(
    graph: Graph, place: Path
) -> None:
    text = person("p6", age=999) + edge("Knows", "x", "p6", "p7")
    report = set_aside(graph, text, place, mode="merge")
    assert codes(report) == {1: "range_violation"}


def test_a_source_over_its_maximum_loses_what_the_input_brings_for_it(
    graph: Graph, place: Path
) -> None:
    text = b"".join(
        [
            edge("Knows", "x1", "p1", "p2"),
            edge("Knows", "x2", "p7", "p2"),
            edge("Knows", "x3", "p7", "p2"),
        ]
    )
    report = set_aside(graph, text, place)
    (found,) = lines_of(report.rejects_uri)
    assert (found["line"], found["code"], found["property"]) == (1, "cardinality_violation", "src")
    assert "source 'p1' has 3 edges (max 2)" in found["message"]


def test_a_source_below_its_minimum_loses_its_edges_or_gets_them_back(
    graph: Graph, place: Path
) -> None:
    text = b"".join(
        [
            edge("In", "one", "p7", "t0"),  # of two that it needs
            edge("In", "i00", "p6", "t0"),  # takes one of the two that p0 has
            edge("In", "more", "p6", "t1"),
            edge("In", "two", "p5", "t0"),
            edge("In", "three", "p5", "t1"),
        ]
    )
    report = set_aside(graph, text, place, mode="merge")
    # Without the one that was taken from p0, p6 has too few as well.
    assert codes(report) == dict.fromkeys((1, 2, 3), "cardinality_violation")
    found = graph.snapshot().entity("In", "i00")
    assert found is not None
    assert found["src"] == "p0"


def test_an_edge_whose_last_record_is_rejected_keeps_the_one_before(
    graph: Graph, place: Path
) -> None:
    text = (
        edge("Knows", "x", "p6", "p7", since=1)
        + edge("Knows", "x", "p6", "p7", since=2)
        + edge("Knows", "x", "p6", "nobody", since=3)
    )
    report = set_aside(graph, text, place, mode="merge")
    (table,) = report.tables
    assert (table.read, table.added, table.rejected, table.superseded) == (3, 1, 1, 1)
    found = graph.snapshot().entity("Knows", "x")
    assert found is not None
    assert found["since"] == 2


def chain(length: int) -> bytes:
    """Each takes the mail that the one before it gives up; the first one is bad."""
    return person("p0", email="free", age=999) + b"".join(
        person(f"p{n}", email=f"e{n - 1}") for n in range(1, length + 1)
    )


def test_four_rounds_of_consequences_are_followed_and_a_fifth_refuses_the_load(
    graph: Graph, place: Path
) -> None:
    report = set_aside(graph, chain(4) + person("fine"), place, mode="merge")
    assert report.violations == {"range_violation": 1, "unique_violation": 4}
    before = exported(graph)
    with pytest.raises(LoadRejected, match="in each of 5 rounds other rows became bad"):
        set_aside(graph, chain(5) + person("fine"), place, mode="merge")
    assert exported(graph) == before


@pytest.mark.parametrize("mode", MODES)
def test_a_load_that_fails_writes_the_same_file_and_commits_nothing(
    mode: str, graph: Graph, place: Path
) -> None:
    text = b"".join(
        [
            SEED if mode == "overwrite" else b"",
            person("new", age=-5),
            person("fine"),
            b"nonsense\n",
            edge("Knows", "x1", "new", "p0"),
            edge("Knows", "x2", "fine", "p0"),
        ]
    )
    before = exported(graph)
    with pytest.raises(LoadRejected) as without:
        graph.load(text, mode=mode)  # type: ignore[arg-type]  # one of the modes
    with pytest.raises(LoadRejected) as refused:
        set_aside(graph, text, place, mode=mode, on_error="fail", max_reject_ratio=0.0)
    assert exported(graph) == before
    details = dict(refused.value.details)
    folder = Path(str(details.pop("rejects_uri")))
    assert details == without.value.details
    assert refused.value.message == f"{without.value.message}; all bad rows are in {folder}"
    assert [each.name for each in folder.iterdir()] == ["rejects.ndjson"]
    report = set_aside(graph, text, place, mode=mode)
    assert report.rejects_uri is not None
    assert (
        Path(report.rejects_uri, "rejects.ndjson").read_bytes()
        == (folder / "rejects.ndjson").read_bytes()
    )


def test_a_failing_load_of_an_existing_key_is_the_conflict_that_it_was(
    graph: Graph, place: Path
) -> None:
    with pytest.raises(KeyConflict, match="all bad rows are in"):
        set_aside(graph, person("p1"), place, on_error="fail")


def test_more_rejects_than_allowed_fail_the_load_and_as_many_are_written(
    graph: Graph, place: Path
) -> None:
    text = b"".join(person(f"n{n}", age=999) for n in range(4)) + person("fine")
    with pytest.raises(LoadRejected, match="more than 3 of 5 rows are bad") as refused:
        set_aside(graph, text, place, max_rejects=3)
    assert refused.value.details["counts"] == {"range_violation": 4}
    assert refused.value.details["rejected"] is None
    with pytest.raises(LoadRejected, match="more than 3 rows are bad: 3 of them are in"):
        set_aside(graph, text, place, max_rejects=3, on_error="fail")
    files = list(place.glob("*/rejects.ndjson"))
    assert len(files) == 2
    for file in files:
        lines = [json.loads(line)["line"] for line in file.read_text().splitlines()]
        assert lines == [1, 2, 3]
    with pytest.raises(LoadRejected, match="more than 0 of 5 rows are bad"):
        set_aside(graph, text, place, max_rejects=0)
    assert len(list(place.iterdir())) == 2
    assert set_aside(graph, text, place, max_rejects=4).violations == {"range_violation": 4}


def test_consequences_count_against_the_limit_too(graph: Graph, place: Path) -> None:
    text = person("new", age=999) + edge("Knows", "x", "new", "p0") + person("fine")
    with pytest.raises(LoadRejected, match="more than 1 of 3 rows are bad"):
        set_aside(graph, text, place, max_rejects=1)
    assert len(codes(set_aside(graph, text, place, max_rejects=2))) == 2


def test_a_larger_part_than_allowed_fails_the_load_with_files(graph: Graph, place: Path) -> None:
    text = b"".join(person(f"n{n}") for n in range(7)) + person("bad", age=999) + b"{\n\n"
    with pytest.raises(
        LoadRejected, match=r"2 of 9 rows are bad, and max_reject_ratio is 0\.2:"
    ) as e:
        set_aside(graph, text, place, max_reject_ratio=0.2)
    assert (e.value.details["rejected"], e.value.details["read"]) == (2, 9)
    assert len(lines_of(str(e.value.details["rejects_uri"]))) == 2
    assert not graph.snapshot().entity("Person", "n1")
    assert set_aside(graph, text, place, max_reject_ratio=0.25).commit is not None


def test_a_part_of_bad_rows_may_be_as_large_as_its_bound(graph: Graph, place: Path) -> None:
    bad = [person(f"b{n}", age=999) for n in range(4)]
    good = b"".join(person(f"n{n}") for n in range(96))
    for ratio, count in ((0.03, 3), (0.04, 4)):
        text = good + b"".join(bad[:count]) + b"".join(person(f"m{n}") for n in range(4 - count))
        report = set_aside(graph, text, place, mode="merge", max_reject_ratio=ratio)
        assert sum(each.rejected for each in report.tables) == count
    with pytest.raises(LoadRejected, match=r"4 of 100 rows are bad"):
        set_aside(graph, text, place, mode="merge", max_reject_ratio=0.03)


def test_the_settings_give_the_limits(tmp_path: Path, place: Path) -> None:
    settings = load_settings(
        {"OMNIGRAPH_PIPELINE_MAX_REJECTS": "0", "OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO": "1"}
    )
    with Graph.init(tmp_path / "graph", schema=SCHEMA, settings=settings) as graph:
        with pytest.raises(LoadRejected, match="max_rejects is 0"):
            set_aside(graph, b"x\n" + person("a"), place, max_reject_ratio=None)
        assert set_aside(graph, b"x\n" + person("a"), place, max_rejects=1).commit is not None


def test_an_input_without_a_good_row_makes_no_commit(graph: Graph, place: Path) -> None:
    head = graph.snapshot().graph_commit_id
    report = set_aside(graph, person("new", age=999) + b"x\n", place)
    assert report.commit is None
    assert graph.snapshot().graph_commit_id == head
    assert report.violations == {"json_error": 1, "range_violation": 1}
    assert [(each.read, each.rejected) for each in report.tables] == [(1, 1)]
    assert [each.name for each in Path(report.rejects_uri or "").iterdir()] == ["rejects.ndjson"]


def test_an_overwrite_neither_orphans_committed_edges_nor_empties_a_table(
    graph: Graph, place: Path
) -> None:
    before = exported(graph)
    people = b"".join(person(f"p{n}") for n in range(1, 8)) + person("p0", age=999)
    with pytest.raises(LoadRejected, match="without them committed rows break a rule") as refused:
        set_aside(graph, people, place, mode="overwrite")
    assert refused.value.details["counts"] == {"orphan_edge": 3}
    edges = [("Knows", "x", "p0", "nobody"), ("In", "i00", "p0", "t0"), ("In", "i01", "p0", "t1")]
    text = b"".join(edge(*each) for each in edges)
    with pytest.raises(LoadRejected, match="every row of edge:Knows is bad"):
        set_aside(graph, text, place, mode="overwrite")
    assert exported(graph) == before


def test_a_dry_run_tells_the_same_and_leaves_nothing(graph: Graph, place: Path) -> None:
    text = person("new", age=999) + person("fine") + edge("Knows", "k0", "p0", "p2")
    before = exported(graph)
    told = set_aside(graph, text, place, mode="merge", dry_run=True)
    assert (told.rejects_uri, exported(graph)) == (None, before)
    with pytest.raises(LoadRejected) as refused:
        set_aside(graph, text, place, mode="merge", dry_run=True, on_error="fail")
    assert refused.value.details["rejects_uri"] is None
    assert not place.exists()
    done = set_aside(graph, text, place, mode="merge")
    assert (told.tables, told.violations) == (done.tables, done.violations)


def test_the_same_key_again_gives_the_same_report(graph: Graph, place: Path) -> None:
    text = person("new", age=999) + person("fine") + b"{}\n"
    first = set_aside(graph, text, place, idempotency_key="night")
    again = set_aside(graph, text, place, idempotency_key="night")
    assert again.already_loaded
    assert (again.tables, again.violations) == (first.tables, first.violations)
    assert (again.rejects_uri, again.commit) == (first.rejects_uri, first.commit)
    assert len(list(place.iterdir())) == 1


def test_loading_the_mended_rejects_gives_the_graph_of_a_clean_load(
    graph: Graph, place: Path, tmp_path: Path
) -> None:
    def text(age: object, mail: str, node: str) -> bytes:
        return b"".join(
            [
                person("x1", age=age, email="x1"),
                person("x2", email=mail),
                person("x3", email="taken"),
                edge("Knows", "y1", "x1", "x2"),
                edge("Knows", "y2", "x3", node),
                edge("Knows", "y3", "p6", "p7"),
            ]
        )

    report = set_aside(graph, text("old", "taken", "nobody"), place)
    assert len(lines_of(report.rejects_uri)) == 5
    mended = "\n".join(each["raw"] for each in lines_of(report.rejects_uri)).encode()
    mended = mended.replace(b'"old"', b"7").replace(b'"nobody"', b'"p1"')
    mended = mended.replace(b'"taken"', b'"free"', 1)
    graph.load(mended, mode="append")
    with Graph.init(tmp_path / "clean", schema=SCHEMA) as clean:
        clean.load(SEED, mode="append")
        clean.load(text(7, "free", "p1"), mode="append")
        assert exported(graph) == exported(clean)


def test_a_crash_before_the_commit_leaves_files_without_the_mark(graph: Graph, place: Path) -> None:
    class Crash(BaseException):
        pass

    def crash() -> None:
        raise Crash

    with armed("load.post_stage_pre_lease", crash), pytest.raises(Crash):
        set_aside(graph, person("new", age=999) + person("fine"), place)
    (folder,) = place.iterdir()
    assert [each.name for each in folder.iterdir()] == ["rejects.ndjson"]


def test_only_the_files_of_the_attempt_that_was_committed_stay(
    graph: Graph, place: Path, tmp_path: Path
) -> None:
    waiting = [person("late")]

    def write() -> None:
        if waiting:  # The load of the other handle passes the same point.
            with Graph.open(tmp_path / "graph") as other:
                other.load(waiting.pop(), mode="append")

    text = edge("Knows", "x1", "p6", "late") + person("new", age=999) + person("fine")
    with armed("load.post_stage_pre_lease", write):
        report = set_aside(graph, text, place)
    # The node that was missing at first came meanwhile.
    assert codes(report) == {2: "range_violation"}
    assert graph.snapshot().entity("Knows", "x1") is not None
    assert [each.name for each in place.iterdir()] == [report.operation_id]


def test_a_mark_that_cannot_be_written_is_a_warning(graph: Graph, place: Path) -> None:
    def occupy() -> None:
        (folder,) = place.iterdir()
        (folder / "_COMMITTED").mkdir()
        (folder / "_COMMITTED" / "file").touch()

    with armed("load.post_stage_pre_lease", occupy):
        report = set_aside(graph, person("new", age=999) + person("fine"), place)
    assert report.commit is not None
    (warning, _) = report.warnings
    assert warning.startswith(f"_COMMITTED could not be written to {report.rejects_uri}")


def test_a_place_that_cannot_be_written_fails_the_load(graph: Graph, place: Path) -> None:
    before = exported(graph)
    with armed("load.post_capture", place.touch), pytest.raises(StorageUnavailable):
        set_aside(graph, person("new", age=999) + person("fine"), place)
    assert exported(graph) == before


def test_a_place_that_is_a_file_is_refused_before_anything_is_read(
    graph: Graph, place: Path
) -> None:
    place.write_text("a file")
    for where in (place, place / "below"):
        with pytest.raises(InvalidArgument, match="is a file; name a folder for rejects"):
            set_aside(graph, b"nonsense", where)


def test_good_rows_write_no_files(graph: Graph, place: Path) -> None:
    report = set_aside(graph, person("fine"), place)
    assert (report.rejects_uri, dict(report.violations)) == (None, {})
    assert not place.exists()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"on_error": "skip"}, "on_error"),
        ({"on_error": "quarantine"}, "rejects"),
        ({"rejects": ""}, "out"),
        ({"rejects": "ftp://x/y"}, None),
        ({"rejects": "x", "max_rejects": -1}, "max_rejects"),
        ({"rejects": "x", "max_rejects": 1.5}, "max_rejects"),
        ({"rejects": "x", "max_reject_ratio": 1.5}, "max_reject_ratio"),
        ({"rejects": "x", "max_reject_ratio": True}, "max_reject_ratio"),
    ],
)
def test_wrong_options_are_told(
    options: dict[str, Any], argument: str | None, graph: Graph
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        graph.load(person("a"), mode="append", **options)
    assert refused.value.details.get("argument") == argument


def test_rejects_do_not_go_into_the_graph(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is inside the graph"):
        set_aside(graph, person("a"), tmp_path / "graph" / "rejects")


def test_lines_of_other_shapes_are_counted_with_the_rules_that_they_break(
    graph: Graph, place: Path
) -> None:
    text = b"".join(
        [
            b"[]\n",
            line({"type": "Nope"}),
            line({"type": "Person", "data": {"name": "a", "nope": 1}}),
            line({"edge": "Knows", "from": "p6", "to": "p7", "data": {"src": "p1"}}),
            line({"type": "Person", "data": {"name": "a", "id": "b"}}),
            person("fine"),
        ]
    )
    report = set_aside(graph, text, place)
    assert report.violations == {
        "id_mismatch": 1,
        "json_error": 1,
        "reserved_member": 1,
        "unknown_member": 1,
        "unknown_type": 1,
    }
    # Lines that are no records belong to no table.
    assert [(each.read, each.rejected) for each in report.tables] == [(2, 1)]


FLIGHTS = """
node Airport { code: String @key }
node Flight { number: String @key }
edge Departs: Flight -> Airport @card(1..1)
edge Feeds: Flight -> Flight
"""


def flight(number: str) -> bytes:
    return line({"type": "Flight", "data": {"number": number}})


def departure(number: str, code: str) -> bytes:
    return line({"edge": "Departs", "from": number, "to": code})


@pytest.fixture
def flights(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "flights", schema=FLIGHTS) as opened:
        opened.load(line({"type": "Airport", "data": {"code": "JFK"}}), mode="append")
        yield opened


def test_nodes_that_a_load_leaves_without_a_required_edge_are_counted(
    flights: Graph, place: Path
) -> None:
    early = flights.load(flight("1"), mode="append")
    assert early.warnings == (
        "1 node of Flight has no edge Departs, and @card(1..1) asks for one or more",
    )
    rows = flight("2") + departure("2", "JFK") + flight("3") + departure("3", "??")
    tried = set_aside(flights, rows, place, dry_run=True)
    report = set_aside(flights, rows, place)
    assert tried.warnings == report.warnings == early.warnings  # Of this load only.
    assert flights.load(flight("1"), mode="merge", dry_run=True).warnings == ()
    assert flights.load(departure("1", "JFK"), mode="append").warnings == ()
    notes = flights.maintenance.verify().notes
    assert notes == (
        "main: 1 node of Flight has no edge Departs, and @card(1..1) asks for one or more",
    )
    tried = flights.load(departure("2", "JFK"), mode="overwrite", dry_run=True)
    again = flights.load(departure("2", "JFK"), mode="overwrite")
    assert again.warnings[0].startswith("2 nodes of Flight have no edge Departs")
    assert tried.warnings == again.warnings


def test_a_cascade_rejects_nodes_that_lose_their_required_edges_and_edges_to_them(
    flights: Graph, place: Path
) -> None:
    good = flight("2") + departure("2", "JFK")
    bad = flight("3") + departure("3", "??")
    feeds = line({"edge": "Feeds", "from": "2", "to": "3"})
    report = set_aside(flights, feeds + bad + good, place, cascade=True)
    assert report.warnings == ()
    rejects = lines_of(report.rejects_uri)
    assert sorted(each["code"] for each in rejects) == [
        "cardinality_violation",
        "orphan_edge",
        "orphan_edge",
    ]
    (caused,) = [each for each in rejects if "caused_by" in each]
    assert caused["caused_by"]["code"] == "cardinality_violation"
    assert flights.snapshot().count("Flight") == 1


def test_a_cascade_asks_for_the_required_edges_of_good_rows_too(
    flights: Graph, place: Path
) -> None:
    flights.load(flight("1") + departure("1", "JFK"), mode="append")
    report = set_aside(flights, flight("1") + flight("4"), place, mode="merge", cascade=True)
    assert [each["message"] for each in lines_of(report.rejects_uri)] == [
        "@card violation on edge Departs: source '4' has 0 edges (min 1)"
    ]
    whole = set_aside(flights, flight("1"), place, mode="merge", cascade=True)
    assert whole.rejects_uri is None


def test_a_cascade_needs_quarantine(flights: Graph) -> None:
    with pytest.raises(InvalidArgument, match="cascade"):
        flights.load(flight("1"), mode="append", cascade=True)
