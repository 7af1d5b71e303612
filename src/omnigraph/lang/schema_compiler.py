"""From `.pg` source to a catalog: names, interfaces, endpoints, then each type's own rules.

A schema with any finding is rejected as a whole, and all findings are reported.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from omnigraph.errors import SchemaInvalid
from omnigraph.lang import schema_ast as ast
from omnigraph.lang.catalog import Catalog, EdgeType, Embed, InterfaceType, NodeType, Property
from omnigraph.lang.diagnostics import Findings, FindingsFull, raise_findings
from omnigraph.lang.foreign_syntax import suggest_annotation
from omnigraph.lang.grammar import SCHEMA_LANGUAGE, read_source
from omnigraph.lang.schema_annotations import Place, read_annotations, read_default, read_embed
from omnigraph.lang.schema_constraints import (
    property_constraints,
    read_edge_constraints,
    read_node_constraints,
)
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Extent
from omnigraph.lang.suggest import did_you_mean
from omnigraph.limits import MAX_SCHEMA_PROPERTIES

_SYSTEM_NAMES = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_distance",
        "_score",
    }
)
_Declared = TypeVar("_Declared", ast.InterfaceDecl, ast.NodeDecl, ast.EdgeDecl)
RESERVED_NODE_NAMES = _SYSTEM_NAMES | {"id"}
RESERVED_EDGE_NAMES = _SYSTEM_NAMES | {"id", "src", "dst", "from", "to"}


def compile_schema(source: str | bytes, *, path: str | None = None) -> Catalog:
    """The catalog of a schema.

    Raises:
        SchemaInvalid: the source does not compile; `details["diagnostics"]` has every finding.
    """
    findings = read_source(source, path, SCHEMA_LANGUAGE)
    catalog = Catalog()
    with suppress(FindingsFull):
        catalog = _Compiler(findings).compile(parse_schema(findings))
    if findings:
        raise_findings(SchemaInvalid, findings)
    return catalog


def require_meant_annotations(source: str | bytes, *, path: str | None = None) -> None:
    """Refuse annotations that change nothing and look like ones that would.

    For a new graph: a graph that exists keeps what it was made with.

    Raises:
        SchemaInvalid: with all of them; one is meant as metadata if its name is in quotes.
    """
    findings = read_source(source, path, SCHEMA_LANGUAGE)
    with suppress(FindingsFull):
        for declaration in parse_schema(findings):
            heads = () if isinstance(declaration, ast.InterfaceDecl) else declaration.annotations
            below = (note for item in declaration.properties for note in item.annotations)
            for note in (*heads, *below):
                meant = None if note.is_quoted else suggest_annotation(note.name)
                if meant is not None:
                    findings.add(
                        "S024",
                        "annotation_unknown",
                        f"annotation `@{note.name}` is not known and changes nothing; did you mean "
                        f'{meant}? Metadata of this name is written `@"{note.name}"`',
                        note.extent,
                    )
    if findings:
        raise_findings(SchemaInvalid, findings)


@dataclass(slots=True)
class _Compiler:
    findings: Findings
    interfaces: dict[str, ast.InterfaceDecl] = field(default_factory=dict)
    nodes: dict[str, ast.NodeDecl] = field(default_factory=dict)
    edges: dict[str, ast.EdgeDecl] = field(default_factory=dict)

    def compile(self, declarations: Iterable[ast.Declaration]) -> Catalog:
        self.collect(declarations)
        if not self.is_bounded():
            return Catalog()
        return Catalog(
            interfaces={name: self.interface(item) for name, item in self.interfaces.items()},
            node_types={name: self.node(item) for name, item in self.nodes.items()},
            edge_types={name: self.edge(item) for name, item in self.edges.items()},
        )

    def collect(self, declarations: Iterable[ast.Declaration]) -> None:
        """Gather declarations by name; report names that are taken."""
        folded: dict[str, str] = {}
        for item in declarations:
            match item:
                case ast.InterfaceDecl():
                    self.claim(self.interfaces, item, "interface")
                case ast.NodeDecl():
                    self.claim(self.nodes, item, "node type")
                case ast.EdgeDecl():
                    other = folded.setdefault(item.name.casefold(), item.name)
                    if other != item.name:
                        self.findings.add(
                            "S002",
                            "edge_name_collision",
                            f"edges `{other}` and `{item.name}` differ only in case; "
                            "queries could not tell them apart",
                            item.extent,
                        )
                    self.claim(self.edges, item, "edge type")
        for name, interface in self.interfaces.items():
            if name in self.nodes:
                later = max(interface.extent, self.nodes[name].extent)
                self.duplicate(f"`{name}` is both an interface and a node type", later)

    def is_bounded(self) -> bool:
        """False, with a finding, when interfaces multiply to more properties than allowed."""
        sizes = {name: len(item.properties) for name, item in self.interfaces.items()}
        total = sum(sizes.values())
        declared: list[ast.NodeDecl | ast.EdgeDecl] = [*self.nodes.values(), *self.edges.values()]
        for item in declared:
            total += len(item.properties)
            if isinstance(item, ast.NodeDecl):
                total += sum(sizes.get(ref.name, 0) for ref in item.implements)
            if total > MAX_SCHEMA_PROPERTIES:
                self.findings.add(
                    "S000",
                    "too_large",
                    f"with `{item.name}` the schema has more than {MAX_SCHEMA_PROPERTIES:,} "
                    "properties, those of interfaces counted in every node; split it",
                    item.extent,
                )
                return False
        return True

    def claim(self, taken: dict[str, _Declared], item: _Declared, what: str) -> None:
        if item.name in taken:
            self.duplicate(f"{what} `{item.name}` is declared twice", item.extent)
        else:
            taken[item.name] = item

    def duplicate(self, detail: str, extent: Extent) -> None:
        self.findings.add("S001", "duplicate_name", detail, extent)

    def interface(self, item: ast.InterfaceDecl) -> InterfaceType:
        declared = self.declared(item.name, item.properties, RESERVED_NODE_NAMES)
        return InterfaceType(
            name=item.name, properties=self.properties(declared, Place.NODE_PROPERTY)
        )

    def node(self, item: ast.NodeDecl) -> NodeType:
        declared = self.declared(item.name, item.properties, RESERVED_NODE_NAMES)
        implements = self.expand(item, declared)
        properties = self.properties(declared, Place.NODE_PROPERTY)
        constraints = read_node_constraints(
            item.name, properties, (*self.short_forms(declared), *item.constraints), self.findings
        )
        return NodeType(
            name=item.name,
            properties=properties,
            implements=implements,
            key=constraints.key,
            unique=tuple(constraints.unique),
            indexes=tuple(constraints.indexes),
            ranges=tuple(constraints.ranges),
            checks=tuple(constraints.checks),
            embeds=self.embeds(declared),
            annotations=read_annotations(item.annotations, Place.NODE, self.findings),
        )

    def edge(self, item: ast.EdgeDecl) -> EdgeType:
        declared = self.declared(item.name, item.properties, RESERVED_EDGE_NAMES)
        properties = self.properties(declared, Place.EDGE_PROPERTY)
        short = [
            form for form in self.short_forms(declared) if not isinstance(form, ast.KeyConstraint)
        ]
        constraints = read_edge_constraints(
            item.name, properties, (*short, *item.constraints), self.findings
        )
        for ref in (item.from_type, item.to_type):
            self.check_endpoint(item.name, ref)
        return EdgeType(
            name=item.name,
            from_type=item.from_type.name,
            to_type=item.to_type.name,
            properties=properties,
            card=self.card(item),
            unique=tuple(constraints.unique),
            indexes=tuple(constraints.indexes),
            annotations=read_annotations(item.annotations, Place.EDGE, self.findings),
        )

    def declared(
        self, owner: str, properties: Iterable[ast.PropertyDecl], reserved: frozenset[str]
    ) -> dict[str, ast.PropertyDecl]:
        out: dict[str, ast.PropertyDecl] = {}
        for item in properties:
            if item.name in reserved:
                self.findings.add(
                    "S004",
                    "reserved_name",
                    f"`{owner}.{item.name}`: the name `{item.name}` is reserved; choose another",
                    item.extent,
                )
            if item.name in out:
                self.duplicate(f"property `{owner}.{item.name}` is declared twice", item.extent)
            else:
                out[item.name] = item
        return out

    def expand(self, item: ast.NodeDecl, declared: dict[str, ast.PropertyDecl]) -> tuple[str, ...]:
        """Copy the properties of the implemented interfaces into `declared`."""
        own = set(declared)
        names: list[str] = []
        for ref in item.implements:
            if ref.name in names:
                self.duplicate(f"node `{item.name}` implements `{ref.name}` twice", ref.extent)
                continue
            names.append(ref.name)
            interface = self.interfaces.get(ref.name)
            if interface is None:
                tail = did_you_mean(ref.name, self.interfaces, otherwise="interfaces")
                self.findings.add(
                    "S005",
                    "unknown_interface",
                    f"node `{item.name}` implements `{ref.name}`, which is no interface{tail}",
                    ref.extent,
                )
                continue
            for inherited in interface.properties:
                present = declared.setdefault(inherited.name, inherited)
                if present.type != inherited.type:
                    where = present.extent if inherited.name in own else ref.extent
                    self.findings.add(
                        "S006",
                        "interface_conflict",
                        f"`{item.name}.{inherited.name}` is {present.type}, but interface "
                        f"`{ref.name}` declares {inherited.type}; make them equal",
                        where,
                    )
        return tuple(names)

    def properties(
        self, declared: Mapping[str, ast.PropertyDecl], place: Place
    ) -> dict[str, Property]:
        out: dict[str, Property] = {}
        for name, item in declared.items():
            annotations = read_annotations(item.annotations, place, self.findings)
            default = next((note for note in item.annotations if note.name == "default"), None)
            out[name] = Property(
                name=name,
                type=item.type,
                annotations=annotations,
                default=None
                if default is None
                else read_default(default, name, item.type, self.findings),
            )
        return out

    def short_forms(self, declared: Mapping[str, ast.PropertyDecl]) -> list[ast.NamesConstraint]:
        return [
            constraint
            for name, item in declared.items()
            for constraint in property_constraints(name, item.annotations)
        ]

    def embeds(self, declared: Mapping[str, ast.PropertyDecl]) -> dict[str, Embed]:
        kinds = {name: item.type for name, item in declared.items()}
        out: dict[str, Embed] = {}
        for name, item in declared.items():
            note = next((note for note in item.annotations if note.name == "embed"), None)
            if note is None:
                continue
            embed = read_embed(note, name, kinds, self.findings)
            if embed is not None:
                out[name] = embed
        return out

    def check_endpoint(self, edge: str, ref: ast.TypeRef) -> None:
        if ref.name in self.nodes:
            return
        if ref.name in self.interfaces:
            tail = "; an interface cannot be an endpoint, name a node type"
        else:
            tail = did_you_mean(ref.name, self.nodes, otherwise="node types")
        self.findings.add(
            "S003",
            "unknown_endpoint",
            f"edge `{edge}`: `{ref.name}` is no node type{tail}",
            ref.extent,
        )

    def card(self, item: ast.EdgeDecl) -> tuple[int, int | None]:
        if item.card is None:
            return (0, None)
        low, high = item.card.low, item.card.high
        if high is not None and low > high:
            self.findings.add(
                "S017",
                "card_bounds",
                f"edge `{item.name}`: `@card({low}..{high})` has its minimum above its maximum",
                item.card.extent,
            )
        return (low, high)
