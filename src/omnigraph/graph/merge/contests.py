"""Entities that both sides changed, told one by one: kind, message, and values as far as they fit.

Very many conflicts, or very large ones, are counted and named; what the sides have is shown of the
first ones only, so that a refusal costs no more memory than a merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.graph.changes.images import images_of
from omnigraph.graph.changes.row_pairs import equal_forms
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind
from omnigraph.graph.validation.violation import kind_of
from omnigraph.storage.blobs import Blob

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.arrays import Ids, Mask
    from omnigraph.graph.changes.row_pairs import Form
    from omnigraph.lang import EdgeType, NodeType

MOST_IMAGE_BYTES: Final = 16 << 20
"""Values of conflicts are shown up to so many bytes of them."""
_PORTION: Final = 64


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Entities that both sides changed, otherwise each."""

    ids: Ids
    base: Form
    ours: Form
    theirs: Form

    @property
    def forms(self) -> tuple[Form, Form, Form]:
        """The three forms."""
        return self.base, self.ours, self.theirs

    @property
    def kinds(self) -> list[ConflictKind]:
        """Why each is contested."""
        was, mine, other = (form.side.exists for form in self.forms)
        kinds = np.where(mine & other, np.where(was, 1, 0), 2)
        words = (
            ConflictKind.DIVERGENT_INSERT,
            ConflictKind.DIVERGENT_UPDATE,
            ConflictKind.DELETE_VS_UPDATE,
        )
        return [words[kind] for kind in kinds.tolist()]

    def chosen(self, where: Mask) -> Contest:
        """Some of the entities."""
        base, ours, theirs = (form.chosen(where) for form in self.forms)
        return Contest(ids=self.ids.filter(pa.array(where)), base=base, ours=ours, theirs=theirs)

    def portions(self) -> Iterator[Contest]:
        """All of them, a few at a time."""
        places = np.arange(len(self.ids))
        for start in range(0, len(self.ids), _PORTION):
            yield self.chosen((places >= start) & (places < start + _PORTION))

    def size_bytes(self, item: NodeType | EdgeType) -> int:
        """What the three forms hold, blobs included."""
        blobs = (
            value
            for form in self.forms
            for name in item.blob_properties
            for value in form.blobs(name, form.side.exists)
        )
        held = sum(form.rows.nbytes for form in self.forms)
        return held + sum(value.length for value in blobs if isinstance(value, Blob))


class Story(Protocol):
    """Says what happened to a contested entity."""

    def __call__(self, kind: ConflictKind, names: Sequence[str], *, is_ours_gone: bool) -> str:
        """The end of a sentence about it.

        Args:
            kind: why it is contested.
            names: what the sides have otherwise.
            is_ours_gone: of a deletion, whether it was ours.
        """
        ...


def told_of_merge(kind: ConflictKind, names: Sequence[str], *, is_ours_gone: bool) -> str:
    """What the target and the source of a merge did to an entity."""
    if kind is ConflictKind.DELETE_VS_UPDATE:
        gone, kept = ("target", "source") if is_ours_gone else ("source", "target")
        return f"deleted on the {gone} and changed on the {kept}"
    verb = "inserted" if kind is ConflictKind.DIVERGENT_INSERT else "changed"
    return f"{verb} on both sides with different values of {', '.join(names)}"


def told_of_revert(kind: ConflictKind, names: Sequence[str], *, is_ours_gone: bool) -> str:
    """What a commit and later ones did to an entity: the commit is the base."""
    if kind is ConflictKind.DELETE_VS_UPDATE:
        if is_ours_gone:
            return "changed by the commit and deleted on the branch since"
        return "inserted by the commit and changed on the branch since"
    if kind is ConflictKind.DIVERGENT_INSERT:
        return (
            "deleted by the commit and inserted on the branch since, with other values of"
            f" {', '.join(names)}"
        )
    return (
        "changed by the commit and again on the branch since: its values before the commit and now"
        f" differ in {', '.join(names)}"
    )


class ContestTeller:
    """Makes conflicts of contested entities, with their values while these are few."""

    def __init__(self, story: Story = told_of_merge) -> None:
        """What happened is told by `story`."""
        self._story = story
        self._room_bytes = MOST_IMAGE_BYTES

    def tell(self, item: NodeType | EdgeType, contest: Contest) -> Iterator[Conflict]:
        """The conflicts, in the order of the entities."""
        for portion in contest.portions():
            if self._room_bytes > 0:
                self._room_bytes -= portion.size_bytes(item)
            yield from _conflicts(item, portion, self._story, with_images=self._room_bytes > 0)


def _conflicts(
    item: NodeType | EdgeType, contest: Contest, story: Story, *, with_images: bool
) -> Iterator[Conflict]:
    columns = [(name, name) for name in item.arrow_schema.names if name != "id"]
    wanted = None if with_images else np.zeros(len(contest.ids), np.bool_)
    sides = [images_of(form, item, columns, wanted) for form in contest.forms]
    kinds, names = contest.kinds, _differing(item, contest)
    for at, entity_id in enumerate(contest.ids.to_pylist()):
        base, ours, theirs = (images.get(at) for images in sides)
        what = story(kinds[at], names[at], is_ours_gone=not contest.ours.side.exists[at])
        yield Conflict(
            entity_kind=kind_of(item),
            type_name=item.name,
            entity_id=entity_id,
            kind=kinds[at],
            message=f"{item.name} {entity_id!r} was {what}",
            base=base,
            ours=ours,
            theirs=theirs,
        )


def _differing(item: NodeType | EdgeType, contest: Contest) -> list[list[str]]:
    """For each entity what the sides have otherwise, the ends of an edge as one."""
    found: list[list[str]] = [[] for _ in range(len(contest.ids))]
    both = contest.ours.side.exists & contest.theirs.side.exists
    for name in item.arrow_schema.names:
        if name == "id":
            continue
        shown = "its ends" if name not in item.properties else name
        differs = both & ~equal_forms(contest.ours, contest.theirs, [(name, name)])
        for at in np.flatnonzero(differs).tolist():
            if shown not in found[at]:
                found[at].append(shown)
    return found
