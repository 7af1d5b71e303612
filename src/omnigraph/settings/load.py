"""Reading the settings: sources, precedence, what follows from other settings, warnings."""

from __future__ import annotations

import difflib
import os
import pwd
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import SettingInvalid
from omnigraph.settings.sections import (
    CONFIG_SECTIONS,
    PREFIX,
    ClientSettings,
    EmbeddingSettings,
    PipelineSettings,
    QuerySettings,
    ServerSettings,
    Settings,
    Source,
    SparkSettings,
    StorageSettings,
)
from omnigraph.settings.values import EMBED_MODELS, Secret, parse_flag, parse_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN_PREFIX: Final = "OMNIGRAPH_TOKEN_"  # noqa: S105 - the name of a variable
_CLUSTER_VARIABLES: Final = ("OMNIGRAPH_SPARK_MASTER", "OMNIGRAPH_SPARK_REMOTE")
_CLUSTER_KEYS: Final = ("spark.master", "spark.remote")
_SECTIONS: Final[Mapping[str, type]] = {
    "storage": StorageSettings,
    "queries": QuerySettings,
    "spark": SparkSettings,
    "pipeline": PipelineSettings,
    "embedding": EmbeddingSettings,
    "server": ServerSettings,
    "client": ClientSettings,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One row of the table of settings; `key` is empty for a variable without a config key."""

    name: str
    section: str
    field: str
    key: str


def list_variables() -> tuple[Variable, ...]:
    """Every variable in the order of the sections, but not the many `OMNIGRAPH_TOKEN_<NAME>`."""
    return tuple(
        Variable(name=source.variable, section=section, field=name, key=source.key)
        for section, cls in _SECTIONS.items()
        for name, source in _sources(cls)
    )


def token_variable(server: str) -> str:
    """The variable that holds the token of a server, by its name in the operator config."""
    return TOKEN_PREFIX + server.upper().replace("-", "_")


def load_process_settings() -> Settings:
    """The settings of this process, from its own environment.

    Raises:
        SettingInvalid: a value is malformed.
    """
    return load_settings(os.environ)


def process_environment() -> Mapping[str, str]:
    """The environment of this process, for files that name variables of it."""
    return os.environ


def prepare_process() -> None:
    """Set what foreign parts read from the environment when they are imported."""
    # With centroids, the statistics of a vector index are huge.
    os.environ["LANCE_INCLUDE_VECTOR_CENTROIDS"] = "false"


def load_settings(
    environ: Mapping[str, str], config: Mapping[str, object] | None = None
) -> Settings:
    """Read every setting from an environment and from the parsed operator config.

    Raises:
        SettingInvalid: if a value is malformed, or `master` and `remote` are set at one level.
    """
    variables = _honoured(environ)
    keys = _flatten_config(config or {})
    warnings = (*_unknown_variables(environ), *_unknown_keys(keys))
    keys = _choose_cluster(variables, keys)
    # Any: each value was parsed to the type that its own field declares.
    sections: dict[str, Any] = {
        section: cls(**dict(_read_section(cls, variables, keys)))
        for section, cls in _SECTIONS.items()
    }
    settings = Settings(**sections, warnings=warnings)
    return replace(
        settings,
        spark=_complete_spark(settings, variables, keys),
        embedding=_complete_embedding(settings.embedding),
        client=_complete_client(settings.client, variables),
    )


def _sources(cls: type) -> Iterator[tuple[str, Source]]:
    for item in fields(cls):
        if "source" in item.metadata:
            yield item.name, item.metadata["source"]


def _honoured(environ: Mapping[str, str]) -> dict[str, str]:
    variables = dict(environ)
    if not parse_flag(variables.get("OMNIGRAPH_TESTING", "")):
        variables.pop("OMNIGRAPH_FAILPOINTS", None)
    return variables


def _flatten_config(config: Mapping[str, object]) -> dict[str, object]:
    keys: dict[str, object] = {}
    for section in CONFIG_SECTIONS:
        values = config.get(section) or {}
        if not isinstance(values, Mapping):
            raise SettingInvalid(f"{section}: expected a section of keys and values", name=section)
        keys |= {
            f"{section}.{key}": value for key, value in values.items() if value not in (None, "")
        }
    return keys


def _choose_cluster(variables: Mapping[str, str], keys: dict[str, object]) -> dict[str, object]:
    """The config values that count: a cluster chosen by the environment replaces both keys."""
    levels: tuple[tuple[Mapping[str, object], tuple[str, str]], ...] = (
        (variables, _CLUSTER_VARIABLES),
        (keys, _CLUSTER_KEYS),
    )
    for level, names in levels:
        if all(level.get(name) for name in names):
            both = " and ".join(names)
            raise SettingInvalid(f"{both} are both set; set only one of them", name=names[1])
    if any(variables.get(name) for name in _CLUSTER_VARIABLES):
        return {key: value for key, value in keys.items() if key not in _CLUSTER_KEYS}
    return keys


def _read_section(
    cls: type, variables: Mapping[str, str], keys: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    for name, source in _sources(cls):
        values = []
        if source.key in keys:
            values.append(_parse_config(source, keys[source.key]))
        text = variables.get(source.variable)
        if text or (text is not None and source.parse is parse_flag):
            values.append(_parse(source, source.variable, text))
        if source.parse is parse_pairs:
            yield name, {key: value for pairs in values for key, value in pairs.items()}
        elif values:
            yield name, values[-1]


# Any: what a parser returns is known to the field that names it, not here.
def _parse(source: Source, name: str, text: str) -> Any:  # noqa: ANN401
    try:
        return source.parse(text)
    except ValueError as error:
        # Options of Spark may hold passwords, so a broken list of them is not shown.
        shown = "the value" if source.parse is parse_pairs else reprlib.repr(text)
        raise SettingInvalid(f"{name}: {shown} is not valid; {error}", name=name) from error


def _parse_config(source: Source, value: object) -> Any:  # noqa: ANN401 - as _parse
    match value:
        case Mapping() if source.parse is parse_pairs:
            return {str(key): _config_text(source, entry) for key, entry in value.items()}
        case _:
            return _parse(source, source.key, _config_text(source, value))


def _config_text(source: Source, value: object) -> str:
    """A config value in the spelling of a variable, so that both go through one parser."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            raise SettingInvalid(f"{source.key}: expected a single value", name=source.key)


def _complete_spark(
    settings: Settings, variables: Mapping[str, str], keys: Mapping[str, object]
) -> SparkSettings:
    if variables.get(_CLUSTER_VARIABLES[0]) or _CLUSTER_KEYS[0] in keys:
        return settings.spark
    # The second number is how often local Spark tries a task; plain local[*] never tries again.
    return replace(settings.spark, master=f"local[*,{settings.pipeline.task_attempts}]")


def _complete_embedding(embedding: EmbeddingSettings) -> EmbeddingSettings:
    provider = "mock" if embedding.mock else embedding.provider
    return replace(
        embedding, provider=provider, model=embedding.model or EMBED_MODELS.get(provider)
    )


def _complete_client(client: ClientSettings, variables: Mapping[str, str]) -> ClientSettings:
    tokens = {
        name.removeprefix(TOKEN_PREFIX): Secret(value)
        for name, value in variables.items()
        if _is_server_token(name) and value
    }
    return replace(client, home=client.home or _default_home(variables), server_tokens=tokens)


def _default_home(variables: Mapping[str, str]) -> Path | None:
    home = variables.get("HOME")
    if not home:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return Path(home) / ".omnigraph"


def _is_server_token(name: str) -> bool:
    return name.startswith(TOKEN_PREFIX) and name != TOKEN_PREFIX


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    known = [variable.name for variable in list_variables()]
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and not _is_server_token(name):
            yield f"unknown variable {name} is ignored; the nearest is {_nearest(name, known)}"


def _unknown_keys(keys: Mapping[str, object]) -> Iterator[str]:
    known = [variable.key for variable in list_variables() if variable.key]
    for key in sorted(keys):
        if key not in known:
            yield f"unknown config key {key} is ignored; the nearest is {_nearest(key, known)}"


def _nearest(name: str, known: list[str]) -> str:
    return difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
