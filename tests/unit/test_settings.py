from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick

from omnigraph.errors import SettingInvalid
from omnigraph.settings import (
    Durability,
    Engine,
    LogLevel,
    MergeStrategy,
    Secret,
    Settings,
    TraversalMode,
    list_variables,
    load_settings,
)

CORES = os.cpu_count() or 1
QUARTER_OF_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4

# variable, section.field, default: the contract with operators and the settings page of the docs.
CONTRACT: list[tuple[str, str, object]] = [
    ("OMNIGRAPH_DURABILITY", "storage.durability", "full"),
    ("OMNIGRAPH_LEASE_TTL_MS", "storage.lease_ttl_ms", 15_000),
    ("OMNIGRAPH_LEASE_WAIT_MS", "storage.lease_wait_ms", 30_000),
    ("OMNIGRAPH_LEASE_LINGER_MS", "storage.lease_linger_ms", 2_000),
    ("OMNIGRAPH_MAINTENANCE_CONCURRENCY", "storage.maintenance_concurrency", 8),
    ("OMNIGRAPH_AUTO_MAINTENANCE", "storage.auto_maintenance", True),
    ("OMNIGRAPH_MAINTENANCE_KEEP_VERSIONS", "storage.maintenance_keep_versions", 100),
    ("OMNIGRAPH_MAINTENANCE_RETENTION_DAYS", "storage.maintenance_retention_days", 7),
    ("AWS_ACCESS_KEY_ID", "storage.aws_access_key_id", None),
    ("AWS_SECRET_ACCESS_KEY", "storage.aws_secret_access_key", None),
    ("AWS_REGION", "storage.aws_region", None),
    ("AWS_ENDPOINT_URL", "storage.aws_endpoint_url", None),
    ("AWS_ENDPOINT_URL_S3", "storage.aws_endpoint_url_s3", None),
    ("AWS_ALLOW_HTTP", "storage.aws_allow_http", False),
    ("AWS_S3_FORCE_PATH_STYLE", "storage.aws_s3_force_path_style", False),
    ("OMNIGRAPH_TESTING", "storage.testing", False),
    ("OMNIGRAPH_FAILPOINTS", "storage.failpoints", ""),
    ("OMNIGRAPH_QUERY_TIMEOUT_MS", "queries.timeout_ms", 30_000),
    ("OMNIGRAPH_MAX_BINDING_ROWS", "queries.max_binding_rows", 5_000_000),
    ("OMNIGRAPH_QUERY_MEMORY_BYTES", "queries.memory_bytes", 1 << 30),
    ("OMNIGRAPH_MAX_RESULT_ROWS", "queries.max_result_rows", 100_000),
    ("OMNIGRAPH_MAX_RESULT_BYTES", "queries.max_result_bytes", 64 << 20),
    ("OMNIGRAPH_NEAREST_EXACT_VALUES", "queries.nearest_exact_values", 10_000_000),
    ("OMNIGRAPH_TRAVERSAL_MODE", "queries.traversal_mode", None),
    ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "queries.expand_indexed_max_frontier", 1_024),
    ("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", "queries.expand_indexed_max_hops", 6),
    ("OMNIGRAPH_TOPOLOGY_CACHE_BYTES", "queries.topology_cache_bytes", 1 << 30),
    ("OMNIGRAPH_COLUMN_CACHE_BYTES", "queries.column_cache_bytes", 512 << 20),
    ("OMNIGRAPH_ENGINE", "spark.engine", "auto"),
    ("OMNIGRAPH_SPARK_MASTER", "spark.master", "local[*,4]"),
    ("OMNIGRAPH_SPARK_REMOTE", "spark.remote", None),
    ("OMNIGRAPH_SPARK_CONF", "spark.conf", {}),
    ("OMNIGRAPH_SPARK_APP_NAME", "spark.app_name", None),
    ("OMNIGRAPH_SPARK_MIN_INPUT_BYTES", "spark.min_input_bytes", 32 << 20),
    ("OMNIGRAPH_SPARK_CDS", "spark.cds", True),
    ("OMNIGRAPH_PIPELINE_SPLIT_BYTES", "pipeline.split_bytes", 32 << 20),
    ("OMNIGRAPH_PIPELINE_ROWS_PER_FILE", "pipeline.rows_per_file", 1_048_576),
    ("OMNIGRAPH_PIPELINE_BATCH_BYTES", "pipeline.batch_bytes", 8 << 20),
    ("OMNIGRAPH_PIPELINE_MAX_VIOLATIONS", "pipeline.max_violations", 1_000),
    ("OMNIGRAPH_PIPELINE_MAX_REJECTS", "pipeline.max_rejects", 10_000),
    ("OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO", "pipeline.max_reject_ratio", 0.01),
    ("OMNIGRAPH_PIPELINE_MERGE", "pipeline.merge", "auto"),
    ("OMNIGRAPH_PIPELINE_MERGE_DRIVER_BYTES", "pipeline.merge_driver_bytes", QUARTER_OF_MEMORY),
    ("OMNIGRAPH_PIPELINE_CHECK_DRIVER_BYTES", "pipeline.check_driver_bytes", QUARTER_OF_MEMORY),
    (
        "OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES",
        "pipeline.analytics_local_bytes",
        QUARTER_OF_MEMORY,
    ),
    ("OMNIGRAPH_PIPELINE_STAGING_TTL_DAYS", "pipeline.staging_ttl_days", 7),
    ("OMNIGRAPH_PIPELINE_TASK_ATTEMPTS", "pipeline.task_attempts", 4),
    ("OMNIGRAPH_PIPELINE_RESUME", "pipeline.resume", True),
    ("OMNIGRAPH_PIPELINE_CHECKPOINT_URI", "pipeline.checkpoint_uri", None),
    ("OMNIGRAPH_EMBED_PROVIDER", "embedding.provider", "openai-compatible"),
    ("OMNIGRAPH_EMBED_BASE_URL", "embedding.base_url", None),
    ("OMNIGRAPH_EMBED_MODEL", "embedding.model", "openai/text-embedding-3-large"),
    ("OMNIGRAPH_EMBED_DEADLINE_MS", "embedding.deadline_ms", 60_000),
    ("OMNIGRAPH_EMBED_TIMEOUT_MS", "embedding.timeout_ms", 30_000),
    ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "embedding.retry_attempts", 4),
    ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "embedding.retry_backoff_ms", 200),
    ("OMNIGRAPH_EMBED_BATCH_TEXTS", "embedding.batch_texts", 96),
    ("OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE", "embedding.requests_per_minute", None),
    ("OMNIGRAPH_EMBED_TOKENS_PER_MINUTE", "embedding.tokens_per_minute", None),
    ("OMNIGRAPH_EMBEDDINGS_MOCK", "embedding.mock", False),
    ("OPENROUTER_API_KEY", "embedding.openrouter_api_key", None),
    ("OPENAI_API_KEY", "embedding.openai_api_key", None),
    ("GEMINI_API_KEY", "embedding.gemini_api_key", None),
    ("OMNIGRAPH_BIND", "server.bind", "127.0.0.1:8080"),
    ("OMNIGRAPH_CLUSTER", "server.cluster", None),
    ("OMNIGRAPH_REQUIRE_ALL_GRAPHS", "server.require_all_graphs", False),
    ("OMNIGRAPH_UNAUTHENTICATED", "server.unauthenticated", False),
    ("OMNIGRAPH_SERVER_BEARER_TOKEN", "server.bearer_token", None),
    ("OMNIGRAPH_SERVER_BEARER_TOKENS_FILE", "server.bearer_tokens_file", None),
    ("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON", "server.bearer_tokens_json", None),
    ("OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET", "server.bearer_tokens_aws_secret", None),
    ("OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX", "server.per_actor_inflight_max", 16),
    ("OMNIGRAPH_PER_ACTOR_BYTES_MAX", "server.per_actor_bytes_max", 4 << 30),
    ("OMNIGRAPH_READ_INFLIGHT_MAX", "server.read_inflight_max", 64),
    ("OMNIGRAPH_WRITE_TIMEOUT_MS", "server.write_timeout_ms", 120_000),
    ("OMNIGRAPH_HEADER_TIMEOUT_MS", "server.header_timeout_ms", 10_000),
    ("OMNIGRAPH_IDLE_TIMEOUT_MS", "server.idle_timeout_ms", 75_000),
    ("OMNIGRAPH_ENGINE_THREADS", "server.engine_threads", min(32, 4 * CORES)),
    ("OMNIGRAPH_SHUTDOWN_GRACE_MS", "server.shutdown_grace_ms", 30_000),
    ("OMNIGRAPH_CORS_ORIGINS", "server.cors_origins", ()),
    ("OMNIGRAPH_LOG", "server.log_level", "info"),
    ("OMNIGRAPH_LOG_FORMAT", "server.log_format", "text"),
    ("OMNIGRAPH_AUDIT_LOG", "server.audit_log", None),
    ("OMNIGRAPH_AUDIT_READS", "server.audit_reads", False),
    ("OMNIGRAPH_AUDIT_STRICT", "server.audit_strict", False),
    ("OMNIGRAPH_HOME", "client.home", Path("/home/ada/.omnigraph")),
    ("OMNIGRAPH_PROFILE", "client.profile", None),
    ("OMNIGRAPH_BEARER_TOKEN", "client.bearer_token", None),
    ("OMNIGRAPH_NO_PROJECT_CONFIG", "client.no_project_config", False),
    ("OMNIGRAPH_LOAD_CONCURRENCY", "client.load_concurrency", CORES),
    ("NO_COLOR", "client.no_color", False),
]


