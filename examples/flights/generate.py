"""Makes the files of the flights example: `python examples/flights/generate.py --out flights`.

The same seed gives the same files. They have the faults of real exports: numbers as text, `NA` for
what is missing, rows that were exported twice, planes that no list has, and clocks without a zone.
"""

from __future__ import annotations

import argparse
import csv
import random  # noqa: TID251 - seeded
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

AIRPORTS = [
    ("EWR", "Newark", "-5", "A"),
    ("JFK", "Kennedy", "-5", "A"),
    ("LGA", "La Guardia", "-5", "A"),
    ("PHX", "Phoenix", "-7", "N"),
    ("HNL", "Honolulu", "-10", ""),
    ("ORD", "O'Hare", "-6", "A"),
    ("X99", '"The Strip"', "NA", ""),
]
AIRLINES = [("AA", "American"), ("UA", "United"), ("B6", "JetBlue"), ("UA", "United")]
COLUMNS = ["day", "carrier", "number", "tailnum", "origin", "dest", "delay", "updated_at"]
_FIRST_DAY = datetime(2013, 3, 9)  # noqa: DTZ001 - as the database has it, without a zone


@dataclass(frozen=True, slots=True)
class Flight:
    """A row of `flights.csv`."""

    day: str
    carrier: str
    number: str
    tailnum: str
    origin: str
    dest: str
    delay: str
    updated_at: str

    @property
    def code(self) -> str:
        """What the pipeline makes of it."""
        return f"{self.carrier}-{self.number}-{self.day}"

    @property
    def cells(self) -> list[str]:
        """Its values in the order of the columns."""
        return [getattr(self, name) for name in COLUMNS]


def flights(count: int, seed: int, *, first: int = 0) -> list[Flight]:
    """Flights, some of them twice: the later one counts."""
    rng = random.Random(f"{seed} {first}")  # noqa: S311 - no secret
    rows: list[Flight] = []
    for number in range(first, first + count):
        day = _FIRST_DAY + timedelta(days=number % 4)
        fields = {
            "day": day.date().isoformat(),
            "carrier": rng.choice(AIRLINES)[0],
            "number": str(100 + number),
            "tailnum": rng.choice(["N1", "N2", "N3", "N4", "N7", "N8", "NA"]),
            "origin": rng.choice(AIRPORTS[:3])[0],
            "dest": rng.choice(AIRPORTS[3:6])[0],
            "delay": rng.choice(["-4", "0", "12", "95", "NA"]),
            "updated_at": f"{day.date().isoformat()} 12:00:00",
        }
        rows.append(Flight(**fields))
        if number % 10 == 3:
            later = {"delay": "33", "updated_at": f"{day.date().isoformat()} 18:00:00"}
            rows.append(Flight(**fields | later))
    if not first:
        # Two rows that nobody can load.
        rows.append(Flight(**fields | {"number": "1", "delay": "late"}))
        rows.append(Flight(**fields | {"number": "2", "dest": "ZZZ"}))
    rng.shuffle(rows)
    return rows


def departures(codes: Sequence[str], *, start: int = 0) -> list[str]:
    """Statements that fill the table `departures`: when flights left, on the clock of New York."""
    statements = []
    for at, code in enumerate(codes, start):
        day = code[-10:]
        # The clocks went forward on 2013-03-10.
        left = f"{day} {8 + at % 12:02}:30:00"
        statements.append(
            "INSERT INTO departures VALUES"  # noqa: S608 - values of this file
            f" ('{code}', TIMESTAMP('{left}'), TIMESTAMP('2013-04-01 00:{at:02}:00'))"
        )
    return statements


def write_flights(file: Path, rows: Iterable[Flight]) -> None:
    """The rows as CSV."""
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(COLUMNS)
        writer.writerows(each.cells for each in rows)


def write(folder: Path, *, count: int = 40, seed: int = 7) -> list[Flight]:
    """All files of the example; the flights as they were written."""
    folder.mkdir(parents=True, exist_ok=True)
    lists: dict[str, list[Sequence[str]]] = {
        "airports": [("faa", "name", "tz", "dst"), *AIRPORTS],
        "airlines": [("carrier", "name"), *AIRLINES],
    }
    for name, lines in lists.items():
        with (folder / f"{name}.csv").open("w", newline="") as opened:
            csv.writer(opened).writerows(lines)
    planes = {
        "tailnum": ["N1", "N2", "N3", "N4", "N2"],
        "year": [1999.0, 2004.0, None, 2011.0, 2005.0],
        "seats": [149, 55, 200, 182, 50],
        "updated_at": ["2013-01-01", "2013-01-01", "2013-01-01", "2013-01-01", "2013-02-01"],
    }
    pq.write_table(pa.table(planes), folder / "planes.parquet")
    rows = flights(count, seed)
    write_flights(folder / "flights.csv", rows)
    return rows


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Make the files of the flights example.")
    parser.add_argument("--out", type=Path, default=Path("flights"))
    parser.add_argument("--flights", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    rows = write(given.out, count=given.flights, seed=given.seed)
    print(f"{len(rows)} rows of flights in {given.out}")


if __name__ == "__main__":
    main()
