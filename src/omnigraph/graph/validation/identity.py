"""Ids of the rows of an input: derived from the key, taken as given, or minted.

A keyed node may carry an id. It must be the canonical one or spell the same typed values; then the
canonical one takes its place, and the old spelling is remembered for the edges of the same input.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import is_given, mask_of, taken, texts
from omnigraph.graph.validation.spelling import render_ids
from omnigraph.graph.validation.violation import Code, Subject, Violation, kind_of, shown
from omnigraph.lang.keys import spell_key
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import UnfitValue, fit_number, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.arrays import Column, Mask
    from omnigraph.ids import IdSource
    from omnigraph.lang.catalog import EdgeType, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ids of some rows; a row whose key is broken, or that has none, has a null."""

    ids: Column
    mismatched: Mask
    """Rows whose given id is that of another key."""
    respelled: Mapping[str, str]
    """Given ids that spell the same key in another way, and the canonical ones."""


def derive_ids(members: Sequence[Column], kinds: Sequence[PropType], given: Column) -> Identity:
    """Ids of keyed nodes; `given` may be all null."""
    ids = render_ids(members, kinds)
    mismatched = np.zeros(len(ids), np.bool_)
    respelled: dict[str, str] = {}
    if given.null_count == len(given):
        return Identity(ids=ids, mismatched=mismatched, respelled=respelled)
    differs = is_given(given) & is_given(ids) & ~mask_of(pc.equal(given, ids))
    at = np.flatnonzero(differs)
    pairs = zip(taken(given, at).to_pylist(), taken(ids, at).to_pylist(), strict=True)
    for position, (spelling, canonical) in zip(at, pairs, strict=True):
        if respell_id(str(spelling), kinds) == canonical:
            respelled[str(spelling)] = str(canonical)
        else:
            mismatched[position] = True
    return Identity(ids=ids, mismatched=mismatched, respelled=respelled)


def known_by_id(
    identity: Identity, kinds: Sequence[PropType], given: Column, partly: Mask
) -> tuple[Identity, Mask]:
    """The ids with the given ones for `partly` keyed rows that have no other; and which these are.

    A given id may spell the key in another way; the canonical one is what rows are committed under.
    """
    by_id = partly & ~is_given(identity.ids) & is_given(given)
    at = np.flatnonzero(by_id)
    if not len(at):
        return identity, by_id
    spellings = [str(each) for each in taken(given, at).to_pylist()]
    canonical = [respell_id(spelling, kinds) or spelling for spelling in spellings]
    # cast: the stubs give the union of arrays and scalars.
    ids = cast("Column", pc.replace_with_mask(identity.ids, pa.array(by_id), texts(canonical)))
    return replace(identity, ids=ids), by_id


def mint_ids(given: Column, settled: Mask, ids: IdSource | None) -> Column:
    """The given ids, and new ones in rows that are not settled; without a source those are null."""
    if ids is None or settled.all():
        return given
    made = texts(ids.next_ulids(len(given) - int(np.count_nonzero(settled))))
    if len(made) == len(given):
        return made
    # cast: the stubs give the union of arrays and scalars.
    return cast("Column", pc.replace_with_mask(given, pa.array(~settled), made))


def respell_id(spelling: str, kinds: Sequence[PropType]) -> str | None:
    """The canonical id of the key that a text spells, or None if it spells none."""
    try:
        if len(kinds) == 1:
            return _respell(spelling, kinds[0])
        members = json.loads(spelling)
        if not isinstance(members, list) or len(members) != len(kinds):
            return None
        parts = [_respell(member, kind) for member, kind in zip(members, kinds, strict=True)]
    except (UnfitValue, ValueError, RecursionError):
        return None
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _respell(member: object, kind: PropType) -> str:
    if isinstance(member, str):
        return spell_key(read_spelling(member, kind), kind)
    return spell_key(read_json(member, kind, epoch_numbers=True), kind)


def read_spelling(text: str, kind: PropType) -> object:
    """The typed value that a text of an id spells.

    Raises:
        UnfitValue: it spells none of this type.
    """
    match kind.scalar:
        case Scalar.BOOL:
            return {"true": True, "false": False}[text] if text in ("true", "false") else text
        case Scalar.F32 | Scalar.F64:
            return fit_number(float(text), kind.scalar)
        case Scalar.DATE | Scalar.DATETIME if text.lstrip("-").isdecimal():
            return read_json(int(text), kind, epoch_numbers=True)
        case _:
            return read_json(text, kind)


def id_mismatch(
    item: NodeType | EdgeType, subject: Subject, *, given: str, canonical: str
) -> Violation:
    """A keyed node whose given id is not that of its key."""
    return Violation(
        code=Code.ID_MISMATCH,
        message=f"{item.name}.id: given '{shown(given)}', but the key makes it "
        f"'{shown(canonical)}'; leave the id out or correct it",
        kind=kind_of(item),
        type=item.name,
        properties=("id",),
        subject=subject,
        value=given,
        limit=canonical,
    )
