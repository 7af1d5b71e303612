"""PostgreSQL as a source: instants in every zone, cursors, faults. Skipped where it is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.postgres_server import (
    DRIVER,
    PASSWORD,
    USER,
    Postgres,
    driver_jar,
    serving_postgres,
)

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.extended

FEED = """
version: 1
name: feed
mode: append
sources:
  events:
    format: jdbc
    options:
      {{url: "{url}", dbtable: events, driver: {driver}, user: {user}, password: "${{PASSWORD}}"}}
    cursor: {{column: seen, type: timestamp}}{more}
nodes:
  - {{type: Event, from: events, columns: {{name: name, at: seen, zoned: zoned}}}}
"""
TABLE = "CREATE TABLE events (name text, seen timestamp, zoned timestamptz)"
# Clocks of New York skip 02:30 on March 10 and show 01:30 twice on November 3.
BY_ZONE = {
    "America/New_York": [("a", "2024-03-10 02:30:00"), ("b", "2024-03-10 12:45:00")],
    "UTC": [("c", "2024-03-10 12:46:00"), ("d", "2024-10-06 02:15:00")],
    "Australia/Lord_Howe": [("e", "2024-10-06 02:16:00"), ("f", "2024-11-03 01:30:00")],
}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    driver_jar()
    with serving_postgres() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, postgres: Postgres) -> Path:
    schema = "node Event { name: String @key  at: DateTime?  zoned: DateTime? }"
    Graph.init(tmp_path / "graph", schema=schema).close()
    postgres.execute("DROP TABLE IF EXISTS events", TABLE)
    return tmp_path


def add(postgres: Postgres, rows: list[tuple[str, str]]) -> None:
    values = [f"('{name}', '{at}', '{at}+01')" for name, at in rows]
    postgres.execute(f"INSERT INTO events VALUES {', '.join(values)}")  # noqa: S608 - of the test


def declare(folder: Path, url: str, *, name: str = "feed", more: str = "") -> None:
    text = FEED.format(url=url, driver=DRIVER, user=USER, more=more)
    (folder / f"{name}.yaml").write_text(text)


def run(folder: Path, *, zone: str = "UTC", password: str = PASSWORD) -> list[object]:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.postgres_driver", str(folder), str(driver_jar())],
        env={**os.environ, "TZ": zone, "PASSWORD": password},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
        text=True,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def stored(folder: Path) -> dict[str, tuple[str, str]]:
    with Graph.open(folder / "graph") as graph:
        lines = b"".join(graph.export(types=["Event"])).splitlines()
    found = [json.loads(line)["data"] for line in lines]
    return {each["name"]: (each["at"], each["zoned"]) for each in found}


def test_runs_in_three_zones_load_every_row_once_at_the_same_instant(
    folder: Path, postgres: Postgres
) -> None:
    declare(folder, postgres.url)
    for zone, rows in BY_ZONE.items():
        add(postgres, rows)
        assert run(folder, zone=zone) == [2]
    found = stored(folder)
    assert {name: at for name, (at, _) in found.items()} == {
        name: f"{at.replace(' ', 'T')}.000Z" for rows in BY_ZONE.values() for name, at in rows
    }
    assert found["b"][1] == "2024-03-10T11:45:00.000Z"


def test_a_cursor_goes_on_over_local_times_whose_clocks_go_back(
    folder: Path, postgres: Postgres
) -> None:
    declare(folder, postgres.url, more="\n    timezone: America/New_York")
    add(postgres, [("before", "2024-11-03 01:30:00")])
    assert run(folder) == [1]
    add(postgres, [("after", "2024-11-03 02:00:00")])
    assert run(folder, zone="Asia/Tokyo") == [1]
    assert {name: at for name, (at, _) in stored(folder).items()} == {
        "before": "2024-11-03T05:30:00.000Z",
        "after": "2024-11-03T07:00:00.000Z",
    }


def test_faults_are_told_apart_without_a_secret(folder: Path, postgres: Postgres) -> None:
    declare(folder, postgres.url, name="1")
    declare(folder, postgres.url.replace("/postgres", "/hidden"), name="2")
    declare(folder, "jdbc:postgresql://127.0.0.1:1/hidden", name="3")
    declare(folder, "jdbc:postgresql://no.such.host.invalid/hidden", name="4")
    told = run(folder, password="wrong-hidden")  # noqa: S106 - of the test
    assert [each[0] for each in told if isinstance(each, list)] == [
        "password",
        # Whoever is not let in learns nothing of databases.
        "password",
        "port",
        "host",
    ]
    assert "hidden" not in json.dumps([each[1] for each in told if isinstance(each, list)])
