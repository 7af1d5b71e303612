"""The seam of access: what an answer says when nothing is restricted."""

from __future__ import annotations

from omnigraph.graph.access import EVERYTHING, Action, Visibility
from omnigraph.storage.predicates import Or


def test_a_visibility_without_restrictions_is_everything() -> None:
    assert EVERYTHING.is_everything
    assert Visibility() == EVERYTHING


def test_one_restriction_is_enough_for_not_everything() -> None:
    assert not Visibility(rows={"node:Person": Or(())}).is_everything
    assert not Visibility(hidden_properties=frozenset({"Person.salary"})).is_everything


def test_the_words_of_the_actions_are_those_of_the_bundles() -> None:
    assert [str(action) for action in Action] == [
        "read",
        "export",
        "change",
        "schema_apply",
        "branch_create",
        "branch_delete",
        "branch_merge",
        "invoke_query",
        "admin",
        "graph_list",
        "metrics",
    ]