def value_of(settings: Settings, path: str) -> object:
    section, field = path.split(".")
    return getattr(getattr(settings, section), field)


def refused(environ: dict[str, str], config: dict[str, object] | None = None) -> SettingInvalid:
    with pytest.raises(SettingInvalid) as caught:
        load_settings(environ, config)
    return caught.value


def test_the_table_holds_exactly_the_variables_of_the_contract() -> None:
    found = [(row.name, f"{row.section}.{row.field}") for row in list_variables()]
    assert found == [(name, path) for name, path, _ in CONTRACT]


@pytest.mark.parametrize(("name", "path", "default"), CONTRACT)
def test_each_setting_has_the_default_of_the_contract(
    name: str, path: str, default: object
) -> None:
    assert value_of(load_settings({"HOME": "/home/ada"}), path) == default, name


def test_no_two_fields_read_one_variable() -> None:
    names = [row.name for row in list_variables()]
    assert len(names) == len(set(names))


def test_only_spark_and_pipeline_variables_have_a_config_key_named_after_them() -> None:
    keys = {row.name: row.key for row in list_variables() if row.key}
    assert {key.split(".")[0] for key in keys.values()} == {"spark", "pipeline"}
    assert keys["OMNIGRAPH_SPARK_MIN_INPUT_BYTES"] == "spark.min_input_bytes"
    assert keys["OMNIGRAPH_PIPELINE_MERGE"] == "pipeline.merge"
    assert len(keys) == 20


