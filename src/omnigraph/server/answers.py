"""Answers as bytes: JSON by one encoder, and bodies of models with what does not apply left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_encode = msgspec.json.Encoder().encode


class JsonAnswer(Response):
    """A body of JSON values."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The body as UTF-8."""
        return _encode(content)


def answer(
    body: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer of a model."""
    return Response(
        body.model_dump_json(by_alias=True),
        status_code=status,
        media_type="application/json",
        headers=headers,
    )
