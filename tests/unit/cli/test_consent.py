"""What cannot be undone on a remote target needs consent, before anything is opened."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph.cli import consent
from omnigraph.cli.addressing import Target
from omnigraph.cli.session import open_session
from omnigraph.settings import Settings

Door = Callable[..., CompletedProcess[str]]
PROGRAM = Path(sys.executable).with_name("omnigraph")
REMOTE = "s3://no-such-bucket.invalid/g"
DELETE = ("branch", "delete", "draft", "--uri", REMOTE)


def test_without_a_terminal_it_is_refused_and_the_option_is_named(start: Door) -> None:
    result = start(*DELETE)
    assert (result.returncode, result.stdout) == (1, "")
    echo, error = result.stderr.splitlines()
    assert echo == f"omnigraph branch delete → {REMOTE} (direct, remote)"
    assert error.startswith("error: deleting branch 'draft' on s3://")
    assert error.endswith("pass --yes")


def test_with_json_nobody_is_asked(start: Door) -> None:
    result = start(*DELETE, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(result.stderr)["reason"] == "invalid_argument"


def test_a_local_branch_needs_no_consent(call: Door, graph: Path) -> None:
    call("branch", "create", "draft", "--uri", graph)
    assert call("branch", "delete", "draft", "--uri", graph.as_uri()).returncode == 0


@pytest.mark.parametrize("answer", ["no", ""])
def test_any_other_answer_than_yes_changes_nothing(answer: str) -> None:
    shown = on_terminal(*DELETE, answer=answer)
    assert "Type yes to go on:" in shown
    assert "was not confirmed; nothing was changed" in shown


@pytest.mark.parametrize("answer", [None, "yes"])
def test_consent_is_an_option_or_a_typed_yes(
    answer: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = open_session({}, is_json=False)
    session.assumes_yes = answer is None
    monkeypatch.setattr(consent, "_can_ask", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))
    consent.require_consent(session, Target(uri=REMOTE, settings=Settings()), "deleting it")
    asked = "" if answer is None else f"deleting it on {REMOTE}? Type yes to go on:\n"
    assert capsys.readouterr() == ("", asked)


def on_terminal(*words: str, answer: str) -> str:
    """What a terminal shows when somebody types an answer."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "OMNIGRAPH_HOME": "nowhere"},
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # Linux reports the end of a terminal as an error.
    finally:
        os.close(ours)
        process.wait()
    return shown.decode()
