"""The text format of corpus files: cases made of named sections.

    # What this file is about.
    --- schema: S                     a section before the first case holds for every case

    === a-case-name
    # A note of the case.
    --- match ($q: String)            a section: its name, an argument, then its text
    $p: Person { name: $q }
    --- expect accepted

Knows which sections exist, which of them take an argument or a text, and which may be repeated;
everything else in a file is an error. What a section *means* is the business of the runner. A new
kind of section is one line in `SECTIONS`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Part(StrEnum):
    """Whether a section has an argument or a text."""

    NEVER = "never"
    MAY = "may"
    MUST = "must"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a kind of section looks like."""

    argument: Part = Part.NEVER
    text: Part = Part.MUST
    repeatable: bool = False


SECTIONS: dict[str, Rule] = {
    # Input.
    "schema": Rule(argument=Part.MAY, text=Part.MAY),
    "desired": Rule(argument=Part.MAY, text=Part.MAY),
    "query": Rule(argument=Part.MAY, text=Part.MAY),
    "body": Rule(argument=Part.MAY),
    "match": Rule(argument=Part.MAY),
    "select": Rule(argument=Part.MUST, text=Part.NEVER),
    "rows": Rule(),
    # Expectation: `accepted`, or findings in the order of the text.
    "expect": Rule(argument=Part.MUST, text=Part.NEVER, repeatable=True),
    # What an accepted source means.
    "catalog": Rule(),
    "columns": Rule(),
    "reads": Rule(argument=Part.MUST, text=Part.NEVER),
    "writes": Rule(argument=Part.MUST, text=Part.NEVER),
    "ir": Rule(),
    "stored": Rule(),
    "lint": Rule(text=Part.MAY),
    "plan": Rule(argument=Part.MUST, text=Part.MAY),
}

_CASE = re.compile(r"=== (?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)")
_SECTION = re.compile(r"--- (?P<name>[a-z]+)(?P<reference>:)?(?: (?P<argument>\S.*))?")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\([nrt\\])|\\(.)")
_ESCAPED = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}


class CorpusError(ValueError):
    """A corpus file that does not follow the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section as written; `reference` for `--- schema: NAME`."""

    name: str
    argument: str
    text: str
    line: int
    reference: bool = False

    def source(self) -> bytes:
        """The text as bytes; with the argument `escaped`, `\\xHH \\n \\r \\t \\\\` are replaced."""
        if self.argument != "escaped":
            return self.text.encode()
        return b"".join(_unescaped(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a file; sections of the file's head come first unless the case has its own."""

    path: Path
    file: str
    name: str
    line: int
    sections: tuple[Section, ...]

    @property
    def id(self) -> str:
        """The name under which the case runs."""
        return f"{self.file}::{self.name}"

    @property
    def place(self) -> str:
        """Where the case stands, for messages."""
        return f"{self.path}:{self.line}"

    def section(self, name: str) -> Section | None:
        """The section of that name, or None."""
        return next((item for item in self.sections if item.name == name), None)

    def all(self, name: str) -> tuple[Section, ...]:
        """Every section of that name, in order."""
        return tuple(item for item in self.sections if item.name == name)


@dataclass(slots=True, kw_only=True)
class _Open:
    """A case or section that is being read."""

    header: str
    line: int
    sections: list[Section] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


def read_cases(root: Path) -> Iterator[Case]:
    """Every case below a folder, files in the order of their names."""
    for path in sorted(root.rglob("*.test")):
        file = path.relative_to(root).with_suffix("").as_posix()
        yield from parse_file(path.read_text(encoding="utf-8"), path=path, file=file)


def parse_file(text: str, *, path: Path, file: str) -> tuple[Case, ...]:
    """The cases of one file.

    Raises:
        CorpusError: an unknown or misplaced section, a repeated name, or text where none may stand.
    """
    reader = _Reader(path=path, file=file)
    for number, line in enumerate(text.split("\n"), start=1):
        reader.line(number, line)
    return reader.finish()


@dataclass(slots=True, kw_only=True)
class _Reader:
    path: Path
    file: str
    head: list[Section] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    case: _Open | None = None
    section: _Open | None = None

    def line(self, number: int, line: str) -> None:
        if line.startswith("==="):
            self.close_case()
            match = _CASE.fullmatch(line)
            if match is None:
                raise self.error(number, f"a case is `=== name-in-kebab-case`, not `{line}`")
            self.case = _Open(header=match["name"], line=number)
        elif line.startswith("--- "):
            self.close_section()
            self.section = _Open(header=line, line=number)
        elif self.section is not None:
            self.section.text.append(line)
        elif line and not line.startswith("#"):
            raise self.error(number, f"text outside a section: `{line}`")

    def finish(self) -> tuple[Case, ...]:
        self.close_case()
        if not self.cases:
            raise self.error(1, "the file has no case")
        return tuple(self.cases)

    def close_section(self) -> None:
        if self.section is None:
            return
        found = self.read_section(self.section)
        into = self.head if self.case is None else self.case.sections
        if not SECTIONS[found.name].repeatable and any(item.name == found.name for item in into):
            raise self.error(found.line, f"section `{found.name}` is given twice")
        into.append(found)
        self.section = None

    def read_section(self, opened: _Open) -> Section:
        match = _SECTION.fullmatch(opened.header)
        if match is None or match["name"] not in SECTIONS:
            known = ", ".join(SECTIONS)
            raise self.error(opened.line, f"unknown section `{opened.header}`; known are {known}")
        text = "\n".join(opened.text).rstrip("\n")
        argument = match["argument"] or ""
        rule = SECTIONS[match["name"]]
        for part, given, what in (
            (rule.argument, argument, "argument"),
            (rule.text, text.strip(), "text"),
        ):
            if (part is Part.MUST and not given) or (part is Part.NEVER and given):
                raise self.error(opened.line, f"`{opened.header}` {part} have {_article(what)}")
        if match["reference"] and (text or not argument):
            raise self.error(opened.line, "a reference is `--- schema: NAME`, without text")
        return Section(
            name=match["name"],
            argument=argument,
            text=text,
            line=opened.line,
            reference=bool(match["reference"]),
        )

    def close_case(self) -> None:
        self.close_section()
        if self.case is None:
            return
        own = self.case.sections
        names = {item.name for item in own}
        if any(case.name == self.case.header for case in self.cases):
            raise self.error(self.case.line, f"case `{self.case.header}` is given twice")
        if not names & {"expect", "plan", "lint"}:
            raise self.error(self.case.line, f"case `{self.case.header}` expects nothing")
        inherited = [item for item in self.head if item.name not in names]
        self.cases.append(
            Case(
                path=self.path,
                file=self.file,
                name=self.case.header,
                line=self.case.line,
                sections=(*inherited, *own),
            )
        )
        self.case = None

    def error(self, line: int, message: str) -> CorpusError:
        return CorpusError(f"{self.path}:{line}: {message}")


def _article(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _unescaped(section: Section) -> Iterator[bytes]:
    position = 0
    for match in _ESCAPE.finditer(section.text):
        yield section.text[position : match.start()].encode()
        if match[3]:
            raise CorpusError(f"line {section.line}: unknown escape `{match[0]}`")
        yield bytes.fromhex(match[1]) if match[1] else _ESCAPED[match[2]]
        position = match.end()
    yield section.text[position:].encode()
