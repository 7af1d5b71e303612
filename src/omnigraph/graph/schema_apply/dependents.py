"""What rests on the schema of an open graph and may refuse a change: stored queries, a policy.

They are asked with the catalog that is about to be accepted, before anything is staged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from omnigraph.errors import SchemaRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.errors import OmnigraphError
    from omnigraph.lang import Catalog


class SchemaDependent(Protocol):
    """Something that was checked against the schema in force."""

    def errors_with(self, catalog: Catalog) -> OmnigraphError | None:
        """What would be wrong with it under another schema, as details `diagnostics`."""


def refuse_broken_dependents(catalog: Catalog, dependents: Sequence[SchemaDependent]) -> None:
    """Refuse a schema under which something that is in use would break.

    Raises:
        SchemaRefused: with every error of every dependent.
    """
    errors = [error for item in dependents if (error := item.errors_with(catalog)) is not None]
    if not errors:
        return
    listed = [item.details.get("diagnostics") for item in errors]
    diagnostics = [item for items in listed if isinstance(items, list) for item in items]
    texts = "\n".join(error.message for error in errors)
    raise SchemaRefused(
        "the schema cannot be applied, nothing was changed: it breaks what this graph was opened"
        f" with\n{texts}",
        diagnostics=diagnostics,
    )
