"""What a run says fits into a termination message, and is JSON whatever it says."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from internal.cloud.runs import RunState
from internal.cloud.runs.report import (
    LARGEST,
    LIMIT,
    BadReport,
    Report,
    ReportTooLong,
    decode_report,
    encode_report,
    ending_of,
)
from internal.cloud.runs.sealing import CannotOpen, new_key, open_sealed, seal

ANY_TEXT = st.text(st.characters(codec=None), max_size=3000)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@given(
    message=ANY_TEXT, outputs=st.dictionaries(TEXT, TEXT, max_size=5), limit=st.integers(700, 5000)
)
def test_it_fits_and_the_outputs_are_whole(
    message: str, outputs: dict[str, str], limit: int
) -> None:
    try:
        data = encode_report(Report(message=message, outputs=outputs), limit)
    except ReportTooLong:
        assert len(orjson.dumps(outputs)) > limit - 150
        return
    assert len(data) <= limit
    read = decode_report(data)
    assert read.outputs == outputs
    assert read.state is RunState.SUCCEEDED


def test_as_much_of_a_message_is_kept_as_fits() -> None:
    data = encode_report(Report(message='"' * 9000))  # two bytes each in JSON
    assert LIMIT - 2 <= len(data) <= LIMIT
    assert decode_report(data).message.endswith('" …')


def test_outputs_that_do_not_fit_are_an_error_with_figures() -> None:
    with pytest.raises(ReportTooLong, match=r"outputs take 4\d\d\d bytes and the secret ones 100 "):
        encode_report(Report(outputs={"a": "x" * 4090}, sealed="s" * 100))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"state": "Fine"}', b'{"outputs": {"a": 1}}', b"\xff"]
)
def test_what_is_no_report_is_not_taken_for_one(data: bytes) -> None:
    with pytest.raises(BadReport):
        decode_report(data)


@pytest.mark.criterion("S-H1")
def test_a_report_that_is_too_large_is_none_and_its_run_has_failed() -> None:
    data = b'{"message": "%s"}' % (b"x" * LARGEST)
    ending = ending_of(0, data, lambda _text: {})
    assert (ending.state, ending.outputs) == (RunState.FAILED, {})
    assert "cannot be read (it has more than 256 KiB)" in ending.message


def test_what_is_sealed_opens_with_its_own_key_for_its_own_run_alone() -> None:
    key = new_key()
    sealed = seal({"password": "hush-ü"}, key, "work-1")
    assert open_sealed(sealed, key, "work-1") == {"password": "hush-ü"}
    assert "hush" not in sealed
    for wrong in [
        (sealed, new_key(), "work-1"),
        (sealed, key, "work-2"),
        (sealed[:-8], key, "work-1"),
        ("", key, "work-1"),
        ("ü", key, "work-1"),
    ]:
        with pytest.raises(CannotOpen):
            open_sealed(*wrong)


def test_the_same_outputs_are_never_sealed_to_the_same_text() -> None:
    key = new_key()
    assert seal({"a": "b"}, key, "work-1") != seal({"a": "b"}, key, "work-1")


def test_secret_outputs_that_do_not_open_are_no_success() -> None:
    words = encode_report(Report(sealed=seal({"a": "b"}, new_key(), "work-1")))
    ending = ending_of(0, words, lambda text: open_sealed(text, new_key(), "work-1"))
    assert (ending.state, ending.retryable) == (RunState.FAILED, True)
    assert "cannot be opened" in ending.message


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (0, b'["other"]', "its result cannot be read"),
        (0, b'{"state": "Running"}', "exit code 0 but reported Running"),
        (7, b"", "ended with exit code 7, and it wrote no result"),
        (1, b'{"state": "Succeeded", "message": "fine"}', "fine"),
        (
            137,
            b'{"state": "Running", "message": "sowing"}',
            "exit code 137 while it was at: sowing",
        ),
    ],
)
def test_only_exit_code_and_report_together_are_a_success(
    code: int, words: bytes, message: str
) -> None:
    ending = ending_of(code, words, lambda _text: {})
    assert (ending.state, ending.retryable) == (RunState.FAILED, True)
    assert message in ending.message


def test_exit_code_2_is_of_no_use_to_be_tried_again() -> None:
    assert not ending_of(2, b"", lambda _text: {}).retryable
    assert not ending_of(1, b'{"state": "Failed", "retryable": false}', lambda _text: {}).retryable
