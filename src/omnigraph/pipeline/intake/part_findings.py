"""What single rows of a part of an input break: told by its task, and gathered by the driver.

A task tells how many violations there are and keeps some of them in a file, the more telling first.
The driver reads as many of each part as it can hold of all of them: those that were asked for, half
as many, a quarter, and so on. So its memory does not grow with the number of bad parts, and what it
reports is still chosen as if from the whole input.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from omnigraph.graph.validation import Code, EntityKind, Findings, Subject, Violation
from omnigraph.graph.validation.findings import select
from omnigraph.pipeline.staging.job_files import keep_object
from omnigraph.pipeline.staging.part_result import KeptFindings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.storage.graph_storage import GraphStorage

COLLECTED_BYTES: Final = 64 << 20
"""How large the violations may be that the driver gathers at once."""


def halvings(sample: int) -> list[int]:
    """The number itself, half of it, and so on down to 1."""
    return [sample >> step for step in range(sample.bit_length())]


def keep_findings(
    storage: GraphStorage, folder: str, ordinal: int, findings: Findings, *, sample: int
) -> KeptFindings:
    """Write the violations of a part, which are no more than `sample`, if there are any."""
    if not findings.violations:
        return KeptFindings(counts=findings.counts, sample=sample)
    lines = [
        json.dumps(asdict(each)).encode() + b"\n" for each in select(findings.violations, sample)
    ]
    sizes = list(accumulate(map(len, lines)))
    name = f"{folder}/violations-{ordinal:06d}"
    path = keep_object(storage, name, b"".join(lines), ".ndjson")
    return KeptFindings(
        counts=findings.counts,
        sample=sample,
        path=path,
        ends=tuple(sizes[min(count, len(lines)) - 1] for count in halvings(sample)),
    )


def read_findings(storage: GraphStorage, kept: Iterable[KeptFindings]) -> list[Findings]:
    """The findings of all parts, with as many violations of each as fit."""
    parts = list(kept)
    written = [each for each in parts if each.path is not None]
    if not written:
        return [Findings(counts=each.counts) for each in parts]
    samples = halvings(written[0].sample)
    step = next(
        (
            step
            for step in range(len(samples))
            if sum(each.ends[step] for each in written) <= COLLECTED_BYTES
        ),
        len(samples) - 1,
    )
    return [
        Findings(
            counts=each.counts,
            violations=()
            if each.path is None
            else tuple(map(_violation, _lines(storage, each.path, each.ends[step]))),
            halved_to=samples[step] if step else None,
        )
        for each in parts
    ]


def _lines(storage: GraphStorage, path: str, end: int) -> list[bytes]:
    return storage.objects.get_range(path, 0, end).splitlines()


def _violation(line: bytes) -> Violation:
    told: dict[str, Any] = json.loads(line)  # Any: as JSON gives it
    kind = told["kind"]
    return Violation(
        **told
        | {
            "code": Code(told["code"]),
            "kind": None if kind is None else EntityKind(kind),
            "properties": tuple(told["properties"]),
            "subject": Subject(**told["subject"]),
        }
    )
