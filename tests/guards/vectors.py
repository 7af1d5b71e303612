"""Seeded vectors for the guards of vector indexes."""

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset
from tests.guards.lance_tables import DIMENSION, VECTOR_SCHEMA


def vector_rows(prefix: str, count: int) -> pa.Table:
    """Rows `<prefix>0` and on, each with its own word and a vector that depends on the prefix."""
    generator = np.random.default_rng(sum(prefix.encode()))
    values = generator.normal(size=count * DIMENSION).astype(np.float32)
    return pa.table(
        {
            "id": [f"{prefix}{number}" for number in range(count)],
            "body": [f"wolf word{number}" for number in range(count)],
            "rank": list(range(count)),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(values), DIMENSION),
        },
        schema=VECTOR_SCHEMA,
    )


def near(table: LanceDataset, row_id: str, k: int = 3) -> list[str]:
    """The ids of the rows nearest to the vector of one row, itself first."""
    found = table.to_table(columns=["vector"], filter=pc.field("id") == row_id)
    query = {"column": "vector", "q": found["vector"][0].as_py(), "k": k, "metric": "cosine"}
    return cast("list[str]", table.to_table(columns=["id"], nearest=query)["id"].to_pylist())
