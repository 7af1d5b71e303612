"""Finds the Java that Spark would start, and refuses one that is missing or too old.

The question is asked as Spark's own launcher asks it: `JAVA_HOME` first, otherwise `PATH`, read by
a shell from the environment that the launcher will get. Nothing here starts Spark.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import Final

from omnigraph.errors import SparkNotInstalled

MIN_JAVA: Final = 17
_TIMEOUT_S: Final = 20
_ASK: Final = 'exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -XshowSettings:properties -version'
_PROPERTY: Final = re.compile(r"^\s+(java\.(?:home|version|vm\.version)) = (.*)$", re.MULTILINE)
_INSTALL: Final = (
    "install Java 17 or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew"
    " install openjdk@17), or set JAVA_HOME to one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java that can run Spark."""

    version: str
    vm_version: str
    home: str

    @property
    def major(self) -> int:
        """17 for `17.0.13`; 8 for `1.8.0_392`, as Java counted before 9."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java() -> JavaRuntime:
    """The Java that a local Spark would run on; starts it once to ask for its version.

    Raises:
        SparkNotInstalled: there is none, or it is older than 17.
    """
    properties = dict(_PROPERTY.findall(_ask_java()))
    if "java.version" not in properties:
        raise SparkNotInstalled(
            "Spark needs Java, and neither $JAVA_HOME/bin/java nor, without JAVA_HOME, a java on"
            f" PATH can be run; {_INSTALL}"
        )
    java = JavaRuntime(
        version=properties["java.version"],
        vm_version=properties.get("java.vm.version", ""),
        home=properties.get("java.home", ""),
    )
    if java.major < MIN_JAVA:
        raise SparkNotInstalled(
            f"Spark needs Java {MIN_JAVA} or later, and {java.home} is Java {java.version};"
            f" {_INSTALL}",
            found=java.version,
        )
    return java


def _ask_java() -> str:
    """What Java says of itself; nothing when it cannot be run."""
    try:
        asked = subprocess.run(  # noqa: S603 - a fixed text
            ["/bin/sh", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stderr + asked.stdout
