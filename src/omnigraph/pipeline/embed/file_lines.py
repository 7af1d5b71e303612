"""Lines of a file on their way through `embed`: which are chosen, what their texts are.

A line that is not changed is written as it came. Of one that is, every member but the vector keeps
its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.errors import SourceError
from omnigraph.pipeline.files.splits import read_blocks
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from omnigraph.pipeline.embed.file_spec import EmbedSpec, Selector, TypeSpec
    from omnigraph.pipeline.files.splits import Split


class FileMode(StrEnum):
    """What becomes of the records that are chosen."""

    FILL_MISSING = "fill_missing"
    """Those without a vector get one; with selectors all of them."""
    REEMBED_ALL = "reembed_all"
    CLEAN = "clean"
    """Their vectors go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChoice:
    """Which records of a file are meant, and what is done with them."""

    spec: EmbedSpec
    mode: FileMode
    types: frozenset[str] = frozenset()
    """Only these; all without any."""
    selectors: tuple[Selector, ...] = ()
    """Only records that one of them matches; all without any."""

    @property
    def mode_name(self) -> str:
        """The mode as the summary names it."""
        if self.mode is FileMode.FILL_MISSING and self.selectors:
            return "reembed_selected"
        return self.mode.value


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLine:
    """One record."""

    line: bytes
    where: str
    is_selected: bool = False
    target: str = ""
    text: str | None = None
    """What is embedded, if anything is."""
    is_cleaned: bool = False

    def written(self, vector: npt.NDArray[np.float32] | None) -> bytes:
        """The line as it is written, with the vector of its text if it has one."""
        if vector is None and not self.is_cleaned:
            return self.line
        root = _members(self.line, self.where)
        data = _members(bytes(root["data"]), self.where)
        if vector is None:
            del data[self.target]
        else:
            # The shortest digits that give the same float32 again.
            values = [float(str(value)) for value in vector]
            data[self.target] = msgspec.Raw(msgspec.json.encode(values))
        return msgspec.json.encode(root | {"data": data})


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTexts:
    """The texts of one split of a file."""

    split: Split
    choice: LineChoice
    block_bytes: int

    def texts(self) -> Iterator[tuple[str, str]]:
        """Each record that is embedded, and its text."""
        for each in self.lines():
            if each.text is not None:
                yield each.where, each.text

    def lines(self) -> Iterator[JudgedLine]:
        """Every record of the split.

        Raises:
            SourceError: a line is no record.
            InputChanged: the file is not what it was.
        """
        from omnigraph.storage.input_files import InputFiles

        files = InputFiles(load_process_settings().storage)
        number = 0
        behind = f" after byte {self.split.start:,}" if self.split.start else ""
        for block in read_blocks(files, self.split, self.block_bytes):
            for line in block.split(b"\n"):
                number += 1
                record = line.strip()
                if record:
                    where = f"{self.split.file.uri}, line {number:,}{behind}"
                    yield judge(record, where, self.choice)


def judge(line: bytes, where: str, choice: LineChoice) -> JudgedLine:
    """What is done with one record.

    Raises:
        SourceError: it is no record.
    """
    root = _members(line, where)
    type_name = _value(root["type"], where) if "type" in root else None
    if not isinstance(type_name, str):
        return JudgedLine(line=line, where=where)
    if "data" not in root:
        raise SourceError(f"{where}: the record has no object `data`", where=where)
    data = _members(bytes(root["data"]), where)
    is_selected = _is_selected(type_name, data, where, choice)
    judged = JudgedLine(line=line, where=where, is_selected=is_selected)
    spec = choice.spec.types.get(type_name)
    if spec is None or not is_selected:
        return judged
    if choice.mode is FileMode.CLEAN:
        return JudgedLine(
            line=line,
            where=where,
            is_selected=True,
            target=spec.target,
            is_cleaned=spec.target in data,
        )
    is_anew = choice.mode is FileMode.REEMBED_ALL or bool(choice.selectors)
    if not is_anew and not _is_missing(data.get(spec.target), where):
        return judged
    return JudgedLine(
        line=line,
        where=where,
        is_selected=True,
        target=spec.target,
        text=_text_of(type_name, spec, data, where),
    )


def _is_selected(
    type_name: str, data: dict[str, msgspec.Raw], where: str, choice: LineChoice
) -> bool:
    if choice.types and type_name not in choice.types:
        return False
    return not choice.selectors or any(
        each.type_name in (None, type_name)
        and each.member in data
        and render(_value(data[each.member], where)) == each.value
        for each in choice.selectors
    )


def _is_missing(held: msgspec.Raw | None, where: str) -> bool:
    return held is None or _value(held, where) in (None, [])


def _text_of(type_name: str, spec: TypeSpec, data: dict[str, msgspec.Raw], where: str) -> str:
    parts = [f"type: {type_name}"]
    for name in spec.fields:
        value = render(_value(data[name], where)) if name in data else ""
        if value:
            parts.append(f"{name}: {value}")
    return "\n".join(parts)


def render(value: Any) -> str:  # noqa: ANN401 - any JSON
    """A JSON value as it stands in a text, or in a selector."""
    match value:
        case None:
            return ""
        case str():
            return value.strip()
        case list():
            return ", ".join(filter(None, map(render, value)))
        case _:
            return msgspec.json.encode(value).decode()


def _members(data: bytes, where: str) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SourceError(f"{where}: {error}", where=where) from error


# Any: any JSON
def _value(raw: msgspec.Raw, where: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SourceError(f"{where}: {error}", where=where) from error
