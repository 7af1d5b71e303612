"""What is wrong with a pipeline as a whole: its parts read one by one do not show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.lang.yaml_tree import YamlMap
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.pipeline.spec.pipeline_spec import EdgeMapping, NodeMapping, PipelineSpec
    from omnigraph.pipeline.spec.section import Section


def require_coherent(root: Section, spec: PipelineSpec) -> None:
    """Record types declared twice, queries that read what they cannot, and sources without use."""
    _check_types(root, spec)
    _check_queries(root, spec)
    _check_fed(root, spec)


def _check_types(root: Section, spec: PipelineSpec) -> None:
    """A type is either of nodes or of edges, and nothing is declared twice."""
    node_types = {node.type for node in spec.nodes if node.type}
    both: tuple[tuple[str, Sequence[NodeMapping | EdgeMapping]], ...] = (
        ("nodes", spec.nodes),
        ("edges", spec.edges),
    )
    for name, mappings in both:
        places = [place for place, _ in root.reader.items(root.get(name), name)]
        sections = [place for place in places if isinstance(place, YamlMap)]
        seen: set[str] = set()
        for at, (place, mapping) in enumerate(zip(sections, mappings, strict=True)):
            if mapping.definition in seen:
                root.reader.refuse(
                    place, f"{name}[{at}]", "duplicate", "the same declaration is there before"
                )
            seen.add(mapping.definition)
            if name == "edges" and mapping.type in node_types:
                root.reader.refuse(
                    place, f"{name}[{at}].type", "duplicate", f"{mapping.type!r} is a node type"
                )


def _check_queries(root: Section, spec: PipelineSpec) -> None:
    """A query reads sources that have columns, and none that reads it."""
    in_circle: set[str] = set()
    for name, node, section in root.entries("sources"):
        if not isinstance(node, YamlMap) or "query" not in node.values:
            continue
        place, key = node.values["query"], f"{section}.query"
        for other, source in spec.read_by(name).items():
            if source.format is SourceFormat.NDJSON:
                root.reader.refuse(
                    place,
                    key,
                    "not_allowed",
                    f"the lines of {other!r} are nodes and edges (format ndjson) and have no"
                    " columns; for plain JSON lines use format json",
                )
        circle = () if name in in_circle else _circle(spec, name)
        in_circle.update(circle)
        if circle:
            shown = " reads ".join((*circle, name))
            root.reader.refuse(place, key, "circle", f"no query can be the first: {shown}")


def _circle(spec: PipelineSpec, start: str) -> tuple[str, ...]:
    """Sources that lead from a source back to it, in order; empty if none do."""
    ways: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for name in spec.read_by(way[-1]):
            if name == start:
                return way
            if name not in seen:
                seen.add(name)
                ways.append((*way, name))
    return ()


def _check_fed(root: Section, spec: PipelineSpec) -> None:
    """A source that feeds nothing is a mistake."""
    used = {node.source for node in spec.nodes} | {edge.source for edge in spec.edges}
    used |= {other for name in spec.sources for other in spec.read_by(name)}
    if not used <= spec.sources.keys():
        return  # A misspelled `from` would be told twice.
    for name, node, key in root.entries("sources"):
        source = spec.sources.get(name)
        if source and source.format is not SourceFormat.NDJSON and name not in used:
            root.reader.refuse(
                node, key, "unused", "nothing is made from this source; name it in a `from`"
            )
