import inspect

import pytest

from omnigraph import errors
from omnigraph.cli.exit_codes import EXIT_CODES, exit_code_of
from omnigraph.errors import OmnigraphError, Retry

CLASSES = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, OmnigraphError)
]
BY_RETRY = {Retry.NEVER: 1, Retry.REBASE: 1, Retry.AS_IS: 75, Retry.UNKNOWN: 7}
# The rows of the contract that do not follow their retry class.
EXCEPTIONS = {
    "load_rejected": 6,
    "setting_invalid": 2,
    "usage": 2,
    "precondition_failure": 4,
    "cancelled": 130,
}


def test_the_table_covers_every_error_and_nothing_else() -> None:
    assert set(EXIT_CODES) == {cls.code for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES)
def test_an_exit_code_follows_the_retry_class_unless_the_contract_says_otherwise(
    cls: type[OmnigraphError],
) -> None:
    assert exit_code_of(cls("why")) == EXCEPTIONS.get(cls.code, BY_RETRY[cls.retry])


@pytest.mark.parametrize("cls", CLASSES)
def test_a_command_with_an_idempotency_key_may_be_sent_again_when_its_outcome_is_unknown(
    cls: type[OmnigraphError],
) -> None:
    code = exit_code_of(cls("why"), is_repeatable=True)
    assert code == (75 if cls.retry is Retry.UNKNOWN else exit_code_of(cls("why")))
