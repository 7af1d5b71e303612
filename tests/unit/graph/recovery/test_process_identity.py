"""A process can tell that another of its machine is gone, and claims it of no other."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.graph.recovery import process_identity
from omnigraph.graph.recovery.process_identity import ProcessIdentity, this_process


def test_a_process_knows_that_it_lives() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert me == this_process()
    assert me.boot_id
    assert me.pid_started
    assert not me.knows_gone(me)


def test_another_process_is_known_gone_when_it_has_ended_or_is_only_a_zombie() -> None:
    me = this_process()
    child = subprocess.Popen(["/bin/sleep", "60"])
    theirs = replace(me, pid=child.pid, pid_started=process_identity._started(child.pid) or "")
    assert not me.knows_gone(theirs)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert me.knows_gone(theirs)
    child.wait()
    assert me.knows_gone(theirs)


def test_a_pid_that_is_used_again_is_another_process() -> None:
    me = this_process()
    assert me.knows_gone(replace(me, pid_started="0"))


@pytest.mark.parametrize("changes", [{"host": "elsewhere"}, {"boot_id": "other"}])
def test_nothing_is_known_of_another_machine_or_boot(changes: dict[str, str]) -> None:
    me = this_process()
    other = ProcessIdentity(**(me.to_dict() | {"pid_started": "0"} | changes))
    assert not me.knows_gone(other)


def test_nothing_is_known_when_the_boot_is_unknown() -> None:
    unknown = replace(this_process(), boot_id="")
    assert not unknown.knows_gone(replace(unknown, pid_started="0"))


def test_a_machine_without_proc_asks_its_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_args: object, **_options: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(Path, "exists", lambda _: False)
    started = process_identity._started(os.getpid())
    assert started == process_identity._started(os.getpid())
    assert isinstance(process_identity._boot_id(), str)


def test_a_program_that_is_not_there_answers_nothing() -> None:
    assert process_identity._output_of("/no/such/program") == ""


def test_a_living_process_that_is_hidden_is_not_known_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process()
    monkeypatch.setattr(process_identity, "_started", lambda _: None)
    assert not me.knows_gone(replace(me, pid=os.getppid(), pid_started="unseen"))
    assert me.knows_gone(replace(me, pid=2**22 + 1, pid_started="unseen"))
