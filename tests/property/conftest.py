"""Lets half of the seeded histories fold the tails of their tables after every few commits."""

import pytest

from omnigraph.graph.lifecycle import tail_folding


@pytest.fixture(autouse=True)
def narrow_tails(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds happen in histories of odd seeds, which are too short for the tiers in force."""
    called_with = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if isinstance(seed := called_with.get("seed"), int) and seed % 2:
        monkeypatch.setattr(tail_folding, "TIERS", ((6, 3), (20, 3)))
