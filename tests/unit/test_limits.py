from __future__ import annotations

from omnigraph import limits
from omnigraph.settings import load_settings

MIB = 1_048_576


def test_the_limits_are_those_of_the_contract() -> None:
    found = {name: value for name, value in vars(limits).items() if name.startswith("MAX_")}
    assert found == {
        "MAX_REQUEST_BODY_BYTES": 1 * MIB,
        "MAX_REQUEST_LOAD_BYTES": 32 * MIB,
        "MAX_SOURCE_BYTES": 1 * MIB,
        "MAX_NESTING": 64,
        "MAX_VALUE_DEPTH": 64,
        "MAX_LIST_PARAMETER": 100_000,
        "MAX_HOPS": 64,
        "MAX_COLLECTED": 10_000,
        "MAX_SCHEMA_PROPERTIES": 100_000,
        "MAX_DIAGNOSTICS": 100,
        "MAX_MUTATION_ROWS": 8_192,
        "MAX_MUTATION_ARROW_BYTES": 32 * MIB,
        "MAX_NDJSON_LINE_BYTES": 32 * MIB,
        "MAX_NDJSON_STRUCTURAL_SLOTS": 131_072,
        "MAX_LOAD_ARROW_BYTES": 256 * MIB,
        "MAX_DECODED_BLOB_BYTES": 32 * MIB,
        "MAX_BLOB_READ_BYTES": 4 * MIB,
        "MAX_EXTERNAL_BLOB_URI_BYTES": 65_536,
        "MAX_EXTERNAL_BLOB_CELLS": 8_192,
        "MAX_CHANGES_PER_PAGE": 8_192,
        "MAX_LINKS_PER_TABLE": 3,
        "MAX_OPERATION_TABLES": 1_024,
        "MAX_REPREPARE_ATTEMPTS": 32,
        "MAX_PUBLISH_ROUNDS": 5,
        "MAX_ROWS_RESTAGED_UNDER_LEASE": 10_000,
        "MAX_MOVES_WITHOUT_LEASE": 3,
        "MAX_SIDECAR_BYTES": 8 * MIB,
        "MAX_MERGE_ROWS": 1_000_000,
        "MAX_MERGE_ARROW_BYTES": 2048 * MIB,
    }


def test_a_source_fits_into_a_request() -> None:
    assert limits.MAX_SOURCE_BYTES <= limits.MAX_REQUEST_BODY_BYTES


def test_a_load_over_http_may_be_as_large_as_an_in_process_load() -> None:
    assert load_settings({}).spark.min_input_bytes == limits.MAX_REQUEST_LOAD_BYTES