@pytest.mark.parametrize(
    ("name", "text", "path", "value"),
    [
        ("OMNIGRAPH_DURABILITY", "process", "storage.durability", Durability.PROCESS),
        ("OMNIGRAPH_LEASE_TTL_MS", "300", "storage.lease_ttl_ms", 300),
        ("OMNIGRAPH_QUERY_TIMEOUT_MS", "0", "queries.timeout_ms", 0),
        ("OMNIGRAPH_QUERY_MEMORY_BYTES", "1024", "queries.memory_bytes", 1_024),
        ("OMNIGRAPH_QUERY_MEMORY_BYTES", "3KiB", "queries.memory_bytes", 3_072),
        ("OMNIGRAPH_QUERY_MEMORY_BYTES", "2 MiB", "queries.memory_bytes", 2 << 20),
        ("OMNIGRAPH_QUERY_MEMORY_BYTES", "2GiB", "queries.memory_bytes", 2 << 30),
        ("OMNIGRAPH_TRAVERSAL_MODE", "csr", "queries.traversal_mode", TraversalMode.CSR),
        ("OMNIGRAPH_ENGINE", "spark", "spark.engine", Engine.SPARK),
        ("OMNIGRAPH_SPARK_CONF", "a.b=1;c=x=y;", "spark.conf", {"a.b": "1", "c": "x=y"}),
        ("OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO", "1", "pipeline.max_reject_ratio", 1.0),
        ("OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO", ".5", "pipeline.max_reject_ratio", 0.5),
        ("OMNIGRAPH_EMBED_PROVIDER", "models.local:E5", "embedding.provider", "models.local:E5"),
        ("OMNIGRAPH_BIND", "[::1]:80", "server.bind", "[::1]:80"),
        ("OMNIGRAPH_CORS_ORIGINS", "https://a, https://b", "server.cors_origins",
         ("https://a", "https://b")),
        ("OMNIGRAPH_LOG", "debug", "server.log_level", LogLevel.DEBUG),
        ("OMNIGRAPH_AUDIT_LOG", "-", "server.audit_log", "-"),
        ("OMNIGRAPH_HOME", "/srv/omni", "client.home", Path("/srv/omni")),
        ("NO_COLOR", "0", "client.no_color", True),
        ("NO_COLOR", "", "client.no_color", False),
    ],
)  # fmt: skip
def test_a_variable_is_read_into_its_field(name: str, text: str, path: str, value: object) -> None:
    assert value_of(load_settings({name: text}), path) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("true", True), ("no", True), ("", False), ("0", False), ("FALSE", False)],
)
def test_a_boolean_is_true_unless_empty_or_0_or_false(text: str, *, value: bool) -> None:
    settings = load_settings({"OMNIGRAPH_SPARK_CDS": text, "OMNIGRAPH_AUDIT_READS": text})
    assert settings.spark.cds is value
    assert settings.server.audit_reads is value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OMNIGRAPH_DURABILITY", "fast"),
        ("OMNIGRAPH_LEASE_TTL_MS", "0"),
        ("OMNIGRAPH_LEASE_TTL_MS", "15s"),
        ("OMNIGRAPH_LEASE_TTL_MS", "-1"),
        ("OMNIGRAPH_LEASE_TTL_MS", "1_000"),
        ("OMNIGRAPH_LEASE_TTL_MS", "٣"),
        ("OMNIGRAPH_LEASE_TTL_MS", "9" * 5_000),
        ("OMNIGRAPH_QUERY_MEMORY_BYTES", "1GB"),
        ("OMNIGRAPH_QUERY_MEMORY_BYTES", "1.5GiB"),
        ("OMNIGRAPH_QUERY_MEMORY_BYTES", "9999999999999GiB"),
        ("OMNIGRAPH_PIPELINE_SPLIT_BYTES", "0"),
        ("OMNIGRAPH_PIPELINE_BATCH_BYTES", "0MiB"),
        ("OMNIGRAPH_SPARK_CONF", "no-equals"),
        ("OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO", "1.01"),
        ("OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO", "nan"),
        ("OMNIGRAPH_EMBED_PROVIDER", "opnai"),
        ("OMNIGRAPH_BIND", "8080"),
        ("OMNIGRAPH_BIND", "::1:8080"),
        ("OMNIGRAPH_BIND", "localhost:99999"),
        ("OMNIGRAPH_LOG", "verbose"),
    ],
)
def test_a_malformed_value_is_refused_by_the_name_of_its_variable(name: str, text: str) -> None:
    error = refused({name: text})
    assert name in error.message
    assert error.details == {"name": name}


