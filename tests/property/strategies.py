"""Every generator of the suite, for the tests of the languages and of what executes them.

- `schema_trees`, `query_trees`: any syntax tree that has a text; most mean nothing.
- `schemas()`: schemas that compile, with text and catalog.
- `reads(catalog)`, `mutations(catalog)`, `well_typed(catalog)`: queries that check. `QueryShape`
  bounds their size and leaves out what an executor under test does not have.
- `CATALOG`: a fixed schema with every kind of property, edge and constraint.
"""

from tests.property.queries import (
    GeneratedQuery,
    QueryShape,
    mutations,
    reads,
    scalar_literals,
    well_typed,
)
from tests.property.schemas import (
    CATALOG,
    FIXED_SCHEMA,
    GeneratedSchema,
    schema_declarations,
    schema_of,
    schemas,
)
from tests.property.syntax import query_trees, schema_trees

__all__ = [
    "CATALOG",
    "FIXED_SCHEMA",
    "GeneratedQuery",
    "GeneratedSchema",
    "QueryShape",
    "mutations",
    "query_trees",
    "reads",
    "scalar_literals",
    "schema_declarations",
    "schema_of",
    "schema_trees",
    "schemas",
    "well_typed",
]
