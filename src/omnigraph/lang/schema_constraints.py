"""Rules of the constraints: which properties each may name (S010 to S017)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.lang import schema_ast as ast
from omnigraph.lang.catalog import Check, Property, Range
from omnigraph.lang.diagnostics import Findings, join_names
from omnigraph.lang.schema_parser import NAME_CONSTRAINTS
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import STRING, PropType, Scalar

_ENDPOINTS = {"src": STRING, "dst": STRING}


@dataclass(slots=True, kw_only=True)
class Constraints:
    """What the constraints of one type say, each once and in written order."""

    key: tuple[str, ...] | None = None
    unique: list[tuple[str, ...]] = field(default_factory=list)
    indexes: list[tuple[str, ...]] = field(default_factory=list)
    ranges: dict[Range, None] = field(default_factory=dict)
    checks: dict[Check, None] = field(default_factory=dict)


def property_constraints(
    name: str, annotations: Iterable[ast.Annotation]
) -> list[ast.NamesConstraint]:
    """The one-property forms `@key`, `@unique`, `@index` of a property, each once."""
    first: dict[str, ast.NamesConstraint] = {}
    for item in annotations:
        if item.name in NAME_CONSTRAINTS:
            form = NAME_CONSTRAINTS[item.name](names=(name,), extent=item.extent)
            first.setdefault(item.name, form)
    return list(first.values())


def read_node_constraints(
    type_name: str,
    properties: Mapping[str, Property],
    constraints: Iterable[ast.Constraint],
    findings: Findings,
) -> Constraints:
    """The constraints of a node type; every finding is recorded, bad ones are left out."""
    reader = _Reader(
        type_name=type_name,
        kinds={name: item.type for name, item in properties.items()},
        findings=findings,
    )
    for constraint in constraints:
        reader.read(constraint)
    out = reader.out
    if out.key is not None:
        order = {name: position for position, name in enumerate(properties)}
        out.key = tuple(sorted(out.key, key=order.__getitem__))
        reader.add("index", out.indexes, out.key)
    return out


def read_edge_constraints(
    type_name: str,
    properties: Mapping[str, Property],
    constraints: Iterable[ast.Constraint],
    findings: Findings,
) -> Constraints:
    """The constraints of an edge type: `@unique` and `@index`, also over `src` and `dst`."""
    kinds = {name: item.type for name, item in properties.items()}
    reader = _Reader(type_name=type_name, kinds=_ENDPOINTS | kinds, findings=findings)
    for constraint in constraints:
        if isinstance(constraint, ast.UniqueConstraint | ast.IndexConstraint):
            reader.read(constraint)
        else:
            findings.add(
                "S016",
                "constraint_on_edge",
                f"edge `{type_name}`: `@{_word(constraint)}` is not allowed on edges; "
                "only `@unique`, `@index` and `@card` are",
                constraint.extent,
            )
    return reader.out


def _word(constraint: ast.Constraint) -> str:
    match constraint:
        case ast.KeyConstraint():
            return "key"
        case ast.UniqueConstraint():
            return "unique"
        case ast.IndexConstraint():
            return "index"
        case ast.RangeConstraint():
            return "range"
        case ast.CheckConstraint():
            return "check"


@dataclass(slots=True, kw_only=True)
class _Reader:
    type_name: str
    kinds: Mapping[str, PropType]
    findings: Findings
    out: Constraints = field(default_factory=Constraints)
    seen: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    keys: int = 0

    def read(self, constraint: ast.Constraint) -> None:
        if not self.names_exist(constraint):
            return
        match constraint:
            case ast.KeyConstraint():
                self.read_key(constraint)
            case ast.UniqueConstraint():
                if self.all_fit(constraint, "S013", vectors=False):
                    self.add("unique", self.out.unique, constraint.names)
            case ast.IndexConstraint():
                if self.all_fit(constraint, "S013", vectors=True):
                    self.add("index", self.out.indexes, constraint.names)
            case ast.RangeConstraint():
                self.read_range(constraint)
            case ast.CheckConstraint():
                self.read_check(constraint)

    def add(self, word: str, rows: list[tuple[str, ...]], names: tuple[str, ...]) -> None:
        """Keep a constraint once, in whatever order it names its properties."""
        same = (word, frozenset(names))
        if same not in self.seen:
            self.seen.add(same)
            rows.append(names)

    def names_exist(self, constraint: ast.Constraint) -> bool:
        if isinstance(constraint, ast.RangeConstraint | ast.CheckConstraint):
            names: tuple[str, ...] = (constraint.property,)
        else:
            names = constraint.names
        unknown = [name for name in names if name not in self.kinds]
        for name in unknown:
            tail = did_you_mean(name, self.kinds, otherwise="it has")
            self.findings.add(
                "S010",
                "unknown_property",
                f"`@{_word(constraint)}`: type `{self.type_name}` has no property `{name}`{tail}",
                constraint.extent,
            )
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
        if repeated:
            self.findings.add(
                "S010",
                "repeated_property",
                f"`@{_word(constraint)}` names {join_names(repeated)} twice",
                constraint.extent,
            )
        return not unknown and not repeated

    def read_key(self, constraint: ast.KeyConstraint) -> None:
        self.keys += 1
        if self.keys > 1:
            self.findings.add(
                "S011",
                "key_repeated",
                f"type `{self.type_name}` has more than one `@key`; "
                "write one `@key(a, b)` for a composite key",
                constraint.extent,
            )
        if self.all_fit(constraint, "S012", vectors=False):
            self.out.key = self.out.key or constraint.names

    def all_fit(self, constraint: ast.NamesConstraint, code: str, *, vectors: bool) -> bool:
        fits = True
        word = _word(constraint)
        for name in constraint.names:
            kind = self.kinds[name]
            is_vector = kind.scalar is Scalar.VECTOR and not kind.is_list
            if (word == "key" and kind.nullable) or not (kind.is_plain or (vectors and is_vector)):
                fits = False
                wanted = "a required scalar" if word == "key" else "a scalar"
                wanted += " or a Vector" if vectors else ""
                self.findings.add(
                    code,
                    f"{word}_type",
                    f"`@{word}` needs {wanted}; `{self.type_name}.{name}` is {kind}",
                    constraint.extent,
                )
        return fits

    def read_range(self, constraint: ast.RangeConstraint) -> None:
        kind = self.kinds[constraint.property]
        low, high = constraint.low, constraint.high
        if kind.is_list or not kind.scalar.is_numeric:
            reason, problem = "range_type", f"`{constraint.property}` is {kind}, not a number"
        elif low is None and high is None:
            reason, problem = "range_bounds", "at least one end must be given"
        elif low is not None and high is not None and low > high:
            reason, problem = "range_bounds", f"{low} is greater than {high}"
        else:
            range_ = Range(property=constraint.property, low=_tidy(low), high=_tidy(high))
            self.out.ranges[range_] = None
            return
        self.findings.add(
            "S014", reason, f"`@range` of `{self.type_name}`: {problem}", constraint.extent
        )

    def read_check(self, constraint: ast.CheckConstraint) -> None:
        kind = self.kinds[constraint.property]
        problem = (
            _pattern_problem(constraint.pattern)
            if kind.is_text and kind.enum_values is None
            else f"`{constraint.property}` is {kind}, not a String"
        )
        if problem is None:
            check = Check(property=constraint.property, pattern=constraint.pattern)
            self.out.checks[check] = None
            return
        self.findings.add(
            "S015", "check_invalid", f"`@check` of `{self.type_name}`: {problem}", constraint.extent
        )


def _tidy(bound: float | None) -> int | float | None:
    """A whole float as an integer, so that 1 and 1.0 declare the same bound."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _pattern_problem(pattern: str) -> str | None:
    """Why RE2 refuses a pattern, as Arrow runs it; that is what judges values later."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A pattern is compiled only for a value. One empty text is put together from buffers, because
    # `pa.array` and `pa.scalar` import pandas where it is installed, which takes a second.
    offsets, text = pa.py_buffer(bytes(8)), pa.py_buffer(b"")
    value = pa.Array.from_buffers(pa.utf8(), 1, [None, offsets, text])
    try:
        pc.match_substring_regex(value, pattern=pattern)
    except pa.ArrowInvalid as error:
        return f"the pattern does not compile: {error}"
    return None
