"""The table of settings: a field is one variable.

Its line names the variable, the parser and the default, and is all there is to add. The key of a
variable in the operator config follows from its name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from omnigraph.settings.values import (
    GIB,
    MIB,
    Durability,
    Engine,
    LogFormat,
    LogLevel,
    MergeStrategy,
    Secret,
    TraversalMode,
    one_of,
    parse_address,
    parse_count,
    parse_failpoints,
    parse_flag,
    parse_list,
    parse_pairs,
    parse_presence,
    parse_provider,
    parse_ratio,
    parse_size,
    parse_some_size,
    parse_text,
    parse_whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")

PREFIX: Final = "OMNIGRAPH_"
CONFIG_SECTIONS: Final = ("spark", "pipeline")
_CORES: Final = os.cpu_count() or 1
_QUARTER_OF_MEMORY: Final = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field comes from; kept in the field's metadata under `source`."""

    variable: str
    parse: Callable[[str], Any]  # Any: each field has its own type, checked where it is declared

    @property
    def key(self) -> str:
        """The key in the operator config, or empty: `spark.conf` for `OMNIGRAPH_SPARK_CONF`."""
        for section in CONFIG_SECTIONS:
            prefix = f"{PREFIX}{section.upper()}_"
            if self.variable.startswith(prefix):
                return f"{section}.{self.variable.removeprefix(prefix).lower()}"
        return ""


def _setting(
    variable: str, parse: Callable[[str], _T], *, default: _T, may_hold_secret: bool = False
) -> _T:
    """Declare a field: its variable, how to read it, its default."""
    metadata = {"source": Source(variable, parse)}
    if isinstance(default, dict):
        made: object = field(
            default_factory=default.copy, metadata=metadata, repr=not may_hold_secret
        )
    else:
        made = field(default=default, metadata=metadata, repr=not may_hold_secret)
    return cast("_T", made)  # `dataclass` puts the value in the place of this field object


