"""The Spark session: what is asked for, what is found, what is refused before anything starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, SettingInvalid, SparkNotInstalled, SparkUnavailable
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.pipeline.pipeline import Pipeline
from omnigraph.pipeline.spark import class_archive
from omnigraph.pipeline.spark.java import JavaRuntime, find_java
from omnigraph.pipeline.spark.options import (
    MEANING,
    TUNING,
    is_loopback,
    master_with_attempts,
    options_to_start,
    require_shared_files,
    require_shared_path,
    runs_on_this_machine,
)
from omnigraph.pipeline.spark.session import (
    PipelineSession,
    SparkMode,
    _not_started,
    cluster_of,
    find_active_session,
    open_session,
    require_connect_packages,
    start_session,
)
from omnigraph.settings import Settings, StorageSettings, load_settings
from omnigraph.storage.location import GraphLocation, parse_location

JAVA = JavaRuntime(version="17.0.13", vm_version="17.0.13+11", home="/usr/lib/jvm/java-17")


def settings(**variables: str) -> Settings:
    return load_settings({f"OMNIGRAPH_{name}": value for name, value in variables.items()})


def run_python(code: str, **environ: str) -> str:
    """What a child process prints, with these variables changed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ) | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr


OPEN = """
import sys
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.spark.session import start_session
from omnigraph.settings import load_process_settings
try:
    start_session(load_process_settings())
except OmnigraphError as error:
    print(type(error).__name__, error.message)
print("pyspark imported:", "pyspark" in sys.modules)
"""


def test_a_machine_without_java_is_told_what_to_install_before_spark_is_imported() -> None:
    told = run_python(OPEN, PATH="", JAVA_HOME="")
    assert told.startswith("SparkNotInstalled Spark needs Java")
    assert "openjdk-17" in told
    assert told.endswith("pyspark imported: False\n")


def test_a_java_home_without_java_is_refused_even_with_java_on_the_path(tmp_path: Path) -> None:
    assert run_python(OPEN, JAVA_HOME=str(tmp_path)).startswith("SparkNotInstalled")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, version: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '    java.version = {version}' >&2\n")
    java.chmod(0o755)
    told = run_python(OPEN, JAVA_HOME=str(tmp_path))
    assert told.startswith("SparkNotInstalled Spark needs Java 17 or later")
    assert f"is Java {version}" in told


def test_an_installation_without_pyspark_is_told_what_to_install() -> None:
    told = run_python("import sys; sys.modules['pyspark'] = None\n" + OPEN)
    assert told.startswith("SparkNotInstalled the data pipeline needs PySpark")


def test_an_endpoint_without_the_packages_of_connect_names_the_extra() -> None:
    blocked = "import sys; sys.modules['grpc'] = None\n"
    told = run_python(blocked + OPEN, OMNIGRAPH_SPARK_REMOTE="sc://127.0.0.1:1")
    assert told.startswith("SparkNotInstalled")
    assert "pip install '.[connect]'" in told


