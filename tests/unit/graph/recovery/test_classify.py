"""What happened to a table of an interrupted write, for every combination of facts."""

import pytest

from omnigraph.graph.recovery.classify import TableClass, TableFacts, classify, foreign_versions
from omnigraph.graph.recovery.sidecars import PlannedLink, SidecarTable
from omnigraph.storage.handles import VersionTrace

EXPECTED = 7
VIOLATION, STILL = TableClass.INVARIANT_VIOLATION, TableClass.NO_MOVEMENT
LANDED, PART = TableClass.ROLLED_PAST_EXPECTED, TableClass.INCOMPLETE_CHAIN
STRANGE, STRANGER = TableClass.UNEXPECTED_AT_P1, TableClass.UNEXPECTED_MULTISTEP

# Planned links, pin, uuids of the versions above the pin, class. `head` is the pin plus those.
CASES: list[tuple[str, int | None, str, TableClass]] = [
    ("a", 7, "", STILL),
    ("ab", 9, "", STILL),
    ("", 7, "", STILL),
    ("a", 7, "a", LANDED),
    ("ab", 7, "ab", LANDED),
    ("abc", 7, "abc", LANDED),
    ("ab", 7, "a", PART),
    ("abc", 7, "a", PART),
    ("abc", 7, "ab", PART),
    ("a", 7, "x", STRANGE),
    ("ab", 7, "b", STRANGE),
    ("", 7, "x", STRANGE),
    ("a", 8, "a", STRANGE),
    ("a", 6, "a", STRANGE),
    ("a", 7, "?", STRANGE),
    ("ab", 7, "ba", STRANGER),
    ("ab", 7, "ax", STRANGER),
    ("a", 7, "ax", STRANGER),
    ("a", 7, "xa", STRANGER),
    ("ab", 7, "abx", STRANGER),
    ("ab", 8, "ab", STRANGER),
    ("ab", 5, "xxab", STRANGER),
    ("a", None, "", VIOLATION),
]


def facts(links: str, pin: int | None, landed: str) -> TableFacts:
    table = SidecarTable(
        table_id=1,
        incarnation=1,
        table_key="node:A",
        location="nodes/1-1",
        branch=None,
        expected_version=EXPECTED,
        links=tuple(
            PlannedLink(uuid=each, op="Append", read_version=EXPECTED + at)
            for at, each in enumerate(links)
        ),
        row_count_after=1,
    )
    above = [
        VersionTrace(
            version=(pin or 0) + at,
            uuid=None if each == "?" else each,
            operation_id=None if each == "?" else f"op-{each}",
        )
        for at, each in enumerate(landed, start=1)
    ]
    head = None if pin is None else pin + len(above)
    return TableFacts(table=table, pin=pin, head=head, traces=above)


@pytest.mark.parametrize(("links", "pin", "landed", "expected"), CASES)
def test_a_table_has_exactly_one_class(
    links: str, pin: int | None, landed: str, expected: TableClass
) -> None:
    assert classify(facts(links, pin, landed)).table_class is expected


@pytest.mark.parametrize(("pin", "head"), [(7, None), (7, 6), (None, 7)])
def test_a_head_below_its_pin_or_a_missing_one_breaks_an_invariant(
    pin: int | None, head: int | None
) -> None:
    found = TableFacts(table=facts("a", 7, "").table, pin=pin, head=head)
    assert classify(found).table_class is VIOLATION


def test_a_version_is_foreign_unless_its_operation_is_known() -> None:
    judged = classify(facts("a", 7, "ax?"))
    foreign = foreign_versions(judged.facts.traces, {"op-a"})
    assert [each.version for each in foreign] == [9, 10]
    assert [each.version for each in foreign_versions(judged.facts.traces, {"op-a", "op-x"})] == [
        10
    ]
