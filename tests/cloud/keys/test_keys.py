"""The key of an Instance: injective, legal, readable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from internal.cloud.keys import KEY_LENGTH, SHORTEST_KEY, instance_key

pytestmark = pytest.mark.criterion("H-B1")

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
NARROW = st.text("ab-.", min_size=1, max_size=5)
"""Names that collide as often as names can."""
ANY = st.text(max_size=80)
LIMITS = st.integers(SHORTEST_KEY, KEY_LENGTH)


@given(st.one_of(NARROW, ANY), st.one_of(NARROW, ANY), LIMITS)
def test_h_b1_a_key_is_a_dns_label_and_a_label_value(namespace: str, name: str, limit: int) -> None:
    key = instance_key(namespace, name, limit=limit)
    assert len(key) <= limit
    assert LABEL.fullmatch(key)
    assert LABEL_VALUE.fullmatch(key)


@given(st.tuples(NARROW, NARROW), st.tuples(NARROW, NARROW), LIMITS)
def test_h_b1_two_instances_never_have_one_key(
    one: tuple[str, str], other: tuple[str, str], limit: int
) -> None:
    same = instance_key(*one, limit=limit) == instance_key(*other, limit=limit)
    assert same == (one == other)


@given(ANY, ANY, LIMITS)
def test_h_b1_the_digest_is_never_shortened(namespace: str, name: str, limit: int) -> None:
    whole = instance_key(namespace, name)
    assert instance_key(namespace, name, limit=limit)[-20:] == whole[-20:]


def test_h_b1_the_pairs_that_shared_a_state_have_three_keys() -> None:
    pairs = [("a-b", "c"), ("a", "b-c"), ("a", "b.c")]
    assert len({instance_key(*pair) for pair in pairs}) == 3


def test_h_b1_long_names_that_differ_at_their_ends_have_two_keys() -> None:
    long = "x" * 62
    assert instance_key("prod", long + "a") != instance_key("prod", long + "b")
    assert instance_key(long + "a", "acme") != instance_key(long + "b", "acme")


@pytest.mark.parametrize(
    ("namespace", "name", "limit", "readable"),
    [
        ("prod", "acme", 63, "prod-acme"),
        ("1prod", "acme.eu", 63, "i1prod-acme-eu"),
        ("n" * 63, "acme", 63, "n" * 37 + "-acme"),
        ("prod", "n" * 63, 63, "prod-" + "n" * 37),
        ("prod", "acme", 34, "prod-acme"),
        ("", "", 63, "i"),
    ],
)
def test_h_b1_a_key_is_readable(namespace: str, name: str, limit: int, readable: str) -> None:
    assert instance_key(namespace, name, limit=limit)[:-21] == readable


def test_h_b1_a_key_is_stable() -> None:
    """Names outside are made from it: another digest would lose them."""
    assert instance_key("prod", "acme") == "prod-acme-02f0b798d2dbc0eb3436"


def test_h_b1_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="22 characters at least"):
        instance_key("prod", "acme", limit=21)