def test_importing_the_parts_of_the_pipeline_loads_no_spark() -> None:
    names = ("session", "tasks", "stage_runner", "handshake", "class_archive")
    code = (
        "import sys\n"
        + "".join(f"import omnigraph.pipeline.spark.{name}\n" for name in names)
        + "print([name for name in ('pyspark', 'lance', 'pandas') if name in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


def test_the_java_of_this_machine_can_run_spark() -> None:
    assert find_java().major >= 17


@pytest.mark.parametrize(("version", "major"), [("17.0.13", 17), ("21", 21), ("1.8.0_392", 8)])
def test_the_major_version_is_counted_as_java_counted(version: str, major: int) -> None:
    assert JavaRuntime(version=version, vm_version="", home="").major == major


def test_a_session_that_we_start_has_the_documented_options() -> None:
    options = options_to_start(settings(), command="load")
    memory = options.pop("spark.driver.memory")
    assert int(memory.removesuffix("m")) >= 2048
    assert options == {
        "spark.app.name": "omnigraph-load",
        "spark.master": "local[*,4]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
    }


def test_options_of_the_settings_win() -> None:
    given = settings(
        SPARK_CONF="spark.driver.memory=9g;spark.x=y", SPARK_APP_NAME="mine", SPARK_MASTER="yarn"
    )
    options = options_to_start(given, command="load")
    assert options["spark.driver.memory"] == "9g"
    assert options["spark.x"] == "y"
    assert options["spark.app.name"] == "mine"
    assert options["spark.master"] == "yarn"


def test_a_cluster_keeps_its_own_number_of_partitions_and_gets_our_attempts() -> None:
    given = settings(SPARK_MASTER="spark://host:7077", PIPELINE_TASK_ATTEMPTS="7")
    options = options_to_start(given, command="load")
    assert "spark.sql.shuffle.partitions" not in options
    assert options["spark.task.maxFailures"] == "7"


@pytest.mark.parametrize("option", ["spark.master", "spark.remote", "spark.app.name"])
def test_an_option_with_a_setting_of_its_own_is_refused(option: str) -> None:
    with pytest.raises(SettingInvalid, match=f"spark.conf holds {option}"):
        options_to_start(settings(SPARK_CONF=f"{option}=x"), command="load")


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,6]"),
        ("local[2]", "local[2,6]"),
        ("local[*]", "local[*,6]"),
        ("local[*,3]", "local[*,3]"),
        ("spark://a:1", "spark://a:1"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)
def test_a_local_master_tries_as_often_as_the_setting_says(master: str, expected: str) -> None:
    assert master_with_attempts(master, 6) == expected


def test_the_class_archive_joins_the_java_options_that_are_given() -> None:
    given = settings(SPARK_CONF="spark.driver.extraJavaOptions=-Xint")
    options = options_to_start(given, command="load", archive=Path("/cache/spark-1.jsa"))
    java = options["spark.driver.extraJavaOptions"]
    ours = "-Duser.timezone=UTC -XX:SharedArchiveFile=/cache/spark-1.jsa -Xshare:auto"
    assert java.startswith(f"-Xint {ours}")


def test_the_archive_of_another_java_is_another_file(tmp_path: Path) -> None:
    other = JavaRuntime(version="21", vm_version="21+1", home="/usr/lib/jvm/java-21")
    paths = {class_archive.archive_path(tmp_path, java) for java in (JAVA, other)}
    assert len(paths) == 2


def test_an_archive_that_was_not_made_is_not_used(tmp_path: Path) -> None:
    assert class_archive.find_archive(tmp_path, JAVA) is None
    assert class_archive.find_archive(None, JAVA) is None
    path = class_archive.archive_path(tmp_path, JAVA)
    assert path is not None
    path.parent.mkdir()
    path.write_bytes(b"")
    assert class_archive.find_archive(tmp_path, JAVA) == path


def test_an_archive_needs_a_folder_that_an_option_can_name(tmp_path: Path) -> None:
    for home in (None, tmp_path / "my files"):
        with pytest.raises(InvalidArgument, match="OMNIGRAPH_HOME"):
            class_archive.make_archive(home, JAVA)


@pytest.mark.slow
def test_java_uses_the_archive_of_a_first_job(tmp_path: Path) -> None:
    java = find_java()
    made = class_archive.make_archive(tmp_path, java)
    assert made == class_archive.find_archive(tmp_path, java)
    assert [path.name for path in made.parent.iterdir()] == [made.name]
    loads = tmp_path / "loads.txt"
    subprocess.run(
        [class_archive._spark_home() / "bin" / "spark-submit", "--version"],
        env=dict(os.environ)
        | {"SPARK_SUBMIT_OPTS": f"-XX:SharedArchiveFile={made} -Xlog:class+load:file={loads}"},
        capture_output=True,
        check=True,
    )
    taken = "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)"
    assert taken in loads.read_text()


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        ("local", True),
        ("local[*,4]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", False),
        ("yarn", False),
        ("localhost", False),
    ],
)
def test_only_local_masters_run_on_this_machine(master: str, is_here: bool) -> None:  # noqa: FBT001
    assert runs_on_this_machine(master) is is_here


