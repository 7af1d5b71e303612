"""The class-data archive of Spark's Java: the classes of a first job, ready to be mapped.

One file in the cache folder of the operator, named after the Java, the Spark and the jars that it
was made from, so that a new one of any of them finds no archive instead of a wrong one. It only
saves time: a missing or stale archive is ignored by us and by Java. Run as a script, this module
is the first job.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument, SparkUnavailable

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.java import JavaRuntime

_TIMEOUT_S: Final = 600
_DIGEST_BYTES: Final = 10


def archive_path(home: Path | None, java: JavaRuntime) -> Path | None:
    """Where the archive for this Java and the installed Spark belongs; None without a folder."""
    if home is None:
        return None
    jars = _spark_home() / "jars"
    parts = [java.vm_version, java.home, str(jars)]
    parts += sorted(f"{jar.name} {jar.stat().st_size}" for jar in jars.glob("*.jar"))
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return home / "cache" / f"spark-{digest}.jsa"


def find_archive(home: Path | None, java: JavaRuntime) -> Path | None:
    """The archive, if it was made."""
    path = archive_path(home, java)
    # A space would end the option that names the file.
    return path if path is not None and path.is_file() and " " not in str(path) else None


def make_archive(home: Path | None, java: JavaRuntime) -> Path:
    """Run a small job in a Java of its own, and keep the classes that it loaded.

    Takes as long as a first job and some seconds more; a file that exists is replaced at the end.

    Raises:
        InvalidArgument: there is no folder to keep it in, or its name has a space.
        SparkUnavailable: the job did not end, or left no archive.
    """
    path = archive_path(home, java)
    if path is None or " " in str(path):
        raise InvalidArgument(
            "the class-data archive needs a folder whose path has no space; set OMNIGRAPH_HOME"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="warm-", dir=path.parent) as folder:
        made = Path(folder, "classes.jsa")
        _run_first_job(made)
        return made.replace(path)


def _run_first_job(made: Path) -> None:
    command = [
        str(_spark_home() / "bin" / "spark-submit"),
        *("--master", "local[2]"),
        *("--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.pyspark.python={sys.executable}"),
        *("--conf", f"spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit={made}"),
        __file__,
    ]
    try:
        done = subprocess.run(  # noqa: S603 - Spark's own launcher
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SparkUnavailable(
            f"the first job of Spark did not end within {_TIMEOUT_S} seconds; nothing was kept"
        ) from error
    if done.returncode != 0 or not made.is_file():
        lines = done.stderr.strip().splitlines()
        raise SparkUnavailable(
            f"Spark made no class-data archive ({lines[-1] if lines else 'it said nothing'}); jobs"
            " run without one"
        )


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def run_first_job() -> None:
    """What most jobs do first: a count, Arrow rows in and out, a shuffle, a join."""
    import pyarrow as pa
    from pyspark.sql import SparkSession

    with SparkSession.builder.getOrCreate() as spark:
        table = pa.table({"key": pa.array(range(8), pa.int32()), "value": ["x"] * 8})
        frame = spark.createDataFrame(table).repartitionById(2, "key")
        mapped = frame.mapInArrow(lambda batches: batches, "key int, value string")
        numbers = spark.range(4)
        mapped.join(numbers, mapped.key == numbers.id, "left").toArrow()
        spark.range(10).groupBy("id").count().collect()


if __name__ == "__main__":
    run_first_job()
