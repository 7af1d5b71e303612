"""What Spark says of a row beside its values: which expressions failed on it, or lost a value.

A frame carries it in columns of its own, which are taken off before rows are made of the others. An
expression that fails on a row would otherwise fail the whole job, and name no row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from omnigraph.graph.arrays import column, mask_of
from omnigraph.graph.validation import ALL_ROWS, Code, Findings, Violation, gather
from omnigraph.graph.validation.findings import Rows
from omnigraph.graph.validation.violation import kind_of
from omnigraph.pipeline.spec.pipeline_spec import WHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from omnigraph.graph.arrays import Mask
    from omnigraph.graph.validation import FittedRows

FAILED: Final = "omnigraph:failed:"
"""Whether the expression of that name failed on a row."""
GIVEN: Final = "omnigraph:given:"
"""What it failed on: the columns that it is made from, as JSON."""
LOST: Final = "omnigraph:lost:"
"""Whether it made null of something."""
_LONGEST: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFlags:
    """The flags of a batch, by the names of values."""

    failed: Mapping[str, Mask] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)  # Any: arrays of texts
    lost: Mapping[str, int] = field(default_factory=dict)

    def text(self, name: str, at: int) -> str | None:
        """What an expression failed on in a row; `None` where it did not."""
        value = self.given[name][at].as_py() if name in self.given else None
        return None if value is None else str(value)[:_LONGEST]

    def source_value(self, name: str, at: int) -> str | None:
        """The value of the source that an expression failed on; of several all, as JSON."""
        value = self.given[name][at].as_py() if name in self.given else None
        if value is None:
            return None
        columns = json.loads(value)
        (only,) = columns.values() if len(columns) == 1 else (value,)
        return str(only)


def take_flags(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, RowFlags]:
    """A batch with the columns of values only, and its flags."""
    names = [name for name in batch.schema.names if name.startswith((FAILED, GIVEN, LOST))]
    if not names:
        return batch, RowFlags()
    failed: dict[str, Mask] = {}
    given: dict[str, Any] = {}  # Any: as above
    lost: dict[str, int] = {}
    for name in names:
        values = batch.column(name)
        if name.startswith(FAILED):
            failed[name.removeprefix(FAILED)] = mask_of(values)
        elif name.startswith(GIVEN):
            given[name.removeprefix(GIVEN)] = values
        else:
            lost[name.removeprefix(LOST)] = int(mask_of(values).sum())
    failed = {name: mask for name, mask in failed.items() if mask.any()}
    return batch.drop_columns(names), RowFlags(failed=failed, given=given, lost=lost)


def with_failures(
    fitted: FittedRows, flags: RowFlags, describe: Callable[[str], str]
) -> FittedRows:
    """The rows, with a finding for each value that an expression failed on."""
    if not flags.failed:
        return fitted
    # What failed has no value: that is not a second fault.
    blank = {
        (int(at), _property(name))
        for name, mask in flags.failed.items()
        for at in np.flatnonzero(mask)
    }
    kept = [
        each
        for each in fitted.findings.violations
        if each.code is not Code.REQUIRED_MISSING
        or (each.subject.row, *each.properties[:1]) not in blank
    ]
    dropped = len(fitted.findings.violations) - len(kept)
    counts = dict(fitted.findings.counts)
    if dropped:
        counts[Code.REQUIRED_MISSING] -= dropped
    left = {code: count for code, count in counts.items() if count}
    failures = tuple(_failures(fitted, flags, describe))
    found = Findings(violations=failures, counts={Code.TYPE_ERROR: len(failures)})
    findings = gather(
        (replace(fitted.findings, violations=tuple(kept), counts=left), found), limit=ALL_ROWS
    )
    return replace(fitted, findings=findings)


def _failures(
    fitted: FittedRows, flags: RowFlags, describe: Callable[[str], str]
) -> Iterator[Violation]:
    rows = Rows(ids=column(fitted.table, "id"), lines=fitted.lines)
    for name, mask in flags.failed.items():
        for at in np.flatnonzero(mask):
            text = flags.text(name, int(at))
            yield Violation(
                code=Code.TYPE_ERROR,
                message=f"{describe(name)}, fails on {text or 'this row'}",
                kind=kind_of(fitted.item),
                type=fitted.item.name,
                properties=(_property(name),),
                subject=rows.subject(int(at)),
                value=text,
            )


def _property(name: str) -> str:
    """The property that a value belongs to; parts of a key belong to an end."""
    return "where" if name == WHERE else name.partition(":")[0]
