"""Documents are taken apart member by member, whatever is in them and however deep it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.intake.limits import Malformed
from ctrlruntime.intake.shallow import first_member, items_of, split_members

pytestmark = pytest.mark.criterion("S-F2")
TEXT = st.text(alphabet='a{}[]",:\\ \n\u00e9', max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(
    document=st.dictionaries(TEXT, JSON, max_size=4),
    indent=st.none() | st.just(1),
    escape=st.booleans(),
)
def test_members_and_items_are_what_the_decoder_finds(
    document: dict[str, Any], indent: int | None, escape: bool
) -> None:
    body = json.dumps(document, indent=indent, ensure_ascii=escape).encode()
    found = split_members(body)
    assert list(found) == list(document)
    assert {key: json.loads(value) for key, value in found.items()} == document
    page = b'{"kind": [], "items": [%b, %b], "metadata": %b, "cut off' % (body, body, body)
    items = [*items_of(page, "items")]
    assert first_member(page, "metadata", b"{}") == body, "what follows is not looked at"
    assert [json.loads(item) for item in items] == [document, document]
    with pytest.raises(Malformed):
        split_members(body[:-1])


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{ "a\\n" :\n', b'[{"a":', b'{"a[":'])
def test_deep_documents_have_their_ends(opening: bytes) -> None:
    closing = opening.count(b"{") * b"}" + opening.count(b"[", 0, 1) * b"]"
    deep = opening * 100_000 + b"1" + closing * 100_000
    found = split_members(b'{"spec":%b,"last":2}' % deep)
    assert found == {"spec": deep, "last": b"2"}
