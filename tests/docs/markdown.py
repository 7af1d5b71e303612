"""The pages of the documentation: their fenced blocks, their anchors and their links.

Reads as much Markdown as the pages use. Whatever is inside a fence is never taken for prose.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)(`{3,})([^`]*)$")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$")
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block; `line` is that of its opening fence."""

    page: str
    line: int
    info: str
    text: str
    is_closed: bool
    follows_at_once: bool
    """Only blank lines stand between the block before and this one."""

    @property
    def id(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def language(self) -> str:
        return self.info.split()[0] if self.info else ""

    @property
    def options(self) -> dict[str, str]:
        """The words after the language: `error=T6` as a pair, `clause` with an empty value."""
        pairs = (word.partition("=") for word in self.info.split()[1:])
        return {name: value for name, _, value in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link of the prose."""

    page: str
    line: int
    target: str

    @property
    def id(self) -> str:
        return f"{self.page}:{self.line}:{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One file, cut into blocks and numbered lines of prose."""

    path: str
    blocks: tuple[Block, ...]
    prose: tuple[tuple[int, str], ...]

    @property
    def anchors(self) -> list[str]:
        """The places that a link can name, in order."""
        return list(self._anchors())

    @property
    def explicit_anchors(self) -> list[str]:
        """Those written as `<a id="…"></a>`."""
        return [name for _, line in self.prose for name in _ANCHOR.findall(line)]

    @property
    def links(self) -> list[Link]:
        return [
            Link(page=self.path, line=number, target=target)
            for number, line in self.prose
            for target in _LINK.findall(_CODE_SPAN.sub("``", line))
        ]

    def _anchors(self) -> Iterator[str]:
        seen: dict[str, int] = {}
        for _, line in self.prose:
            yield from _ANCHOR.findall(line)
            heading = _HEADING.match(line)
            if heading:
                slug = slug_of(heading[1])
                count = seen[slug] = seen.get(slug, -1) + 1
                yield f"{slug}-{count}" if count else slug


def slug_of(heading: str) -> str:
    """The anchor that the usual renderers give to a heading."""
    kept = re.sub(r"[^\w\- ]", "", _ANCHOR.sub("", heading).strip().lower())
    return kept.replace(" ", "-")


def list_pages() -> list[str]:
    """Every page a reader is sent to, relative to the root of the repository."""
    fixed = [
        "README.md",
        "CONTRIBUTING.md",
        "examples/papers/README.md",
        "examples/flights/README.md",
    ]
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return [*fixed, *docs]


@cache
def read_page(path: str) -> Page:
    """One page."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    blocks: list[Block] = []
    prose: list[tuple[int, str]] = []
    had_words = True
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            prose.append((at + 1, lines[at]))
            had_words = had_words or bool(lines[at].strip())
            at += 1
            continue
        end = _closing(lines, at + 1, opening[2])
        blocks.append(
            Block(
                page=path,
                line=at + 1,
                info=opening[3].strip(),
                text="".join(f"{_dedent(line, opening[1])}\n" for line in lines[at + 1 : end]),
                is_closed=end < len(lines),
                follows_at_once=not had_words,
            )
        )
        had_words = False
        at = end + 1
    return Page(path=path, blocks=tuple(blocks), prose=tuple(prose))


def _closing(lines: list[str], start: int, fence: str) -> int:
    for number in range(start, len(lines)):
        if lines[number].strip() == fence:
            return number
    return len(lines)


def _dedent(line: str, indent: str) -> str:
    return line.removeprefix(indent)
