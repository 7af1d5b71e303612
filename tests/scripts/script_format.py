"""The text format of script files: steps, one after the other, divided by blank lines.

    # What this file is about.

    schema
    node Person { name: String @key  age: I32? }

    load append
    node Person
    name  | age
    "Ann" | 3

    # A null is smaller than any value.
    query
    query q() { match { $p: Person } return { $p.age } order { $p.age } }
    ----
    p.age
    3

A block `extended indexed`, before the schema, leaves these executors to continuous integration.

Knows which steps exist, which words may stand beside them, and which of them have a text or an
expectation; everything else in a file is an error with its file and line. Loops and included files
are gone after parsing: what is left is a list of steps. What a step *means* is the business of
`script_run.py`. A new kind of step is one line in `KINDS`.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

DIVIDER = "----"


class ScriptError(ValueError):
    """A script file that does not follow the format; the message begins with file and line."""


class Part(StrEnum):
    """Whether a step has a text or an expectation."""

    NEVER = "never"
    MAY = "may"
    MUST = "must"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a kind of step looks like: its words, the options among them, and its parts."""

    words: tuple[int, int] = (0, 0)
    """How many words stand beside the kind, at least and at most, options not counted."""
    options: frozenset[str] = frozenset()
    text: Part = Part.MUST
    expects: Part = Part.MAY


KINDS: dict[str, Rule] = {
    "schema": Rule(),
    "load": Rule(words=(1, 1), options=frozenset({"on"})),
    "query": Rule(
        options=frozenset({"on", "at", "unordered", "approx", "within", "cases"}),
        expects=Part.MUST,
    ),
    "mutation": Rule(options=frozenset({"on"}), expects=Part.MUST),
    "branch": Rule(words=(2, 2), options=frozenset({"from"}), text=Part.NEVER),
    "merge": Rule(
        words=(1, 1), options=frozenset({"into", "by"}), text=Part.NEVER, expects=Part.MUST
    ),
    "commit": Rule(words=(1, 1), options=frozenset({"on"}), text=Part.NEVER, expects=Part.NEVER),
    "indexes": Rule(options=frozenset({"on"}), text=Part.NEVER),
    "compact": Rule(words=(1, 1), options=frozenset({"on"}), text=Part.NEVER),
}
FLAGS = frozenset({"unordered", "cases"})
"""Options that stand alone; any other is followed by its value."""

_WITH = re.compile(r"with (?P<name>\w+) = (?P<value>.+)")
_FOR = re.compile(r"for (?P<name>\w+) in (?P<values>.+)")
_INCLUDE = re.compile(r"include (?P<file>\S+)")
_EXTENDED = re.compile(r"extended (?P<executors>.+)")
_NAME = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step as written; `bindings` are the values of the loops around it."""

    path: Path
    line: int
    kind: str
    words: tuple[str, ...]
    options: Mapping[str, str]
    given: Mapping[str, str]
    """What stands in its `with` lines."""
    text: str
    expected: tuple[str, ...] | None
    last: int
    """The number of its last line."""
    bindings: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where the step stands, for messages."""
        return f"{shown_path(self.path)}:{self.line}"

    @property
    def branch(self) -> str:
        """The branch that the step reads or writes."""
        return self.options.get("on") or self.options.get("into", "main")

    def filled(self) -> "Step":
        """The step with the values of its loops in place of their names."""
        if not self.bindings:
            return self
        return replace(
            self,
            words=tuple(fill_in(each, self.bindings) for each in self.words),
            options={name: fill_in(value, self.bindings) for name, value in self.options.items()},
            given={name: fill_in(value, self.bindings) for name, value in self.given.items()},
            text=fill_in(self.text, self.bindings),
            expected=None
            if self.expected is None
            else tuple(fill_in(each, self.bindings) for each in self.expected),
        )

    def error(self, message: str) -> ScriptError:
        """What is wrong with the step, with its place."""
        return ScriptError(f"{self.place}: {message}")


def shown_path(path: Path) -> Path:
    """A path as a person at the root of the project would write it."""
    root = Path(__file__).parents[2]
    return path.relative_to(root) if path.is_relative_to(root) else path


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """The text with `${name}` replaced wherever the name has a value."""
    return _NAME.sub(lambda match: values.get(match[1], match[0]), text)


def read_script(path: Path) -> tuple[Step, ...]:
    """The steps of a file, in the order in which they run.

    Raises:
        ScriptError: the file does not follow the format.
    """
    steps = _Reader(path).read()
    if not steps or steps[0].kind != "schema":
        raise ScriptError(f"{shown_path(path)}:1: a script begins with a schema")
    return steps


