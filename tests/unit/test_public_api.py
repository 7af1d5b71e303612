import pickle
import subprocess
import sys
from importlib.metadata import version

import pytest

import omnigraph

HEAVY = {
    "cedarpy",
    "datafusion",
    "fastapi",
    "httpx",
    "lance",
    "lark",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "typer",
}


def test_the_public_names_are_these() -> None:
    assert set(omnigraph.__all__) == {
        "AccessPolicy",
        "BlobReader",
        "Catalog",
        "Embedder",
        "Graph",
        "LintReport",
        "MutationResult",
        "OmnigraphError",
        "Plan",
        "QueryResult",
        "__version__",
        "compile_schema",
        "connect",
        "connect_async",
        "errors",
        "key",
        "lint",
        "load_policy",
    }


@pytest.mark.parametrize("name", omnigraph.__all__)
def test_every_public_name_resolves_and_is_listed(name: str) -> None:
    assert getattr(omnigraph, name) is getattr(omnigraph, name)
    assert name in dir(omnigraph)


def test_every_public_name_is_the_one_of_its_layer() -> None:
    from omnigraph import errors, lang

    assert omnigraph.errors is errors
    assert omnigraph.OmnigraphError is errors.OmnigraphError
    assert omnigraph.Catalog is lang.Catalog
    assert omnigraph.LintReport is lang.LintReport
    assert omnigraph.compile_schema is lang.compile_schema
    assert omnigraph.lint is lang.lint


def test_the_version_is_that_of_the_package() -> None:
    assert omnigraph.__version__ == version("omnigraph")


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'omnigraph' has no attribute 'nope'"):
        omnigraph.nope  # noqa: B018


def test_the_compilers_work_through_the_public_names() -> None:
    catalog = omnigraph.compile_schema("node Person { name: String @key }")
    report = omnigraph.lint(
        catalog, "query all() { match { $p: Person } return { $p.name } }", path="q.gq"
    )
    assert isinstance(catalog, omnigraph.Catalog)
    assert isinstance(report, omnigraph.LintReport)
    assert report.status == "ok"
    with pytest.raises(omnigraph.OmnigraphError):
        omnigraph.compile_schema("node {")


def test_an_error_of_the_public_api_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(omnigraph.OmnigraphError("why", x=1)))  # noqa: S301
    assert (error.message, error.details) == ("why", {"x": 1})


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, omnigraph; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not HEAVY & set(modules)
    assert not [name for name in modules if name.startswith("omnigraph.")]