def test_a_malformed_list_of_spark_options_is_not_shown() -> None:
    assert "hunter2" not in refused({"OMNIGRAPH_SPARK_CONF": "s3.secret.key: hunter2"}).message


def test_failpoints_are_carried_as_given_when_testing() -> None:
    environ = {"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": "a=kill;b=stop"}
    assert load_settings(environ).storage.failpoints == "a=kill;b=stop"


def test_malformed_failpoints_are_refused_when_testing() -> None:
    error = refused({"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": "a=explode"})
    assert "OMNIGRAPH_FAILPOINTS" in error.message


@given(size=st.integers(0, 2**33 - 1), unit=st.sampled_from(["KiB", "MiB", "GiB"]))
@quick(100)
def test_every_size_with_a_unit_is_that_many_bytes(size: int, unit: str) -> None:
    scale = {"KiB": 10, "MiB": 20, "GiB": 30}[unit]
    settings = load_settings({"OMNIGRAPH_TOPOLOGY_CACHE_BYTES": f"{size}{unit}"})
    assert settings.queries.topology_cache_bytes == size << scale


@given(text=st.text())
@quick(100)
def test_any_text_is_either_a_size_or_refused_with_a_setting_error(text: str) -> None:
    with contextlib.suppress(SettingInvalid):
        settings = load_settings({"OMNIGRAPH_TOPOLOGY_CACHE_BYTES": text})
        assert settings.queries.topology_cache_bytes >= 0


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load_settings({"OMNIGRAPH_LEASE_TTL_MS": ""}).storage.lease_ttl_ms == 15_000


