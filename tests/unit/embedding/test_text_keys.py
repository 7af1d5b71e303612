"""Keys of texts: equal for equal texts of one model and dimension, and for nothing else."""

from omnigraph.embedding.text_keys import KEY_BYTES, text_keys


def test_a_key_depends_on_model_dimension_and_text() -> None:
    keys = {
        key
        for model, dimension in (("m", 4), ("m", 40), ("m1", 4), ("", 4))
        for key in text_keys(model, dimension, ["a", "b", ""])
    }
    assert len(keys) == 12
    assert {len(key) for key in keys} == {KEY_BYTES}


def test_models_and_texts_do_not_run_together() -> None:
    assert text_keys("ab", 4, ["c"]) != text_keys("a", 4, ["bc"])


def test_keys_are_the_same_in_every_process() -> None:
    assert text_keys("mock", 4, ["a red bicycle"])[0].hex() == "72fe121dcd422d00b98c165d9a192b07"
