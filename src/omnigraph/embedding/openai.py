"""The providers `openai` and `openai-compatible`: `POST {base}/embeddings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.embedding.wire import Ask, IndexedRow, Unreadable, Wire, items, member

if TYPE_CHECKING:
    from omnigraph.errors import JsonValue


def _key_header(key: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {key}"


def _path_and_body(ask: Ask) -> tuple[str, JsonValue]:
    return "/embeddings", {
        "model": ask.model,
        "input": list(ask.texts),
        "dimensions": ask.dimension,
    }


def _read_rows(answer: object) -> list[IndexedRow]:
    """By index where there is one; some compatible servers leave it out and keep the order."""
    return [
        (_index(item, at), member(item, "embedding"))
        for at, item in enumerate(items(member(answer, "data")))
    ]


def _index(item: object, at: int) -> int:
    index = item.get("index", at) if isinstance(item, dict) else at
    if not isinstance(index, int):
        raise Unreadable
    return index


OPENAI: Final = Wire(
    provider="openai",
    base_url="https://api.openai.com/v1",
    keys={"OPENAI_API_KEY": lambda settings: settings.openai_api_key},
    key_header=_key_header,
    path_and_body=_path_and_body,
    read_rows=_read_rows,
)

OPENAI_COMPATIBLE: Final = Wire(
    provider="openai-compatible",
    base_url="https://openrouter.ai/api/v1",
    keys={
        "OPENROUTER_API_KEY": lambda settings: settings.openrouter_api_key,
        "OPENAI_API_KEY": lambda settings: settings.openai_api_key,
    },
    key_header=_key_header,
    path_and_body=_path_and_body,
    read_rows=_read_rows,
)