def test_the_environment_beats_the_config_and_the_config_beats_the_default() -> None:
    config = {"pipeline": {"merge": "driver", "rows_per_file": 5, "max_reject_ratio": 1e-05}}
    settings = load_settings({"OMNIGRAPH_PIPELINE_MERGE": "distributed"}, config)
    assert settings.pipeline.merge is MergeStrategy.DISTRIBUTED
    assert settings.pipeline.rows_per_file == 5
    assert settings.pipeline.max_reject_ratio == 1e-05
    assert settings.pipeline.batch_bytes == 8 << 20


def test_the_config_speaks_yaml_types() -> None:
    config = {"spark": {"cds": False, "min_input_bytes": "1MiB", "app_name": None}}
    spark = load_settings({}, config).spark
    assert (spark.cds, spark.min_input_bytes, spark.app_name) == (False, 1 << 20, None)


def test_a_malformed_config_value_is_refused_by_the_name_of_its_key() -> None:
    assert "pipeline.merge:" in refused({}, {"pipeline": {"merge": "magic"}}).message
    assert "spark.master:" in refused({}, {"spark": {"master": ["a"]}}).message
    assert "spark:" in refused({}, {"spark": "local"}).message


def test_other_sections_of_the_config_are_not_ours() -> None:
    assert load_settings({}, {"servers": {"prod": 1}, "pipeline": None}).warnings == ()


def test_spark_conf_is_merged_key_by_key_and_keeps_any_text() -> None:
    config = {"spark": {"conf": {"a": "x;y=z", "b": 1, "c": True}}}
    spark = load_settings({"OMNIGRAPH_SPARK_CONF": "b=2;d=3"}, config).spark
    assert spark.conf == {"a": "x;y=z", "b": "2", "c": "true", "d": "3"}


@pytest.mark.parametrize(
    ("environ", "config"),
    [
        ({"OMNIGRAPH_SPARK_MASTER": "yarn", "OMNIGRAPH_SPARK_REMOTE": "sc://h"}, {}),
        ({}, {"spark": {"master": "yarn", "remote": "sc://h"}}),
    ],
)
def test_a_master_and_a_remote_at_one_level_are_refused(
    environ: dict[str, str], config: dict[str, object]
) -> None:
    message = refused(environ, config).message.lower()
    assert "master" in message
    assert "remote" in message


def test_a_cluster_chosen_by_the_environment_replaces_both_keys_of_the_config() -> None:
    by_master = load_settings({"OMNIGRAPH_SPARK_MASTER": "yarn"}, {"spark": {"remote": "sc://h"}})
    by_remote = load_settings({"OMNIGRAPH_SPARK_REMOTE": "sc://h"}, {"spark": {"master": "yarn"}})
    assert (by_master.spark.master, by_master.spark.remote) == ("yarn", None)
    assert (by_remote.spark.master, by_remote.spark.remote) == ("local[*,4]", "sc://h")


