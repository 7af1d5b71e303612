"""What a load on Spark tells of bad rows and of small files; everything runs in this process."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load
from tests.unit.graph.validation.reference import of_every_kind as chosen_numbers

from omnigraph import Graph
from omnigraph.errors import InternalError, KeyConflict, LoadRejected, SettingInvalid
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.report import JobReport, LoadMode
from omnigraph.graph.load.reject_options import parse_reject_options
from omnigraph.graph.load.request import LoadRequest
from omnigraph.graph.validation import (
    Code,
    EntityKind,
    Findings,
    Subject,
    Violation,
    gather,
    refuse_load,
)
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.files import splits
from omnigraph.pipeline.intake import part_findings
from omnigraph.pipeline.intake.part_findings import halvings, keep_findings, read_findings
from omnigraph.pipeline.load import small_files
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique  @range(age, 0..150) }
edge Knows: Person -> Person @card(0..1)
"""


def node(name: str, **data: object) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name, **data}}).encode() + b"\n"


def edge(id: str, src: str, dst: str) -> bytes:  # noqa: A002 - as in the format
    ends = {"from": src, "to": dst}
    return json.dumps({"edge": "Knows", **ends, "data": {"id": id}}).encode() + b"\n"


def tuned(**pipeline: Any) -> Settings:  # noqa: ANN401 - one value per setting
    settings = load_settings({"OMNIGRAPH_DURABILITY": "process", "OMNIGRAPH_AUTO_MAINTENANCE": "0"})
    return replace(settings, pipeline=replace(settings.pipeline, **pipeline))


@dataclass
class Lanes:
    """A graph, and an input that either lane may load into it."""

    folder: Path
    settings: Settings

    def here(self, text: bytes, mode: str = "append", **options: Any) -> JobReport:  # noqa: ANN401
        with Graph.open(self.folder / "g", settings=self.settings) as graph:
            return graph.load(text, mode=mode, **options)  # type: ignore[arg-type]

    def by_tasks(self, text: bytes, mode: str = "append", **options: Any) -> JobReport:  # noqa: ANN401
        """As on Spark, in parts, but without Spark."""
        path = self.folder / "in.jsonl"
        if not path.exists() or path.read_bytes() != text:
            path.write_bytes(text)
        with Graph.open(self.folder / "g", settings=self.settings) as graph:
            source = plan_source(SourceRequest(source=str(path)), self.settings)
            asked = LoadRequest(mode=LoadMode(mode), branch=MAIN_BRANCH, **options)
            load = spark_load(graph, None, self.settings, [source], asked, external=DENY_ALL)
            return load.report()

    def files(self, name: str) -> int:
        """How many data files a node table has."""
        with Graph.open(self.folder / "g", settings=self.settings) as graph:
            snapshot = open_snapshot(graph._graph, None, MAIN_BRANCH)
            handle = snapshot.handle(snapshot.catalog.node_types[name])
            return len(graph._graph.tables.fragments(handle))

    def refusals(self, text: bytes, mode: str = "append") -> list[tuple[str, dict[str, Any]]]:
        """Message and details of both lanes."""
        return [
            refusal(lambda: self.here(text, mode)),
            refusal(lambda: self.by_tasks(text, mode)),
        ]


