"""The pipeline keeps to the calls that classic sessions and Spark Connect both have."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PIPELINE = Path(__file__).parents[4] / "src" / "omnigraph" / "pipeline"
ALLOWED = {"session.py"}
FORBIDDEN = {
    *("sparkContext", "rdd", "parallelize", "newAPIHadoopFile"),
    *("_jvm", "_jdf", "_jsc", "_jsparkSession", "_jconf", "_sc", "_gateway"),
    *("broadcast", "Broadcast", "accumulator", "Accumulator", "AccumulatorParam"),
}
MODULES = sorted(path for path in PIPELINE.rglob("*.py") if path.name not in ALLOWED)


def forbidden_names(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(attr=name) if name in FORBIDDEN:
                yield f"{node.lineno}: .{name}"
            case ast.ImportFrom(module=module, names=names) if (module or "").startswith("pyspark"):
                for alias in names:
                    if alias.name in FORBIDDEN:
                        yield f"{node.lineno}: {alias.name}"
            case _:
                pass


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_uses_only_what_both_clients_have(path: Path) -> None:
    assert list(forbidden_names(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "code",
    [
        "spark.sparkContext.parallelize([1])",
        "frame.rdd.map(f)",
        "spark._jvm.java",
        "frame._jdf.queryExecution()",
        "from pyspark.sql.functions import broadcast",
        "import pyspark.sql.functions as F\nF.broadcast(frame)",
        "context.accumulator(0)",
    ],
)
def test_the_scan_finds_what_is_forbidden(code: str) -> None:
    assert list(forbidden_names(code))


def test_the_scan_lets_hints_pass() -> None:
    assert not list(forbidden_names("frame.hint('broadcast').mapInArrow(f, 'a int')"))
