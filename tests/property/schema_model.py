"""A graph whose schema changes, as plain objects: types with their rows, and how one spells them.

Every object keeps the name that it had when the schema was last accepted, so that a schema can say
what it was renamed from. A name that was in that schema is not given to anything else in the next.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random  # noqa: TID251 - seeded

TYPE_NAMES = ("Ant", "Bee", "Cat", "Dog", "Elk")
EDGE_NAMES = ("Bites", "Chases", "Likes")
PROPERTY_NAMES = ("a", "b", "c", "d", "e", "f")
ENUM = ("red", "green", "blue", "black")
KINDS = ("I64", "String", "Bool", "enum", "[String]", "Vector(2)")

Rows = dict[str, dict[str, Any]]


@dataclass(kw_only=True)
class Prop:
    """A property."""

    name: str
    kind: str
    accepted: str | None = None
    default: Any = None
    """Of a required one."""
    is_unique: bool = False
    low: int | None = None
    is_indexed: bool = False
    values: int = 2
    """How many words the enum has."""

    def spell(self) -> str:
        kind = f"enum({', '.join(ENUM[: self.values])})" if self.kind == "enum" else self.kind
        parts = [f"{self.name}: {kind}{'' if self.default is not None else '?'}"]
        if self.default is not None:
            parts.append(f"@default({json.dumps(self.default)})")
        if self.accepted not in (None, self.name):
            parts.append(f'@rename_from("{self.accepted}")')
        parts += ["@unique"] * self.is_unique + ["@index"] * self.is_indexed
        parts += [] if self.low is None else [f"@range({self.name}, {self.low}..)"]
        return " ".join(parts)

    def value(self, rng: Random) -> Any:  # noqa: ANN401 - of its kind
        match self.kind:
            case "I64":
                return rng.randrange(-2, 4)
            case "String":
                return rng.choice(("wolf", "fox", "owl", "hen", "ant"))
            case "Bool":
                return rng.random() < 0.5
            case "enum":
                return rng.choice(ENUM[: self.values])
            case "[String]":
                return rng.choice(([], ["x"], ["x", "y"]))
            case _:
                return [float(rng.randrange(3)), 1.0]


@dataclass(kw_only=True)
class Kind:
    """A node or edge type and its rows by id; an edge has `src` and `dst` among its values."""

    name: str
    ends: tuple[Kind, Kind] | None = None
    accepted: str | None = None
    props: list[Prop] = field(default_factory=list)
    rows: Rows = field(default_factory=dict)
    most: int | None = None
    """How many edges a source may have."""

    def spell(self) -> str:
        renamed = "" if self.accepted in (None, self.name) else f' @rename_from("{self.accepted}")'
        body = "\n  ".join(prop.spell() for prop in self.props)
        if self.ends is None:
            return f"node {self.name}{renamed} {{\n  k: String @key\n  {body}\n}}"
        card = "" if self.most is None else f" @card(0..{self.most})"
        start, end = self.ends
        return f"edge {self.name}: {start.name} -> {end.name}{card}{renamed} {{\n  {body}\n}}"

    def breaks_rules(self) -> bool:
        for prop in self.props:
            given = [row[prop.name] for row in self.rows.values() if row[prop.name] is not None]
            if prop.is_unique and len(set(given)) < len(given):
                return True
            if prop.low is not None and any(value < prop.low for value in given):
                return True
        starts = [row["src"] for row in self.rows.values() if self.ends is not None]
        return self.most is not None and any(starts.count(one) > self.most for one in starts)


@dataclass(kw_only=True)
class World:
    """All types, and how they change."""

    rng: Random
    kinds: list[Kind] = field(default_factory=list)
    drops: bool = False
    """A change since the last acceptance drops something that was accepted."""
    reserved: World | None = None

    def copy(self) -> World:
        rng = self.rng
        return deepcopy(World(rng=rng, kinds=self.kinds), {id(rng): rng})

    def spell(self) -> str:
        return "\n".join(kind.spell() for kind in self.kinds)

    def accept(self) -> None:
        self.drops, self.reserved = False, None
        for kind in self.kinds:
            kind.accepted = kind.name
            for prop in kind.props:
                prop.accepted = prop.name

    @property
    def _reserved_kinds(self) -> list[Kind]:
        return [] if self.reserved is None else self.reserved.kinds

    @property
    def nodes(self) -> list[Kind]:
        return [kind for kind in self.kinds if kind.ends is None]

    def breaks_rules(self) -> bool:
        return any(kind.breaks_rules() for kind in self.kinds)

    def state(self) -> dict[str, Rows]:
        return {kind.name: deepcopy(kind.rows) for kind in self.kinds}

    def change(self, reserved: World) -> None:
        """One random step of the schema; names that `reserved` uses are not taken."""
        steps = [
            self._add_type,
            self._drop_type,
            self._rename_type,
            *[self._add_prop] * 4,
            *[self._drop_prop] * 2,
            *[self._rename_prop] * 2,
            self._extend_enum,
            *[self._toggle_rule] * 4,
            self._toggle_index,
        ]
        self.reserved = reserved
        self.rng.choice(steps)()

    def _free(self, names: Iterable[str], taken: Iterable[str]) -> str | None:
        free = sorted(set(names) - set(taken))
        return self.rng.choice(free) if free else None

    def _type_name(self, *, is_edge: bool) -> str | None:
        taken = [kind.name for kind in (*self.kinds, *self._reserved_kinds)]
        return self._free(EDGE_NAMES if is_edge else TYPE_NAMES, taken)

    def _add_type(self) -> None:
        is_edge = self.rng.random() < 0.4 and bool(self.nodes)
        name = self._type_name(is_edge=is_edge)
        if name is None:
            return
        ends = (self.rng.choice(self.nodes), self.rng.choice(self.nodes)) if is_edge else None
        self.kinds.append(Kind(name=name, ends=ends))

    def _drop_type(self) -> None:
        gone = self.rng.choice(self.kinds)
        if gone.ends is None and len(self.nodes) == 1:
            return
        lost = [kind for kind in self.kinds if kind is gone or gone in (kind.ends or ())]
        self.drops |= any(kind.accepted is not None for kind in lost)
        self.kinds = [kind for kind in self.kinds if all(kind is not each for each in lost)]

    def _rename_type(self) -> None:
        kind = self.rng.choice(self.kinds)
        name = self._type_name(is_edge=kind.ends is not None)
        if name is not None:
            kind.name = name

    def _prop_name(self, kind: Kind) -> str | None:
        before = [each for each in self._reserved_kinds if each.name == kind.accepted]
        taken = [prop.name for each in (kind, *before) for prop in each.props]
        return self._free(PROPERTY_NAMES, taken)

    def _add_prop(self) -> None:
        kind = self.rng.choice(self.kinds)
        name = self._prop_name(kind)
        if name is None:
            return
        prop = Prop(name=name, kind=self.rng.choice(KINDS))
        if prop.kind in ("I64", "String", "Bool", "enum") and self.rng.random() < 0.5:
            prop.default = prop.value(self.rng)
        kind.props.append(prop)
        for row in kind.rows.values():
            row[name] = prop.default

    def _some_prop(self) -> tuple[Kind, Prop] | None:
        pairs = [(kind, prop) for kind in self.kinds for prop in kind.props]
        return self.rng.choice(pairs) if pairs else None

    def _drop_prop(self) -> None:
        if (found := self._some_prop()) is None:
            return
        kind, gone = found
        self.drops |= gone.accepted is not None
        kind.props = [prop for prop in kind.props if prop is not gone]
        for row in kind.rows.values():
            del row[gone.name]

    def _rename_prop(self) -> None:
        if (found := self._some_prop()) is None:
            return
        kind, prop = found
        name = self._prop_name(kind)
        if name is None:
            return
        for row in kind.rows.values():
            row[name] = row.pop(prop.name)
        prop.name = name

    def _extend_enum(self) -> None:
        if (found := self._some_prop()) is not None:
            found[1].values = min(found[1].values + 1, len(ENUM))

    def _toggle_rule(self) -> None:
        kind = self.rng.choice(self.kinds)
        if kind.ends is not None:
            kind.most = self.rng.choice((None, 1, 2))
            return
        numbers = [prop for prop in kind.props if prop.kind == "I64"]
        if not numbers:
            return
        prop = self.rng.choice(numbers)
        if self.rng.random() < 0.5:
            prop.is_unique = not prop.is_unique
        elif prop.default is None or prop.default >= 0:
            prop.low = None if prop.low is not None else self.rng.choice((-2, 0))

    def _toggle_index(self) -> None:
        found = self._some_prop()
        if found is not None and found[1].kind in ("I64", "String", "enum"):
            found[1].is_indexed = not found[1].is_indexed
