"""The rules across rows, checks 5 to 7, as data: listed once, executed by both executors.

| check | rule | says | asks committed rows |
|---|---|---|---|
| 5 | `NewIdRule` | a strictly inserted id is not committed | which ids exist |
| 5 | `UniqueRule` | no two records share a tuple of `@key` or `@unique` | who holds the tuples |
| 6 | `EndRule` | a written edge has the node at its start, or end | which nodes exist |
| 6 | `KeptEndRule` | a committed edge keeps that node | which edges are at nodes that go |
| 7 | `CardinalityRule` | a touched source has as many edges as it may | edges of the sources |

`list_rules` makes the list from the catalog and the types that a write touches, in the order of
reporting. A rule names the columns that it compares, in `asked` the type whose committed rows it
asks, and with `violation` what is said about a row that breaks it. How rows are compared is the
business of who executes the list: `evaluator.rule_findings` over Arrow columns in one process,
`omnigraph.pipeline.checks.join_checks` by joins on Spark. Each takes a rule apart with `match` over
the closed union `RelationRule`, so a new kind of rule does not pass the type check before both know
it. Neither makes a rule, a text or a question of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, get_args

from omnigraph.graph.validation.committed import Endpoint
from omnigraph.graph.validation.violation import (
    Code,
    EntityKind,
    Shown,
    Subject,
    Violation,
    cardinality_violation,
    key_conflict,
    kind_of,
    orphan_edge,
    unique_violation,
)
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.types import STRING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.lang.catalog import Catalog
    from omnigraph.lang.types import PropType

ENDPOINTS: Final[tuple[Endpoint, ...]] = get_args(Endpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIdRule:
    """Rows that are strictly inserted have ids that are not committed."""

    code: ClassVar[Code] = Code.KEY_CONFLICT
    item: NodeType | EdgeType

    @property
    def asked(self) -> NodeType | EdgeType:
        """The type whose committed rows are asked."""
        return self.item

    def violation(self, subject: Subject) -> Violation:
        """A row whose id is committed."""
        return key_conflict(self.item, subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueRule:
    """No two records hold the same tuple, all members of which are given."""

    code: ClassVar[Code] = Code.UNIQUE_VIOLATION
    item: NodeType | EdgeType
    names: tuple[str, ...]
    place: int
    """Position among the unique tuples of the type; 0 is the key, or the id where there is none."""

    @property
    def is_identity(self) -> bool:
        """The tuple is the id, or what the id is made of."""
        return self.place == 0

    @property
    def asked(self) -> NodeType | EdgeType | None:
        """The type whose committed rows are asked.

        The id is a function of the key, so a committed row with the same key is the same row, and
        nobody is asked.
        """
        return None if self.is_identity else self.item

    @property
    def kinds(self) -> list[PropType]:
        """The types of the members."""
        return member_kinds(self.item, self.names)

    def violation(self, subject: Subject, *, values: Sequence[Shown], held_by: str) -> Violation:
        """A row whose tuple another one has already."""
        return unique_violation(
            self.item, self.names, subject, values=values, held_by=held_by, place=self.place
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRule:
    """Edges that the write leaves join nodes of the final image, here at one of their ends."""

    code: ClassVar[Code] = Code.ORPHAN_EDGE
    item: EdgeType
    endpoint: Endpoint
    node: NodeType

    @property
    def asked(self) -> NodeType:
        """The type whose committed rows are asked."""
        return self.node

    def violation(self, subject: Subject, *, node_id: str) -> Violation:
        """An edge without its node."""
        return orphan_edge(self.item, self.endpoint, subject, node_id=node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEndRule:
    """Committed edges that stay keep the node at one of their ends; no row is to blame."""

    code: ClassVar[Code] = Code.ORPHAN_EDGE
    item: EdgeType
    endpoint: Endpoint
    node: NodeType

    @property
    def asked(self) -> EdgeType:
        """The type whose committed rows are asked."""
        return self.item

    def violation(self, subject: Subject, *, node_id: str) -> Violation:
        """An edge whose node goes away."""
        return orphan_edge(self.item, self.endpoint, subject, node_id=node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardinalityRule:
    """Sources that gain, lose or move edges have at least `low` and at most `high` of them."""

    code: ClassVar[Code] = Code.CARDINALITY_VIOLATION
    item: EdgeType
    node: NodeType
    """The type of the sources."""

    @property
    def low(self) -> int:
        """How many edges a source has at least."""
        return self.item.card[0]

    @property
    def high(self) -> int | None:
        """How many edges a source has at most; `None` for any number."""
        return self.item.card[1]

    @property
    def asked(self) -> EdgeType:
        """The type whose committed rows are asked."""
        return self.item

    def violation(self, source: str, *, edges: int) -> Violation:
        """A source with too many or too few edges."""
        return cardinality_violation(self.item, source, edges=edges)


KeyRule: TypeAlias = NewIdRule | UniqueRule
EndpointRule: TypeAlias = EndRule | KeptEndRule
RelationRule: TypeAlias = KeyRule | EndpointRule | CardinalityRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleList:
    """The rules of one write, by check; each in the order of reporting."""

    keys: tuple[KeyRule, ...]
    """Check 5."""
    endpoints: tuple[EndpointRule, ...]
    """Check 6."""
    cardinality: tuple[CardinalityRule, ...]
    """Check 7."""

    def __iter__(self) -> Iterator[RelationRule]:
        """All of them, one check after the other."""
        yield from self.keys
        yield from self.endpoints
        yield from self.cardinality


def list_rules(catalog: Catalog, touched: Iterable[NodeType | EdgeType]) -> RuleList:
    """What a write that touches the tables of these types has to keep."""
    items = sorted(touched, key=table_order)
    edges = [item for item in items if isinstance(item, EdgeType)]
    return RuleList(
        keys=tuple(rule for item in items for rule in _key_rules(item)),
        endpoints=tuple(_endpoint_rules(catalog, {table_order(item) for item in items})),
        cardinality=tuple(
            CardinalityRule(item=item, node=catalog.node_types[item.from_type])
            for item in edges
            if item.card != (0, None)
        ),
    )


def _key_rules(item: NodeType | EdgeType) -> tuple[KeyRule, ...]:
    return (NewIdRule(item=item), *unique_rules(item))


def unique_rules(item: NodeType | EdgeType) -> tuple[UniqueRule, ...]:
    """The unique tuples of a type: the key, or the id where there is none, and each `@unique`."""
    key = item.key if isinstance(item, NodeType) else None
    declared = tuple(
        UniqueRule(item=item, names=names, place=place)
        for place, names in enumerate(item.unique, start=1)
        if names != key
    )
    return (UniqueRule(item=item, names=key or ("id",), place=0), *declared)


def _endpoint_rules(catalog: Catalog, touched: set[tuple[bool, str]]) -> Iterator[EndpointRule]:
    for item in sorted(catalog.edge_types.values(), key=table_order):
        for endpoint in ENDPOINTS:
            node = catalog.node_types[item.from_type if endpoint == "src" else item.to_type]
            if table_order(item) in touched:
                yield EndRule(item=item, endpoint=endpoint, node=node)
            if table_order(node) in touched:
                yield KeptEndRule(item=item, endpoint=endpoint, node=node)


def table_order(item: NodeType | EdgeType) -> tuple[bool, str]:
    """The place of a table in the order of reporting: by kind (node, edge), then name."""
    return kind_of(item) is EntityKind.EDGE, item.name


def compared_columns(item: NodeType | EdgeType) -> list[str]:
    """The columns of a table that the rules of any write compare, `id` first."""
    names = ["id", *(ENDPOINTS if isinstance(item, EdgeType) else ())]
    members = (name for rule in unique_rules(item) for name in rule.names)
    return list(dict.fromkeys([*names, *members]))


def member_kinds(item: NodeType | EdgeType, names: Iterable[str]) -> list[PropType]:
    """The types of properties, or of columns that every row of a type has, which are texts."""
    return [item.properties[name].type if name in item.properties else STRING for name in names]
