import json
import os
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from omnigraph.cli.installation import Status, check_hard_links, check_java, check_package

Door = Callable[..., CompletedProcess[str]]
Checks = dict[str, dict[str, Any]]  # parsed JSON


def fake_java(folder: Path, version: str, *, code: int = 0) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        'echo "Picked up JAVA_TOOL_OPTIONS: -Dx=1" >&2\n'
        f"echo 'openjdk version \"{version}\" 2024-10-15' >&2\n"
        f"exit {code}\n",
        encoding="utf-8",
    )
    java.chmod(0o755)
    return folder


@pytest.fixture
def java_home(tmp_path: Path) -> str:
    return str(fake_java(tmp_path / "jdk", "17.0.13"))


def examine(call: Door, **environ: str) -> tuple[int, Checks]:
    result = call("doctor", "--json", environ={"PATH": os.defpath, **environ})
    assert result.stderr == ""
    body = json.loads(result.stdout)
    assert body["status"] == ("error" if result.returncode else "ok")
    return result.returncode, {check["name"]: check for check in body["checks"]}


def test_a_complete_machine_ends_with_0(call: Door, java_home: str) -> None:
    code, checks = examine(call, JAVA_HOME=java_home)
    assert code == 0
    assert set(checks) == {
        "Python",
        "Java",
        "PySpark",
        "Lance",
        "DataFusion",
        "Arrow",
        "Hard links",
        "Object store",
        "Durability",
        "Settings",
    }
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert checks["DataFusion"]["found"] == f"datafusion {metadata.version('datafusion')}"


def test_the_text_has_one_line_for_each_check(start: Door, java_home: str) -> None:
    result = start("doctor", environ={"JAVA_HOME": java_home})
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 10
    assert "ok  Java          17.0.13" in result.stdout


def test_a_machine_without_java_ends_with_1_and_the_remedy(call: Door, tmp_path: Path) -> None:
    code, checks = examine(call, PATH=str(tmp_path))
    assert code == 1
    assert checks["Java"]["status"] == "missing"
    assert "install Java 17" in checks["Java"]["remedy"]


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("17", "ok"),
        ("21.0.5", "ok"),
        ("24-ea", "ok"),
        ("11.0.2", "invalid"),
        ("1.8.0_392", "invalid"),
    ],
)
def test_java_must_be_17_or_later(tmp_path: Path, version: str, status: str) -> None:
    check = check_java({"JAVA_HOME": str(fake_java(tmp_path, version))})
    assert (check.status, check.remedy == "") == (status, status == "ok")
    assert version in check.found


def test_java_that_does_not_run_is_missing(tmp_path: Path) -> None:
    check = check_java({"JAVA_HOME": str(fake_java(tmp_path, "17", code=1))})
    assert check.status is Status.MISSING


def test_a_wrong_java_home_is_named_even_when_path_has_java(tmp_path: Path, java_home: str) -> None:
    check = check_java({"JAVA_HOME": str(tmp_path), "PATH": f"{java_home}/bin"})
    assert check.status is Status.INVALID
    assert "JAVA_HOME" in check.remedy


def test_a_package_of_another_major_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "53.0.0")
    check = check_package("DataFusion", "datafusion", "54")
    assert check.status is Status.INVALID
    assert check.remedy == "pip install 'datafusion==54.*'"


def test_a_package_that_is_not_installed_is_missing() -> None:
    check = check_package("Nothing", "omnigraph-has-no-such-package", None)
    assert check.status is Status.MISSING
    assert check.remedy == "pip install 'omnigraph-has-no-such-package'"


def test_credentials_are_named_and_never_shown(call: Door, java_home: str) -> None:
    secrets = {"AWS_ACCESS_KEY_ID": "hidden-1", "AWS_SECRET_ACCESS_KEY": "hidden-2"}
    _, checks = examine(call, JAVA_HOME=java_home, **secrets)
    assert checks["Object store"]["found"] == "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY set"
    assert "hidden" not in json.dumps(checks)


def test_half_a_pair_of_credentials_is_a_warning(call: Door, java_home: str) -> None:
    code, checks = examine(call, JAVA_HOME=java_home, AWS_ACCESS_KEY_ID="hidden-1")
    assert (code, checks["Object store"]["status"]) == (0, "warning")
    assert "AWS_SECRET_ACCESS_KEY" in checks["Object store"]["remedy"]


def test_an_unknown_variable_is_a_warning(call: Door, java_home: str) -> None:
    code, checks = examine(call, JAVA_HOME=java_home, OMNIGRAPH_LESE_TTL_MS="1")
    assert (code, checks["Settings"]["status"]) == (0, "warning")
    assert "OMNIGRAPH_LEASE_TTL_MS" in checks["Settings"]["found"]


def test_a_malformed_setting_is_reported_and_ends_with_1(call: Door, java_home: str) -> None:
    code, checks = examine(call, JAVA_HOME=java_home, OMNIGRAPH_LEASE_TTL_MS="soon")
    assert (code, checks["Settings"]["status"]) == (1, "invalid")
    assert "OMNIGRAPH_LEASE_TTL_MS" in checks["Settings"]["found"]


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("operator: {actor: me}", (0, "ok"), "no problem"),
        ("operatr: {actor: me}", (0, "warning"), "unknown key operatr"),
        ("spark: {mastr: x}", (0, "warning"), "unknown config key spark.mastr"),
        ("spark: {cds: [1]}", (1, "invalid"), "spark.cds"),
        ("profiles: {p: {}}", (1, "invalid"), "profiles.p"),
        ("a: [", (1, "invalid"), "config.yaml"),
    ],
)
def test_the_operator_config_is_checked(
    call: Door, java_home: str, tmp_path: Path, text: str, expected: tuple[int, str], found: str
) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    code, checks = examine(call, JAVA_HOME=java_home, OMNIGRAPH_HOME=str(tmp_path))
    assert (code, checks["Settings"]["status"]) == expected
    assert found in checks["Settings"]["found"]


SERVED = "servers: {prod: {url: 'https://graph.example.com'}}\n"


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("defaults: {server: prod, default_graph: people}", {}),
        ("profiles: {p: {server: prod}}", {"OMNIGRAPH_PROFILE": "p"}),
    ],
)
def test_a_configuration_that_leads_to_a_server_alone_needs_no_store(
    call: Door, java_home: str, tmp_path: Path, text: str, profile: dict[str, str]
) -> None:
    (tmp_path / "config.yaml").write_text(SERVED + text, encoding="utf-8")
    code, checks = examine(call, JAVA_HOME=java_home, OMNIGRAPH_HOME=str(tmp_path), **profile)
    assert (code, {check["status"] for check in checks.values()}) == (0, {"ok"})
    assert "Store access" not in checks


def test_commits_that_no_power_failure_survives_are_a_warning(call: Door, java_home: str) -> None:
    code, checks = examine(call, JAVA_HOME=java_home, OMNIGRAPH_DURABILITY="process")
    assert (code, checks["Durability"]["status"]) == (0, "warning")
    assert "OMNIGRAPH_DURABILITY" in checks["Durability"]["remedy"]


def test_no_usable_temporary_folder_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert check_hard_links().status is Status.WARNING


def test_warming_without_java_says_what_to_install(
    call: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = call("doctor", "--warm", "--json")
    assert (result.returncode, result.stdout) == (1, "")
    body = json.loads(result.stderr)
    assert body["reason"] == "spark_not_installed"
    assert "install Java 17" in body["error"]
