"""Which names a branch may have."""

import pytest

from omnigraph.errors import InvalidBranchName
from omnigraph.graph.history.branch_names import parse_branch_name, refuse_main

ACCEPTED = [
    "rev",
    "rev/1",
    "Rev",
    "a",
    "1",
    "_private",
    "feature/ada.lovelace/try-2_b",
    "a..b",
    "x.LOCK",
    "lock",
    "main2",
    "Main",
    "main/x",
    "HEAD/x",
    "a/__b",
    "größe/日本",
    "x" * 255,
    "é" * 127,
]
REFUSED = {
    "": "empty",
    "main": "reserved",
    "HEAD": "reserved",
    "__sys": "system",
    "__": "system",
    ".": "starts with",
    "..": "starts with",
    ".hidden": "starts with",
    "a/.b": "starts with",
    "a/..": "starts with",
    "../a": "starts with",
    "-x": "starts with",
    "a/-x": "starts with",
    "/a": "empty",
    "a/": "empty",
    "a//b": "empty",
    "a.lock": ".lock",
    "a.lock/b": ".lock",
    "a b": "' '",
    "a\\b": "holds",
    "a:b": "holds",
    "a@b": "holds",
    "a~b": "holds",
    "a\nb": "holds",
    "a\0b": "holds",
    "a?b": "holds",
    "a*b": "holds",
    "\u200bx": "holds",
    "x" * 256: "256 bytes",
    "é" * 128: "256 bytes",
    "e\u0301": "normal form",
    "\ud800": "not valid text",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_names_within_the_rule_are_accepted(name: str) -> None:
    assert parse_branch_name(name) == name


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_a_refused_name_comes_with_the_rule_that_it_breaks(name: str, reason: str) -> None:
    with pytest.raises(InvalidBranchName) as caught:
        parse_branch_name(name)
    assert reason in str(caught.value.details["reason"])
    assert caught.value.details["branch"] == name


def test_main_cannot_be_ended() -> None:
    refuse_main("rev", "deleted")
    with pytest.raises(InvalidBranchName, match="cannot be deleted"):
        refuse_main("main", "deleted")
