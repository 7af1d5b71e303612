"""YAML with positions: a tree of texts, lists and mappings that know where they stand.

Nothing is built from tags, and no node is used twice: anchors, tags of any other kind and
duplicate keys are refused, so that a small file can neither run code nor become a large tree. A
scalar keeps its text as written, beside the kind that YAML gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from omnigraph.errors import SettingInvalid
from omnigraph.limits import MAX_DIAGNOSTICS, MAX_NESTING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import yaml

    from omnigraph.lang.source import Extent, Source, Span

_TAG_PREFIX: Final = "tag:yaml.org,2002:"


class ScalarKind(StrEnum):
    """What YAML takes a plain scalar for."""

    TEXT = "str"
    FLAG = "bool"
    WHOLE = "int"
    REAL = "float"
    NOTHING = "null"
    DATE = "timestamp"
    """Written like a date; where a text is wanted it must be quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlScalar:
    """One value."""

    text: str
    kind: ScalarKind
    extent: Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlList:
    """Values in order."""

    items: tuple[YamlNode, ...]
    extent: Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlMap:
    """Values by key, in the order of the file; `keys` says where each key stands."""

    values: Mapping[str, YamlNode]
    keys: Mapping[str, Extent]
    extent: Extent


YamlNode: TypeAlias = YamlScalar | YamlList | YamlMap


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing that is wrong: where, the key with all that leads to it, and what to do."""

    extent: Extent
    key: str
    reason: str
    message: str


class ProblemsFull(Exception):
    """So many problems that nobody reads on; never reaches a caller."""


class Problems:
    """What is wrong with one file, each problem once; as many as anybody reads."""

    __slots__ = ("_found", "_source", "_what", "is_cut")

    def __init__(self, source: Source, what: str) -> None:
        self._source = source
        self._what = what
        self._found: set[Problem] = set()
        self.is_cut = False
        """There were more than anybody reads."""

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def _name(self) -> str:
        return self._source.path or "<source>"

    def record(self, extent: Extent, key: str, reason: str, message: str) -> None:
        """Record a problem. The message shows no value that may be secret.

        Raises:
            ProblemsFull: there is no room for another.
        """
        problem = Problem(extent=extent, key=key, reason=reason, message=message)
        if len(self._found) >= MAX_DIAGNOSTICS and problem not in self._found:
            self.is_cut = True
            raise ProblemsFull
        self._found.add(problem)

    def place(self, extent: Extent) -> str:
        """Where something stands, as editors and terminals take it."""
        span = self._source.span(extent)
        return f"{self._name}:{span.line}:{span.column}"

    def listed(self) -> list[tuple[Problem, Span]]:
        """Everything that was recorded, in the order of the file, with where it stands."""
        return [(problem, self._source.span(problem.extent)) for problem in sorted(self._found)]

    def throw(self) -> NoReturn:
        """Raise everything that was recorded, in the order of the file.

        Raises:
            SettingInvalid: always.
        """
        shown = self.listed()
        lines = [
            f"{self.place(problem.extent)}: {problem.key or self._what}: {problem.message}"
            for problem, _ in shown
        ]
        if self.is_cut:
            lines.append(f"more than {MAX_DIAGNOSTICS} errors; the rest is not shown")
        raise SettingInvalid(
            "\n".join(lines),
            name=self._name,
            total=len(shown),
            diagnostics=[
                {
                    "key": problem.key,
                    "reason": problem.reason,
                    "message": problem.message,
                    "span": span.to_dict(),
                }
                for problem, span in shown
            ],
        )


def shape_of(node: YamlNode) -> str:
    """What a node is, without its value."""
    match node:
        case YamlMap():
            return "keys and values"
        case YamlList():
            return "a list"
        case YamlScalar(kind=ScalarKind.TEXT):
            return "a text"
        case YamlScalar(kind=ScalarKind.FLAG):
            return "a boolean"
        case YamlScalar(kind=ScalarKind.NOTHING):
            return "nothing"
        case YamlScalar(kind=ScalarKind.DATE):
            return "a date"
        case _:
            return "a number"


def parse_yaml(source: Source, problems: Problems) -> YamlNode | None:
    """The tree of a source; None when it is empty or no YAML, which is recorded."""
    import yaml

    try:
        root = yaml.compose(source.text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = 0 if mark is None else mark.index
        problems.record(
            (at, at), "", "syntax", f"this is not YAML: {error.problem or error.context}"
        )
        return None
    except yaml.YAMLError as error:
        at = getattr(error, "position", 0)
        problems.record((at, at), "", "syntax", "this is not YAML: a character that YAML forbids")
        return None
    except RecursionError:
        problems.record((0, 0), "", "syntax", "the file is nested too deeply")
        return None
    if root is None:
        problems.record((0, 0), "", "empty", "the file is empty")
        return None
    return _Tree(problems).build(root, "", 0)


def _short_tag(node: yaml.Node) -> str:
    return str(node.tag).removeprefix(_TAG_PREFIX)


_USUAL_TAGS: Final[Mapping[str, frozenset[str]]] = {
    "scalar": frozenset(ScalarKind),
    "sequence": frozenset({"seq"}),
    "mapping": frozenset({"map"}),
}


class _Tree:
    """Builds our nodes from those of the parser."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._seen: set[int] = set()

    def build(self, node: yaml.Node, key: str, depth: int) -> YamlNode | None:
        import yaml

        extent = (node.start_mark.index, node.end_mark.index)
        if id(node) in self._seen:
            self._record(
                extent, key, "alias", "anchors and aliases are not supported; write it out"
            )
            return None
        self._seen.add(id(node))
        if depth > MAX_NESTING:
            self._record(extent, key, "nesting", f"nested deeper than {MAX_NESTING} levels")
            return None
        match node:
            case yaml.ScalarNode():
                return self._scalar(node, key, extent)
            case _ if not self._has_usual_tag(node, key, extent):
                return None
            case yaml.SequenceNode():
                items = [
                    self.build(each, f"{key}[{at}]", depth + 1)
                    for at, each in enumerate(node.value)
                ]
                return YamlList(items=tuple(filter(None, items)), extent=extent)
            case _:
                return self._map(node, key, depth, extent)

    def _scalar(self, node: yaml.ScalarNode, key: str, extent: Extent) -> YamlScalar | None:
        if not self._has_usual_tag(node, key, extent):
            return None
        return YamlScalar(text=node.value, kind=ScalarKind(_short_tag(node)), extent=extent)

    def _has_usual_tag(self, node: yaml.Node, key: str, extent: Extent) -> bool:
        tag = _short_tag(node)
        if tag in _USUAL_TAGS[node.id]:
            return True
        self._record(extent, key, "tag", f"the tag {tag!r:.60} is not supported; remove it")
        return False

    def _map(self, node: yaml.MappingNode, key: str, depth: int, extent: Extent) -> YamlMap:
        values: dict[str, YamlNode] = {}
        keys: dict[str, Extent] = {}
        for name, extent_of_key, child in self._entries(node, key):
            within = f"{key}.{name}" if key else name
            if name in keys:
                self._record(extent_of_key, within, "duplicate_key", "the key is there twice")
                continue
            keys[name] = extent_of_key
            value = self.build(child, within, depth + 1)
            if value is not None:
                values[name] = value
        return YamlMap(values=values, keys=keys, extent=extent)

    def _entries(self, node: yaml.MappingNode, key: str) -> Iterator[tuple[str, Extent, yaml.Node]]:
        import yaml

        for name, child in node.value:
            extent = (name.start_mark.index, name.end_mark.index)
            if isinstance(name, yaml.ScalarNode):
                # A key is its text: `no` and `on` are names here, whatever YAML takes them for.
                yield name.value, extent, child
            else:
                self._record(extent, key, "key", "a key must be a text")

    def _record(self, extent: Extent, key: str, reason: str, message: str) -> None:
        self._problems.record(extent, key, reason, message)