def of_every_kind(violations: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    kinds = [(each["code"], each["kind"], each["type"]) for each in violations]
    return [violations[number] for number in chosen_numbers(kinds, most)]


def refusal(load: Callable[[], JobReport]) -> tuple[str, dict[str, Any]]:
    with pytest.raises((LoadRejected, KeyConflict)) as caught:
        load()
    return caught.value.message, caught.value.details


@pytest.fixture
def lanes(tmp_path: Path) -> Lanes:
    Graph.init(tmp_path / "g", schema=SCHEMA).close()
    return Lanes(tmp_path, tuned(split_bytes=400))


def test_the_first_of_rows_without_an_id_is_the_first_of_its_part(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "_STEP_BYTES", 100)
    nameless = b'{"type": "Person", "data": {"age": 1}}\n'
    good = [node(f"p{n:03}") for n in range(60)]
    text = b"".join([*good[:7], nameless, *good[7:30], *[nameless] * 6, *good[30:]])
    for most in (1, 2):
        # Many blocks in one part; some begin with a bad row.
        lanes.settings = tuned(split_bytes=1 << 20, batch_bytes=150, max_violations=most)
        here, by_tasks = lanes.refusals(text)
        assert by_tasks == here
        assert [each["input_line"] for each in here[1]["violations"]] == [8, 32][:most]


def test_a_dry_run_of_either_lane_counts_nodes_below_a_minimum(tmp_path: Path) -> None:
    Graph.init(tmp_path / "g", schema=SCHEMA.replace("0..1", "1..")).close()
    lanes = Lanes(tmp_path, tuned(split_bytes=60))
    text = node("a") + node("b") + node("c") + edge("k", "a", "b")
    told = lanes.here(text, dry_run=True).warnings
    assert told == ("2 nodes of Person have no edge Knows, and @card(1..) asks for one or more",)
    assert lanes.by_tasks(text, dry_run=True).warnings == told
    assert lanes.by_tasks(text).warnings == told


def test_a_dry_run_may_set_aside_every_row_of_a_type(lanes: Lanes) -> None:
    text = node("a") + edge("k", "a", "nobody")
    given: dict[str, Any] = {
        "on_error": "quarantine",
        "rejects": lanes.folder / "rejects",
        "max_reject_ratio": 1.0,
    }
    here = lanes.here(text, dry_run=True, **given)
    options = parse_reject_options(lanes.settings, **given)
    by_tasks = lanes.by_tasks(text, dry_run=True, rejects=options)
    assert by_tasks.tables == here.tables


# --- how many are reported --------------------------------------------------------------------

BAD = b"".join(
    [
        *(node(f"old{n:02}", age=200 + n) for n in range(20)),
        *(b"{\n" for _ in range(6)),
        *(node(f"twin{n:02}", email=f"e{n % 3}") for n in range(9)),
        *(edge(f"k{n:02}", "twin00", f"nobody{n}") for n in range(7)),
    ]
)
COUNTS = {
    "cardinality_violation": 1,
    "json_error": 6,
    "orphan_edge": 7,
    "range_violation": 20,
    "unique_violation": 6,
}


@pytest.mark.parametrize("most", thinned([8, 5_000, 1, 3, 30], keep=2))
def test_the_setting_bounds_what_both_lanes_report_and_all_are_counted(
    most: int, lanes: Lanes
) -> None:
    _, whole = refusal(lambda: lanes.here(BAD))
    assert (whole["total"], whole["counts"]) == (40, COUNTS)
    assert len(whole["violations"]) == 40
    lanes.settings = tuned(split_bytes=400, max_violations=most)
    here, by_tasks = lanes.refusals(BAD)
    assert by_tasks == here
    _, details = here
    assert details == {**whole, "violations": of_every_kind(whole["violations"], most)}


@pytest.mark.parametrize(
    "text",
    thinned(
        [
            b"".join(node(f"p{n:04}", email="same") for n in range(1_201)),
            b"".join(node(f"p{n:04}", age=-1) for n in range(1_200)),
        ]
    ),
    ids=["across rows", "of single rows"],
)
def test_more_than_a_thousand_are_reported_on_request(text: bytes, lanes: Lanes) -> None:
    for most, reported in ((1_000, 1_000), (1_100, 1_100), (1_300, 1_200)):
        lanes.settings = tuned(split_bytes=9_000, max_violations=most)
        here, by_tasks = lanes.refusals(text)
        assert by_tasks == here
        assert (here[1]["total"], len(here[1]["violations"])) == (1_200, reported)


def test_the_variable_of_the_setting_reaches_both_lanes(lanes: Lanes) -> None:
    lanes.settings = load_settings({"OMNIGRAPH_PIPELINE_MAX_VIOLATIONS": "2"})
    here, by_tasks = lanes.refusals(BAD)
    assert by_tasks == here
    assert (here[1]["total"], len(here[1]["violations"])) == (40, 2)


def test_a_load_that_may_report_nothing_is_no_setting() -> None:
    with pytest.raises(SettingInvalid, match="OMNIGRAPH_PIPELINE_MAX_VIOLATIONS"):
        load_settings({"OMNIGRAPH_PIPELINE_MAX_VIOLATIONS": "0"})


def test_violations_of_which_none_was_kept_never_pass() -> None:
    with pytest.raises(InternalError, match="none of 2 violations was kept"):
        refuse_load(Findings(counts={Code.JSON_ERROR: 2}))


def test_a_refused_quarantine_reports_no_more_than_the_setting_says(lanes: Lanes) -> None:
    lanes.settings = tuned(split_bytes=400, max_violations=4)
    here, by_tasks = quarantined(lanes, BAD, "append", max_reject_ratio=0.1)
    assert (here["counts"], len(here["violations"])) == (COUNTS, 4)
    assert by_tasks == here


def test_so_does_one_that_committed_rows_stand_in_the_way_of(lanes: Lanes) -> None:
    people = b"".join(node(f"p{n}") for n in range(8))
    lanes.here(people + b"".join(edge(f"k{n}", f"p{n}", "p0") for n in range(8)))
    lanes.settings = tuned(split_bytes=400, max_violations=4)
    text = node("p0") + node("bad", age=-1)
    here, by_tasks = quarantined(lanes, text, "overwrite", max_reject_ratio=1.0)
    assert (here["counts"], len(here["violations"])) == ({"orphan_edge": 7}, 4)
    assert by_tasks == here


def quarantined(
    lanes: Lanes, text: bytes, mode: str, *, max_reject_ratio: float
) -> list[dict[str, Any]]:
    """The details of the refusals of both lanes."""
    given: dict[str, Any] = {
        "on_error": "quarantine",
        "rejects": lanes.folder / "rejects",
        "max_reject_ratio": max_reject_ratio,
    }
    options = parse_reject_options(lanes.settings, **given)
    found = [
        refusal(lambda: lanes.here(text, mode, **given))[1],
        refusal(lambda: lanes.by_tasks(text, mode, rejects=options))[1],
    ]
    # Each load has a folder of its own.
    return [{name: details[name] for name in details if name != "rejects_uri"} for details in found]


# --- how much the driver holds ----------------------------------------------------------------


def violations(part: int, count: int) -> Findings:
    """Some of one part, each of about 300 bytes; ids of all parts are mixed."""
    made = tuple(
        Violation(
            code=Code.RANGE_VIOLATION,
            message=f"@range violation on Person.age: value {number}",
            kind=EntityKind.NODE,
            type="Person",
            properties=("age",),
            subject=Subject(entity_id=f"p{number:04}{part}", input_line=number + 1, row=number),
            value=number,
            limit=150.5,
            place=2,
        )
        for number in range(count)
    )
    return Findings(violations=made, counts={Code.RANGE_VIOLATION: count * 1_000})


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Any]:
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        yield graph._graph.storage