def test_an_endpoint_on_the_loopback_is_on_this_machine() -> None:
    assert is_loopback("sc://localhost:15002")
    assert is_loopback("sc://127.0.0.1")
    assert not is_loopback("sc://spark.example.com:15002")


def test_a_local_graph_needs_executors_that_see_its_path(tmp_path: Path) -> None:
    local = parse_location(tmp_path, StorageSettings())
    with pytest.raises(InvalidArgument, match="--shared-filesystem"):
        require_shared_path(local, "yarn", is_here=False, shared_filesystem=False)
    require_shared_path(local, "yarn", is_here=False, shared_filesystem=True)
    require_shared_path(local, "local[2]", is_here=True, shared_filesystem=False)
    bucket = GraphLocation(root="s3://bucket/graph", is_local=False)
    require_shared_path(bucket, "yarn", is_here=False, shared_filesystem=False)


def test_a_local_graph_on_a_cluster_is_refused_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.pipeline.spark.session.find_active_session", lambda: None)
    (tmp_path / "in.jsonl").write_text('{"type":"P","data":{"name":"a"}}\n')
    elsewhere = settings(SPARK_MASTER="spark://nowhere.invalid:7077")
    with Graph.init(tmp_path / "g", schema="node P { name: String @key }") as graph:
        pipeline = Pipeline(graph._graph, elsewhere, actor_id=None, external=DENY_ALL)
        with pytest.raises(InvalidArgument, match="say so with --shared-filesystem"):
            pipeline.load(tmp_path / "in.jsonl", mode="append")


def test_the_token_of_an_endpoint_is_in_no_text() -> None:
    given = settings(SPARK_REMOTE="sc://host:1/;token=hunter2", SPARK_CONF="a.token=hunter2")
    assert "hunter2" not in repr(given)
    assert cluster_of(given) == "sc://host:1"
    failed = _not_started(RuntimeError("no answer of sc://host:1/;token=hunter2"), given)
    assert "no answer of sc://host:1" in failed.message
    assert "hunter2" not in f"{failed} {failed.details}"


def test_the_token_of_an_endpoint_of_another_kind_is_not_told(
    connect_packages: None,  # noqa: ARG001
) -> None:
    with pytest.raises(SettingInvalid) as refused:
        open_session(settings(SPARK_REMOTE="http://h/;token=hunter2"))
    assert "hunter2" not in f"{refused.value} {refused.value.details}"


def test_local_input_needs_executors_that_see_its_path() -> None:
    paths = ["s3://bucket/a.csv", "/data/b.csv"]
    with pytest.raises(InvalidArgument, match=r"/data/b\.csv .*--shared-filesystem"):
        require_shared_files(paths, "yarn", is_here=False, shared_filesystem=False)
    require_shared_files(paths, "yarn", is_here=False, shared_filesystem=True)
    require_shared_files(paths, "local[2]", is_here=True, shared_filesystem=False)
    require_shared_files(paths[:1], "yarn", is_here=False, shared_filesystem=False)


def test_an_endpoint_of_another_kind_is_refused(connect_packages: None) -> None:  # noqa: ARG001
    with pytest.raises(SettingInvalid, match="expected sc://host:port"):
        open_session(settings(SPARK_REMOTE="http://host:15002"))


def test_an_endpoint_where_nobody_listens_is_told_at_once(connect_packages: None) -> None:  # noqa: ARG001
    with pytest.raises(SparkUnavailable, match=r"127\.0\.0\.1:1 does not answer"):
        open_session(settings(SPARK_REMOTE="sc://127.0.0.1:1"))


@pytest.fixture
def connect_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    # A session of another test would be used instead of the endpoint.
    monkeypatch.setattr("omnigraph.pipeline.spark.session.find_active_session", lambda: None)
    try:
        require_connect_packages()
    except SparkNotInstalled as error:
        pytest.skip(error.message)


