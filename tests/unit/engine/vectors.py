"""Documents with vectors, and the order that the formulas of ranking give them."""

import math
from collections.abc import Iterable, Mapping, Sequence

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


def fused(
    arms: Sequence[Sequence[str]], entities: Iterable[str], k: float = 60
) -> list[tuple[str, float]]:
    """Entities of two rankings with their scores, best first; those in neither are not there."""
    scores: dict[str, float] = {}
    for each in entities:
        if any(each in arm for arm in arms):
            scores[each] = sum(1 / (k + arm.index(each) + 1) for arm in arms if each in arm)

    def key(each: str) -> tuple[float, float, bytes]:
        first = arms[0].index(each) if each in arms[0] else math.inf
        return -scores[each], first, each.encode()

    return [(each, scores[each]) for each in sorted(scores, key=key)]


def spell(vector: Vector) -> str:
    """A vector as a literal of the language."""
    return "[" + ", ".join(f"{float(part):.60f}".rstrip("0") + "0" for part in vector) + "]"
