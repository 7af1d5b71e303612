"""Which cluster a session runs on, and the options of one that we start; pure.

The options of the settings win over those here, except for the Java options, which are joined.
Every Java runs in UTC, wherever it is: a database driver takes a timestamp without a zone as one of
its Java's own zone. A master on this machine gets the number of attempts as its second number,
because plain `local[*]` never tries a task again.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from omnigraph.errors import InvalidArgument, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from omnigraph.settings import Settings
    from omnigraph.storage.location import GraphLocation

MEANING: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""What decides which rows come out; in force during every call."""

TUNING: Final[Mapping[str, str]] = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""What decides only how long it takes; an option of the settings replaces it."""

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
EXECUTOR_JAVA_OPTIONS: Final = "spark.executor.extraJavaOptions"
IN_UTC: Final = "-Duser.timezone=UTC"
_OWN_SETTINGS: Final[Mapping[str, str]] = {
    "spark.master": "spark.master",
    "spark.remote": "spark.remote",
    "spark.app.name": "spark.app_name",
}
_LOCAL: Final = re.compile(r"local(?:\[\s*(?P<cores>\*|[0-9]+)\s*(?:,\s*(?P<tries>[0-9]+)\s*)?\])?")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_CORES_PER_SHUFFLE: Final = 2
_MIB: Final = 1 << 20
_LEAST_DRIVER_BYTES: Final = 2 << 30


def runs_on_this_machine(cluster: str) -> bool:
    """Whether every task of a master runs on this machine, and so sees its local paths."""
    return cluster.startswith(("local[", "local-cluster[")) or cluster == "local"


def is_loopback(endpoint: str) -> bool:
    """Whether a Connect endpoint, `sc://host:port`, is on this machine."""
    return urlsplit(endpoint).hostname in _LOOPBACK


def require_shared_path(
    location: GraphLocation, cluster: str, *, is_here: bool, shared_filesystem: bool
) -> None:
    """Refuse a graph on a local path for a cluster whose executors may not see that path.

    Raises:
        InvalidArgument: with the option that says they do.
    """
    if location.is_local and not is_here and not shared_filesystem:
        raise InvalidArgument(
            f"the graph {location} is on a local path, and Spark runs on {cluster}: if every"
            " executor sees that path, say so with --shared-filesystem (shared_filesystem=True),"
            " otherwise move the graph to an object store",
            location=str(location),
            cluster=cluster,
        )


def require_shared_files(
    paths: Sequence[str], cluster: str, *, is_here: bool, shared_filesystem: bool
) -> None:
    """Refuse input on local paths for a cluster whose executors may not see them.

    Raises:
        InvalidArgument: with the option that says they do.
    """
    local = next((path for path in paths if "://" not in path), None)
    if local is not None and not is_here and not shared_filesystem:
        raise InvalidArgument(
            f"the input {local} is on a local path, and Spark runs on {cluster}: if every executor"
            " sees that path, say so with --shared-filesystem (shared_filesystem=True), otherwise"
            " move the input to an object store",
            path=local,
            cluster=cluster,
        )


def master_with_attempts(master: str, attempts: int) -> str:
    """A local master that tries a task so often, unless it says how often itself."""
    match = _LOCAL.fullmatch(master)
    if match is None or match["tries"] is not None:
        return master
    return f"local[{match['cores'] or 1},{attempts}]"


def options_to_start(
    settings: Settings, *, command: str, archive: Path | None = None
) -> dict[str, str]:
    """Every option of a session that we start on a master.

    Raises:
        SettingInvalid: `spark.conf` holds what has a setting of its own.
    """
    attempts = settings.pipeline.task_attempts
    master = master_with_attempts(settings.spark.master, attempts)
    options = {
        "spark.app.name": settings.spark.app_name or f"omnigraph-{command}",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.driver.memory": f"{_driver_memory_bytes() // _MIB}m",
        **MEANING,
        **TUNING,
    }
    cores = _local_cores(master)
    if cores is None:
        options["spark.task.maxFailures"] = str(attempts)
    else:
        options["spark.sql.shuffle.partitions"] = str(_CORES_PER_SHUFFLE * cores)
    options |= given_options(settings)
    for key in (JAVA_OPTIONS, EXECUTOR_JAVA_OPTIONS):
        options[key] = _joined(options.get(key), IN_UTC)
    if archive is not None:
        ours = f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:class+path=off"
        options[JAVA_OPTIONS] = _joined(options[JAVA_OPTIONS], ours)
    return options


def _joined(given: str | None, ours: str) -> str:
    return " ".join(filter(None, (given, ours)))


def given_options(settings: Settings) -> dict[str, str]:
    """The options of `spark.conf`.

    Raises:
        SettingInvalid: it holds what has a setting of its own.
    """
    for option, setting in _OWN_SETTINGS.items():
        if option in settings.spark.conf:
            raise SettingInvalid(
                f"spark.conf holds {option}, which has a setting of its own; give it as {setting}",
                name="spark.conf",
            )
    return dict(settings.spark.conf)


def _local_cores(master: str) -> int | None:
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match["cores"] or "1"
    return os.cpu_count() or 1 if cores == "*" else int(cores)


def _driver_memory_bytes() -> int:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(memory_bytes // 4, _LEAST_DRIVER_BYTES)