def _optional(variable: str, parse: Callable[[str], _T]) -> _T | None:
    """Declare a field that is None unless given."""
    return _setting(variable, parse, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Storage and writes."""

    durability: Durability = _setting(
        "OMNIGRAPH_DURABILITY", one_of(Durability), default=Durability.FULL
    )
    lease_ttl_ms: int = _setting("OMNIGRAPH_LEASE_TTL_MS", parse_count, default=15_000)
    lease_wait_ms: int = _setting("OMNIGRAPH_LEASE_WAIT_MS", parse_whole, default=30_000)
    lease_linger_ms: int = _setting("OMNIGRAPH_LEASE_LINGER_MS", parse_whole, default=2_000)
    maintenance_concurrency: int = _setting(
        "OMNIGRAPH_MAINTENANCE_CONCURRENCY", parse_count, default=8
    )
    auto_maintenance: bool = _setting("OMNIGRAPH_AUTO_MAINTENANCE", parse_flag, default=True)
    maintenance_keep_versions: int = _setting(
        "OMNIGRAPH_MAINTENANCE_KEEP_VERSIONS", parse_whole, default=100
    )
    maintenance_retention_days: int = _setting(
        "OMNIGRAPH_MAINTENANCE_RETENTION_DAYS", parse_whole, default=7
    )
    aws_access_key_id: str | None = _optional("AWS_ACCESS_KEY_ID", parse_text)
    aws_secret_access_key: Secret | None = _optional("AWS_SECRET_ACCESS_KEY", Secret)
    aws_region: str | None = _optional("AWS_REGION", parse_text)
    aws_endpoint_url: str | None = _optional("AWS_ENDPOINT_URL", parse_text)
    aws_endpoint_url_s3: str | None = _optional("AWS_ENDPOINT_URL_S3", parse_text)
    aws_allow_http: bool = _setting("AWS_ALLOW_HTTP", parse_flag, default=False)
    aws_s3_force_path_style: bool = _setting("AWS_S3_FORCE_PATH_STYLE", parse_flag, default=False)
    testing: bool = _setting("OMNIGRAPH_TESTING", parse_flag, default=False)
    failpoints: str = _setting("OMNIGRAPH_FAILPOINTS", parse_failpoints, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """Budgets and choices of queries. A timeout of 0 means none."""

    timeout_ms: int = _setting("OMNIGRAPH_QUERY_TIMEOUT_MS", parse_whole, default=30_000)
    max_binding_rows: int = _setting("OMNIGRAPH_MAX_BINDING_ROWS", parse_count, default=5_000_000)
    memory_bytes: int = _setting("OMNIGRAPH_QUERY_MEMORY_BYTES", parse_size, default=GIB)
    max_result_rows: int = _setting("OMNIGRAPH_MAX_RESULT_ROWS", parse_count, default=100_000)
    max_result_bytes: int = _setting("OMNIGRAPH_MAX_RESULT_BYTES", parse_size, default=64 * MIB)
    nearest_exact_values: int = _setting(
        "OMNIGRAPH_NEAREST_EXACT_VALUES", parse_whole, default=10_000_000
    )
    traversal_mode: TraversalMode | None = _optional(
        "OMNIGRAPH_TRAVERSAL_MODE", one_of(TraversalMode)
    )
    expand_indexed_max_frontier: int = _setting(
        "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", parse_whole, default=1_024
    )
    expand_indexed_max_hops: int = _setting(
        "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", parse_whole, default=6
    )
    topology_cache_bytes: int = _setting("OMNIGRAPH_TOPOLOGY_CACHE_BYTES", parse_size, default=GIB)
    column_cache_bytes: int = _setting(
        "OMNIGRAPH_COLUMN_CACHE_BYTES", parse_size, default=512 * MIB
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The Spark session. `remote`, when given, is used instead of `master`."""

    engine: Engine = _setting("OMNIGRAPH_ENGINE", one_of(Engine), default=Engine.AUTO)
    master: str = _setting("OMNIGRAPH_SPARK_MASTER", parse_text, default="local[*,4]")
    remote: str | None = _setting(
        "OMNIGRAPH_SPARK_REMOTE", parse_text, default=None, may_hold_secret=True
    )
    """An address may carry a token."""
    conf: Mapping[str, str] = _setting(
        "OMNIGRAPH_SPARK_CONF", parse_pairs, default={}, may_hold_secret=True
    )
    app_name: str | None = _optional("OMNIGRAPH_SPARK_APP_NAME", parse_text)
    min_input_bytes: int = _setting("OMNIGRAPH_SPARK_MIN_INPUT_BYTES", parse_size, default=32 * MIB)
    cds: bool = _setting("OMNIGRAPH_SPARK_CDS", parse_flag, default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Sizes, thresholds and attempts of the data pipeline."""

    split_bytes: int = _setting("OMNIGRAPH_PIPELINE_SPLIT_BYTES", parse_some_size, default=32 * MIB)
    rows_per_file: int = _setting(
        "OMNIGRAPH_PIPELINE_ROWS_PER_FILE", parse_count, default=1_048_576
    )
    batch_bytes: int = _setting("OMNIGRAPH_PIPELINE_BATCH_BYTES", parse_some_size, default=8 * MIB)
    max_violations: int = _setting("OMNIGRAPH_PIPELINE_MAX_VIOLATIONS", parse_count, default=1_000)
    max_rejects: int = _setting("OMNIGRAPH_PIPELINE_MAX_REJECTS", parse_whole, default=10_000)
    max_reject_ratio: float = _setting(
        "OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO", parse_ratio, default=0.01
    )
    merge: MergeStrategy = _setting(
        "OMNIGRAPH_PIPELINE_MERGE", one_of(MergeStrategy), default=MergeStrategy.AUTO
    )
    merge_driver_bytes: int = _setting(
        "OMNIGRAPH_PIPELINE_MERGE_DRIVER_BYTES", parse_size, default=_QUARTER_OF_MEMORY
    )
    check_driver_bytes: int = _setting(
        "OMNIGRAPH_PIPELINE_CHECK_DRIVER_BYTES", parse_size, default=_QUARTER_OF_MEMORY
    )
    analytics_local_bytes: int = _setting(
        "OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES", parse_size, default=_QUARTER_OF_MEMORY
    )
    staging_ttl_days: int = _setting("OMNIGRAPH_PIPELINE_STAGING_TTL_DAYS", parse_whole, default=7)
    task_attempts: int = _setting("OMNIGRAPH_PIPELINE_TASK_ATTEMPTS", parse_count, default=4)
    resume: bool = _setting("OMNIGRAPH_PIPELINE_RESUME", parse_flag, default=True)
    checkpoint_uri: str | None = _optional("OMNIGRAPH_PIPELINE_CHECKPOINT_URI", parse_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """The embedding provider. No model or base URL means that of the provider."""

    provider: str = _setting(
        "OMNIGRAPH_EMBED_PROVIDER", parse_provider, default="openai-compatible"
    )
    base_url: str | None = _optional("OMNIGRAPH_EMBED_BASE_URL", parse_text)
    model: str | None = _optional("OMNIGRAPH_EMBED_MODEL", parse_text)
    deadline_ms: int = _setting("OMNIGRAPH_EMBED_DEADLINE_MS", parse_count, default=60_000)
    timeout_ms: int = _setting("OMNIGRAPH_EMBED_TIMEOUT_MS", parse_count, default=30_000)
    retry_attempts: int = _setting("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", parse_count, default=4)
    retry_backoff_ms: int = _setting("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", parse_whole, default=200)
    batch_texts: int = _setting("OMNIGRAPH_EMBED_BATCH_TEXTS", parse_count, default=96)
    requests_per_minute: int | None = _optional("OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE", parse_count)
    tokens_per_minute: int | None = _optional("OMNIGRAPH_EMBED_TOKENS_PER_MINUTE", parse_count)
    mock: bool = _setting("OMNIGRAPH_EMBEDDINGS_MOCK", parse_flag, default=False)
    openrouter_api_key: Secret | None = _optional("OPENROUTER_API_KEY", Secret)
    openai_api_key: Secret | None = _optional("OPENAI_API_KEY", Secret)
    gemini_api_key: Secret | None = _optional("GEMINI_API_KEY", Secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The HTTP server."""

    bind: str = _setting("OMNIGRAPH_BIND", parse_address, default="127.0.0.1:8080")
    cluster: str | None = _optional("OMNIGRAPH_CLUSTER", parse_text)
    require_all_graphs: bool = _setting("OMNIGRAPH_REQUIRE_ALL_GRAPHS", parse_flag, default=False)
    unauthenticated: bool = _setting("OMNIGRAPH_UNAUTHENTICATED", parse_flag, default=False)
    bearer_token: Secret | None = _optional("OMNIGRAPH_SERVER_BEARER_TOKEN", Secret)
    bearer_tokens_file: Path | None = _optional("OMNIGRAPH_SERVER_BEARER_TOKENS_FILE", Path)
    bearer_tokens_json: Secret | None = _optional("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON", Secret)
    bearer_tokens_aws_secret: str | None = _optional(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET", parse_text
    )
    per_actor_inflight_max: int = _setting(
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX", parse_count, default=16
    )
    per_actor_bytes_max: int = _setting(
        "OMNIGRAPH_PER_ACTOR_BYTES_MAX", parse_size, default=4 * GIB
    )
    read_inflight_max: int = _setting("OMNIGRAPH_READ_INFLIGHT_MAX", parse_count, default=64)
    write_timeout_ms: int = _setting("OMNIGRAPH_WRITE_TIMEOUT_MS", parse_count, default=120_000)
    header_timeout_ms: int = _setting("OMNIGRAPH_HEADER_TIMEOUT_MS", parse_count, default=10_000)
    idle_timeout_ms: int = _setting("OMNIGRAPH_IDLE_TIMEOUT_MS", parse_count, default=75_000)
    engine_threads: int = _setting(
        "OMNIGRAPH_ENGINE_THREADS", parse_count, default=min(32, 4 * _CORES)
    )
    shutdown_grace_ms: int = _setting("OMNIGRAPH_SHUTDOWN_GRACE_MS", parse_whole, default=30_000)
    cors_origins: tuple[str, ...] = _setting("OMNIGRAPH_CORS_ORIGINS", parse_list, default=())
    log_level: LogLevel = _setting("OMNIGRAPH_LOG", one_of(LogLevel), default=LogLevel.INFO)
    log_format: LogFormat = _setting(
        "OMNIGRAPH_LOG_FORMAT", one_of(LogFormat), default=LogFormat.TEXT
    )
    audit_log: str | None = _optional("OMNIGRAPH_AUDIT_LOG", parse_text)
    audit_reads: bool = _setting("OMNIGRAPH_AUDIT_READS", parse_flag, default=False)
    audit_strict: bool = _setting("OMNIGRAPH_AUDIT_STRICT", parse_flag, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The command line and the remote client.

    `home` is None when the account has no home folder; there is then no config and no credentials.
    `server_tokens` holds each `OMNIGRAPH_TOKEN_<NAME>` under its `<NAME>`.
    """

    home: Path | None = _optional("OMNIGRAPH_HOME", Path)
    profile: str | None = _optional("OMNIGRAPH_PROFILE", parse_text)
    bearer_token: Secret | None = _optional("OMNIGRAPH_BEARER_TOKEN", Secret)
    server_tokens: Mapping[str, Secret] = field(default_factory=dict)
    no_project_config: bool = _setting("OMNIGRAPH_NO_PROJECT_CONFIG", parse_flag, default=False)
    load_concurrency: int = _setting("OMNIGRAPH_LOAD_CONCURRENCY", parse_count, default=_CORES)
    no_color: bool = _setting("NO_COLOR", parse_presence, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting in force, and what to warn the operator about."""

    storage: StorageSettings = field(default_factory=StorageSettings)
    queries: QuerySettings = field(default_factory=QuerySettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    warnings: tuple[str, ...] = ()
