"""Where the Java of Spark logs what fails below a command.

Stacks of Java tell a user nothing, so none is shown; they stand in a file, which a command that
failed names. Each process has its own, which comes to be when there is something to log.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from omnigraph.settings import Settings

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CONFIGURATION: Final = Path(__file__).with_name("spark_log.properties")


def log_path(settings: Settings) -> Path:
    """The file of this process."""
    home = settings.client.home
    folder = Path(tempfile.gettempdir()) if home is None else home / "logs"
    return folder / f"spark-{os.getpid()}.log"


def with_quiet_log(conf: Mapping[str, str], remote: str | None, path: Path) -> Mapping[str, str]:
    """Options under which Spark logs to the file, unless its log is set up otherwise.

    An endpoint has a log of its own; and a space would end the option. A file that another process
    of the same number left is removed.
    """
    java_options = conf.get(JAVA_OPTIONS, "")
    has_space = " " in f"{_CONFIGURATION}{path}"
    if remote is not None or "log4j" in java_options or has_space:
        return conf
    path.unlink(missing_ok=True)
    ours = f"-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()} -Domnigraph.spark.log={path}"
    return {**conf, JAVA_OPTIONS: f"{java_options} {ours}".strip()}
