from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from omnigraph import failpoints
from omnigraph.failpoints import Action, FailpointHit, arm_from, armed, maybe_fail, parse_points
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

POINT = "test.step"
OTHER = "test.other"

# A child as a production process would be: settings from its environment, armed once at the start.
CHILD = f"""
import os
from omnigraph import failpoints
from omnigraph.settings import load_settings

failpoints.NAMES = frozenset({{"{POINT}"}})
spec = load_settings(os.environ).storage.failpoints
failpoints.arm_from(failpoints.parse_points(spec))
print("before", flush=True)
failpoints.maybe_fail("{POINT}")
print("after", flush=True)
"""


@pytest.fixture(autouse=True)
def _registered_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(failpoints, "NAMES", frozenset({POINT, OTHER}))
    yield
    failpoints.disarm_all()


def start_child(**environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={"PATH": os.defpath, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_unarmed_point_does_nothing() -> None:
    maybe_fail(POINT)
    maybe_fail("never registered")


def test_a_point_armed_to_raise_raises_its_name_and_only_inside_the_block() -> None:
    with armed(POINT, Action.RAISE):
        maybe_fail(OTHER)
        with pytest.raises(FailpointHit, match=POINT):
            maybe_fail(POINT)
    maybe_fail(POINT)


def test_a_callback_runs_at_its_point_each_time() -> None:
    calls: list[str] = []
    with armed(POINT, lambda: calls.append("hit")):
        maybe_fail(POINT)
        maybe_fail(POINT)
    assert calls == ["hit", "hit"]


def test_an_inner_block_restores_what_the_outer_armed() -> None:
    calls: list[str] = []
    with armed(POINT, lambda: calls.append("outer")):
        with armed(POINT, lambda: calls.append("inner")):
            maybe_fail(POINT)
        maybe_fail(POINT)
    assert calls == ["inner", "outer"]


def test_a_point_is_disarmed_when_the_block_fails() -> None:
    with pytest.raises(FailpointHit), armed(POINT, Action.RAISE):
        maybe_fail(POINT)
    maybe_fail(POINT)


def test_arming_an_unregistered_name_is_refused_and_arms_nothing() -> None:
    with pytest.raises(ValueError, match=r"no failpoint is called 'test\.typo'"):
        arm_from({POINT: Action.RAISE, "test.typo": Action.RAISE})
    maybe_fail(POINT)


def test_a_spec_may_name_several_points() -> None:
    assert parse_points(f" {POINT}=raise ;; {OTHER} = stop; ") == {
        POINT: Action.RAISE,
        OTHER: Action.STOP,
    }
    assert parse_points("") == {}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("a", "name=action"),
        ("=raise", "name=action"),
        ("a=explode", "raise, kill, stop"),
        ("a=callback", "raise, kill, stop"),
        ("a=raise;a=kill", "twice"),
    ],
)
def test_a_malformed_spec_says_what_was_expected(spec: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        parse_points(spec)


def test_the_variable_is_not_even_read_unless_testing() -> None:
    assert load_settings({"OMNIGRAPH_FAILPOINTS": "nonsense"}).storage.failpoints == ""


def test_a_child_armed_to_kill_dies_at_the_point() -> None:
    with start_child(OMNIGRAPH_TESTING="1", OMNIGRAPH_FAILPOINTS=f"{POINT}=kill") as child:
        stdout, _ = child.communicate()
    assert (child.returncode, stdout) == (-signal.SIGKILL, "before\n")


def test_a_child_armed_to_stop_stands_still_and_then_goes_on() -> None:
    with start_child(OMNIGRAPH_TESTING="1", OMNIGRAPH_FAILPOINTS=f"{POINT}=stop") as child:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        child.send_signal(signal.SIGCONT)
        stdout, _ = child.communicate()
    assert (child.returncode, stdout) == (0, "before\nafter\n")


def test_a_child_that_is_not_testing_ignores_the_variable() -> None:
    with start_child(OMNIGRAPH_FAILPOINTS=f"{POINT}=kill") as child:
        stdout, _ = child.communicate()
    assert (child.returncode, stdout) == (0, "before\nafter\n")
