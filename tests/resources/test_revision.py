"""The revision of a desired object (design, section 4)."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlruntime.resources.revision import canonical, revision, revision_of_bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@pytest.mark.criterion("revision-vectors", "COSMOS-A2-1")
@pytest.mark.criterion("A2.2-revision")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"", "811c9dc5"), (b"a", "e40c292c"), (b'{"a":1}', "8b9e4511")],
)
def test_published_vectors_over_raw_bytes(raw: bytes, expected: str) -> None:
    assert revision_of_bytes(raw) == expected


def test_the_canonical_form_has_sorted_keys_no_spaces_and_plain_utf8() -> None:
    assert canonical({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'.encode()
    assert revision({"a": 1}) == "8b9e4511"


@pytest.mark.criterion("COSMOS-A2-1")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
def test_the_order_of_keys_does_not_count(value: dict[str, Any]) -> None:
    shuffled = dict(reversed(list(value.items())))
    assert revision(shuffled) == revision(value)
