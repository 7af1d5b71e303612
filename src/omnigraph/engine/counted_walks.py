"""Walks of which only the number matters: they are counted from their far ends, and bind no rows.

Where nothing reads the end of a walk but further walks of this kind, a row need not be repeated for
each of its walks: it is weighed by how many there are. So three hops over a million edges cost
three passes over the edges, however many walks they are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.lang import ir
from omnigraph.lang.ir_parts import filters_of, sides_of, variables_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet


@dataclass(frozen=True, slots=True)
class CountedWalk:
    """A walk whose ends are only counted, and the walks that begin at its ends."""

    op: ir.Expand
    further: tuple[CountedWalk, ...] = ()

    def ops(self) -> Iterator[ir.Expand]:
        """Its operators, the nearest one first."""
        yield self.op
        for walk in self.further:
            yield from walk.ops()


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Before a walk from `src_var`: what of its rows anybody still looks at."""

    src_var: str
    live: AbstractSet[str]


Step: TypeAlias = ir.Op | CountedWalk | Narrowing

_NEVER_FAILS = frozenset(
    {
        ir.ValueFunc.CONCAT,
        ir.ValueFunc.LOWER,
        ir.ValueFunc.UPPER,
        ir.ValueFunc.TRIM,
        ir.ValueFunc.LENGTH,
        ir.ValueFunc.YEAR,
        ir.ValueFunc.MONTH,
        ir.ValueFunc.DAY,
        ir.ValueFunc.HOUR,
    }
)
"""What computes a value of any others; of numbers the rest may leave its range."""


def steps_of(ops: Sequence[ir.Op], read: AbstractSet[str]) -> Sequence[Step]:
    """The operators where only the number of rows matters, but for what `read` names.

    Walks that are only counted are one step each, where the first of their hops stood; before any
    other walk stands what is still looked at, if something is not.
    """
    walks = counted_walks(ops, read)
    steps: list[Step] = []
    bound: set[str] = set()
    for place, op in enumerate(ops):
        if place in walks:
            walk = walks[place]
            steps += [] if walk is None else [walk]
            continue
        if isinstance(op, ir.Expand):
            live = mentioned(ops[place:]) | read
            steps += [] if bound <= live else [Narrowing(op.src_var, live)]
        bound |= bound_by(op)
        steps.append(op)
    return steps


def counted_walks(ops: Sequence[ir.Op], read: AbstractSet[str]) -> Mapping[int, CountedWalk | None]:
    """By the place of an operator: the walk that begins there, or `None` if it is part of another.

    Operators of any other kind are left out. `read` are the variables that something beyond these
    operators looks at.
    """
    readers = _readers(ops)
    counted: dict[int, CountedWalk] = {}
    for place in range(len(ops) - 1, -1, -1):
        op = ops[place]
        if isinstance(op, ir.Expand) and op.dst_var not in read and _may_be_counted(op):
            after = readers[op.dst_var]
            if all(each in counted for each in after):
                counted[place] = CountedWalk(op, tuple(counted[each] for each in after))
    inner = {each for walk in counted.values() for each in readers[walk.op.dst_var]}
    return {place: None if place in inner else walk for place, walk in counted.items()}


def bound_by(op: ir.Op) -> set[str]:
    """The variables that an operator binds."""
    match op:
        case ir.NodeScan(var):
            return {var}
        case ir.Expand():
            return {name for name in (op.dst_var, op.edge_var, op.walk_var) if name is not None}
        case ir.Optional():
            return set(op.vars)
        case _:
            return set()


def _may_be_counted(op: ir.Expand) -> bool:
    """Nothing is told of the walk, and its end is judged by what it is itself.

    To count, ends are judged that no row leads to, which must not fail for them.
    """
    is_plain = op.edge_var is None and op.walk_var is None
    is_own = variables_of(op.dst_filters) <= {op.dst_var}
    return is_plain and is_own and not _test_may_fail([op])


def _test_may_fail(ops: Iterable[ir.Op]) -> bool:
    """Whether a value that operators test may leave its range, in blocks too."""
    return any(
        any(_may_fail(side) for item in filters_of(op) for side in sides_of(item))
        or (isinstance(op, ir.Join) and _test_may_fail(op.inner))
        for op in ops
    )


def _may_fail(expr: ir.Expr) -> bool:
    match expr:
        case ir.Computed(func, args, kind):
            is_number = kind.scalar.is_numeric and func not in _NEVER_FAILS
            return is_number or any(map(_may_fail, args))
        case ir.If(condition, then, otherwise, kind):
            parts = (*sides_of(condition), then, otherwise)
            return kind.scalar.is_numeric or any(map(_may_fail, parts))
        case ir.CountOf(inner):
            return _test_may_fail(inner)
        case _:
            return False


def _readers(ops: Sequence[ir.Op]) -> Mapping[str, Sequence[int]]:
    """By variable, the operators that look at it; one that binds it alone does not."""
    readers: dict[str, list[int]] = defaultdict(list)
    for place, op in enumerate(ops):
        for name in mentioned([op]):
            readers[name].append(place)
    return readers


def mentioned(ops: Iterable[ir.Op]) -> set[str]:
    """The variables that operators begin at or test; the own filters of a new one do not count."""
    names: set[str] = set()
    for op in ops:
        tested = variables_of(filters_of(op))
        match op:
            case ir.NodeScan(var):
                names |= tested - {var}
            case ir.Expand():
                names |= {op.src_var} | tested - {op.dst_var}
            case ir.Where():
                names |= tested
            case _:
                names |= set(op.outer_vars)
    return names
