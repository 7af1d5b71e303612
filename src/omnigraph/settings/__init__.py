"""Every knob, read once into one frozen object that is passed down.

This package is the only reader of the environment, and it reads the mapping that it is given. The
first hit wins: the environment, the sections `spark:` and `pipeline:` of the operator config, the
default. An option of a command or an argument of a call replaces the field afterwards, with
`dataclasses.replace`.

Sizes are bytes and accept `KiB`, `MiB`, `GiB`; a boolean is true unless empty, `0` or `false`; any
other variable that is empty counts as not set. A malformed value is `SettingInvalid` and names its
variable or key. A variable with our prefix that nobody reads gives one warning, never its value.
Keys and tokens are held in `Secret`, so that no log line and no error can show them.

To add a setting, add its line to a section in `sections.py`.
"""

from omnigraph.settings.load import (
    TOKEN_PREFIX,
    Variable,
    list_variables,
    load_process_settings,
    load_settings,
    prepare_process,
    process_environment,
    token_variable,
)
from omnigraph.settings.sections import (
    ClientSettings,
    EmbeddingSettings,
    PipelineSettings,
    QuerySettings,
    ServerSettings,
    Settings,
    SparkSettings,
    StorageSettings,
)
from omnigraph.settings.values import (
    Durability,
    Engine,
    LogFormat,
    LogLevel,
    MergeStrategy,
    Secret,
    TraversalMode,
)

__all__ = [
    "TOKEN_PREFIX",
    "ClientSettings",
    "Durability",
    "EmbeddingSettings",
    "Engine",
    "LogFormat",
    "LogLevel",
    "MergeStrategy",
    "PipelineSettings",
    "QuerySettings",
    "Secret",
    "ServerSettings",
    "Settings",
    "SparkSettings",
    "StorageSettings",
    "TraversalMode",
    "Variable",
    "list_variables",
    "load_process_settings",
    "load_settings",
    "prepare_process",
    "process_environment",
    "token_variable",
]
