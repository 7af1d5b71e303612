"""Why a database cannot be read, told apart in our words: driver, host, port, password, database.

What a database driver says differs by its maker and may hold the address, so only what kind of
fault it is gets out. Anything else is told as Spark tells it.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SourceError
from omnigraph.pipeline.spark.errors import is_session_lost
from omnigraph.pipeline.spark.java_causes import with_java_causes
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.pipeline.spec.pipeline_spec import SourceSpec

_DRIVERS: Final = {
    "postgresql": ("org.postgresql.Driver", "org.postgresql:postgresql"),
    "mysql": ("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j"),
    "mariadb": ("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client"),
    "sqlserver": (
        "com.microsoft.sqlserver.jdbc.SQLServerDriver",
        "com.microsoft.sqlserver:mssql-jdbc",
    ),
    "oracle": ("oracle.jdbc.OracleDriver", "com.oracle.database.jdbc:ojdbc11"),
    "db2": ("com.ibm.db2.jcc.DB2Driver", "com.ibm.db2:jcc"),
    "snowflake": ("net.snowflake.client.jdbc.SnowflakeDriver", "net.snowflake:snowflake-jdbc"),
    "sqlite": ("org.sqlite.JDBC", "org.xerial:sqlite-jdbc"),
    "h2": ("org.h2.Driver", "com.h2database:h2"),
    "derby": ("org.apache.derby.iapi.jdbc.AutoloadedDriver", None),
}
"""By scheme, the class of the driver and the package that brings it; Derby comes with Spark."""
_NO_DRIVER: Final = re.compile(
    r"No suitable driver|ClassNotFoundException|Did not find registered driver"
)
_FAULTS: Final = (
    (
        re.compile(
            r"password authentication failed|no password was provided|Access denied for user"
            r"|Login failed for user|ORA-01017|Invalid authentication|authentication failure"
            r"|\b28P01\b|Wrong user name or password",
            re.IGNORECASE,
        ),
        "password",
        "the database refused the user or the password; look at its options `user` and `password`",
    ),
    (
        re.compile(r"UnknownHost|Name or service not known|nodename nor servname", re.IGNORECASE),
        "host",
        "no host of the name in its url is known; look at the option `url`",
    ),
    (
        re.compile(
            r"Connection(?: to \S+)? refused|ConnectException|connect timed out"
            r"|Communications link failure|SocketTimeoutException|No route to host",
            re.IGNORECASE,
        ),
        "port",
        "nothing answers at the host and port of its url; is the database running, and is the port"
        " of the option `url` right",
    ),
    (
        re.compile(
            r"database \"[^\"]*\" does not exist|Unknown database|Cannot open database"
            r"|Database '[^']*' not found|\b3D000\b",
            re.IGNORECASE,
        ),
        "database",
        "there is no database of the name in its url; look at the option `url`",
    ),
)


@contextmanager
def database_errors(source: SourceSpec) -> Iterator[None]:
    """Faults of a connection to a database, as errors of the source.

    Raises:
        SourceError: with the kind of the fault; another error passes as it is.
    """
    try:
        yield
    except Exception as error:
        fault = (
            None if is_session_lost(error) else connection_fault(source, with_java_causes(error))
        )
        if fault is None:
            raise
        raise fault from None


def connection_fault(source: SourceSpec, text: str) -> SourceError | None:
    """The error of what Java says, if it says that a connection failed."""
    if source.format is not SourceFormat.JDBC:
        return None
    if _NO_DRIVER.search(text):
        return SourceError(_without_driver(source), source=source.name, fault="driver")
    for words, fault, why in _FAULTS:
        if words.search(text):
            return SourceError(
                f"source {source.name!r} cannot be read: {why}", source=source.name, fault=fault
            )
    return None


def _without_driver(source: SourceSpec) -> str:
    options = {name.lower(): value for name, value in source.options.items()}
    scheme = _scheme(options.get("url", ""))
    driver, package = _DRIVERS.get(scheme, (None, None))
    told = f"source {source.name!r} cannot be read: Spark has no driver for jdbc:{scheme}"
    given = options.get("driver")
    if given is not None:
        told = f"source {source.name!r} cannot be read: Spark has no class {given}"
    if driver is None:
        return (
            f"{told}; name the class of the database's driver in the option `driver`, and give its"
            " jar with --spark-conf spark.jars=FILE"
        )
    told += f"; set the option `driver` to {driver}"
    if package is None:
        return told
    return f"{told}, and give its jar with --spark-conf spark.jars.packages={package}:VERSION"


def _scheme(url: str) -> str:
    found = re.match(r"jdbc:([a-z0-9]+)", url, re.IGNORECASE)
    return found.group(1).lower() if found else "?"