class TestOneSession:
    """Everything that needs a session; it is started once for the whole run."""

    pytestmark = pytest.mark.timeout(600)

    def test_it_is_ours_and_tells_what_it_is(self, session: PipelineSession) -> None:
        assert session.is_owned
        assert session.mode is SparkMode.CLASSIC
        assert (session.cluster, session.is_here) == ("local[2,4]", True)
        assert session.spark.conf.get("spark.app.name") == "omnigraph-tests"

    def test_its_workers_are_this_python(self, session: PipelineSession) -> None:
        context = session.classic_context
        assert context is not None
        assert context.pythonExec == sys.executable

    def test_an_active_session_is_used_and_never_stopped(self, session: PipelineSession) -> None:
        assert find_active_session() is session.spark
        with open_session(settings(SPARK_MASTER="yarn")) as borrowed:
            assert borrowed.spark is session.spark
            assert not borrowed.is_owned
        session.require_alive()
        assert session.spark.range(3).count() == 3

    def test_a_given_session_is_used(self, session: PipelineSession) -> None:
        other = session.spark.newSession()
        assert start_session(settings(), spark=other).result().spark is other

    def test_a_borrowed_session_has_our_settings_for_a_call_and_its_own_afterwards(
        self, session: PipelineSession
    ) -> None:
        spark = session.spark.newSession()
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.conf.unset("spark.sql.caseSensitive")
        before = dict(spark.conf.getAll)
        borrowed = PipelineSession(spark, is_owned=False)
        with borrowed.configured():
            during = {key: spark.conf.get(key) for key in {**MEANING, **TUNING}}
            with borrowed.configured():
                pass
            assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert during == {**MEANING, **TUNING}
        assert dict(spark.conf.getAll) == before

    def test_an_option_that_only_tunes_is_kept_in_a_session_of_ours(
        self, session: PipelineSession
    ) -> None:
        key = "spark.sql.execution.arrow.maxRecordsPerBatch"
        ours = PipelineSession(session.spark.newSession(), is_owned=True)
        ours.spark.conf.set(key, "10")
        ours.spark.conf.set("spark.sql.ansi.enabled", "false")
        with ours.configured() as spark:
            assert spark.conf.get(key) == "10"
            assert spark.conf.get("spark.sql.ansi.enabled") == "true"

    def test_a_group_is_never_named_twice(self, session: PipelineSession) -> None:
        assert session.new_group("intake") != session.new_group("intake")

    def test_a_local_graph_is_accepted(self, session: PipelineSession, tmp_path: Path) -> None:
        session.require_access(parse_location(tmp_path, StorageSettings()), shared_filesystem=False)


STARTED = """
import sys
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.spark.session import open_session, start_session
from omnigraph.pipeline.spark.tasks import run_tasks
from omnigraph.settings import load_process_settings
import pyarrow as pa

schema = pa.schema({"x": pa.int64()})
def one(task):
    return [pa.record_batch({"x": pa.array([task])})]

def attempt(call):
    try:
        call()
    except OmnigraphError as error:
        print(type(error).__name__, error.message.splitlines()[0])

with start_session(load_process_settings()).result() as session:
    print("rows", [r.batches[0].to_pylist() for r in run_tasks(session, "s", [5, 6], one, schema)])
attempt(lambda: run_tasks(session, "s", [5], one, schema))
with open_session(load_process_settings()) as session:
    from pyspark import SparkContext
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    attempt(lambda: run_tasks(session, "lost", [5], one, schema))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stopped_and_a_lost_session_are_told() -> None:
    told = subprocess.run(
        [sys.executable, "-c", STARTED],
        env=dict(os.environ) | {"OMNIGRAPH_SPARK_CONF": "spark.driver.memory=1g"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    ).stdout.splitlines()
    assert told[0] == "rows [[{'x': 5}], [{'x': 6}]]"
    assert told[1].startswith("SparkUnavailable the Spark session was stopped")
    assert told[2].startswith("SparkUnavailable the Spark session was lost in stage lost")
