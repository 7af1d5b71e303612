"""What is installed here, and whether it is what OmniGraph needs.

Looks and never changes anything. Versions come from the metadata of the packages, so that a broken
package is reported instead of imported. Values of variables that may be secret are never shown.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Final

from omnigraph.cli.addressing import configured_store
from omnigraph.cli.operator_config import read_operator_config
from omnigraph.errors import InvalidArgument, OmnigraphError, SettingInvalid, UsageError
from omnigraph.settings import Durability, Settings, load_settings

_MIN_JAVA: Final = 17
_JAVA_TIMEOUT_S: Final = 20
_INSTALL_JAVA: Final = (
    "install Java 17 or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17), or set JAVA_HOME to one"
)
_PACKAGES: Final = (
    ("PySpark", "pyspark", "4"),
    ("Lance", "pylance", "14"),
    ("DataFusion", "datafusion", "54"),  # the major that the table providers of pylance 14 speak
    ("Arrow", "pyarrow", None),
)
_AWS_PAIR: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_STORE_REMEDY: Final = (
    "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and whether they may list and read the "
    "bucket; AWS_REGION and AWS_ENDPOINT_URL; and the network"
)
_AWS_OTHERS: Final = ("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


class Status(StrEnum):
    """What a check found; `MISSING` and `INVALID` keep something from working."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at; `remedy` is empty when there is nothing to do."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether something that is needed cannot be used."""
        return self.status in {Status.MISSING, Status.INVALID}

    def to_dict(self) -> dict[str, object]:
        """The JSON form; no remedy, no key."""
        out: dict[str, object] = {
            "name": self.name,
            "status": str(self.status),
            "found": self.found,
        }
        return out | ({"remedy": self.remedy} if self.remedy else {})


def examine_installation(
    environ: Mapping[str, str], settings: Settings | SettingInvalid
) -> tuple[Check, ...]:
    """Every check, in the order in which a newcomer would fix them. Starts `java -version`."""
    return (
        Check(name="Python", status=Status.OK, found=sys.version.split()[0]),
        check_java(environ),
        *(check_package(*package) for package in _PACKAGES),
        check_hard_links(),
        check_credentials(environ),
        *check_store_access(settings),
        *check_durability(settings),
        *check_settings(environ, settings),
    )


def check_java(environ: Mapping[str, str]) -> Check:
    """The Java that Spark would start: the one of JAVA_HOME, otherwise the first on PATH."""
    home = environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else environ.get("PATH", os.defpath))
    if java is None and home:
        return Check(
            name="Java",
            status=Status.INVALID,
            found=f"JAVA_HOME is {home!r}, which has no bin/java",
            remedy="correct or unset JAVA_HOME",
        )
    if java is None:
        return Check(name="Java", status=Status.MISSING, found="not on PATH", remedy=_INSTALL_JAVA)
    version = _run_java(java, environ)
    if version is None:
        return Check(
            name="Java",
            status=Status.MISSING,
            found=f"{java} does not report a version",
            remedy=_INSTALL_JAVA,
        )
    is_new_enough = _java_major(version) >= _MIN_JAVA
    return Check(
        name="Java",
        status=Status.OK if is_new_enough else Status.INVALID,
        found=f"{version} ({java})",
        remedy="" if is_new_enough else _INSTALL_JAVA,
    )


def check_package(name: str, package: str, major: str | None) -> Check:
    """Whether a package is installed, with the major version that the others fit."""
    wanted = package if major is None else f"{package}=={major}.*"
    remedy = f"pip install '{wanted}'"
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return Check(
            name=name, status=Status.MISSING, found=f"{package} is not installed", remedy=remedy
        )
    if major is not None and version.split(".")[0] != major:
        return Check(
            name=name,
            status=Status.INVALID,
            found=f"{package} {version}; this version of omnigraph needs {major}",
            remedy=remedy,
        )
    return Check(name=name, status=Status.OK, found=f"{package} {version}")


def check_hard_links() -> Check:
    """Whether the temporary folder could hold a graph: a commit on a local path is a hard link."""
    name = "Hard links"
    try:
        with tempfile.TemporaryDirectory(prefix="omnigraph-doctor-") as folder:
            source = Path(folder, "source")
            source.touch()
            Path(folder, "link").hardlink_to(source)
    except OSError as error:
        return Check(
            name=name,
            status=Status.WARNING,
            found=f"not in the temporary folder ({error.strerror or error})",
            remedy="keep graphs on a file system with hard links, or in an object store; "
            "set TMPDIR to such a folder",
        )
    return Check(name=name, status=Status.OK, found=f"supported in {tempfile.gettempdir()}")


def check_credentials(environ: Mapping[str, str]) -> Check:
    """Which variables for the object store are set; never their values."""
    name = "Object store"
    present = [key for key in (*_AWS_PAIR, *_AWS_OTHERS) if environ.get(key)]
    absent = [key for key in _AWS_PAIR if key not in present]
    if len(absent) == 1:
        return Check(
            name=name,
            status=Status.WARNING,
            found=f"{', '.join(present)} set, {absent[0]} not",
            remedy=f"set {absent[0]} too, or neither",
        )
    if absent:
        keys = "no AWS key in the environment; only s3:// needs one"
    else:
        keys = f"{', '.join(present)} set"
    return Check(name=name, status=Status.OK, found=keys)


def check_store_access(settings: Settings | SettingInvalid) -> Iterator[Check]:
    """Whether the configured graph can be listed and read, if it is in an object store.

    Nothing is written: whoever only reads needs no more rights than that.
    """
    if isinstance(settings, SettingInvalid):
        return
    name = "Store access"
    try:
        store = _configured_store(settings)
    except UsageError as error:
        yield Check(
            name=name,
            status=Status.INVALID,
            found=error.message,
            remedy="correct the operator config or OMNIGRAPH_PROFILE",
        )
        return
    if store is None or not store.lower().startswith("s3://"):
        return
    # Signatures stand behind a question mark, and passwords before an at sign.
    shown = re.sub("//[^/]*@", "//", re.split("[?#]", store, maxsplit=1)[0])
    try:
        state = _read_store(store, settings)
    except ImportError as error:
        yield Check(
            name=name,
            status=Status.WARNING,
            found=f"{shown} was not tried: {error}",
            remedy="install what is missing above",
        )
    except OmnigraphError as error:
        is_address = isinstance(error, InvalidArgument)
        yield Check(
            name=name,
            status=Status.INVALID,
            found=error.message.replace(store, shown).replace(repr(store), repr(shown)),
            remedy="correct the address in the operator config" if is_address else _STORE_REMEDY,
        )
    else:
        yield Check(name=name, status=Status.OK, found=f"{shown} {state}")


def check_durability(settings: Settings | SettingInvalid) -> Iterator[Check]:
    """What an acknowledged commit on a local path survives."""
    if isinstance(settings, SettingInvalid):
        return
    name = "Durability"
    if settings.storage.durability is Durability.FULL:
        yield Check(name=name, status=Status.OK, found="full: commits survive a power failure")
    else:
        yield Check(
            name=name,
            status=Status.WARNING,
            found="process: commits on local paths survive a killed process, no power failure",
            remedy="unset OMNIGRAPH_DURABILITY, unless the data can be made again",
        )


def check_settings(
    environ: Mapping[str, str], settings: Settings | SettingInvalid
) -> Iterator[Check]:
    """What is wrong with the variables and the operator config, or that nothing is."""
    name = "Settings"
    try:
        warnings = _read_settings(environ, settings)
    except SettingInvalid as error:
        yield Check(
            name=name,
            status=Status.INVALID,
            found=error.message,
            remedy="correct or remove it; commands refuse to start",
        )
        return
    for warning in warnings:
        yield Check(
            name=name, status=Status.WARNING, found=warning, remedy="correct its name or remove it"
        )
    if not warnings:
        yield Check(name=name, status=Status.OK, found="no problem")


def _read_settings(
    environ: Mapping[str, str], settings: Settings | SettingInvalid
) -> tuple[str, ...]:
    """What to warn of in the variables and in the operator config together."""
    if isinstance(settings, SettingInvalid):
        raise settings
    config = read_operator_config(settings.client.home)
    return (*load_settings(environ, config.settings).warnings, *config.warnings)


def _configured_store(settings: Settings) -> str | None:
    """The graph that a command without an address acts on."""
    try:
        return configured_store(read_operator_config(settings.client.home), settings)
    except SettingInvalid:
        # Told as a problem of the settings.
        return None


def _read_store(store: str, settings: Settings) -> str:
    from omnigraph.clock import SystemClock
    from omnigraph.ids import UlidSource
    from omnigraph.storage.graph_storage import open_storage
    from omnigraph.storage.location import parse_location
    from omnigraph.storage.probe import probe_reading

    location = parse_location(store, settings.storage)
    opened = open_storage(location, settings.storage, UlidSource(SystemClock()))
    is_there = probe_reading(opened.objects)
    return "can be listed and read" if is_there else "can be listed; nothing is there yet"


def _run_java(java: str, environ: Mapping[str, str]) -> str | None:
    try:
        run = subprocess.run(  # noqa: S603 - the program that Spark would start
            [java, "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_JAVA_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d[^"]*)"', run.stderr + run.stdout)
    return None if match is None else match[1]


def _java_major(version: str) -> int:
    """17 for `17.0.13`; 8 for `1.8.0_392`, as Java counted before 9."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
