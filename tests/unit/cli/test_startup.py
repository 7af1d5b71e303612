"""Start-up is a feature: what has no work to do is not imported."""

import subprocess
import sys

import pytest

HEAVY = {
    "cedarpy",
    "datafusion",
    "fastapi",
    "httpx",
    "lance",
    "lark",
    "numpy",
    "obstore",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
}
SCRIPT = """
import sys
from omnigraph.cli.main import main
words = sys.argv[1:]
code = main(words, {}) if words else 0
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["version"],
        ["version", "--json"],
        ["--version"],
        ["lint", "--help"],
        ["init", "--help"],
        ["query", "--help"],
        ["policy", "explain", "--help"],
        ["branch", "create", "--help"],
        ["lnt"],
    ],
)
def test_nothing_heavy_is_imported(words: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False
    )
    assert result.returncode == (2 if words == ["lnt"] else 0)
    assert not HEAVY & set(result.stderr.splitlines()[-1].split())
