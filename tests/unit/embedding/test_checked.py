"""The checks that every embedder passes through, on objects that callers inject."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

from omnigraph.embedding import (
    CheckedEmbedder,
    Embedder,
    MockEmbedder,
    Purpose,
    checked,
    require_model,
)
from omnigraph.errors import (
    EmbeddingFailed,
    EmbeddingInvalid,
    EmbeddingModelMismatch,
    EmbeddingUnavailable,
    InvalidArgument,
)


@dataclass
class Injected:
    """Returns whatever the test wants for a number of texts and a dimension."""

    rows: Callable[[int, int], object] = lambda count, dimension: np.eye(count, dimension) + 1
    model: str = "local"
    calls: list[tuple[list[str], Purpose]] = field(default_factory=list)

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        self.calls.append((list(texts), purpose))
        return cast("npt.NDArray[np.float32]", self.rows(len(texts), dimension))


def _embed(rows: object, count: int = 3, dimension: int = 4) -> npt.NDArray[np.float32]:
    embedder = checked(Injected(lambda *_: rows), batch_texts=count)
    return embedder.embed(
        [f"text {at}" for at in range(count)], dimension=dimension, purpose=Purpose.QUERY
    )


def test_rows_are_made_float32_of_length_1() -> None:
    rows = np.array([[3.0, 4.0, 0.0, 0.0], [0.0, -2.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    expected = np.array([[0.6, 0.8, 0, 0], [0, -1, 0, 0], [0.5, 0.5, 0.5, 0.5]], dtype=np.float32)
    vectors = _embed(rows)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected)


@pytest.mark.parametrize(
    "rows",
    [
        np.full((3, 4), 2, dtype=np.int8),
        np.full((3, 4), 2, dtype=np.float16),
        np.full((3, 4), 1e-300),
        np.full((3, 4), 5e-324),
        np.full((3, 4), 1.7e308),
        np.full((3, 4), 1e30, dtype=np.float32),
        [[2, 2, 2, 2.0]] * 3,
        ([2, 2, 2, 2],) * 3,
        [np.full(4, 2)] * 3,
    ],
    ids=["int", "half", "small", "least", "largest", "float32", "lists", "tuple", "arrays"],
)
def test_any_numbers_with_a_direction_are_accepted(rows: object) -> None:
    np.testing.assert_array_equal(_embed(rows), np.full((3, 4), 0.5, dtype=np.float32))


def test_a_row_of_length_1_up_to_rounding_stays_as_it_is_to_the_last_bit() -> None:
    drawn = np.random.default_rng(5).normal(size=(200, 33))
    unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    rounded = (unit * (1 + 5e-7)).astype(np.float32)
    np.testing.assert_array_equal(_embed(rounded, count=200, dimension=33), rounded)
    longer = (unit * (1 + 5e-6)).astype(np.float32)
    lengths = np.linalg.norm(_embed(longer, count=200, dimension=33).astype(float), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_the_result_does_not_share_memory_with_the_embedder() -> None:
    rows = np.full((3, 4), 0.5, dtype=np.float32)
    assert not np.shares_memory(_embed(rows), rows)


def _with(at: int, value: float) -> npt.NDArray[np.float64]:
    rows = np.ones((3, 4))
    rows[at, 2] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "position", "part"),
    [
        pytest.param(_with(1, np.nan), 1, "not finite", id="nan"),
        pytest.param(_with(2, -np.inf), 2, "not finite", id="infinite"),
        pytest.param(np.diag([1.0, 1.0, 0.0]) @ np.ones((3, 4)), 2, "is zero", id="zero"),
        pytest.param(np.ones((3, 5)), 0, "has 5 values", id="dimension"),
        pytest.param([[1.0] * 4, [1.0] * 3, [1.0] * 4], 1, "has 3 values", id="one short"),
        pytest.param(np.ones((2, 4)), 2, "2 vectors for 3 texts", id="too few"),
        pytest.param(np.ones((4, 4)), 3, "4 vectors for 3 texts", id="too many"),
        pytest.param(np.ones(12), 0, "array of 1 axes", id="flat"),
        pytest.param(np.ones((3, 4, 1)), 0, "array of 3 axes", id="deep"),
        pytest.param(np.ones((3, 4), dtype=bool), 0, "list of numbers", id="booleans"),
        pytest.param(np.ones((3, 4), dtype=complex), 0, "list of numbers", id="complex"),
        pytest.param(np.full((3, 4), "1"), 0, "list of numbers", id="texts"),
        pytest.param([[10**400, 1, 1, 1]] * 3, 0, "list of numbers", id="too large"),
        pytest.param(None, 0, "NoneType", id="nothing"),
    ],
)
def test_rows_that_break_the_contract_are_invalid_at_their_position(
    rows: object, position: int, part: str
) -> None:
    with pytest.raises(EmbeddingInvalid, match=part) as caught:
        _embed(rows)
    assert caught.value.details["position"] == position


@pytest.mark.parametrize(
    ("texts", "position", "part"),
    [
        (["a", ""], 1, "is empty"),
        ([""], 0, "is empty"),
        (["a", "b", None], 2, "NoneType"),
        (["a\udc00"], 0, "surrogate"),
    ],
)
def test_a_text_that_cannot_be_embedded_is_invalid_before_the_embedder_is_asked(
    texts: list[str], position: int, part: str
) -> None:
    inner = Injected()
    with pytest.raises(EmbeddingInvalid, match=part) as caught:
        checked(inner, batch_texts=1).embed(texts, dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"position": position}
    assert inner.calls == []


def test_one_text_in_the_place_of_a_list_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not one text"):
        checked(Injected(), batch_texts=1).embed("abc", dimension=3, purpose=Purpose.QUERY)


def test_a_dimension_below_1_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least 1, not 0"):
        checked(Injected(), batch_texts=1).embed(["a"], dimension=0, purpose=Purpose.QUERY)


def test_an_embedder_sees_batches_in_order_with_the_purpose() -> None:
    inner = Injected()
    vectors = checked(inner, batch_texts=2).embed(
        list("abcde"), dimension=3, purpose=Purpose.DOCUMENT
    )
    assert inner.calls == [(list(part), Purpose.DOCUMENT) for part in ("ab", "cd", "e")]
    assert vectors.shape == (5, 3)


def test_a_position_counts_over_all_batches() -> None:
    inner = Injected(lambda count, dimension: np.zeros((count, dimension)))
    inner.rows = lambda count, dimension: (
        np.ones((count, dimension)) if len(inner.calls) < 3 else np.zeros((count, dimension))
    )
    with pytest.raises(EmbeddingInvalid) as caught:
        checked(inner, batch_texts=2).embed(list("abcde"), dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"position": 4}


def test_no_text_asks_nobody() -> None:
    inner = Injected()
    vectors = checked(inner, batch_texts=2).embed([], dimension=3, purpose=Purpose.QUERY)
    assert vectors.shape == (0, 3)
    assert vectors.dtype == np.float32
    assert inner.calls == []


def test_what_an_embedder_raises_becomes_a_failure_with_its_cause() -> None:
    def fail(*_: int) -> object:
        raise RuntimeError("out of memory")

    with pytest.raises(EmbeddingFailed, match="Injected raised RuntimeError") as caught:
        checked(Injected(fail), batch_texts=2).embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"provider": "Injected", "status": None, "attempts": 1}
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert pickle.loads(pickle.dumps(caught.value)).details == caught.value.details  # noqa: S301


def test_our_own_errors_pass_through() -> None:
    def refuse(*_: int) -> object:
        raise EmbeddingUnavailable("no model here", provider="x", status=None)

    with pytest.raises(EmbeddingUnavailable, match="no model here"):
        checked(Injected(refuse), batch_texts=2).embed(["a"], dimension=3, purpose=Purpose.QUERY)


class NoModel:
    def embed(self) -> None:
        """Nothing."""


class NoEmbed:
    model = "m"


@pytest.mark.parametrize(
    ("candidate", "part"),
    [(NoModel(), "no text `model`"), (NoEmbed(), "no method `embed`"), (Injected, "is the class")],
)
def test_an_object_that_is_no_embedder_is_refused(candidate: object, part: str) -> None:
    with pytest.raises(InvalidArgument, match=part):
        checked(cast("Embedder", candidate), batch_texts=2)


def test_checking_twice_changes_nothing_and_closing_leaves_an_injected_object_alone() -> None:
    once = checked(Injected(), batch_texts=2)
    assert checked(once, batch_texts=5) is once
    with once as same:
        assert isinstance(same, CheckedEmbedder)
    assert once.embed(["a"], dimension=2, purpose=Purpose.QUERY).shape == (1, 2)


def test_the_recorded_model_must_be_that_of_the_embedder() -> None:
    embedder = checked(Injected(model="m2"), batch_texts=2)
    require_model(embedder, "m2", "Doc.vec")
    require_model(embedder, None, "Doc.vec")
    with pytest.raises(EmbeddingModelMismatch, match=r"Doc\.vec .*'m1'.*'m2'") as caught:
        require_model(embedder, "m1", "Doc.vec")
    assert caught.value.details == {"where": "Doc.vec", "recorded": "m1", "embedder": "m2"}


def test_no_recorded_model_is_held_against_the_mock() -> None:
    for mock in (MockEmbedder(), checked(MockEmbedder("m2"), batch_texts=2)):
        require_model(mock, "m1", "Doc.vec")
    # A name alone makes no mock.
    with pytest.raises(EmbeddingModelMismatch):
        require_model(checked(Injected(model="mock"), batch_texts=2), "m1", "Doc.vec")
