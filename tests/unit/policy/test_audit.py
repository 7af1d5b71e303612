"""The audit log: one line for each request, shared by processes, and strict where that is asked."""

import json
import threading
from pathlib import Path

import pytest

from omnigraph.clock import ManualClock
from omnigraph.errors import AuditUnavailable
from omnigraph.graph.access import Action
from omnigraph.policy.audit import AuditEvent, AuditLog, open_audit_log
from omnigraph.settings import load_settings

CLOCK = ManualClock(now_us=1_769_853_600_123_456)


def _event(action: Action = Action.CHANGE, *, allowed: bool = True) -> AuditEvent:
    return AuditEvent(
        request_id="01K",
        graph="knowledge",
        actor="act-bob",
        action=action,
        branch="main",
        allowed=allowed,
        rule="writes" if allowed else None,
        query="add_note",
        commit="c1" if allowed else None,
        status=200 if allowed else 403,
    )


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_a_line_has_exactly_these_fields(path: Path) -> None:
    log = AuditLog(str(path), CLOCK, reads=False, strict=False)
    log.record(_event(allowed=False))
    log.close()
    log.close()
    assert _lines(path) == [
        {
            "ts": "2026-01-31T10:00:00.123Z",
            "request_id": "01K",
            "graph": "knowledge",
            "actor": "act-bob",
            "action": "change",
            "branch": "main",
            "target_branch": None,
            "allowed": False,
            "rule": None,
            "filtered": False,
            "query": "add_note",
            "commit": None,
            "status": 403,
        }
    ]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("reads", [False, True])
def test_reads_that_are_allowed_are_logged_only_if_asked_for(path: Path, *, reads: bool) -> None:
    log = AuditLog(str(path), CLOCK, reads=reads, strict=False)
    for action in Action:
        log.record(_event(action))
        log.record(_event(action, allowed=False))
    log.close()
    allowed = {line["action"] for line in _lines(path) if line["allowed"]}
    denied = {line["action"] for line in _lines(path) if not line["allowed"]}
    quiet = set() if reads else {Action.READ, Action.GRAPH_LIST, Action.METRICS}
    assert allowed == set(Action) - quiet
    assert denied == set(Action)


def test_names_of_any_kind_stay_on_one_line(path: Path) -> None:
    log = AuditLog(str(path), CLOCK, reads=False, strict=False)
    odd = 'act\n"\x1b\ud800é'
    log.record(
        AuditEvent(request_id=None, graph=None, actor=odd, action=Action.CHANGE, allowed=False)
    )
    log.close()
    assert len(path.read_bytes().splitlines()) == 1
    assert str(_lines(path)[0]["actor"]).startswith('act\n"\x1b')


def test_threads_and_other_logs_of_the_same_file_write_whole_lines(path: Path) -> None:
    logs = [AuditLog(str(path), CLOCK, reads=False, strict=False) for _ in range(2)]
    threads = [
        threading.Thread(target=lambda log=log: [log.record(_event()) for _ in range(50)])
        for log in (*logs, *logs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in logs:
        log.close()
    assert len(_lines(path)) == 200


def test_a_sink_that_fails_is_counted_and_refuses_nothing(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "missing" / "audit.jsonl"), CLOCK, reads=False, strict=False)
    log.record(_event())
    log.record(_event())
    log.require_working()
    assert log.failures == 2


def test_a_strict_log_refuses_until_its_sink_works_and_then_writes_what_it_owes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "later"
    log = AuditLog(str(folder / "audit.jsonl"), CLOCK, reads=False, strict=True)
    with pytest.raises(AuditUnavailable):
        log.require_working()
    log.record(_event(allowed=False))
    with pytest.raises(AuditUnavailable):
        log.require_working()
    folder.mkdir()
    log.require_working()
    log.close()
    assert [line["allowed"] for line in _lines(folder / "audit.jsonl")] == [False]


def test_a_full_disk_makes_a_strict_log_refuse() -> None:
    log = AuditLog("/dev/full", CLOCK, reads=False, strict=True)
    log.require_working()
    log.record(_event())
    with pytest.raises(AuditUnavailable, match="audit log"):
        log.require_working()
    log.close()


def test_the_settings_name_the_log(path: Path) -> None:
    assert open_audit_log(load_settings({}).server, CLOCK) is None
    log = open_audit_log(load_settings({"OMNIGRAPH_AUDIT_LOG": str(path)}).server, CLOCK)
    assert log is not None
    log.record(_event())
    log.close()
    assert len(_lines(path)) == 1


def test_standard_output_can_be_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    log = AuditLog("-", CLOCK, reads=False, strict=True)
    log.record(_event())
    log.close()
    assert json.loads(capfd.readouterr().out)["commit"] == "c1"
