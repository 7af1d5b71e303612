"""Tables of a real database, written in its own SQL, so that no zone of any Java is in them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
TABLE = "CREATE TABLE events (name VARCHAR(9), seen TIMESTAMP)"


def address(folder: Path) -> str:
    """Of the database of a folder."""
    return f"jdbc:derby:{folder / 'db'};create=true"


def execute(spark: SparkSession, folder: Path, statements: Iterable[str]) -> None:
    """Run statements in the Java of a session."""
    java: Any = spark._jvm  # Any: whatever Java has
    java.java.lang.Class.forName(DRIVER)
    connection = java.java.sql.DriverManager.getConnection(address(folder))
    try:
        for each in statements:
            connection.createStatement().execute(each)
    finally:
        connection.close()


def rows_of(table: str, moments: Iterable[tuple[str, str]]) -> list[str]:
    """Statements that add rows of a name and a time on the clock."""
    values = [f"('{name}', TIMESTAMP('{at}'))" for name, at in moments]
    return [f"INSERT INTO {table} VALUES {each}" for each in values]  # noqa: S608 - of the tests


def protect(spark: SparkSession, folder: Path, user: str, password: str) -> None:
    """Make the database of a folder, which only this user may enter."""
    java: Any = spark._jvm  # Any: as above
    java.java.lang.Class.forName(DRIVER)
    connect, owner = java.java.sql.DriverManager.getConnection, f"user={user};password={password}"
    connection = connect(f"{address(folder)};{owner}")
    statement = connection.createStatement()
    statement.execute(f"CALL SYSCS_UTIL.SYSCS_CREATE_USER('{user}', '{password}')")
    connection.close()
    with suppress(Exception):
        # A database that was shut down says so by an error, and asks for passwords from then on.
        connect(f"jdbc:derby:{folder / 'db'};shutdown=true;{owner}")
