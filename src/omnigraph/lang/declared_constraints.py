"""Constraints of a type as plain values that two schemas can be compared by."""

from collections.abc import Iterator

from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.renames import Renames

DeclaredConstraint = tuple[str, str | None, tuple[object, ...]]
"""Word, property if it has exactly one, and arguments, in desired names."""


def node_constraints(item: NodeType, names: Renames | None) -> frozenset[DeclaredConstraint]:
    """`@unique`, `@range` and `@check` of a node type; `names` translates old names."""
    return frozenset(
        (
            *_unique_constraints(item, names),
            *(
                ("range", _current(entry.property, names), (entry.low, entry.high))
                for entry in item.ranges
            ),
            *(
                ("check", _current(entry.property, names), (entry.pattern,))
                for entry in item.checks
            ),
        )
    )


def edge_constraints(item: EdgeType, names: Renames | None) -> frozenset[DeclaredConstraint]:
    """`@unique` and `@card` of an edge type; `names` translates old names."""
    card: tuple[DeclaredConstraint, ...] = (
        () if item.card == (0, None) else (("card", None, item.card),)
    )
    return frozenset((*_unique_constraints(item, names), *card))


def _unique_constraints(
    item: NodeType | EdgeType, names: Renames | None
) -> Iterator[DeclaredConstraint]:
    for row in item.unique:
        current = tuple(sorted(_current(name, names) for name in row))
        yield "unique", current[0] if len(current) == 1 else None, current


def _current(name: str, names: Renames | None) -> str:
    return name if names is None else names.current(name)


def constrained_properties(constraint: DeclaredConstraint) -> set[str]:
    """The properties that a constraint is about; none for a cardinality."""
    word, name, args = constraint
    if name is not None:
        return {name}
    return {str(arg) for arg in args} if word == "unique" else set()


def implies(old: DeclaredConstraint, new: DeclaredConstraint) -> bool:
    """Rows that keep `old` keep `new` too: bounds of the same kind that only became wider."""
    match old, new:
        case (
            (("range" | "card") as word, name, (old_low, old_high)),
            (new_word, new_name, (new_low, new_high)),
        ) if word == new_word and name == new_name:
            return _reaches(new_low, old_low, -1) and _reaches(new_high, old_high, 1)
    return False


def _reaches(new: object, old: object, sign: int) -> bool:
    """The new bound lies as far out as the old one; None is open."""
    if new is None:
        return True
    if not isinstance(new, int | float) or not isinstance(old, int | float):
        return False
    return sign * new >= sign * old


def spell_constraint(constraint: DeclaredConstraint) -> str:
    """The constraint as one would write it."""
    word, name, args = constraint
    match word, args:
        case "required", _:
            return f"{name} is required"
        case "range", (low, high):
            return f"@range({name}, {'' if low is None else low}..{'' if high is None else high})"
        case "card", (low, high):
            return f"@card({low}..{'' if high is None else high})"
        case "check", (pattern,):
            return f'@check({name}, "{pattern}")'
        case _:
            return f"@{word}({', '.join(str(arg) for arg in args)})"
