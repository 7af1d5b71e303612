"""From the file of a bundle to a policy that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.bundle_reader import read_bundle
from omnigraph.policy.compiled_policy import CompiledPolicy

if TYPE_CHECKING:
    from pathlib import Path


def load_policy(path: str | Path, *, graph_id: str = "default") -> CompiledPolicy:
    """The policy of a graph, from the file of a bundle, for `Graph.open(policy=…)`.

    Args:
        path: the YAML file.
        graph_id: the name of the graph in the policies; of no effect on what is allowed.

    Raises:
        PolicyInvalid: the file cannot be read, or something in it is wrong; details
            `diagnostics` have all of it.
    """
    return CompiledPolicy(read_bundle(path, BundleKind.GRAPH), graph_id)


def load_server_policy(path: str | Path) -> CompiledPolicy:
    """The policy of a server, which decides `graph_list` and `metrics`.

    Raises:
        PolicyInvalid: as for `load_policy`.
    """
    return CompiledPolicy(read_bundle(path, BundleKind.SERVER))
