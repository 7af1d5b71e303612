"""Whether the indexes of a table find rows that they cover, by a sample of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.predicates import In

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.indexes import IndexCoverage
    from omnigraph.storage.table_store import TableStorage

_FRAGMENTS: Final = 8
_ROWS: Final = 4
_FEW: Final = 8
"""Of searches, which ask one by one."""

_DEEPER: Final = 16
_NEAR: Final = 1e-3


def lying_indexes(
    store: TableStorage, handle: TableHandle, *, deep: bool
) -> Iterator[tuple[str, int]]:
    """The indexes that miss rows of the sample, and how many they miss."""
    for index in store.index_coverage(handle):
        name = index.property_name
        if name is None or not index.fragments:
            continue
        sample = _sample(store, handle, index, name, deep=deep)
        if not sample.num_rows:
            continue
        missed = len(_expected(store, index, name, sample) - _found(store, handle, index, sample))
        if missed:
            yield index.name, missed


def _sample(
    store: TableStorage, handle: TableHandle, index: IndexCoverage, name: str, *, deep: bool
) -> pa.Table:
    """Rows of some fragments, spread over those that the index covers."""
    covered = sorted(index.fragments)
    many = _FRAGMENTS * (_DEEPER if deep else 1)
    chosen = [covered[int(at)] for at in np.linspace(0, len(covered) - 1, min(many, len(covered)))]
    columns = list(dict.fromkeys(["id", name]))
    parts = [
        store.scan(
            handle,
            columns=columns,
            fragments=[number],
            limit=_ROWS * (_DEEPER if deep else 1),
        ).read_all()
        for number in dict.fromkeys(chosen)
    ]
    rows = pa.concat_tables(parts)
    return rows.filter(rows[name].is_valid())


def _expected(
    store: TableStorage, index: IndexCoverage, name: str, sample: pa.Table
) -> set[tuple[str, str]]:
    """Per question the rows of the sample that answer it, found without an index."""
    ids = [str(each) for each in sample["id"].to_pylist()]
    if index.kind == "Inverted":
        few = sample.slice(0, _FEW)
        texts = few[name].combine_chunks()
        held = store.ephemeral_text(few["id"].combine_chunks(), texts)
        return {
            (str(text), str(found))
            for text in texts.to_pylist()
            for found in held.search(str(text))["id"].to_pylist()
        }
    if index.kind.startswith("IVF"):
        vectors = sample.slice(0, _FEW)[name].to_pylist()
        return {
            (each, each)
            for each, vector in zip(ids, vectors, strict=False)
            if vector is not None and any(vector)
        }
    return {(each, each) for each in ids}


def _found(
    store: TableStorage, handle: TableHandle, index: IndexCoverage, sample: pa.Table
) -> set[tuple[str, str]]:
    """What the table answers to the same questions."""
    name = str(index.property_name)
    if index.kind == "Inverted":
        few = sample.slice(0, _FEW)
        return {
            (str(text), str(found))
            for text in few[name].to_pylist()
            for found in _among(store.search_text(handle, name, str(text)), few)
        }
    if index.kind.startswith("IVF"):
        return _found_vectors(store, handle, name, sample.slice(0, _FEW))
    if name == "id":
        found = store.existing_ids(handle, sample["id"].combine_chunks()).to_pylist()
    else:
        wanted = In(name, sample[name].combine_chunks().unique())
        found = store.scan(handle, columns=["id"], predicate=wanted).read_all()["id"].to_pylist()
    return {(str(each), str(each)) for each in found}


def _among(found: pa.Table, sample: pa.Table) -> list[str | None]:
    """Those of the ids found that belong to the sample: a common word finds very many."""
    ids = found["id"].combine_chunks()
    wanted = pc.is_in(ids, value_set=sample["id"].combine_chunks())
    return ids.filter(wanted).to_pylist()


def _found_vectors(
    store: TableStorage, handle: TableHandle, name: str, sample: pa.Table
) -> set[tuple[str, str]]:
    """The rows whose own vector leads to something that is as good as equal to it."""
    found = set()
    for row in sample.to_pylist():
        vector = row[name]
        if not any(vector):
            continue
        nearest = store.search_vector(handle, name, vector, 1, is_exact=False)
        distances = nearest.drop_columns(["id"]).columns[0].to_pylist()
        if distances and float(distances[0] or 0.0) < _NEAR:
            found.add((row["id"], row["id"]))
    return found
