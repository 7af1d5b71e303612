"""A seeded social graph: persons with a power-law acquaintance, companies, texts and vectors.

The same size and seed give the same tables. Nobody knows themselves and no pair is twice, so that
every system counts the same whatever it makes of loops and parallel edges. Who is known by many
also knows many, as among people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA: Final = """
node Person {
  handle: String @key
  num: I64 @index
  name: String
  city: String @index
  age: I32?
PROPERTIES}
node Company { slug: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Company @card(0..1)
"""
CITIES: Final = 50
DIMENSIONS: Final = 64
_WORDS: Final = 5_000
_WORDS_PER_BIO: Final = 20  # on average
_CLUSTERS: Final = 256
_CONSONANTS: Final = np.array(list("bdfgklmnprtvz"))
_VOWELS: Final = np.array(list("aiou"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is generated."""

    name: str
    persons: int
    knows: int
    is_searched: bool
    """Whether persons have a text and a vector."""

    @property
    def companies(self) -> int:
        """How many of them there are."""
        return max(5, self.persons // 500)

    @property
    def schema(self) -> str:
        """The schema of the graph, as `.pg` text."""
        searched = f"  bio: String @index\n  embedding: Vector({DIMENSIONS}) @index\n"
        return SCHEMA.replace("PROPERTIES", searched if self.is_searched else "")


SIZES: Final = {
    size.name: size
    for size in (
        Size(name="xs", persons=2_000, knows=20_000, is_searched=True),
        Size(name="s", persons=100_000, knows=1_000_000, is_searched=True),
        Size(name="m", persons=1_000_000, knows=10_000_000, is_searched=False),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The tables; edges have `src` and `dst`, the keys of their nodes."""

    persons: pa.Table
    companies: pa.Table
    knows: pa.Table
    works_at: pa.Table


def generate(size: Size, seed: int = 1) -> People:
    """The graph of a size; it holds everything in memory."""
    rng = np.random.default_rng(seed)
    handles = _handles("p", size.persons)
    slugs = _handles("c", size.companies)
    src, dst = _pairs(rng, size)
    workers = np.flatnonzero(rng.random(size.persons) < 0.7)
    places = rng.integers(0, size.companies, len(workers))
    return People(
        persons=_persons(rng, size, handles),
        companies=pa.table({"slug": slugs}),
        knows=pa.table({"src": handles.take(src), "dst": handles.take(dst)}),
        works_at=pa.table({"src": handles.take(workers), "dst": slugs.take(places)}),
    )


def _handles(letter: str, count: int) -> pa.StringArray:
    return pa.array([f"{letter}{number:07d}" for number in range(count)])


def _pairs(rng: np.random.Generator, size: Size) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct pairs of persons, those of low rank in many of them, in random order."""
    rank = rng.permutation(size.persons) + 1.0
    knowing, known = np.cumsum(rank**-0.5), np.cumsum(rank**-0.6)
    found: NDArray[np.int64] = np.empty(0, np.int64)
    while len(found) < size.knows:
        count = int((size.knows - len(found)) * 1.2) + 1_000
        src = np.searchsorted(knowing, rng.random(count) * knowing[-1], side="right")
        dst = np.searchsorted(known, rng.random(count) * known[-1], side="right")
        codes = (src * size.persons + dst)[src != dst]
        found = np.unique(np.concatenate([found, codes]))
    chosen = rng.permutation(found)[: size.knows]
    return chosen // size.persons, chosen % size.persons


def _persons(rng: np.random.Generator, size: Size, handles: pa.StringArray) -> pa.Table:
    words = vocabulary(rng)
    ages = rng.integers(18, 90, size.persons).astype(np.int32)
    names = words.to_numpy(zero_copy_only=False).astype(object)
    first, last = (names[rng.integers(0, len(names), size.persons)] for _ in range(2))
    cities = pc.utf8_capitalize(words.slice(0, CITIES))
    columns: dict[str, pa.Array[pa.Scalar[pa.DataType]]] = {
        "handle": handles,
        "num": pa.array(np.arange(size.persons)),
        "name": pa.array(first + " " + last),
        "city": _skewed(rng, cities, size.persons),
        "age": pa.array(ages, mask=rng.random(size.persons) < 0.05),
    }
    if size.is_searched:
        columns["bio"] = _texts(rng, words, size.persons)
        columns["embedding"] = _vectors(rng, size.persons)
    return pa.table(columns)


def vocabulary(rng: np.random.Generator) -> pa.StringArray:
    """Words of three syllables, which no list of stop words has."""
    parts = [
        part
        for _ in range(3)
        for part in (rng.choice(_CONSONANTS, _WORDS * 2), rng.choice(_VOWELS, _WORDS * 2))
    ]
    spelt = ["".join(letters) for letters in zip(*parts, strict=True)]
    return pa.array(list(dict.fromkeys(spelt))[:_WORDS])


def _skewed(rng: np.random.Generator, of: pa.StringArray, count: int) -> pa.StringArray:
    """Values of which the first are by far the most frequent."""
    weights = np.cumsum(np.arange(1, len(of) + 1.0) ** -0.7)
    places = np.searchsorted(weights, rng.random(count) * weights[-1], side="right")
    return of.take(places)


def _texts(rng: np.random.Generator, words: pa.StringArray, count: int) -> pa.StringArray:
    """Texts of many lengths: with one length, half of all scores would be equal."""
    ends = np.cumsum(rng.integers(_WORDS_PER_BIO // 2, _WORDS_PER_BIO * 3 // 2 + 1, count))
    spelt = _skewed(rng, words, int(ends[-1])).to_pylist()
    starts = [0, *ends[:-1].tolist()]
    return pa.array(
        [
            " ".join(map(str, spelt[start:end]))
            for start, end in zip(starts, ends.tolist(), strict=True)
        ]
    )


def _vectors(rng: np.random.Generator, count: int) -> pa.Array[Any]:
    """Vectors in clusters that overlap, as those of a language model do."""
    centres = rng.standard_normal((_CLUSTERS, DIMENSIONS), dtype=np.float32)
    of = rng.integers(0, _CLUSTERS, count)
    noise = rng.standard_normal((count, DIMENSIONS), dtype=np.float32)
    found = centres[of] + noise * np.float32(0.6)
    return pa.FixedSizeListArray.from_arrays(pa.array(found.ravel()), DIMENSIONS)
