"""Documents with vectors, and the order that the formulas of ranking give them."""

import math
from collections.abc import Mapping, Sequence

SCHEMA = """
node Doc {
  slug: String @key
  body: String? @index
  vec: Vector(3)? @index
  rank: I32? @index
}
node Author { name: String @key }
edge Wrote: Author -> Doc
edge Cites: Doc -> Doc
"""

Vector = Sequence[float]
Vectors = Mapping[str, Vector | None]


def distance(vector: Vector | None, query: Vector) -> float | None:
    """`1 - a·b/(|a||b|)` in double precision; nothing has no distance."""
    if vector is None:
        return None
    length = math.hypot(*vector)
    if not length:
        return None
    to = math.hypot(*query)
    return 1 - math.fsum((a / length) * (b / to) for a, b in zip(vector, query, strict=True))


def by_distance(vectors: Vectors, query: Vector) -> list[str]:
    """The ids of what has a distance, nearest first, then by id."""
    found = {each: distance(vector, query) for each, vector in vectors.items()}
    near = {each: value for each, value in found.items() if value is not None}
    return sorted(near, key=lambda each: (round(near[each], 12), each.encode()))
