import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Door = Callable[..., CompletedProcess[str]]
WRITE = """
import sys, pyarrow as pa
from omnigraph import Graph
with Graph.open(sys.argv[1], actor="act-killed") as graph, graph.write() as writer:
    writer.append("Person", pa.table({"name": ["Ada"]}))
    writer.commit()
"""


@pytest.fixture
def killed_write(graph: Path) -> None:
    """A write that moved its table and died before the manifest knew of it."""
    point = "mutation.post_phase_b_pre_manifest_commit=kill"
    done = subprocess.run(
        [sys.executable, "-c", WRITE, graph],
        env={"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": point},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.usefixtures("killed_write")
def test_a_killed_write_is_settled_by_the_next_one_and_listed(call: Door, graph: Path) -> None:
    assert call("recovery", "list", graph).stdout == "(no rows)\n"
    assert call("branch", "create", "draft", "--uri", graph).returncode == 0
    text = call("recovery", "list", graph)
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.split()[1:4] == ["rolled_forward", "mutation", "act-killed"]

    [record] = json.loads(call("recovery", "list", graph, "--json").stdout)["recoveries"]
    assert set(record) == {
        "operation_id",
        "recovery_kind",
        "writer_kind",
        "recovery_for_actor",
        "recovered_by",
        "recovered_at",
        "tables",
        "graph_commit_id",
    }
    newest = json.loads(call("commit", "list", graph, "--json").stdout)["commits"][0]
    assert (newest["graph_commit_id"], newest["recovered"]) == (record["graph_commit_id"], True)
    assert "mutation (recovered)" in call("commit", "list", graph).stdout
