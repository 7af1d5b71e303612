"""What `language.md` says about a clause list, written down once more and naively.

Used to check the compiler against; it reads syntax trees and the catalog and shares no code with
the checker or the lowering.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.lang import Catalog
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import EdgeType


class NotAnEndpoint(Exception):
    """T5: a variable that is no endpoint of the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """A traversal with its edge, its direction seen from the left, and the types of its ends."""

    edge: str
    direction: str
    left_type: str
    right_type: str


def resolve_edge(catalog: Catalog, word: str) -> EdgeType:
    """The edge type of an edge word, ignoring case."""
    (found,) = [edge for name, edge in catalog.edge_types.items() if name.lower() == word.lower()]
    return found


def infer(
    catalog: Catalog, clauses: Iterable[ast.Clause], outer: Mapping[str, str]
) -> tuple[list[Inferred], dict[str, str]]:
    """The rules of §5.3 for one clause list: its traversals in order, and the types then known."""
    clauses = list(clauses)
    types = dict(outer)
    for clause in clauses:
        if isinstance(clause, ast.Binding):
            types[clause.var] = clause.type_name
    found = []
    for clause in clauses:
        if isinstance(clause, ast.Traversal):
            edge = resolve_edge(catalog, clause.edge_word)
            direction = _direction(clause, edge, types)
            ends = (edge.from_type, edge.to_type)
            left, right = ends if direction == "out" else (ends[1], ends[0])
            for name, kind in ((clause.left, left), (clause.right, right)):
                if name != "_" and types.setdefault(name, kind) != kind:
                    raise NotAnEndpoint(name)
            found.append(
                Inferred(
                    edge=edge.name,
                    direction="both" if clause.undirected else direction,
                    left_type=left,
                    right_type=right,
                )
            )
    return found, types


def _direction(clause: ast.Traversal, edge: EdgeType, types: Mapping[str, str]) -> str:
    left = types.get(clause.left) if clause.left != "_" else None
    right = types.get(clause.right) if clause.right != "_" else None
    if left is not None:
        if left == edge.from_type:
            return "out"
        if left == edge.to_type:
            return "in"
        raise NotAnEndpoint(clause.left)
    if right is not None:
        if right == edge.to_type:
            return "out"
        if right == edge.from_type:
            return "in"
        raise NotAnEndpoint(clause.right)
    return "out"


def walk_keys(
    catalog: Catalog, clauses: Iterable[ast.Clause], outer: Mapping[str, str]
) -> Counter[object]:
    """What identifies each traversal: edge, hops, edge variable, source, target; `_` anonymous."""
    clauses = list(clauses)
    inferred, _ = infer(catalog, clauses, outer)
    walks = [clause for clause in clauses if isinstance(clause, ast.Traversal)]
    return Counter(
        walk_key(
            found.edge,
            (_number(walk.min_hops), _number(walk.max_hops)),
            walk.edge_var if walk.edge_var != "_" else None,
            found.direction,
            (walk.left, walk.right),
        )
        for walk, found in zip(walks, inferred, strict=True)
    )


def walk_key(
    edge: str,
    hops: tuple[int, int],
    edge_var: str | None,
    direction: str,
    ends: tuple[str, str],
) -> object:
    """A traversal seen from its edge: a walk `in` from `a` is the walk `out` from the other end."""
    if direction == "both":
        return edge, hops, edge_var, "both", tuple(sorted(ends))
    return edge, hops, edge_var, "one", ends if direction == "out" else (ends[1], ends[0])


def components(clauses: Iterable[ast.Clause]) -> list[list[str]]:
    """Variables joined by traversals, each group by first appearance; `$_` joins nothing."""
    groups: list[list[str]] = []
    for clause in clauses:
        if isinstance(clause, ast.Binding):
            names = [clause.var]
        elif isinstance(clause, ast.Traversal):
            names = [name for name in (clause.left, clause.right) if name != "_"]
            if not names:
                groups.append([])
        else:
            continue
        touched = [group for group in groups if set(group) & set(names)]
        groups = [group for group in groups if group not in touched]
        merged = [name for group in touched for name in group] + names
        if merged:
            groups.append(list(dict.fromkeys(merged)))
    return groups


def filter_count(clauses: Iterable[ast.Clause]) -> int:
    """How many filters a clause list states: property matches, comparisons and text calls."""
    total = 0
    for clause in clauses:
        if isinstance(clause, ast.Binding):
            total += len(clause.matches)
        elif isinstance(clause, ast.Comparison | ast.CallClause):
            total += 1
    return total


def _number(count: int | ast.Var | None) -> int:
    return count if isinstance(count, int) else 0
