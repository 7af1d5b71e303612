"""Requests for the schema: shown, planned, applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.client import decoding
from omnigraph.client.calls.requests import get, post, target_text
from omnigraph.errors import InvalidArgument
from omnigraph.graph.schema_apply.schema_text import schema_text
from omnigraph.lang import SchemaPlan

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.client.call import Call
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.schema_apply.applied import SchemaApplied


def schema_source(*, at: ReadTarget | None = None) -> Call[str]:
    """The schema in force, now or at a state."""
    return get("schema", lambda answer: str(answer.json()["schema_source"]), at=target_text(at))


def schema_hash() -> Call[str | None]:
    """The hash of the schema in force; an older server does not tell it."""
    return get("schema", lambda answer: answer.headers.get("omnigraph-schema-hash"))


def apply_schema(
    wanted: str | Path | SchemaPlan, *, allow_data_loss: bool = False
) -> Call[SchemaApplied]:
    """A change of the schema; a plan is applied to the schema alone that it was made for.

    Raises:
        InvalidArgument: the file cannot be read, or the plan is one of no graph.
    """
    if isinstance(wanted, SchemaPlan):
        source, body = _planned(wanted, allow_data_loss=allow_data_loss)
    else:
        source = schema_text(wanted)
        body = {"schema_source": source, "allow_data_loss": allow_data_loss}
    return post(
        "schema/apply",
        body,
        lambda answer: decoding.schema_applied(answer, source),
        is_write=True,
        source=source,
    )


def _planned(plan: SchemaPlan, *, allow_data_loss: bool) -> tuple[str, dict[str, object]]:
    if plan.source is None or plan.schema_from is None:
        raise InvalidArgument(
            "this plan was made without a graph; make it with `graph.schema.plan`",
            argument="source_or_plan",
        )
    if allow_data_loss and not plan.allow_data_loss:
        raise InvalidArgument(
            "this plan was made without data loss; plan again with allow_data_loss=True",
            argument="allow_data_loss",
        )
    return plan.source, {
        "schema_source": plan.source,
        "allow_data_loss": plan.allow_data_loss,
        "schema_from": plan.schema_from,
    }


def plan_schema(schema: str | Path, *, allow_data_loss: bool = False) -> Call[SchemaPlan]:
    """The steps to a schema.

    Raises:
        InvalidArgument: the file cannot be read.
    """
    source = schema_text(schema)
    body = {"schema_source": source, "allow_data_loss": allow_data_loss}
    return post(
        "schema/plan",
        body,
        lambda answer: decoding.schema_plan(answer, source, allow_data_loss=allow_data_loss),
        source=source,
    )
