"""The mock: a pure function whose values never change."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from omnigraph.embedding import MockEmbedder, Purpose, checked

_SCRIPT = """
import json, sys
from omnigraph.embedding import MockEmbedder, Purpose
rows = MockEmbedder("m").embed(["a", "é"], dimension=40, purpose=Purpose.QUERY)
print(json.dumps([value.hex() for value in rows.astype(float).ravel()]))
"""


def _vector(text: str, dimension: int, model: str = "mock") -> list[float]:
    embedder = checked(MockEmbedder(model), batch_texts=96)
    rows = embedder.embed([text], dimension=dimension, purpose=Purpose.DOCUMENT)
    return [float(value) for value in rows[0]]


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        (
            "mock",
            "a red bicycle",
            ["-0x1.1f47a6p-2", "-0x1.af1068p-2", "0x1.4632b0p-1", "0x1.29bed6p-1"],
        ),
        (
            "mock",
            "é 漢字 🚲",
            ["0x1.235116p-1", "0x1.a92070p-3", "-0x1.e62452p-3", "-0x1.84dc16p-1"],
        ),
        (
            "openai/text-embedding-3-large",
            "a red bicycle",
            ["0x1.c530a6p-2", "0x1.6c54aep-1", "-0x1.a8295ap-2", "0x1.6bc70cp-2"],
        ),
    ],
)
def test_vectors_are_those_of_every_release(model: str, text: str, expected: list[str]) -> None:
    assert _vector(text, 4, model) == [float.fromhex(value) for value in expected]


def test_vectors_do_not_depend_on_the_process(tmp_path: Path) -> None:
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={"PYTHONHASHSEED": seed},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    here = MockEmbedder("m").embed(["a", "é"], dimension=40, purpose=Purpose.QUERY)
    assert found == [[float(value).hex() for value in here.ravel()]] * 2


@pytest.mark.parametrize("dimension", [1, 2, 15, 16, 17, 3072])
def test_vectors_have_length_1_at_any_dimension(dimension: int) -> None:
    assert np.linalg.norm(_vector("a", dimension)) == pytest.approx(1, abs=1e-6)


def test_model_dimension_and_text_each_change_the_vector_and_the_purpose_does_not() -> None:
    vector = _vector("a", 8)
    assert vector != _vector("b", 8)
    assert vector != _vector("a", 8, "other")
    assert vector[:4] != pytest.approx(_vector("a", 9)[:4], rel=0.2)
    rows = [
        MockEmbedder().embed(["a"], dimension=8, purpose=purpose).tolist() for purpose in Purpose
    ]
    assert rows[0] == rows[1]


def test_parts_that_join_to_the_same_text_are_told_apart() -> None:
    assert _vector("bc", 8, "a") != _vector("c", 8, "ab")


def test_unrelated_texts_are_nearly_orthogonal() -> None:
    rows = MockEmbedder().embed(
        [f"text {at}" for at in range(50)], dimension=1024, purpose=Purpose.QUERY
    )
    products = rows @ rows.T - np.eye(50)
    assert np.abs(products).max() < 0.2
