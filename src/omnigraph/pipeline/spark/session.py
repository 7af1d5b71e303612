"""The Spark session: found or started, owned or borrowed, classic or Connect.

A session that is active when a job begins is used and never stopped; only its runtime settings
change, for the time of a call. Otherwise one is started from the settings, in a thread if the
caller has other work meanwhile, and stopped when its owner closes it. What is missing on the
machine is said before anything is started.

This is the only module that knows which of Spark's two clients it has. Everything else keeps to
the calls that both have; a scan of the sources enforces it.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import socket
import sys
import threading
import warnings
from concurrent.futures import Future
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self, cast
from urllib.parse import urlsplit

from omnigraph.clock import SystemClock
from omnigraph.errors import OmnigraphError, SettingInvalid, SparkNotInstalled, SparkUnavailable
from omnigraph.ids import UlidSource
from omnigraph.pipeline.spark.class_archive import find_archive
from omnigraph.pipeline.spark.errors import is_session_lost
from omnigraph.pipeline.spark.java import find_java
from omnigraph.pipeline.spark.options import (
    MEANING,
    TUNING,
    given_options,
    is_loopback,
    options_to_start,
    require_shared_files,
    require_shared_path,
    runs_on_this_machine,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from omnigraph.settings import Settings
    from omnigraph.storage.location import GraphLocation

_CONNECT_PACKAGES: Final = ("grpc", "grpc_status", "google.rpc", "zstandard")
_CONNECT_PORT: Final = 15_002
_CONNECT_TIMEOUT_S: Final = 10
_CONNECT_RETRIES: Final = 8
_CONNECT_BACKOFF_MS: Final = 5_000


class SparkMode(StrEnum):
    """Which client of Spark a session is."""

    CLASSIC = "classic"
    CONNECT = "connect"


class PipelineSession:
    """A Spark session for the jobs of one graph; a context manager.

    Safe to share between threads. Closing it stops Spark only if it was started here.
    """

    def __init__(self, spark: SparkSession, *, is_owned: bool) -> None:
        self.spark = spark
        self.is_owned = is_owned
        self.mode = _mode_of(spark)
        self._ids = UlidSource(SystemClock())
        self._lock = threading.Lock()
        self._calls = 0
        self._before: Mapping[str, str] = {}
        self._time_zone: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark, if it was started here; closing again does nothing."""
        if not self.is_owned:
            return
        try:
            self.spark.stop()
        except Exception as error:
            # There is nothing left to stop.
            if not is_session_lost(error):
                raise

    @property
    def classic_context(self) -> SparkContext | None:
        """The context of a classic session, which alone has job groups and a status tracker."""
        return self.spark.sparkContext if self.mode is SparkMode.CLASSIC else None

    @property
    def cluster(self) -> str:
        """Where tasks run, as people name it: a master, or the host of a Connect server."""
        if self.mode is SparkMode.CONNECT:
            return f"sc://{self.spark.client.host}"
        return self.spark.conf.get("spark.master") or "an unknown master"

    @property
    def is_here(self) -> bool:
        """Whether every task runs on this machine."""
        if self.mode is SparkMode.CONNECT and not is_loopback(self.cluster):
            return False
        return runs_on_this_machine(self.spark.conf.get("spark.master") or "")

    def time_zone(self) -> str:
        """The zone in which the Java of an executor runs; asked for once."""
        if self._time_zone is None:
            asked = self.spark.range(1).selectExpr("reflect('java.time.ZoneId', 'systemDefault')")
            self._time_zone = str(asked.collect()[0][0])
        return self._time_zone

    def plan_text(self, frame: DataFrame) -> str:
        """What Spark would do for a frame; nothing is run."""
        if self.mode is SparkMode.CONNECT:
            text: str = frame._explain_string(mode="formatted")  # type: ignore[operator]  # noqa: SLF001 - of Connect alone
            return text
        java = self.spark._jvm  # noqa: SLF001 - no other way
        if java is None:
            return ""
        plan = frame._jdf.queryExecution()  # noqa: SLF001 - as above
        return str(java.PythonSQLUtils.explainString(plan, "formatted"))

    def checkpoint_at(self, uri: str) -> bool:
        """Have checkpoints written there; false where only the server of Connect could do it."""
        context = self.classic_context
        if context is None:
            return bool(self.spark.conf.get("spark.checkpoint.dir", ""))
        context.setCheckpointDir(f"s3a://{uri[5:]}" if uri.startswith("s3://") else uri)
        return True

    def activate(self) -> None:
        """Make this the active session of the calling thread, as if it were started there.

        Spark looks up registered data sources in the active session of the thread that writes.
        """
        if self.mode is SparkMode.CLASSIC:
            java = self.spark._get_j_spark_session_class(self.spark._jvm)  # noqa: SLF001 - no other way
            java.setActiveSession(self.spark._jsparkSession)  # noqa: SLF001

    def require_alive(self) -> None:
        """Make sure that nobody stopped the session.

        Raises:
            SparkUnavailable: it was stopped.
        """
        context = self.classic_context
        # After a stop the context has lost its Java side, and its calls fail with bare assertions.
        if _is_connect_stopped(self.spark) if context is None else context._jsc is None:  # noqa: SLF001
            raise SparkUnavailable(
                "the Spark session was stopped; open the pipeline again, or give it another session"
            )

    def new_group(self, stage: str) -> str:
        """A name for the Spark jobs of one stage that no other stage has."""
        return f"omnigraph-{stage}-{self._ids.next_ulid()}"

    def require_access(self, location: GraphLocation, *, shared_filesystem: bool) -> None:
        """Refuse a graph that executors cannot see.

        Raises:
            InvalidArgument: the graph is on a local path, and tasks run elsewhere.
        """
        require_shared_path(
            location, self.cluster, is_here=self.is_here, shared_filesystem=shared_filesystem
        )

    def require_files(self, paths: Sequence[str], *, shared_filesystem: bool) -> None:
        """Refuse input that executors cannot see.

        Raises:
            InvalidArgument: a file is on a local path, and tasks run elsewhere.
        """
        require_shared_files(
            paths, self.cluster, is_here=self.is_here, shared_filesystem=shared_filesystem
        )

    @contextmanager
    def configured(self) -> Iterator[SparkSession]:
        """The session with the runtime settings that our plans rely on; restored at the end.

        Calls may overlap: the last one to end restores.

        Raises:
            SparkUnavailable: the session is lost.
        """
        self.require_alive()
        with self._lock:
            if self._calls == 0:
                self._before = _apply(self.spark, self._settings_of_a_call())
            self._calls += 1
        try:
            yield self.spark
        finally:
            with self._lock:
                self._calls -= 1
                if self._calls == 0:
                    _restore(self.spark, self._settings_of_a_call(), self._before)

    def _settings_of_a_call(self) -> Mapping[str, str]:
        return MEANING if self.is_owned else {**MEANING, **TUNING}


