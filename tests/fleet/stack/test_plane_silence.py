"""No way to ask a data plane is not its silence: which errors show that nothing answers. Pure."""

from __future__ import annotations

import ssl

import pytest

from ctrlruntime.client import Forbidden, TransportError, Unauthorized
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.errors import APIError
from internal.fleet.plane_answers import Place, Silence, place_unasked, place_with, silence_of
from internal.fleet.plane_check import AnswerUnreadable

pytestmark = pytest.mark.criterion("G-F3", "G-F5")


def caused(error: BaseException, by: BaseException) -> BaseException:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "silent"),
    [
        (TransportError("refused", sent=False), True),
        (TimeoutError(), True),
        (Unauthorized("expired"), False),
        (Forbidden("no right"), False),
        (APIError("a proxy has no backend", code=503), False),
        (AnswerUnreadable("the page of a proxy"), False),
        (AuthError("no token"), False),
        (caused(TransportError("no TLS"), ssl.SSLError()), False),
        (caused(TransportError("lost"), ConnectionResetError()), True),
        (OSError("a file of the kubeconfig"), False),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else None,
)
def test_only_what_does_not_answer_is_silent(error: BaseException, silent: bool) -> None:
    assert silence_of(error) is (Silence.NO_ANSWER if silent else Silence.NOT_ASKED)


def test_a_namespace_that_may_have_a_data_plane_and_cannot_ask_it_is_named() -> None:
    places = [Place("a", "old", ""), Place("b", "other", "label"), Place("c", "", "")]
    unasked = dict.fromkeys("abc", Silence.NOT_ASKED)
    assert place_unasked("old", places, unasked) == "a"
    assert place_unasked("third", places, unasked) == "c"
    assert place_unasked("third", places, unasked, named="b") == "b"
    assert place_unasked("old", places, {**unasked, "a": Silence.NO_ANSWER, "c": "x"}) == ""
    assert place_with("x", {**unasked, "c": "x"}) == "c"
