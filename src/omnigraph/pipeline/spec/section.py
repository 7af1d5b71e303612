"""Reads one mapping of a configuration file key by key, and records what is wrong with it.

A reader never raises: what cannot be read becomes a recorded problem and a stand-in value, so that
one pass finds every mistake. Whoever asked throws the problems before the stand-ins are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.yaml_tree import (
    Problems,
    ScalarKind,
    YamlList,
    YamlMap,
    YamlNode,
    YamlScalar,
    shape_of,
)
from omnigraph.pipeline.spec.secrets import (
    fill_in,
    has_reference,
    holds_url_secret,
    is_secret_option,
    missing_variables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from omnigraph.lang.source import Extent

_Word = TypeVar("_Word", bound=StrEnum)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """What every reading needs: the variables, and where problems go."""

    problems: Problems
    environ: Mapping[str, str]

    def section(self, node: YamlNode | None, key: str, known: Sequence[str]) -> Section | None:
        """A mapping with these keys and no others; None if it is none."""
        if node is None:
            return None
        if not isinstance(node, YamlMap):
            self.refuse(node, key, "type", f"expected keys and values, not {shape_of(node)}")
            return None
        for name, extent in node.keys.items():
            if name not in known:
                hint = did_you_mean(name, known, otherwise="the keys here are")
                self.problems.record(extent, join(key, name), "unknown_key", f"unknown key{hint}")
        return Section(reader=self, node=node, key=key)

    def text(self, node: YamlNode, key: str) -> str:
        """A text with its variables filled in."""
        if not isinstance(node, YamlScalar) or node.kind is not ScalarKind.TEXT:
            quote = "; put it in quotes" if isinstance(node, YamlScalar) and node.text else ""
            self.refuse(node, key, "type", f"expected a text, not {shape_of(node)}{quote}")
            return ""
        if not node.text.strip():
            self.refuse(node, key, "type", "expected a text, not an empty one")
            return ""
        return self._fill_in(node, key)

    def option(self, node: YamlNode, key: str, name: str) -> str:
        """The value of a reader's option, as Spark spells it."""
        if not isinstance(node, YamlScalar) or node.kind is ScalarKind.NOTHING:
            self.refuse(node, key, "type", f"expected a single value, not {shape_of(node)}")
            return ""
        if is_secret_option(name) and node.text and not has_reference(node.text):
            self.refuse(
                node,
                key,
                "secret_in_file",
                "do not put secrets in the file; use an environment variable, as in ${NAME}",
            )
        if node.kind is ScalarKind.FLAG:
            return str(_is_true(node.text)).lower()
        return self._fill_in(node, key)

    def parsed(
        self, node: YamlNode, key: str, parse: Callable[[str], _Value], otherwise: _Value
    ) -> _Value:
        """A single value, read by a parser that says what it expected."""
        if not isinstance(node, YamlScalar):
            self.refuse(node, key, "type", f"expected a single value, not {shape_of(node)}")
            return otherwise
        text = self._fill_in(node, key) if has_reference(node.text) else node.text
        try:
            return parse(text)
        except ValueError as error:
            self.refuse(node, key, "value", str(error))
            return otherwise

    def word(self, node: YamlNode, key: str, words: type[_Word]) -> _Word | None:
        """One of a closed set of words."""
        text = self.text(node, key)
        if text in set(words):
            return words(text)
        if text:
            hint = did_you_mean(text, words)
            self.refuse(node, key, "value", f"expected one of {', '.join(words)}{hint}")
        return None

    def flag(self, node: YamlNode, key: str) -> bool:
        """`true` or `false`."""
        if isinstance(node, YamlScalar) and node.kind is ScalarKind.FLAG:
            return _is_true(node.text)
        self.refuse(node, key, "type", f"expected true or false, not {shape_of(node)}")
        return False

    def items(self, node: YamlNode | None, key: str) -> Iterator[tuple[YamlNode, str]]:
        """The items of a list, each with its key."""
        if isinstance(node, YamlList):
            yield from ((item, f"{key}[{at}]") for at, item in enumerate(node.items))
        elif node is not None:
            self.refuse(node, key, "type", f"expected a list, not {shape_of(node)}")

    def refuse(self, node: YamlNode, key: str, reason: str, message: str) -> None:
        """Record a problem at a node."""
        extent = node.extent if isinstance(node, YamlScalar) else _start(node.extent)
        self.problems.record(extent, key, reason, message)

    def _fill_in(self, node: YamlScalar, key: str) -> str:
        if holds_url_secret(node.text):
            self.refuse(
                node,
                key,
                "secret_in_file",
                "the address carries a secret; do not put secrets in the file, use an environment"
                " variable, as in ${NAME}",
            )
        missing = list(missing_variables(node.text, self.environ))
        for message in missing:
            self.refuse(node, key, "variable", message)
        return "" if missing else fill_in(node.text, self.environ)


@dataclass(frozen=True, slots=True)
class Section:
    """One mapping whose keys are known."""

    reader: ConfigReader
    node: YamlMap
    key: str

    def get(self, name: str) -> YamlNode | None:
        """The value under a key; a key without any value is recorded."""
        value = self.node.values.get(name)
        if isinstance(value, YamlScalar) and value.kind is ScalarKind.NOTHING:
            self.refuse(name, "type", "the key has no value; give one, or remove the key")
            return None
        return value

    def need(self, name: str) -> YamlNode | None:
        """The value under a key that must be there."""
        if name not in self.node.keys:
            self.reader.refuse(self.node, self.key, "missing_key", f"the key `{name}` is missing")
        return self.get(name)

    def path(self, name: str) -> str:
        """The key with all that leads to it."""
        return join(self.key, name)

    def text(self, name: str) -> str | None:
        """A text, if it is there."""
        node = self.get(name)
        return None if node is None else self.reader.text(node, self.path(name))

    def needed_text(self, name: str) -> str:
        """A text that must be there."""
        node = self.need(name)
        return "" if node is None else self.reader.text(node, self.path(name))

    def needed_word(self, name: str, words: type[_Word]) -> _Word | None:
        """One of a closed set of words, which must be there."""
        node = self.need(name)
        return None if node is None else self.reader.word(node, self.path(name), words)

    def flag(self, name: str) -> bool:
        """`true` or `false`; false when it is not there."""
        node = self.get(name)
        return False if node is None else self.reader.flag(node, self.path(name))

    def section(self, name: str, known: Sequence[str]) -> Section | None:
        """A mapping below this one."""
        return self.reader.section(self.get(name), self.path(name), known)

    def entries(self, name: str) -> Iterator[tuple[str, YamlNode, str]]:
        """Name, value and key of each entry of a mapping whose keys the user chooses."""
        node = self.get(name)
        if isinstance(node, YamlMap):
            for entry, value in node.values.items():
                yield entry, value, join(self.path(name), entry)
        elif node is not None:
            self.refuse(name, "type", f"expected keys and values, not {shape_of(node)}")

    def refuse(self, name: str, reason: str, message: str) -> None:
        """Record a problem at a key that is there."""
        extent = self.node.keys.get(name, _start(self.node.extent))
        self.reader.problems.record(extent, self.path(name), reason, message)


def join(key: str, name: str) -> str:
    """The key of an entry: `sources.people`."""
    return f"{key}.{name}" if key else name


def whole_number(text: str) -> int:
    """A whole number from 0.

    Raises:
        ValueError: it is none.
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError("expected a whole number")
    return int(text)


def _start(extent: Extent) -> Extent:
    return extent[0], extent[0]


def _is_true(text: str) -> bool:
    return text.lower() in {"true", "yes", "on"}
