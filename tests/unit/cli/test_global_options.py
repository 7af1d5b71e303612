import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph.cli.commands import lint
from omnigraph.cli.main import app

Door = Callable[..., CompletedProcess[str]]
PROGRAM = Path(sys.executable).with_name("omnigraph")


@pytest.mark.parametrize(
    "words",
    [
        ["--quiet", "version"],
        ["version", "--quiet"],
        ["version", "--no-progress", "--color", "never", "--log-level=error"],
        ["--color=never", "version", "--log-level", "debug"],
    ],
)
def test_a_global_option_may_stand_before_or_after_the_command(
    call: Door, words: list[str]
) -> None:
    assert call(*words).stdout == call("version").stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["lnt"], "'lnt'"),
        (["lint", "--foo"], "--foo"),
        (["lint"], "'--query'"),
        (["version", "extra"], "extra"),
        (["version", "--color", "pink"], "'pink'"),
        (["version", "--log-level"], "--log-level"),
        (["schema"], "missing command"),
        (["version", "--", "--quiet"], "--quiet"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_names_it_and_ends_with_2(
    call: Door, words: list[str], named: str
) -> None:
    result = call(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert "--help'" in result.stderr


def test_a_wrong_command_line_with_json_is_an_envelope(start: Door) -> None:
    result = start("lint", "--foo", "--json")
    assert (result.returncode, result.stdout) == (2, "")
    envelope = json.loads(result.stderr)
    assert (envelope["code"], envelope["reason"]) == ("bad_request", "usage")
    assert "--foo" in envelope["error"]


def test_a_malformed_setting_stops_a_command_with_2(
    call: Door, schema: Path, queries: Path
) -> None:
    result = call(
        "lint",
        "--schema",
        schema,
        "--query",
        queries,
        environ={"OMNIGRAPH_LEASE_TTL_MS": "soon"},
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: OMNIGRAPH_LEASE_TTL_MS: 'soon' is not valid")


def test_an_unknown_variable_is_one_warning(call: Door, schema: Path, queries: Path) -> None:
    result = call(
        "lint", "--schema", schema, "--query", queries, environ={"OMNIGRAPH_LESE_TTL_MS": "1"}
    )
    assert result.returncode == 0
    assert result.stderr.startswith("warning: unknown variable OMNIGRAPH_LESE_TTL_MS")
    assert result.stderr.count("\n") == 1


def test_only_log_level_debug_shows_the_traceback(call: Door, schema: Path) -> None:
    words = ("lint", "--schema", schema, "--query", "nope.gq")
    assert "Traceback" not in call(*words).stderr
    for shown in (
        call(*words, "--log-level", "debug"),
        call(*words, environ={"OMNIGRAPH_LOG": "debug"}),
    ):
        assert "Traceback" in shown.stderr
        assert shown.stderr.splitlines()[-1].startswith("error: --query 'nope.gq'")


def test_a_bug_is_one_line_without_a_traceback(
    call: Door, schema: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lint, "read_source_file", lambda *_: 1 // 0)
    result = call("lint", "--schema", schema, "--query", queries)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith("error: unexpected ZeroDivisionError")


def test_the_app_has_no_rich_panels() -> None:
    assert app.rich_markup_mode is None


def on_terminal(*words: str, **environ: str) -> bytes:
    """What a terminal shows, both streams."""
    ours, theirs = pty.openpty()
    inherited = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    process = subprocess.Popen(
        [PROGRAM, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=inherited | {"TERM": "xterm"} | environ,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # Linux reports the end of a terminal as an error.
    finally:
        os.close(ours)
        process.wait()
    return shown


def test_a_terminal_gets_colour_unless_told_otherwise() -> None:
    assert b"\x1b[31m" in on_terminal("lint")
    assert b"\x1b" not in on_terminal("lint", NO_COLOR="1")
    assert b"\x1b" not in on_terminal("lint", "--color", "never")
    assert b"\x1b[31m" in on_terminal("lint", "--color", "always", NO_COLOR="1")


def test_a_terminal_gets_a_table_that_fits() -> None:
    shown = on_terminal("doctor", "--color=never", COLUMNS="60").decode()
    assert "part" in shown.splitlines()[0]
    assert max(len(line) for line in shown.splitlines()) <= 60


def test_a_pipe_gets_colour_only_on_request(call: Door) -> None:
    assert "\x1b" not in call("lint").stderr
    assert "\x1b[31m" in call("lint", "--color", "always").stderr
