import inspect
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from omnigraph import errors
from omnigraph.cli.failures import report, translate
from omnigraph.cli.output import Output
from omnigraph.errors import JsonValue, OmnigraphError
from omnigraph.graph.results.envelope import envelope_of, public_code

# The closed set of the HTTP contract; "-" where an error has no code there.
PUBLIC_CODES = {
    "bad_request": """
        schema_invalid query_invalid query_selection parameter_error invalid_argument
        unsupported_media_type invalid_branch_name constraint_violation load_rejected schema_refused
        change_cursor_rejected invalid_query_vector embedding_unavailable embedding_invalid
        embedding_model_mismatch numeric_overflow external_blob_denied blob_range resource_limit
        source_error input_changed setting_invalid usage not_served policy_invalid cluster_refused
    """,
    "not_found": """
        route_not_found graph_not_found branch_not_found commit_not_found tag_not_found
        stored_query_not_found blob_not_found
    """,
    "method_not_allowed": "method_not_allowed",
    "conflict": """
        read_set_conflict published_dataset_version_conflict blob_precondition merge_conflicts
        key_conflict idempotency_key_reused branch_exists branch_has_descendants branch_has_tags
        tag_exists schema_diverged schema_apply_blocked_by_branches parentless_commit
        schema_boundary cluster_managed graph_exists root_not_empty init_in_progress
    """,
    "unauthorized": "unauthenticated",
    "forbidden": "policy_denied read_only",
    "too_many_requests": "too_many_requests",
    "internal": """
        storage_denied policy_evaluation policy_untranslatable storage_unsupported
        storage_version_too_old storage_version_too_new storage_version_missing manifest_corrupt
        storage_internal internal
    """,
    "-": """
        snapshot_reclaimed change_feed_gap precondition_failure branch_busy fenced recovery_required
        recovery_blocked repair_required deadline_exceeded cancelled server_unavailable
        outcome_unknown storage_unavailable embedding_failed external_blob_source audit_unavailable
        spark_unavailable spark_not_installed executor_mismatch pipeline_task_error
    """,
}
EXPECTED = {reason: code for code, reasons in PUBLIC_CODES.items() for reason in reasons.split()}
LEAVES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, OmnigraphError) and not cls.__subclasses__()
]
DIAGNOSTIC: dict[str, JsonValue] = {
    "code": "S003",
    "reason": "unknown_endpoint",
    "message": "S003: no",
    "span": {},
}


@pytest.mark.parametrize("cls", LEAVES)
def test_every_error_has_the_public_code_of_the_contract(cls: type[OmnigraphError]) -> None:
    assert (public_code(cls("why")) or "-") == EXPECTED[cls.code]


def test_an_envelope_names_the_error_its_code_and_its_reason() -> None:
    assert envelope_of(errors.BranchExists("branch 'x' exists")) == {
        "error": "branch 'x' exists",
        "code": "conflict",
        "reason": "branch_exists",
    }


def test_an_envelope_has_the_detail_object_of_the_contract() -> None:
    blocked = errors.RecoveryBlocked("run repair", operation_id="01K", table="node:Person")
    assert envelope_of(blocked)["recovery_required"] == {"operation_id": "01K"}
    children = errors.BranchHasDescendants("delete b first", branch="a", descendants=["b"])
    assert envelope_of(children)["branch_descendants"] == {"names": ["b"]}
    tagged = errors.BranchHasTags("delete v1 first", branch="a", tags=["v1"])
    assert envelope_of(tagged)["branch_tags"] == {"names": ["v1"]}
    large = errors.ResourceLimit("too many", resource="query_binding_rows", limit=5, actual=9)
    assert envelope_of(large)["resource_limit"] == {
        "resource": "query_binding_rows",
        "limit": 5,
        "actual": 9,
    }
    late = errors.DeadlineExceeded("too long", timeout_ms=1)
    assert envelope_of(late)["deadline_exceeded"] == {"limit_ms": 1}
    moved = errors.ReadSetChanged("moved", member="node:Person", expected=None, actual="3")
    assert envelope_of(moved)["read_set_conflict"] == {
        "member": "node:Person",
        "expected": None,
        "actual": "3",
    }


def test_an_envelope_of_a_broken_rule_counts_and_lists_the_violations() -> None:
    first: JsonValue = {"code": "key_conflict", "message": "exists"}
    broken = errors.KeyConflict(
        "exists", kind="node", type="Note", entity_id="1", total=2, violations=[first]
    )
    envelope = envelope_of(broken)
    assert envelope["key_conflict"] == {
        "entity_kind": "node",
        "type_name": "Note",
        "entity_id": "1",
    }
    assert envelope["violations"] == {"total": 2, "items": [first]}


