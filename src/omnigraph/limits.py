"""Limits that no setting changes.

A limit is here when raising it would not help anybody: beyond it another path exists (mostly the
pipeline), or the input is a mistake. Exceeding one is a typed error before any durable effect.
Limits that an operator may want to move are in `settings.py`.
"""

from __future__ import annotations

from typing import Final

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

# Requests. A body is counted while it arrives, before anything parses it. Loads have their own
# size, equal to the default threshold above which a load belongs to the pipeline.
MAX_REQUEST_BODY_BYTES: Final = 1 * _MIB
MAX_REQUEST_LOAD_BYTES: Final = 32 * _MIB

# Sources. No source can be larger than the request that may carry it. Nesting is bounded far below
# the interpreter's stack, so that no input can exhaust it. A larger hop bound is almost always a
# mistake: such a walk reaches whatever can be reached at all. Properties are counted after the
# interfaces are copied into their nodes, where a short text can become very many. Findings stop
# where nobody reads on.
MAX_SOURCE_BYTES: Final = 1_048_576
MAX_NESTING: Final = 64
MAX_VALUE_DEPTH: Final = 64
MAX_LIST_PARAMETER: Final = 100_000
MAX_HOPS: Final = 64
MAX_COLLECTED: Final = 10_000
MAX_SCHEMA_PROPERTIES: Final = 100_000
MAX_DIAGNOSTICS: Final = 100

# One `.gq` mutation, per table. It is staged in memory and checked key by key; more is a load.
MAX_MUTATION_ROWS: Final = 8_192
MAX_MUTATION_ARROW_BYTES: Final = 32 * _MIB

# One in-process load. A line is decoded as a whole, and a short line can still expand into very
# many objects, hence the bound on its `{ } [ ] , :`. Larger loads run on Spark, which streams.
MAX_NDJSON_LINE_BYTES: Final = 32 * _MIB
MAX_NDJSON_STRUCTURAL_SLOTS: Final = 131_072
MAX_LOAD_ARROW_BYTES: Final = 256 * _MIB

# Blobs. Decoded bytes are held per table and write; a read call returns one buffer, so a larger
# value is read in ranges. Each external reference costs a probe.
MAX_DECODED_BLOB_BYTES: Final = 32 * _MIB
MAX_BLOB_READ_BYTES: Final = 4 * _MIB
MAX_EXTERNAL_BLOB_URI_BYTES: Final = 64 * _KIB
MAX_EXTERNAL_BLOB_CELLS: Final = 8_192

# The commit protocol. A sidecar is read as a whole by whoever recovers it; attempts and rounds
# bound how long a writer that always loses keeps trying before it says so. Rows that are staged
# again under the lease of a branch keep every other writer of it waiting.
MAX_LINKS_PER_TABLE: Final = 3
MAX_OPERATION_TABLES: Final = 1_024
MAX_REPREPARE_ATTEMPTS: Final = 32
MAX_PUBLISH_ROUNDS: Final = 5
MAX_ROWS_RESTAGED_UNDER_LEASE: Final = 10_000
MAX_MOVES_WITHOUT_LEASE: Final = 3
MAX_SIDECAR_BYTES: Final = 8 * _MIB

# One merge or revert. It holds what it changes until that is staged; more is brought by a load.
MAX_MERGE_ROWS: Final = 1_000_000
MAX_MERGE_ARROW_BYTES: Final = 2048 * _MIB

# Reading history.
MAX_CHANGES_PER_PAGE: Final = 8_192
