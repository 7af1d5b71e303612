"""The example in the help of a command, pasted as a reader would."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Door = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[3]
INIT = "omnigraph init papers.omni --schema examples/papers/schema.pg"
CREATE = "omnigraph branch create draft --uri papers.omni"
TOPIC = (
    "omnigraph mutate --store papers.omni"
    """ -e 'query q() { insert Topic { slug: "graphs", name: "Graphs" } }'"""
)
FILES = (
    "omnigraph init files.omni --schema files.pg",
    "omnigraph mutate --store files.omni"
    """ -e 'query q() { insert File { name: "readme.txt", content: "base64:aGk=" } }'""",
)
# The examples tell one story: what comes before them in it.
BEFORE: dict[tuple[str, ...], tuple[str, ...]] = {
    ("init",): (),
    ("clone",): (INIT,),
    ("branch", "create"): (INIT,),
    ("tag", "delete"): (INIT, "omnigraph tag create v1 --uri papers.omni"),
    ("commit", "changes"): (INIT, TOPIC),
    ("commit", "revert"): (INIT, TOPIC),
    ("blob", "get"): FILES,
    ("blob", "stat"): FILES,
}
ON_SPARK: list[tuple[str, ...]] = [("run",)]
"""Their examples are pasted where a session is."""
ON_A_SERVER: list[tuple[str, ...]] = [
    ("graphs", "list"),
    ("alias",),
    ("login",),
    ("profile", "show"),
    ("config", "migrate"),
]
"""Their examples need a server or a configuration: the tests of servers play them."""
ENDLESS: list[tuple[str, ...]] = [("serve",)]
"""Their examples end at a signal; they are pasted where they get one."""
ELSEWHERE = (*ON_SPARK, *ON_A_SERVER, *ENDLESS)


def require_example(
    call: Door,
    path: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drafted: Path | None = None,
) -> None:
    """The help of a command begins with a sentence, then an example that works.

    Args:
        call: runs a command in this process.
        path: the words of the command.
        tmp_path: where the example is pasted.
        monkeypatch: undoes what is changed.
        drafted: a graph as the first two examples leave it, copied instead of made again.
    """
    _, _, sentence, _, title, example, *_ = call(*path, "--help").stdout.splitlines()
    assert sentence.strip().endswith(".")
    assert title.strip() == "Example:"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "files.pg").write_text("node File { name: String @key  content: Blob? }")
    befores = BEFORE.get(path, (INIT, CREATE) if "papers.omni" in example else ())
    if befores == (INIT, CREATE) and drafted is not None:
        shutil.copytree(drafted, tmp_path / "papers.omni")
        befores = ()
    for before in befores:
        assert paste(call, before) == 0
    assert paste(call, example) in ({0, 1} if path == ("doctor",) else {0})


def paste(call: Door, example: str) -> int:
    """Run a line as a shell would; in this process unless it needs one."""
    if "$(" in example:
        folder = Path(sys.executable).parent
        environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-c", example], env=environ, check=False).returncode
    program, *words = shlex.split(example)
    assert program == "omnigraph"
    return call(*words, environ=os.environ).returncode