def test_violations_beyond_the_first_follow_the_message_and_only_twenty_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    items: list[JsonValue] = [
        {"code": "type_error", "message": f"bad {number}", "input_line": number}
        for number in range(1, 31)
    ]
    refused = errors.LoadRejected(
        "load refused: line 1: bad 1", total=40, counts={"type_error": 40}, violations=items
    )
    assert report(refused, Output()) == 6
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: load refused: line 1: bad 1"
    assert lines[1:20] == [f"  line {number}: bad {number}" for number in range(2, 21)]
    assert lines[20:] == ["  and 20 more", "  in all: type_error 40"]


def test_a_violation_without_a_line_names_its_type_and_its_text_moves_no_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    items: list[JsonValue] = [
        {"code": "orphan_edge", "message": "src 'a' not found", "type": "Knows"},
        {"code": "orphan_edge", "message": "src '\x1b[2J\n' not found", "type": "Knows"},
        {"code": "json_error", "message": "no object", "type": None},
        {"code": "type_error", "message": "bad", "input_line": 7, "input_unit": "row"},
    ]
    refused = errors.LoadRejected("src \x1b[2J", total=3, violations=items)
    assert report(refused, Output()) == 6
    assert capsys.readouterr().err.splitlines() == [
        "error: src \\x1b[2J",
        "  edge Knows: src '\\x1b[2J ' not found",
        "  no object",
        "  row 7: bad",
    ]


def test_a_failure_names_what_spark_has_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark-1.log"
    failed = errors.PipelineTaskError("stage intake: task 1 failed")
    report(failed, Output(), log=log)
    assert "spark-1.log" not in capsys.readouterr().err
    log.write_text("java.lang.RuntimeException")
    report(failed, Output(), log=log)
    assert capsys.readouterr().err.splitlines()[-1] == f"  what Spark logged is in {log}"


def test_mistakes_after_the_first_follow_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[JsonValue] = [{"message": f"f.yaml:{n}:1: bad {n}"} for n in (1, 2, 3)]
    wrong = errors.SourceError("3 mistakes, the first: f.yaml:1:1: bad 1", mistakes=told)
    report(wrong, Output())
    assert capsys.readouterr().err.splitlines() == [
        "error: 3 mistakes, the first: f.yaml:1:1: bad 1",
        "  f.yaml:2:1: bad 2",
        "  f.yaml:3:1: bad 3",
    ]
    assert envelope_of(wrong)["details"] == {"mistakes": told}


def test_a_mutation_tells_its_only_violation_once(capsys: pytest.CaptureFixture[str]) -> None:
    first: JsonValue = {"code": "orphan_edge", "message": "src 'a' not found", "type": "Knows"}
    broken = errors.ConstraintViolation("src 'a' not found", total=2, violations=[first])
    assert report(broken, Output()) == 1
    assert capsys.readouterr().err == "error: src 'a' not found\n"


def test_an_envelope_has_no_code_where_the_contract_has_none() -> None:
    assert envelope_of(errors.BranchBusy("busy")) == {"error": "busy", "reason": "branch_busy"}


def test_an_envelope_of_a_source_has_one_line_and_every_diagnostic() -> None:
    error = errors.SchemaInvalid(
        "S003: no\n --> a.pg:1:1\nS003: nor", diagnostics=[DIAGNOSTIC, DIAGNOSTIC], total=2
    )
    envelope = envelope_of(error)
    assert envelope["error"] == "S003: no (and 1 more)"
    assert envelope["diagnostics"] == [DIAGNOSTIC, DIAGNOSTIC]


def test_an_error_for_people_is_one_line_even_when_a_value_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report(errors.InvalidArgument("no such thing 'a\n b'"), Output()) == 1
    assert capsys.readouterr() == ("", "error: no such thing 'a b'\n")


def test_an_error_for_programs_is_one_line_of_json_in_utf_8(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report(errors.InvalidArgument("no é\n\udcff"), Output(is_json=True)) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert json.loads(err)["error"] == "no é \udcff"


@pytest.mark.parametrize("fail", [lambda: 1 // 0, lambda: int("x"), lambda: Path("/nope/x").stat()])
def test_a_bug_is_reported_as_one_without_a_traceback(fail: Callable[[], object]) -> None:
    try:
        fail()
    except Exception as error:  # noqa: BLE001 - any bug
        translated = translate(error)
    assert isinstance(translated, errors.InternalError)
    assert "please report it" in translated.message


def test_a_command_of_a_later_version_is_named_as_such() -> None:
    assert translate(
        typer.TyperException("No such command 'cluster'. Did you mean 'version'?")
    ).message == ("'cluster' is not in this version")
    assert (
        "see 'omnigraph --help'" in translate(typer.TyperException("No such command 'x'.")).message
    )
