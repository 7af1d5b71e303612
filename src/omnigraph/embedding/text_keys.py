"""The key under which the vector of a text is known: a digest of model, dimension and text.

Keys stand for texts wherever texts would be too long, or should not be seen.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_BYTES: Final = 16
_PERSON: Final = b"omnigraph text"


def text_keys(model: str, dimension: int, texts: Sequence[str]) -> list[bytes]:
    """The key of each text, in order; equal texts have equal keys."""
    named = model.encode(errors="surrogatepass")
    # The length of the model, so that no two triples run together to the same bytes.
    head = b"%d %d %b" % (dimension, len(named), named)
    base = blake2b(head, digest_size=KEY_BYTES, person=_PERSON)
    keys = []
    for text in texts:
        digest = base.copy()
        digest.update(text.encode())
        keys.append(digest.digest())
    return keys
