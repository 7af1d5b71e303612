"""What is said of a database that cannot be reached."""

from __future__ import annotations

import pytest

from omnigraph.errors import SourceError
from omnigraph.pipeline.sources.database_errors import connection_fault, database_errors
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat, SourceSpec


def database(url: str = "jdbc:postgresql://db.acme/x?password=hunter2", **more: str) -> SourceSpec:
    return SourceSpec(name="orders", format=SourceFormat.JDBC, options={"url": url, **more})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            database(),
            "no driver for jdbc:postgresql; set the option `driver` to org.postgresql.Driver, and"
            " give its jar with --spark-conf spark.jars.packages=org.postgresql:postgresql:VERSION",
        ),
        (database(driver="org.postgresql.Drvier"), "no class org.postgresql.Drvier; set"),
        (database("jdbc:foo:bar"), "no driver for jdbc:foo; name the class"),
    ],
)
def test_a_missing_driver_is_told_with_its_option_class_and_package(
    source: SourceSpec, words: str
) -> None:
    fault = connection_fault(source, "java.sql.SQLException: No suitable driver")
    assert fault is not None
    assert words in fault.message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('FATAL: password authentication failed for user "me"', "password"),
        ("Access denied for user 'me'@'localhost' (using password: YES)", "password"),
        ("org.postgresql.util.PSQLException: Connection to db.acme:5433 refused.", "port"),
        ("Communications link failure\n java.net.UnknownHostException: db.acme", "host"),
        ("The connection attempt failed.\nCaused by: java.net.UnknownHostException: db", "host"),
        ("java.net.ConnectException: Connection refused", "port"),
        ('FATAL: database "crm" does not exist', "database"),
        ("java.sql.SQLException: Database '/data/crm' not found.", "database"),
    ],
)
def test_password_host_and_port_are_told_apart_without_secrets(text: str, fault: str) -> None:
    with pytest.raises(SourceError) as caught, database_errors(database()):
        raise RuntimeError(text)
    assert caught.value.details == {"source": "orders", "fault": fault}
    for secret in ("hunter2", "db.acme", "me@"):
        assert secret not in caught.value.message


class OfJava:
    """What py4j gives for an exception of Java."""

    def __init__(self, text: str, cause: OfJava | None = None) -> None:
        self.toString = lambda: text
        self.getCause = lambda: cause


@pytest.mark.parametrize("name", ["_origin", "java_exception"])
def test_the_words_of_a_driver_are_found_below_those_of_spark(name: str) -> None:
    driver = OfJava("org.postgresql.util.PSQLException: password authentication failed for me@x")
    error = RuntimeError("[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:*********(redacted)")
    setattr(error, name, OfJava("org.apache.spark.SparkException", driver))
    with pytest.raises(SourceError) as caught, database_errors(database()):
        raise error
    assert caught.value.details["fault"] == "password"
    assert "me@x" not in caught.value.message


def test_other_errors_and_other_sources_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="relation"), database_errors(database()):
        raise RuntimeError('relation "orders" does not exist')
    table = SourceSpec(name="t", format=SourceFormat.TABLE, table="t")
    assert connection_fault(table, "Connection refused") is None
