import json
from collections.abc import Callable
from importlib.metadata import version
from subprocess import CompletedProcess

import pytest

Door = Callable[..., CompletedProcess[str]]
TEXT = f"omnigraph {version('omnigraph')}\nstorage format: 1\n"


@pytest.mark.parametrize("words", [["version"], ["-v"], ["--version"]])
def test_every_spelling_prints_both_versions(start: Door, words: list[str]) -> None:
    result = start(*words)
    assert (result.returncode, result.stdout, result.stderr) == (0, TEXT, "")


def test_json_has_both_versions(call: Door) -> None:
    result = call("version", "--json")
    assert json.loads(result.stdout) == {
        "version": version("omnigraph"),
        "storage_format": 1,
    }


def test_the_version_needs_no_valid_setting(call: Door) -> None:
    assert call("version", environ={"OMNIGRAPH_LEASE_TTL_MS": "soon"}).stdout == TEXT


def test_the_server_has_a_version(start: Door) -> None:
    assert start("--version", program="omnigraph-server").stdout == TEXT