def extended_executors(path: Path) -> frozenset[str]:
    """The executors on which the default suite does not play a script: a line before its schema."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        if match := _EXTENDED.fullmatch(line):
            return frozenset(match["executors"].split())
        if line.startswith("schema"):
            break
    return frozenset()


@dataclass(frozen=True, slots=True)
class _Loop:
    line: int
    name: str
    values: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)


class _Reader:
    """Reads one file; the innermost open loop takes the steps."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open = [_Loop(0, "", ())]

    def read(self) -> tuple[Step, ...]:
        lines = self._path.read_text(encoding="utf-8").split("\n")
        block: list[str] = []
        for number, line in enumerate([*lines, ""], start=1):
            if line.strip():
                block.append(line)
            elif block:
                self._take(number - len(block), block)
                block = []
        if len(self._open) > 1:
            raise self._error(self._open[-1].line, "the loop has no `end`")
        return tuple(self._open[0].steps)

    def _take(self, line: int, block: list[str]) -> None:
        """A block of lines between blank ones, of which the first has this number."""
        while block and block[0].startswith("#"):
            line, block = line + 1, block[1:]
        if not block:
            return
        if len(block) == 1 and self._takes_control(line, block[0]):
            return
        self._open[-1].steps.append(self._step(line, block))

    def _takes_control(self, line: int, text: str) -> bool:
        if match := _FOR.fullmatch(text):
            self._open.append(_Loop(line, match["name"], tuple(shlex.split(match["values"]))))
        elif match := _INCLUDE.fullmatch(text):
            self._include(line, self._path.parent / match["file"])
        elif text == "end":
            self._end(line)
        elif _EXTENDED.fullmatch(text):
            if self._open[0].steps:
                raise self._error(line, "`extended` stands before the schema")
        else:
            return False
        return True

    def _include(self, line: int, path: Path) -> None:
        if not path.is_file():
            raise self._error(line, f"there is no file `{path.name}` to include")
        self._open[-1].steps.extend(_Reader(path).read())

    def _end(self, line: int) -> None:
        if len(self._open) == 1:
            raise self._error(line, "`end` without a loop")
        loop = self._open.pop()
        for value in loop.values:
            for step in loop.steps:
                bound = replace(step, bindings={loop.name: value, **step.bindings})
                self._open[-1].steps.append(bound)

    def _step(self, line: int, block: list[str]) -> Step:
        kind, *words = block[0].split()
        rule = KINDS.get(kind)
        if rule is None:
            known = ", ".join([*KINDS, "for", "end", "include", "extended"])
            raise self._error(line, f"unknown step `{kind}`; known are {known}")
        plain, options = self._options(line, words, rule)
        body = block[1:]
        given: dict[str, str] = {}
        while body and (match := _WITH.fullmatch(body[0])):
            given[match["name"]] = match["value"]
            body = body[1:]
        expected: tuple[str, ...] | None = None
        if DIVIDER in body:
            at = body.index(DIVIDER)
            body, expected = body[:at], tuple(body[at + 1 :])
        step = Step(
            path=self._path,
            line=line,
            kind=kind,
            words=plain,
            options=options,
            given=given,
            text="\n".join(body),
            expected=expected,
            last=line + len(block) - 1,
        )
        _require(step, rule)
        return step

    def _options(
        self, line: int, words: Sequence[str], rule: Rule
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """The words beside the kind: the plain ones, and the options by name."""
        plain: list[str] = []
        options: dict[str, str] = {}
        rest = iter(words)
        for word in rest:
            if word not in rule.options:
                plain.append(word)
            elif word in FLAGS:
                options[word] = ""
            else:
                value = next(rest, None)
                if value is None:
                    raise self._error(line, f"a value is missing after `{word}`")
                options[word] = value
        return tuple(plain), options

    def _error(self, line: int, message: str) -> ScriptError:
        return ScriptError(f"{shown_path(self._path)}:{line}: {message}")


def _require(step: Step, rule: Rule) -> None:
    least, most = rule.words
    if not least <= len(step.words) <= most:
        allowed = ", ".join(sorted(rule.options)) or "none"
        raise step.error(
            f"`{step.kind}` has {least} words beside its options ({allowed}),"
            f" not `{' '.join(step.words)}`"
        )
    for part, given, what in (
        (rule.text, bool(step.text), "a text"),
        (rule.expects, step.expected is not None, f"an expectation after `{DIVIDER}`"),
    ):
        if (part is Part.MUST and not given) or (part is Part.NEVER and given):
            raise step.error(f"`{step.kind}` {part} have {what}")
