"""Small random graphs with everything that is easy to get wrong.

One seed is one graph. Few values, used often, so that comparisons and joins meet; the rest are
nulls and the ends of each type. Ids repeat across types and sort differently by UTF-8 and UTF-16.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from random import Random  # noqa: TID251 - seeded
from typing import Any

from tests.reference.comparison import nearest_f32
from tests.reference.evaluator import ReferenceGraph
from tests.reference.text import VOCABULARY

from omnigraph.lang import EdgeType, NodeType, PropType, Scalar

Row = dict[str, Any]

IDS = (
    *("a", "A", "b", "ab", "a b", "é", "e\u0301", "\uff5a", "😀", "z", "Ω", "10", "9", "0", "#0"),
    *("it's", 'say "x"', "back\\slash", "100%", "_", "null", "true", "a.b", "$a", "~"),
    *(f"n{number}" for number in range(15)),
)
TEXTS = (
    *("", "a", "A", "ab", "abc", "b", "é", "e\u0301", "z", "\uff5a", "😀", "%", "_", "a_b"),
    *("it's", 'say "x"', "back\\slash", "two\nlines", "100%", "n1"),
)
SINGLES = tuple(
    nearest_f32(Fraction(value))
    for value in (0.0, 0.1, 0.5, 1.0, 2.0, -1.5, 16777216.0, 3.4e38, 1e-45, 7.25)
)
POOLS: Mapping[Scalar, Sequence[Any]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: (True, False),
    Scalar.I32: (-(2**31), -1, 0, 1, 2, 7, 2**31 - 1),
    Scalar.I64: (-(2**63), -1, 0, 1, 2, 7, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1),
    Scalar.U32: (0, 1, 2, 7, 2**31, 2**32 - 1),
    Scalar.U64: (0, 1, 2, 7, 2**53 - 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1),
    Scalar.F32: SINGLES,
    # Large ones are all positive: sums that cancel out would test the order of adding.
    Scalar.F64: (0.0, 0.1, SINGLES[1], 0.5, 1.0, 2.0, -1.5, 2.0**53, 2.0**53 + 2, 2.0**63, 2.0**64),
    Scalar.DATE: (
        *(date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2000, 2, 29)),
        *(date(2012, 5, 17), date(9999, 12, 31)),
    ),
    Scalar.DATETIME: (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2000, 2, 29, 12, 30, 15, 1_000, tzinfo=UTC),
        datetime(2012, 5, 17, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    ),
}
_NODE_PROPERTIES = {
    "label": "String",
    "words": "String",
    "isOn": "Bool",
    "small": "I32",
    "count": "I64",
    "u32": "U32",
    "u64": "U64",
    "single": "F32",
    "amount": "F64",
    "date": "Date",
    "at": "DateTime",
    "level": "enum(zorb, quix, vuk)",
    "tags": "[String]",
    "ints": "[I64]",
    "uints": "[U64]",
    "singles": "[F32]",
    "doubles": "[F64]",
    "days": "[Date]",
    "moments": "[DateTime]",
    "flags": "[Bool]",
    "vec": "Vector(3)",
}
_EDGE_PROPERTIES = {
    "since": "Date",
    "weight": "F64",
    "rank": "I32",
    "note": "String",
    "isOn": "Bool",
    "u64": "U64",
    "single": "F32",
    "at": "DateTime",
    "level": "enum(quix, zorb)",
    "tags": "[String]",
}
_EDGES = {
    "Knows": ("Person", "Person"),
    "Parent": ("Team", "Team"),
    "MemberOf": ("Person", "Team"),
    "LedBy": ("Team", "Person"),
    "Wrote": ("Person", "Doc"),
    "Doc": ("Doc", "Doc"),
}
"""A node and an edge type may have one name."""


def generate_graph(seed: int) -> ReferenceGraph:
    """The graph of a seed."""
    rng = Random(f"graph {seed}")  # noqa: S311 - no secret
    maker = _Maker(rng=rng)
    graph = ReferenceGraph(schema=_schema(rng), nodes=maker.nodes, edges=maker.edges)
    for node in graph.catalog.node_types.values():
        maker.add_nodes(node)
    for edge in graph.catalog.edge_types.values():
        maker.add_edges(edge)
    return graph


def spell_id(node: NodeType, row: Mapping[str, Any]) -> str:
    """The id that the key of a row gives: keys here are a text, or a text and an integer."""
    spelled = [str(row[name]) for name in node.key or ()]
    if len(spelled) == 1:
        return spelled[0]
    return json.dumps(spelled, ensure_ascii=False, separators=(",", ":"))


def _schema(rng: Random) -> str:
    names = ["Person", "Team", "Doc"][: rng.choice((2, 3, 3))]
    parts = _with_interfaces({name: _node(rng, name) for name in names})
    for name, (source, target) in _EDGES.items():
        if source in names and target in names and (name == "Knows" or rng.random() < 0.8):
            body = " ".join(_properties(rng, _EDGE_PROPERTIES, share=0.6))
            parts.append(f"edge {name}: {source} -> {target} {{ {body} }}")
    return "\n".join(parts)


def _with_interfaces(nodes: Mapping[str, str]) -> list[str]:
    """The node types, and interfaces of what some of them have in common."""
    rng = Random("".join(nodes.values()))  # noqa: S311 - no secret
    implements: dict[str, list[str]] = {name: [] for name in nodes}
    parts = []
    for interface in ("Shared", "Other"):
        members = rng.sample(list(nodes), rng.choice((1, 2, len(nodes))))
        common = set.intersection(*(set(_DECLARED.findall(nodes[name])) for name in members))
        chosen = [each for each in sorted(common) if rng.random() < 0.8]
        if chosen:
            parts.append(f"interface {interface} {{ {' '.join(chosen)} }}")
            for name in members:
                implements[name].append(interface)
    for name, text in nodes.items():
        named = f" implements {', '.join(implements[name])}" if implements[name] else ""
        parts.append(text.replace(f"node {name}", f"node {name}{named}", 1))
    return parts


_DECLARED = re.compile(r"\w+: (?:enum\([^)]*\)|Vector\(\d+\)|\[\w+\]|\w+)\??")
"""A property and its type, without annotations."""


def _node(rng: Random, name: str) -> str:
    key = rng.choice(((), ("label",), ("label", "small")))
    rest = {each: kind for each, kind in _NODE_PROPERTIES.items() if each not in key}
    body = [f"{each}: {_NODE_PROPERTIES[each]}" for each in key]
    body += _properties(rng, rest, share=0.75)
    if key:
        body.append(f"@key({', '.join(key)})")
    return f"node {name} {{ {' '.join(body)} }}"


def _properties(rng: Random, pool: Mapping[str, str], *, share: float) -> list[str]:
    chosen = []
    for name, kind in pool.items():
        if rng.random() < share:
            null = "?" if rng.random() < 0.8 else ""
            index = " @index" if "[" not in kind and rng.random() < 0.3 else ""
            chosen.append(f"{name}: {kind}{null}{index}")
    return chosen


@dataclass(slots=True, kw_only=True)
class _Maker:
    rng: Random
    nodes: dict[str, list[Row]] = field(default_factory=dict)
    edges: dict[str, list[Row]] = field(default_factory=dict)

    def add_nodes(self, node: NodeType) -> None:
        rng = self.rng
        size = 0 if rng.random() < 0.07 else rng.choice((1, 5, 5, 8, 8, 12, 12, 18, 25))
        rows: dict[str, Row] = {}
        for name in rng.sample(IDS, size):
            row = {"id": name} | self.values(node)
            if node.key is not None:
                row["label"] = name
                row["id"] = spell_id(node, row)
            rows[row["id"]] = row
        self.nodes[node.name] = list(rows.values())

    def add_edges(self, edge: EdgeType) -> None:
        rng = self.rng
        sources = [row["id"] for row in self.nodes[edge.from_type]]
        targets = [row["id"] for row in self.nodes[edge.to_type]]
        self.edges[edge.name] = []
        if not sources or not targets or rng.random() < 0.07:
            return
        count = 1 + int(rng.uniform(0.3, 2.4) * math.sqrt(len(sources) * len(targets)))
        pairs = self.pairs(sources, targets, count, one_type=edge.from_type == edge.to_type)
        ids = rng.sample([*IDS, *(f"e{number}" for number in range(count))], count)
        self.edges[edge.name] = [
            {"id": name, "src": source, "dst": target} | self.values(edge)
            for name, (source, target) in zip(ids, pairs, strict=True)
        ]

    def pairs(
        self, sources: Sequence[str], targets: Sequence[str], count: int, *, one_type: bool
    ) -> list[tuple[str, str]]:
        """Ends of edges: loops, parallel edges, pairs both ways, chains (and so cycles)."""
        rng = self.rng
        found: list[tuple[str, str]] = []
        while len(found) < count:
            source, target = rng.choice(sources), rng.choice(targets)
            chance = rng.random()
            if found and chance < 0.12:
                source, target = rng.choice(found)
            elif one_type and chance < 0.22:
                target = source
            elif one_type and found and chance < 0.32:
                target, source = rng.choice(found)
            elif one_type and found and chance < 0.6:
                source = found[-1][1]
            found.append((source, target))
        return found

    def values(self, item: NodeType | EdgeType) -> Row:
        return {name: self.value(name, each.type) for name, each in item.properties.items()}

    def value(self, name: str, kind: PropType) -> object:
        rng = self.rng
        if kind.nullable and rng.random() < 0.25:
            return None
        if kind.scalar is Scalar.VECTOR:
            return vector(rng)
        if kind.is_list:
            pool = POOLS[kind.scalar]
            picked = [rng.choice(pool) for _ in range(rng.randint(0, 3))]
            return [None if rng.random() < 0.15 else each for each in picked]
        if kind.enum_values is not None:
            return rng.choice(kind.enum_values)
        if name == "words":
            return phrase(rng)
        # The first values of a pool turn up more often, so that many rows are equal.
        pool = POOLS[kind.scalar]
        return rng.choice(pool if rng.random() < 0.6 else pool[: len(pool) // 2 + 1])


def vector(rng: Random) -> list[float]:
    """A vector whose cosine with another such is equal for two of them only if it is bit by bit.

    Parts are 0 or one power of two, so squares of lengths are 1, 2 or 3 times a power of four.
    """
    scale = rng.choice((0.5, 1.0, 2.0))
    return [rng.choice((-1, 0, 1)) * scale + 0.0 for _ in range(3)]


def phrase(rng: Random) -> str:
    """Words of the vocabulary with capitals, accents and marks between them; sometimes none."""
    words = [rng.choice(VOCABULARY) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 5)))]
    dressed = [rng.choice((word, word, word.upper(), word.capitalize())) for word in words]
    accented = [
        word.replace("o", "ö").replace("a", "á") if rng.random() < 0.2 else word for word in dressed
    ]
    return "".join(word + rng.choice((" ", " ", ", ", "-", "…")) for word in accented)
