"""Options of Spark: what they replace, and how quiet Spark is."""

import os
from pathlib import Path

import pytest

from omnigraph.cli.addressing import Target
from omnigraph.cli.spark_log import log_path
from omnigraph.cli.spark_options import with_spark
from omnigraph.errors import UsageError
from omnigraph.settings import Engine, load_settings

LOG = "-Dlog4j2.configurationFile=file:///"
JAVA = "spark.driver.extraJavaOptions"


def target(**environ: str) -> Target:
    return Target(uri="g.omni", settings=load_settings(environ))


def changed(
    given: Target,
    *,
    engine: Engine | None = None,
    master: str | None = None,
    remote: str | None = None,
    conf: list[str] | None = None,
    command: str | None = None,
) -> Target:
    return with_spark(
        given, engine=engine, master=master, remote=remote, conf=conf, command=command
    )


def test_an_option_replaces_the_variable_and_one_of_the_session_its_key() -> None:
    given = target(
        OMNIGRAPH_SPARK_REMOTE="sc://a:1",
        OMNIGRAPH_SPARK_CONF="spark.a=1;spark.b=2",
        OMNIGRAPH_ENGINE="local",
    )
    found = changed(given, engine=Engine.SPARK, master="local[1]", conf=["spark.b=3=4"])
    spark = found.settings.spark
    assert (spark.engine, spark.master, spark.remote) == (Engine.SPARK, "local[1]", None)
    assert (spark.conf["spark.a"], spark.conf["spark.b"]) == ("1", "3=4")
    assert changed(given).settings.spark.engine is Engine.LOCAL


def test_the_command_names_the_application_unless_the_settings_do() -> None:
    assert changed(target(), command="load").settings.spark.app_name == "omnigraph-load"
    given = target(OMNIGRAPH_SPARK_APP_NAME="nightly")
    assert changed(given, command="load").settings.spark.app_name == "nightly"


def test_spark_logs_errors_alone_unless_its_log_is_set_up_otherwise() -> None:
    assert changed(target()).settings.spark.conf[JAVA].startswith(LOG)
    joined = changed(target(), conf=[f"{JAVA}=-Xss4m"]).settings.spark.conf[JAVA]
    assert joined.startswith(f"-Xss4m {LOG}")
    own = f"{JAVA}=-Dlog4j2.configurationFile=mine.properties"
    assert LOG not in changed(target(), conf=[own]).settings.spark.conf[JAVA]
    assert JAVA not in changed(target(), remote="sc://a:1").settings.spark.conf


def test_what_spark_logs_goes_to_a_file_of_the_process(tmp_path: Path) -> None:
    given = target(OMNIGRAPH_HOME=str(tmp_path))
    path = log_path(given.settings)
    assert path == tmp_path / "logs" / f"spark-{os.getpid()}.log"
    path.parent.mkdir()
    path.write_text("of another process")
    assert f" -Domnigraph.spark.log={path}" in changed(given).settings.spark.conf[JAVA]
    assert not path.exists()
    spaced = target(OMNIGRAPH_HOME=str(tmp_path / "a b"))
    assert JAVA not in changed(spaced).settings.spark.conf


def test_a_cluster_is_chosen_once_and_only_for_spark() -> None:
    with pytest.raises(UsageError, match="not both"):
        changed(target(), master="local[1]", remote="sc://a:1")
    with pytest.raises(UsageError, match="--engine local runs in this process"):
        changed(target(), engine=Engine.LOCAL, conf=["a=b"])
