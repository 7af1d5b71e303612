"""The indexes of a table: their names, what they cover, and the segments that are built.

Building writes files and commits nothing. Fragments that no segment covers are always answered
correctly, so an index may lag; a segment that covers the wrong rows revives old values, so segments
are added only for rows that were never updated nor moved, and everything else is built anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from lance.dataset import Index

from omnigraph.storage.handles import own_object
from omnigraph.storage.layout import column_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance import LanceDataset

    from omnigraph.storage.handles import TableLayout

TEXT_ANALYZER: Mapping[str, Any] = {
    "base_tokenizer": "simple",
    "language": "English",
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
    "max_token_length": 40,
    "with_position": True,
}
"""The one text analyzer: index and query go through it, so no caller spells out its parts."""

Centroids: TypeAlias = "pa.FixedSizeListArray[pa.FloatScalar]"
"""Of the partitions of a vector index."""

METRIC: Final = "cosine"
"""How far apart vectors are."""

_SAMPLED_PER_PARTITION: Final = 256
"""Vectors that Lance looks at to find the centroid of one, where it chooses itself."""


class IndexKind(StrEnum):
    """The kinds that are built."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """One index that a table should have."""

    property_name: str
    kind: IndexKind
    is_trained: bool = True
    """Untrained, an index covers no row and only tells how text is analyzed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCoverage:
    """An index that a table has."""

    name: str
    property_name: str | None
    """`None` if the property was dropped."""

    kind: str
    segments: int
    fragments: frozenset[int]
    """The live fragments that it covers."""

    rows_covered: int
    rows: int

    @property
    def is_complete(self) -> bool:
        """Every row is covered."""
        return self.rows_covered >= self.rows


def index_name(layout: TableLayout, spec: IndexSpec) -> str:
    """The name of an index, which outlives every rename of its property."""
    if spec.property_name in layout.system_columns:
        return f"ix_{spec.property_name}"
    return f"ix_{layout.property_ids[spec.property_name]}_{spec.kind.lower()}"


def text_specs(layout: TableLayout) -> list[IndexSpec]:
    """The text indexes that a table has from its birth, without training."""
    return [
        IndexSpec(property_name=name, kind=IndexKind.INVERTED, is_trained=False)
        for name in layout.text_indexes
    ]


def unwanted_indexes(
    layout: TableLayout, specs: Iterable[IndexSpec], names: Iterable[str]
) -> frozenset[str]:
    """Those of the names that neither the wanted indexes have nor the text indexes of a layout."""
    wanted = {index_name(layout, spec) for spec in (*specs, *text_specs(layout))}
    return frozenset(names) - wanted


def build_segment(
    dataset: LanceDataset,
    layout: TableLayout,
    spec: IndexSpec,
    fragments: Iterable[int],
    options: Mapping[str, Any],
    *,
    is_part: bool = False,
) -> Index:
    """Writes one segment over these fragments and commits nothing; finished, unless it is a part.

    A part of a text index is finished by merging it with the others.

    Any: what Lance takes for the kind of index.
    """
    raw = own_object(dataset).create_index_uncommitted(
        column_of(layout, spec.property_name),
        spec.kind.value,
        name=index_name(layout, spec),
        replace=True,
        train=spec.is_trained,
        fragment_ids=sorted(fragments) if spec.is_trained else [],
        **(TEXT_ANALYZER if spec.kind is IndexKind.INVERTED else options),
    )
    if spec.kind is IndexKind.INVERTED and not is_part:
        # As returned it cannot be searched: the first query misses its `tokens.lance`.
        return merge_segments(dataset, [raw])
    return raw


def merge_segments(dataset: LanceDataset, segments: Sequence[Index]) -> Index:
    """Writes one segment in place of several that nothing names yet, and commits nothing.

    Those of a vector index were built with the same centroids.
    """
    return own_object(dataset).merge_existing_index_segments(list(segments))


def train_centroids(
    dataset: LanceDataset, layout: TableLayout, spec: IndexSpec, partitions: int
) -> Centroids:
    """The centroids of the partitions of a vector index, from a sample; writes nothing."""
    from lance.indices import IndicesBuilder

    rows = dataset.count_rows()
    model = IndicesBuilder(dataset, column_of(layout, spec.property_name)).train_ivf(
        partitions,
        distance_type=METRIC,
        # More than there are is refused.
        sample_rate=max(2, min(_SAMPLED_PER_PARTITION, rows // partitions)),
    )
    if not isinstance(model.centroids, pa.FixedSizeListArray):
        raise TypeError(f"centroids are {type(model.centroids).__name__}")
    return model.centroids


def segments_of(dataset: LanceDataset, name: str) -> list[Index]:
    """The committed segments of an index, in the form that a transaction removes."""
    return [
        Index(
            uuid=segment.uuid,
            name=description.name,
            fields=description.fields,
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
            created_at=segment.created_at,
            base_id=segment.base_id,
        )
        for description in dataset.describe_indices()
        if description.name == name
        for segment in description.segments
    ]


def coverage(dataset: LanceDataset, layout: TableLayout) -> list[IndexCoverage]:
    """The indexes of a table and the part of it that they cover, by name."""
    rows_of = {
        fragment.fragment_id: fragment.metadata.num_rows for fragment in dataset.get_fragments()
    }
    by_column = {column_of(layout, name): name for name in layout.schema.names}
    indexes = []
    for description in dataset.describe_indices():
        listed = {
            fragment_id for segment in description.segments for fragment_id in segment.fragment_ids
        }
        live = listed & rows_of.keys()
        indexes.append(
            IndexCoverage(
                name=description.name,
                property_name=by_column.get(description.field_names[0]),
                kind=description.index_type,
                segments=len(description.segments),
                fragments=frozenset(live),
                rows_covered=sum(rows_of[fragment_id] for fragment_id in live),
                rows=sum(rows_of.values()),
            )
        )
    return sorted(indexes, key=lambda index: index.name)


def has_index(dataset: LanceDataset, layout: TableLayout, name: str, kind: IndexKind) -> bool:
    """Whether a property has an index of this kind."""
    wanted = index_name(layout, IndexSpec(property_name=name, kind=kind))
    return any(description.name == wanted for description in dataset.describe_indices())


def fragment_ids(dataset: LanceDataset) -> list[int]:
    """The fragments of a version."""
    return [fragment.fragment_id for fragment in dataset.get_fragments()]


def unused_fragment_id(dataset: LanceDataset) -> int:
    """A number above every fragment of the version and above all that an index still lists."""
    listed = {
        fragment
        for description in dataset.describe_indices()
        for segment in description.segments
        for fragment in segment.fragment_ids
    }
    return max(listed | set(fragment_ids(dataset)), default=-1) + 1


def removed_by(dataset: LanceDataset, names: Sequence[str]) -> list[Index]:
    """Every segment of these indexes."""
    return [segment for name in names for segment in segments_of(dataset, name)]
