"""The provider `module:attr`: an embedder from an installed package."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.clock import SystemClock
from omnigraph.embedding import CheckedEmbedder, Purpose, open_embedder, require_model
from omnigraph.errors import EmbeddingModelMismatch, EmbeddingUnavailable
from omnigraph.settings import EmbeddingSettings

_SOURCE = """
import numpy as np
from omnigraph.embedding import MockEmbedder

class Local:
    model = "local-7"
    def __init__(self): self.sizes = []
    def embed(self, texts, *, dimension, purpose):
        self.sizes.append(len(texts))
        return np.ones((len(texts), dimension))

def make(): return Local()
local = Local()
mock = MockEmbedder()
number = 7
class box:
    inner = local
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with embedders, and two that cannot be imported."""
    (tmp_path / "local_models.py").write_text(_SOURCE)
    (tmp_path / "broken_models.py").write_text("raise RuntimeError('no accelerator')")
    (tmp_path / "needy_models.py").write_text("import package_that_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)
    yield "local_models"
    sys.modules.pop("local_models", None)


def _open(provider: str, **settings: str | int | None) -> CheckedEmbedder:
    chosen = EmbeddingSettings(provider=provider, **settings)  # type: ignore[arg-type]  # test data
    return open_embedder(chosen, SystemClock())


@pytest.mark.parametrize("attr", ["local", "box.inner"])
def test_an_object_is_used_and_its_vectors_are_checked(package: str, attr: str) -> None:
    embedder = _open(f"{package}:{attr}", batch_texts=2)
    vectors = embedder.embed(["a", "b", "c"], dimension=4, purpose=Purpose.QUERY)
    assert vectors.tolist() == [[0.5] * 4] * 3
    assert embedder.model == "local-7"
    assert sys.modules[package].local.sizes == [2, 1]


def test_the_module_is_imported_at_the_first_use(package: str) -> None:
    embedder = _open(f"{package}:local")
    assert package not in sys.modules
    assert embedder.model == "local-7"
    assert package in sys.modules


@pytest.mark.parametrize(
    ("provider", "part"),
    [
        ("no_such_module:x", "no module 'no_such_module'"),
        ("needy_models:x", "no module 'package_that_nobody_has'"),
        ("broken_models:x", "raised RuntimeError"),
        ("local_models:nothing", "there is no 'nothing'"),
        ("local_models:box.nothing", "there is no 'nothing'"),
        ("local_models:Local", "is the class Local"),
        ("local_models:make", "type function has no text `model`"),
        ("local_models:number", "type int has no text `model`"),
    ],
)
@pytest.mark.usefixtures("package")
def test_what_cannot_be_loaded_is_told_at_the_first_use(provider: str, part: str) -> None:
    embedder = _open(provider)
    with pytest.raises(EmbeddingUnavailable, match=part) as caught:
        embedder.embed(["a"], dimension=2, purpose=Purpose.QUERY)
    assert f"OMNIGRAPH_EMBED_PROVIDER {provider!r}" in str(caught.value)
    assert caught.value.details == {"provider": provider, "status": None}


def test_a_model_of_the_settings_must_be_that_of_the_object(package: str) -> None:
    assert _open(f"{package}:local", model="local-7").model == "local-7"
    embedder = _open(f"{package}:local", model="local-8")
    with pytest.raises(EmbeddingModelMismatch, match=r"OMNIGRAPH_EMBED_MODEL.*local-8.*local-7"):
        embedder.embed(["a"], dimension=2, purpose=Purpose.QUERY)


def test_a_mock_that_is_named_as_an_object_is_a_mock(package: str) -> None:
    require_model(_open(f"{package}:mock"), "m1", "Doc.vec")
    with pytest.raises(EmbeddingModelMismatch, match=r"Doc\.vec .*'m1'.*'local-7'"):
        require_model(_open(f"{package}:local"), "m1", "Doc.vec")
