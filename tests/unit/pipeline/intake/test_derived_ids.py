"""Derived ids are the same for a repeated task and differ for everything else."""

from __future__ import annotations

import hashlib

from ulid import ULID

from omnigraph.pipeline.intake.derived_ids import DerivedIds

MOMENT_MS = 1_790_000_000_000


def ids(operation: str = "op", *, source: int = 0, start: int = 0, count: int = 5) -> list[str]:
    made = DerivedIds(operation, MOMENT_MS, source=source, start=start)
    return [made.next_ulid() for _ in range(count)]


def test_a_repeated_task_mints_the_same_ids() -> None:
    assert ids() == ids()
    assert ids(count=3) == ids()[:3]


def test_other_operations_files_and_ranges_mint_other_ids() -> None:
    everything = [*ids(), *ids("other"), *ids(source=1), *ids(start=1), *ids(source=11, start=2)]
    assert len(set(everything)) == len(everything)


def test_an_id_has_the_time_of_the_operation() -> None:
    assert {int(ULID.from_str(each).milliseconds) for each in ids()} == {MOMENT_MS}


def test_an_id_is_a_ulid_of_the_time_and_the_digest() -> None:
    for number, each in enumerate(ids("x", source=3, start=9, count=50)):
        digest = hashlib.blake2b(b"x\x003\x009\x00%d" % number, digest_size=10).digest()
        assert each == str(ULID.from_bytes(MOMENT_MS.to_bytes(6, "big") + digest))
