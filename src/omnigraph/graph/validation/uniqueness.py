"""Check 5: strict inserts meet no committed id (5a), and no two records share a tuple (5b).

Tuples are compared as typed values. These are equal exactly when their canonical spellings are:
non-finite floats and negative zeros do not get past fitting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.graph.arrays import (
    among,
    chosen,
    column,
    contained,
    group_codes,
    is_given,
    order_of,
    taken,
)
from omnigraph.graph.validation.columns import fit_column
from omnigraph.graph.validation.committed import find_holders, find_ids
from omnigraph.graph.validation.findings import Findings, masked_findings
from omnigraph.graph.validation.spelling import show_value, stored_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.arrays import Column, Positions
    from omnigraph.graph.validation.delta import TableDelta, Write
    from omnigraph.graph.validation.findings import Rows
    from omnigraph.graph.validation.relation_rules import NewIdRule, UniqueRule
    from omnigraph.graph.validation.violation import Subject, Violation


def new_id_findings(write: Write, rule: NewIdRule, *, limit: int) -> Findings:
    """Check 5a."""
    delta = write.delta_of(rule.item)
    if delta.replaces_all or not len(delta.strict_ids):
        return Findings()
    asked = chosen(delta.strict_ids, ~contained(delta.strict_ids, delta.removed))
    image = delta.image
    failed = contained(image.ids, find_ids(write.committed, rule.asked, asked))
    if failed.any():
        failed &= contained(image.ids, asked)
    return masked_findings(
        rule.code,
        failed,
        image.rows,
        lambda _, subject: rule.violation(subject),
        limit=limit,
    )


def unique_findings(write: Write, rule: UniqueRule, *, limit: int) -> Findings:
    """Check 5b."""
    delta, kinds = write.delta_of(rule.item), rule.kinds
    if rule.is_identity and not delta.repeats_ids:
        return Findings()
    members = [delta.records.column(name) for name in rule.names]
    whole = np.flatnonzero(np.logical_and.reduce([is_given(member) for member in members]))
    members = [taken(member, whole) for member in members]
    rows = delta.records.rows.chosen(whole)
    held: tuple[list[Column], Column] | None = None
    if rule.asked is not None and not delta.replaces_all and len(whole):
        held = _committed_holders(write, delta, rule, [rows.ids, *members])
    holder = _holders(members, rows, held)
    known = pa.concat_arrays([rows.ids, held[1]]) if held else rows.ids

    def broken(at: int, subject: Subject) -> Violation:
        values = [
            show_value(stored_value(member, at, kind), kind)
            for member, kind in zip(members, kinds, strict=True)
        ]
        return rule.violation(subject, values=values, held_by=known[int(holder[at])].as_py())

    return masked_findings(rule.code, holder >= 0, rows, broken, limit=limit)


def _committed_holders(
    write: Write,
    delta: TableDelta,
    rule: UniqueRule,
    claimed: Sequence[Column],
) -> tuple[list[Column], Column] | None:
    """Tuples and ids of committed rows that survive the write and may share a tuple with it.

    `claimed` are the ids of records and the members of their tuples.
    """
    first = np.unique(group_codes(claimed[1:]), return_index=True)[1]
    claims = pa.table([taken(each, first) for each in claimed], names=["id", *rule.names])
    if delta.read is not None:
        # A row that keeps its tuple asks nobody: nobody else can have taken it while the row stays
        # as it was read, and the writer is told when it does not.
        read = [column(delta.read, name) for name in claims.column_names]
        kept = among([column(claims, name) for name in claims.column_names], read)
        claims = claims.filter(pa.array(~kept))
    holders = find_holders(write.committed, rule.item, claims)
    survives = ~contained(column(holders, "id"), delta.touched)
    if not survives.any():
        return None
    columns = [
        fit_column(column(holders, name), kind)
        for name, kind in zip(rule.names, rule.kinds, strict=True)
    ]
    whole = np.logical_and.reduce([survives, *(is_given(one.values) for one in columns)])
    return [chosen(one.values, whole) for one in columns], chosen(column(holders, "id"), whole)


def _holders(
    members: Sequence[Column], rows: Rows, held: tuple[list[Column], Column] | None
) -> Positions:
    """Per record who has its tuple already: another record, or beyond them a committed row; or -1.

    Of the records of a tuple the first by id is held by a committed row if there is one, and the
    others by that first record.
    """
    count = len(rows.ids)
    if held:
        members = [pa.concat_arrays([one, two]) for one, two in zip(members, held[0], strict=True)]
    holder = np.full(count, -1, np.int64)
    if not count:
        return holder
    codes = group_codes(members)
    own, theirs = codes[:count], codes[count:]
    groups = int(codes.max()) + 1
    if not len(theirs) and groups == count:
        return holder
    ranked = order_of(rows.ids)
    present, at = np.unique(own[ranked], return_index=True)
    first = np.full(groups, -1, np.int64)
    first[present] = ranked[at]
    is_later = first[own] != np.arange(count)
    holder[is_later] = first[own][is_later]
    if held and len(theirs):
        ranked = order_of(held[1])
        present, at = np.unique(theirs[ranked], return_index=True)
        committed = np.full(groups, -1, np.int64)
        committed[present] = ranked[at] + count
        holder[~is_later] = committed[own][~is_later]
    return holder
