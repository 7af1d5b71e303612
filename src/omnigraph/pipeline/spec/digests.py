"""Short digests of texts, for keys that tell one job from another."""

from __future__ import annotations

import hashlib


def text_digest(text: str, *, size_bytes: int = 16) -> str:
    """The same for the same text, in any process; hexadecimal."""
    return hashlib.blake2b(text.encode(), digest_size=size_bytes).hexdigest()
