"""The contracts of the tree: layers, start-up cost, one reader of the environment."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "omnigraph").rglob("*.py"))
HEAVY = ("pyspark", "pandas", "fastapi", "httpx", "lance", "datafusion", "cedarpy", "lark")
MODULES = {
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCES
}
VAGUE = {"utils.py", "helpers.py", "common.py", "misc.py", "base.py", "manager.py"}


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_layers_import_only_from_below() -> None:
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Not counted: what is imported for its types alone, or when a function is called."""
    imported = {module: set(_imports_at_start(path)) for module, path in MODULES.items()}
    TopologicalSorter(imported).prepare()


def _imports_at_start(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnigraph"):
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield whole if whole in MODULES else str(node.module)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = f"import sys, omnigraph; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_module_says_what_it_owns_and_has_a_name_of_its_own() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert not [_relative(path) for path, tree in trees.items() if not ast.get_docstring(tree)]
    assert not [_relative(path) for path in SOURCES if path.name in VAGUE]


def test_only_settings_read_the_environment() -> None:
    edges = ("src/omnigraph/settings/", "src/omnigraph/cli/")
    assert not [
        f"{_relative(path)}:{line}"
        for path in SOURCES
        if not _relative(path).startswith(edges)
        for line in _environment_reads(path)
    ]


def _environment_reads(path: Path) -> Iterator[int]:
    text = path.read_text(encoding="utf-8")
    if "environ" not in text and "getenv" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("environ", "getenv")
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
        ):
            yield node.lineno


def test_only_the_command_line_prints() -> None:
    assert not [
        f"{_relative(path)}:{line}"
        for path in SOURCES
        if "cli" not in path.parts
        for line in _prints(path)
    ]


def _prints(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield node.lineno


def test_the_tree_names_no_machine_and_no_unfinished_work() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b|/home/|/root/|/Users/")
    assert not [
        f"{_relative(path)}: {found[0]}"
        for path in SOURCES
        if (found := marks.search(path.read_text(encoding="utf-8")))
    ]
