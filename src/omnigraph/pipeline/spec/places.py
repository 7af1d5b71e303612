"""Where the parts of a mapping stand in its file.

What is wrong with them often shows only when the columns of the source are known, long after the
file was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.lang.yaml_tree import YamlMap, YamlScalar
from omnigraph.pipeline.spec.pipeline_spec import DEDUPE, WHERE
from omnigraph.pipeline.spec.secrets import filled_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.lang.source import Extent
    from omnigraph.lang.yaml_tree import YamlNode
    from omnigraph.pipeline.spec.section import Section


def places_of(section: Section) -> dict[str, str]:
    """The places of a mapping of nodes or edges, by the names of its values."""
    keys, values = section.node.keys, section.node.values
    extents: dict[str, Extent] = {"": keys.get("type", section.node.extent)}
    extents |= {name: keys[name] for name in ("id", "src", "dst") if name in keys}
    extents |= {each: keys[each[1:]] for each in (WHERE, DEDUPE) if each[1:] in keys}
    for end in ("src", "dst"):
        extents |= {
            f"{end}:{part}": at for part, at in _keys(_below(values.get(end), "key")).items()
        }
    extents |= _keys(values.get("columns"))
    return {name: section.reader.problems.place(extent) for name, extent in extents.items()}


def filled_of(section: Section, *names: str) -> tuple[str, ...]:
    """The values of the variables in some of the texts of a section, or in all of them."""
    nodes = (
        [section.node]
        if not names
        else [section.node.values[name] for name in names if name in section.node.values]
    )
    texts = (text for node in nodes for text in _texts(node))
    return tuple(value for text in texts for value in filled_values(text, section.reader.environ))


def place_of(section: Section, name: str) -> str:
    """The place of one key."""
    return section.reader.problems.place(section.node.keys.get(name, section.node.extent))


def _texts(node: YamlNode) -> Iterator[str]:
    match node:
        case YamlScalar():
            yield node.text
        case YamlMap():
            for value in node.values.values():
                yield from _texts(value)
        case _:
            for item in node.items:
                yield from _texts(item)


def _below(node: YamlNode | None, key: str) -> YamlNode | None:
    return node.values.get(key) if isinstance(node, YamlMap) else None


def _keys(node: YamlNode | None) -> dict[str, Extent]:
    return dict(node.keys) if isinstance(node, YamlMap) else {}
