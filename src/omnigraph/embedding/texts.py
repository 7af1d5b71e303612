"""Rules on the texts of a call, and how they are cut into batches.

A text never appears in an error, only its position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import EmbeddingInvalid, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def check_texts(texts: Sequence[str]) -> None:
    """Do nothing if every text can be embedded.

    Raises:
        InvalidArgument: one text was given where a list of them belongs.
        EmbeddingInvalid: a text is empty, is none, or is not Unicode; details `position`.
    """
    if isinstance(texts, str):
        raise InvalidArgument("texts are a list of texts, not one text", argument="texts")
    for position, text in enumerate(texts):
        fault = _fault(text)
        if fault:
            raise EmbeddingInvalid(
                f"text {position} of {len(texts)} {fault}; give it a text, or leave it out",
                position=position,
            )


def in_batches(texts: Sequence[str], size: int) -> Iterator[tuple[int, Sequence[str]]]:
    """The texts in order, at most `size` at a time, each time with the position of the first."""
    for first in range(0, len(texts), size):
        yield first, texts[first : first + size]


def _fault(text: object) -> str:
    if not isinstance(text, str):
        return f"is of type {type(text).__name__}"
    if not text:
        return "is empty"
    try:
        text.encode()
    except UnicodeEncodeError:  # Holds the text, so it must not become the cause of an error.
        return "is not Unicode: it holds half of a surrogate pair"
    return ""
