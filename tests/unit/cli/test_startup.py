"""Start-up is a feature: what has no work to do is not imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import Graph

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


READ = """
import sys
from omnigraph.cli.main import main
code = main(sys.argv[1:], {})
print(*sys.modules, file=sys.stderr)
import pandas, pyarrow
missing = pyarrow.array(pandas.Series([1.0, None])).null_count
print(missing, file=sys.stderr)
sys.exit(code)
"""
_WRITES = (
    "omnigraph.client",
    "omnigraph.embedding",
    "omnigraph.engine.writes",
    "omnigraph.graph.load",
    "omnigraph.graph.maintenance",
    "omnigraph.graph.merge",
    "omnigraph.graph.validation",
    "omnigraph.pipeline.spec",
)


def test_a_read_imports_neither_pandas_nor_what_writes(tmp_path: Path) -> None:
    schema = "node Person { name: String @key }"
    Graph.init(tmp_path / "g", schema=schema).close()
    (tmp_path / "q.gq").write_text("query all() { match { $p: Person } return { $p.name } }")
    words = ["query", "all", "--store", str(tmp_path / "g"), "--query", str(tmp_path / "q.gq")]
    result = subprocess.run(
        [sys.executable, "-c", READ, *words], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    *_, modules, missing = result.stderr.splitlines()
    names = modules.split()
    assert "pandas" not in names
    assert not [name for name in names if name.startswith(_WRITES)]
    # Arrow knows pandas as soon as somebody imports it: a missing value is one.
    assert missing == "1"
