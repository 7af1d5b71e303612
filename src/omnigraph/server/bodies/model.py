"""What all bodies share: names of fields that may be missing, and names of branches."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

T = TypeVar("T")


def is_none(value: object) -> bool:
    """Whether a field does not apply and is left out."""
    return value is None


def trimmed_branch(name: str) -> str:
    """The name of a branch without what surrounds it: policy and engine see the same text.

    Raises:
        ValueError: nothing is left of it.
    """
    trimmed = name.strip()
    if not trimmed:
        raise ValueError("the name of a branch is empty")
    return trimmed


BranchField = Annotated[str, AfterValidator(trimmed_branch)]
"""The name of a branch in a request."""

Omitted = Annotated[T | None, Field(exclude_if=is_none)]
"""A field of an answer that is left out where it does not apply."""

Params = dict[str, Any]
"""Values of parameters by name; which types they may have, their query declares."""


class RequestBody(BaseModel):
    """What a client sends; fields that nobody knows are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class StrictRequestBody(BaseModel):
    """What a client sends where a field that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AnswerBody(BaseModel):
    """What a client gets; made from a value of the engine by the names of its attributes."""

    model_config = ConfigDict(from_attributes=True, frozen=True, populate_by_name=True)