def require_reachable(
    location: GraphLocation, settings: Settings, *, shared_filesystem: bool
) -> None:
    """Refuse, before Spark is started, a graph that its executors could not see.

    Raises:
        InvalidArgument: the graph is on a local path, and tasks would run elsewhere.
    """
    cluster = cluster_of(settings)
    # Where a Connect server on this machine runs its tasks is known once it was asked.
    is_here = is_loopback(cluster) if settings.spark.remote else runs_on_this_machine(cluster)
    require_shared_path(location, cluster, is_here=is_here, shared_filesystem=shared_filesystem)


def find_active_session() -> SparkSession | None:
    """The session that this process already has; never imports PySpark to find out."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def open_session(
    settings: Settings, *, command: str = "pipeline", spark: SparkSession | None = None
) -> PipelineSession:
    """The given session, the active one, or one that is started here and owned.

    Raises:
        SparkNotInstalled: PySpark, Java or the packages of Connect are missing.
        SparkUnavailable: Spark did not start, or the endpoint does not answer.
        SettingInvalid: `spark.conf` holds what has a setting of its own.
    """
    session = start_session(settings, command=command, spark=spark).result()
    if session.is_owned:
        session.activate()
    return session


def open_reachable_session(
    location: GraphLocation, settings: Settings, *, command: str, shared_filesystem: bool = False
) -> PipelineSession:
    """As `open_session`; before one is started, a graph is refused that it could not see.

    Raises:
        InvalidArgument: the graph is on a local path, and tasks would run elsewhere.
    """
    if find_active_session() is None:
        require_reachable(location, settings, shared_filesystem=shared_filesystem)
    return open_session(settings, command=command)


def start_session(
    settings: Settings, *, command: str = "pipeline", spark: SparkSession | None = None
) -> Future[PipelineSession]:
    """As `open_session`, in a thread; what is missing on the machine is raised here at once."""
    future: Future[PipelineSession] = Future()
    existing_spark = spark or find_active_session()
    if existing_spark is not None:
        future.set_result(PipelineSession(existing_spark, is_owned=False))
        return future
    start = _prepare(settings, command)

    def run() -> None:
        try:
            spark = start()
            _be_quiet()
            future.set_result(PipelineSession(spark, is_owned=True))
        except OmnigraphError as error:
            future.set_exception(error)
        except Exception as error:  # noqa: BLE001 - the edge of a thread; Spark raises many classes
            future.set_exception(_not_started(error, settings))

    threading.Thread(target=run, name="omnigraph-spark-start", daemon=True).start()
    return future


def _be_quiet() -> None:
    """Errors of Spark are raised as ours; it would print each with a trace of Java as well."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _prepare(settings: Settings, command: str) -> Callable[[], SparkSession]:
    """What starts the session, once everything that it needs was found."""
    require_pyspark()
    remote = settings.spark.remote
    if remote is not None:
        require_connect_packages()
        _require_endpoint_syntax(remote)
        connect_options = {**MEANING, **TUNING, **given_options(settings)}
        return lambda: _connect(remote, connect_options)
    java = find_java()
    archive = find_archive(settings.client.home, java) if settings.spark.cds else None
    options = options_to_start(settings, command=command, archive=archive)
    return lambda: _start(options)