def test_a_sample_is_halved_down_to_one() -> None:
    assert halvings(1_000) == [1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1]
    assert halvings(1) == [1]


def test_what_a_task_keeps_comes_back_as_it_was(storage: Any) -> None:  # noqa: ANN401
    odd = Violation(
        code=Code.ENUM_VIOLATION,
        message='invalid "value"\nof two lines \u2028 and é',
        limit=["a", "b\r"],
        value=None,
        held_by="x",
        properties=("a", "b"),
        subject=Subject(source="s3://in/a.jsonl"),
    )
    found = Findings(violations=(odd, *violations(0, 3).violations), counts={odd.code: 4})
    kept = keep_findings(storage, "__staging/x", 7, found, sample=10)
    nothing = keep_findings(storage, "__staging/x", 8, Findings(), sample=10)
    assert nothing.path is None
    assert gather(read_findings(storage, [nothing, kept])) == gather([found])


@pytest.mark.parametrize("sample", [16, 100])
def test_the_driver_reads_the_first_of_each_part_and_no_more_than_fit(
    sample: int,
    storage: Any,  # noqa: ANN401 - the storage of a graph
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [violations(part, min(sample, 5 * part)) for part in range(8)]
    kept = [
        keep_findings(storage, "__staging/x", part, each, sample=sample)
        for part, each in enumerate(found)
    ]
    ends = [each.ends for each in kept if each.path is not None]
    assert len(ends) == 7
    size_bytes = sum(each[0] for each in ends)
    whole = gather(found, limit=sample)
    assert gather(read_findings(storage, kept), limit=sample) == whole
    told = []
    for most_bytes in (size_bytes - 1, size_bytes // 2, size_bytes // 10, 1):
        monkeypatch.setattr(part_findings, "COLLECTED_BYTES", most_bytes)
        read = read_findings(storage, kept)
        merged = gather(read, limit=sample)
        assert merged.counts == whole.counts
        assert merged.halved_to in halvings(sample)[1:]
        assert merged.violations == whole.violations[: merged.halved_to]
        assert len(merged.violations) == merged.halved_to
        told.append(merged.halved_to)
        if merged.halved_to != 1:
            step = halvings(sample).index(merged.halved_to)
            assert sum(each[step] for each in ends) <= most_bytes
            assert sum(each[step - 1] for each in ends) > most_bytes
            assert sum(len(each.violations) for each in read) * 200 < most_bytes
    assert told == sorted(told, reverse=True)
    assert told[-1] == 1


def test_a_load_whose_violations_do_not_fit_says_how_many_it_lists(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, whole = refusal(lambda: lanes.by_tasks(BAD))
    assert "halved" not in message
    assert "halved_to" not in whole
    lanes.settings = tuned(split_bytes=400, max_violations=16)
    monkeypatch.setattr(part_findings, "COLLECTED_BYTES", 4_000)
    told, details = refusal(lambda: lanes.by_tasks(BAD))
    kept = details["halved_to"]
    assert kept in (8, 4, 2, 1)
    assert details == {
        **whole,
        "halved_to": kept,
        "violations": of_every_kind(whole["violations"], kept),
    }
    tail = "; they are too many or too large to list, so the list was halved to the first"
    assert told == f"{message}{tail} {kept}"


def test_what_a_task_returns_does_not_grow_with_what_it_found(storage: Any) -> None:  # noqa: ANN401
    few, many = (
        keep_findings(storage, "__staging/x", 0, violations(0, count), sample=1_000)
        for count in (1, 1_000)
    )
    assert many.ends[0] > 200_000
    assert len(pickle.dumps(many)) < len(pickle.dumps(few)) + 100


# --- what the first violation says ------------------------------------------------------------


def test_an_edge_without_its_node_is_told_with_its_type_and_line(lanes: Lanes) -> None:
    text = node("Ada") + edge("k", "Ada", "Zed")
    for message, _ in lanes.refusals(text):
        assert message == (
            "load refused: 1 violation: line 2, edge Knows: dst 'Zed' not found in Person"
        )


def test_a_committed_edge_that_would_lose_its_node_is_told_with_its_type(lanes: Lanes) -> None:
    lanes.here(node("Ada") + node("Bob") + edge("k", "Ada", "Bob"))
    for message, details in lanes.refusals(node("Ada"), "overwrite"):
        assert message == "load refused: 1 violation: edge Knows: dst 'Bob' not found in Person"
        assert details["violations"][0]["entity_id"] == "k"


def test_with_several_files_the_edge_type_follows_file_and_line(lanes: Lanes) -> None:
    (lanes.folder / "a.ndjson").write_bytes(node("Ada"))
    (lanes.folder / "b.ndjson").write_bytes(b"\n" + edge("k", "Zed", "Ada"))
    with Graph.open(lanes.folder / "g") as graph:
        source = plan_source(SourceRequest(source=str(lanes.folder / "*.ndjson")), lanes.settings)
        asked = LoadRequest(mode=LoadMode.APPEND, branch=MAIN_BRANCH)
        load = spark_load(graph, None, lanes.settings, [source], asked, external=DENY_ALL)
        message, _ = refusal(load.report)
    where = f"{lanes.folder / 'b.ndjson'}, line 2, edge Knows"
    assert message == f"load refused: 1 violation: {where}: src 'Zed' not found in Person"


# --- small files ------------------------------------------------------------------------------


def many(first: int, count: int, form: int = 0) -> bytes:
    """Rows of which each is a split of its own."""
    numbers = range(first, first + count)
    return b"".join(node(f"p{n:04}", age=(n + form) % 100) for n in numbers)


@pytest.fixture
def split(lanes: Lanes) -> Lanes:
    lanes.settings = tuned(split_bytes=len(many(0, 1)))
    return lanes


def test_a_table_of_many_small_files_is_told(split: Lanes) -> None:
    assert split.by_tasks(many(0, 40)).warnings == ()
    report = split.by_tasks(many(40, 40))
    files = split.files("Person")
    assert files > 64
    assert report.warnings == (
        f"node:Person has {files} files of 1 row on average; compaction is due:"
        " omnigraph optimize does it",
    )


@pytest.fixture
def few(split: Lanes, monkeypatch: pytest.MonkeyPatch) -> Lanes:
    """As `split`, but 16 files are many already, because each takes time to write."""
    monkeypatch.setattr(small_files, "MANY_FILES", 16)
    return split


def test_an_overwrite_counts_only_what_it_leaves(few: Lanes) -> None:
    few.by_tasks(many(0, 24))
    assert few.by_tasks(many(0, 8), "overwrite").warnings == ()
    assert few.files("Person") <= 16
    (warning,) = few.by_tasks(many(0, 26), "overwrite").warnings
    assert warning.startswith(f"node:Person has {few.files('Person')} files ")


def test_a_merge_counts_the_files_that_are_left(few: Lanes) -> None:
    few.by_tasks(many(0, 30))
    # The merge writes its rows anew, and files whose rows are all replaced go.
    (warning,) = few.by_tasks(many(0, 5, 1), "merge").warnings
    assert warning.startswith(f"node:Person has {few.files('Person')} files ")
    assert few.by_tasks(many(0, 30, 2), "merge").warnings == ()
    assert few.files("Person") <= 16


def test_many_files_that_are_full_are_as_they_should_be(few: Lanes) -> None:
    few.settings = tuned(split_bytes=len(many(0, 1)), rows_per_file=15)
    assert few.by_tasks(many(0, 26)).warnings == ()
    assert few.files("Person") > 16
    few.settings = tuned(split_bytes=len(many(0, 1)), rows_per_file=20)
    assert len(few.by_tasks(many(26, 1)).warnings) == 1


def test_the_receipt_of_an_earlier_load_warns_of_nothing(few: Lanes) -> None:
    text = many(0, 26)
    assert few.by_tasks(text, idempotency_key="k").warnings
    again = few.by_tasks(text, idempotency_key="k")
    assert (again.already_loaded, again.warnings) == (True, ())