def test_the_default_master_tries_a_task_as_often_as_the_pipeline_says() -> None:
    environ = {"OMNIGRAPH_PIPELINE_TASK_ATTEMPTS": "7"}
    assert load_settings(environ).spark.master == "local[*,7]"
    given_master = load_settings(environ | {"OMNIGRAPH_SPARK_MASTER": "local[2]"})
    assert given_master.spark.master == "local[2]"


@pytest.mark.parametrize(
    ("environ", "provider", "model"),
    [
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai"}, "openai", "text-embedding-3-large"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, "gemini", "gemini-embedding-2"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "m:a"}, "m:a", None),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_PROVIDER": "openai"}, "mock", "mock"),
        ({"OMNIGRAPH_EMBED_MODEL": "mine"}, "openai-compatible", "mine"),
    ],
)
def test_the_model_defaults_to_that_of_the_provider(
    environ: dict[str, str], provider: str, model: str | None
) -> None:
    embedding = load_settings(environ).embedding
    assert (embedding.provider, embedding.model) == (provider, model)


def test_an_unknown_variable_gives_one_warning_with_the_nearest_name_and_no_value() -> None:
    warnings = load_settings({"OMNIGRAPH_LEASE_TLL_MS": "s3cret", "OTHER_THING": "1"}).warnings
    assert len(warnings) == 1
    assert "OMNIGRAPH_LEASE_TLL_MS" in warnings[0]
    assert "OMNIGRAPH_LEASE_TTL_MS" in warnings[0]
    assert "s3cret" not in warnings[0]


def test_an_unknown_config_key_warns_and_loads() -> None:
    warnings = load_settings({}, {"spark": {"mastr": "yarn"}}).warnings
    assert len(warnings) == 1
    assert "spark.mastr" in warnings[0]
    assert "spark.master" in warnings[0]


def test_tokens_of_named_servers_are_kept_by_name() -> None:
    settings = load_settings({"OMNIGRAPH_TOKEN_PROD_EU": "t1", "OMNIGRAPH_TOKEN_EMPTY": ""})
    assert settings.client.server_tokens == {"PROD_EU": Secret("t1")}
    assert settings.warnings == ()


SECRET_VARIABLES = [
    "AWS_SECRET_ACCESS_KEY",
    "OPENROUTER_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OMNIGRAPH_SERVER_BEARER_TOKEN",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON",
    "OMNIGRAPH_BEARER_TOKEN",
    "OMNIGRAPH_TOKEN_PROD",
]


@pytest.mark.parametrize("name", SECRET_VARIABLES)
def test_no_text_form_of_the_settings_shows_a_secret(name: str) -> None:
    settings = load_settings({name: "hunter2"})
    assert "hunter2" not in f"{settings} {settings!r} {dataclasses.asdict(settings)}"


def test_a_secret_reveals_its_value_only_on_request_and_survives_pickling() -> None:
    secret = Secret("hunter2")
    copy = pickle.loads(pickle.dumps(secret))  # noqa: S301 - our own bytes
    assert (str(secret), repr(secret), f"{secret}") == ("***", "Secret(***)", "***")
    assert copy == secret
    assert hash(copy) == hash(secret)
    assert copy.reveal() == "hunter2"
    assert secret != Secret("other")


def test_settings_are_frozen_and_survive_pickling() -> None:
    settings = load_settings({"OMNIGRAPH_SPARK_CONF": "a=b", "OPENAI_API_KEY": "k"})
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.storage.lease_ttl_ms = 1  # type: ignore[misc]


def test_the_given_environment_is_the_only_one_that_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMNIGRAPH_LEASE_TTL_MS", "1")
    monkeypatch.setenv("HOME", "/nowhere")
    settings = load_settings({})
    assert settings.storage.lease_ttl_ms == 15_000
    assert settings.client.home != Path("/nowhere/.omnigraph")


def test_an_account_without_a_home_folder_has_no_config_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_account(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", no_account)
    assert load_settings({}).client.home is None