def require_pyspark() -> None:
    """Make sure that PySpark can be imported.

    Raises:
        SparkNotInstalled: it is not installed.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkNotInstalled(
            "the data pipeline needs PySpark, which is not installed; pip install 'pyspark==4.3.*'",
            package="pyspark",
        )


def require_connect_packages() -> None:
    """Make sure that the packages of Spark Connect can be imported.

    Raises:
        SparkNotInstalled: with the extra that brings them.
    """
    for package in _CONNECT_PACKAGES:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise SparkNotInstalled(
                f"a Spark Connect endpoint needs the package {package}, which is not installed;"
                " pip install '.[connect]' in the folder of this project",
                package=package,
            ) from error


def _start(options: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in options.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # The fork becomes Java at once; it never touches Lance.
        warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
        spark = builder.getOrCreate()
    if runs_on_this_machine(options["spark.master"]):
        # Workers on this machine must be this very installation, whatever `python3` is on PATH.
        spark.sparkContext.pythonExec = sys.executable
    return spark


def _connect(remote: str, options: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    _require_listener(remote)
    # `create`, because closing must end the session of this job and no other on the same endpoint.
    builder = SparkSession.builder.remote(remote)
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.create()
    _give_up_sooner(spark)
    return spark


def _give_up_sooner(spark: SparkSession) -> None:
    """A server that is gone is told in about a minute, not after ten, for each call."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    policy = DefaultPolicy(max_retries=_CONNECT_RETRIES, max_backoff=_CONNECT_BACKOFF_MS)
    cast("ConnectSession", spark).client.set_retry_policies([policy])


def _require_endpoint_syntax(remote: str) -> None:
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        # What follows the host may be a token.
        shown = remote.partition(";")[0]
        raise SettingInvalid(
            f"spark.remote: {shown!r} is no Spark Connect endpoint; expected sc://host:port",
            name="spark.remote",
        )


def _require_listener(remote: str) -> None:
    """Refuse an endpoint where nobody listens: Spark's own client would try for ten minutes."""
    host, port = _endpoint(remote)
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise SparkUnavailable(
            f"the Spark Connect endpoint {host}:{port} does not answer"
            f" ({error.strerror or error}); start it, or correct spark.remote",
            remote=f"{host}:{port}",
        ) from error


def _endpoint(remote: str) -> tuple[str, int]:
    parts = urlsplit(remote)
    return parts.hostname or "", parts.port or _CONNECT_PORT


def cluster_of(settings: Settings) -> str:
    """Where tasks of a session would run that is started with these settings; without a token."""
    if settings.spark.remote is None:
        return settings.spark.master
    host, port = _endpoint(settings.spark.remote)
    return f"sc://{host}:{port}"


def _not_started(error: Exception, settings: Settings) -> SparkUnavailable:
    cluster = cluster_of(settings)
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    told = [each for each in lines if each.startswith(("Caused by:", ": "))]
    reason = (told or lines or [type(error).__name__])[-1 if told else 0].lstrip(": ")
    if settings.spark.remote is not None:
        reason = reason.replace(settings.spark.remote, cluster)
    unavailable = SparkUnavailable(
        f"Spark did not start on {cluster}: {reason}; check spark.master, spark.remote and"
        " spark.conf, and what `omnigraph doctor` says",
        cluster=cluster,
    )
    unavailable.__cause__ = error
    return unavailable


def _is_connect_stopped(spark: SparkSession) -> bool:
    # Both clients share a declared type; this fact only one of them has.
    return cast("ConnectSession", spark).is_stopped


def _mode_of(spark: SparkSession) -> SparkMode:
    is_connect = type(spark).__module__.startswith("pyspark.sql.connect.")
    return SparkMode.CONNECT if is_connect else SparkMode.CLASSIC


def _apply(spark: SparkSession, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """Set these settings; those that were set before, with their values."""
    try:
        given = dict(spark.conf.getAll)
        for key, value in wanted.items():
            spark.conf.set(key, value)
    except Exception as error:
        if not is_session_lost(error):
            raise
        raise SparkUnavailable(
            "the Spark session is lost or was stopped; open a new one and try again"
        ) from error
    return {key: given[key] for key in wanted if key in given}


def _restore(spark: SparkSession, changed: Mapping[str, str], before: Mapping[str, str]) -> None:
    try:
        for key in changed:
            if key in before:
                spark.conf.set(key, before[key])
            else:
                spark.conf.unset(key)
    except Exception as error:
        # A lost session has no settings left; what lost it is already on its way to the caller.
        if not is_session_lost(error):
            raise
