"""A YAML file of the policy layer, read strictly: bundles and cases share this.

What is wrong is recorded with its place, and with the rule or case that it stands in; `checked`
raises all of it at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from omnigraph.errors import PolicyInvalid
from omnigraph.graph.results.terminal_text import harmless
from omnigraph.lang.source import Source, SourceUnreadable
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.yaml_tree import (
    Problems,
    ProblemsFull,
    ScalarKind,
    YamlList,
    YamlMap,
    YamlScalar,
    parse_yaml,
    shape_of,
)
from omnigraph.limits import MAX_DIAGNOSTICS, MAX_SOURCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.lang.source import Extent
    from omnigraph.lang.yaml_tree import YamlNode

_Value = TypeVar("_Value")


def read_policy_yaml(path: str | Path, what: str) -> PolicyFile:
    """The file, not yet looked into.

    Raises:
        PolicyInvalid: it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_SOURCE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise PolicyInvalid(f"cannot read {what} {path}: {error}", path=str(path)) from error
    return PolicyFile(content, str(path), what)


class PolicyFile:
    """One file, its tree, and what is wrong with it."""

    def __init__(self, content: str | bytes, name: str, what: str) -> None:
        self.name = name
        self._what = what
        self._rules: list[tuple[Extent, str]] = []
        try:
            self._source = Source.decode(content, name)
            unreadable = None
        except SourceUnreadable as error:
            self._source = error.source
            unreadable = error
        self._problems = Problems(self._source, what)
        if unreadable is not None:
            self._problems.record(unreadable.extent, "", "syntax", unreadable.message)

    def checked(self, read: Callable[[YamlNode], _Value]) -> _Value:
        """What a reader makes of the tree; what it recorded is raised instead.

        Raises:
            PolicyInvalid: something is wrong; details `diagnostics`, in the order of the file.
        """
        try:
            root = None if self._problems else parse_yaml(self._source, self._problems)
            if root is not None:
                value = read(root)
                if not self._problems:
                    return value
        except ProblemsFull:
            pass
        raise self._error()

    def line(self, extent: Extent) -> int:
        """The line of a place, from 1."""
        return self._source.span(extent).line

    def name_rule(self, node: YamlNode, name: str | None) -> None:
        """What is wrong within this node concerns the rule or case of this name."""
        if name:
            self._rules.append((node.extent, name))

    def refuse(self, extent: Extent, key: str, reason: str, message: str) -> None:
        """Record what is wrong."""
        self._problems.record(extent, key, reason, message)

    def refuse_shape(self, node: YamlNode, key: str, wanted: str) -> None:
        """Record that something of another shape was expected."""
        self.refuse(node.extent, key, "type", f"expected {wanted}, not {shape_of(node)}")

    def section(
        self,
        node: YamlNode | None,
        key: str,
        known: Sequence[str],
        *,
        later: Mapping[str, str] | None = None,
        required: Sequence[str] = (),
    ) -> dict[str, YamlNode]:
        """A mapping with these keys and no others; empty if it is none.

        `later` are keys of another version of the format, each with what to do about it.
        """
        if node is None:
            return {}
        if not isinstance(node, YamlMap):
            self.refuse_shape(node, key, "keys and values")
            return {}
        for name, extent in node.keys.items():
            if name in known:
                continue
            hint = (later or {}).get(name) or did_you_mean(
                name, known, otherwise="the keys here are"
            )
            self.refuse(extent, _join(key, name), "unknown_key", f"unknown key{hint}")
        for name in required:
            if name not in node.keys:
                self.refuse(node.extent, _join(key, name), "missing_key", f"`{name}` is missing")
        return dict(node.values)

    def version(self, node: YamlNode | None, *known: int) -> int:
        """The version of the format, the first of those that are known if it is another."""
        if node is None:
            return known[0]
        if isinstance(node, YamlScalar) and node.kind is ScalarKind.WHOLE:
            for version in known:
                if node.text == str(version):
                    return version
        shown = f"{node.text!r:.40}" if isinstance(node, YamlScalar) else shape_of(node)
        self.refuse(
            node.extent,
            "version",
            "version",
            f"this release reads version {' and '.join(map(str, known))}, not {shown}; write"
            f" `version: {known[0]}`",
        )
        return known[0]

    def text(self, node: YamlNode | None, key: str) -> str | None:
        """A text that is not blank; `None` if it is missing or none, which is recorded."""
        if node is None:
            return None
        if not isinstance(node, YamlScalar) or node.kind is not ScalarKind.TEXT:
            quotes = "; put it in quotes" if isinstance(node, YamlScalar) and node.text else ""
            self.refuse(node.extent, key, "type", f"expected a text, not {shape_of(node)}{quotes}")
            return None
        if not node.text.strip():
            self.refuse(node.extent, key, "blank", "this must not be blank")
            return None
        return node.text

    def texts(self, node: YamlNode, key: str, what: str) -> list[YamlScalar]:
        """A list of texts; what is none is recorded and left out."""
        if not isinstance(node, YamlList):
            self.refuse_shape(node, key, f"a list of {what}")
            return []
        return [
            each
            for number, each in enumerate(node.items)
            if self.text(each, f"{key}[{number}]") is not None and isinstance(each, YamlScalar)
        ]

    def _error(self) -> PolicyInvalid:
        diagnostics = [
            {
                "key": problem.key,
                "reason": problem.reason,
                "message": problem.message,
                "rule": self._rule_at(problem.extent),
                "span": span.to_dict(),
            }
            for problem, span in self._problems.listed()
        ]
        lines = [
            f"{self._problems.place(problem.extent)}:"
            f" {problem.key or self._what}{self._of_rule(problem.extent)}: {problem.message}"
            for problem, _ in self._problems.listed()
        ]
        if self._problems.is_cut:
            lines.append(f"more than {MAX_DIAGNOSTICS} errors; the rest is not shown")
        return PolicyInvalid(
            "\n".join(map(harmless, lines)),
            path=self.name,
            total=len(diagnostics),
            diagnostics=diagnostics,
        )

    def _of_rule(self, extent: Extent) -> str:
        rule = self._rule_at(extent)
        return "" if rule is None else f" ({rule!r:.80})"

    def _rule_at(self, extent: Extent) -> str | None:
        start, end = extent
        for (first, last), name in self._rules:
            if first <= start and end <= last:
                return name
        return None


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
