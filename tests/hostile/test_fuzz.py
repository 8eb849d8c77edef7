"""Decoders of what comes from outside, with drawn bytes: an object or an error that names the limit, nothing else.

A sample here; `make fuzz MINUTES=10` goes on for so long. Documents are drawn valid, damaged and at random.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ctrlruntime.client.kubeconfig import ConfigError, Kubeconfig
from ctrlruntime.intake import (
    BoundedInflater,
    IntakeError,
    Limits,
    encode_json,
    inflate,
    json_depth,
    read_json,
    read_yaml_all,
    value_depth,
)
from ctrlruntime.intake.json_documents import is_deeper
from ctrlruntime.intake.shallow import items_of, split_members
from internal.cloud.release_assignment import parse_assignment
from internal.tenancy.sources.errors import SourceError
from internal.tenancy.sources.postgresql.auth import MessageLengths, demanded
from internal.tenancy.sources.postgresql.columns import ColumnKind, values
from internal.tenancy.sync.rollout_changes import parse_change
from internal.tenancy.sync.row_rollouts import parse_row

pytestmark = pytest.mark.criterion("S-H2")
MINUTES: Final = float(os.environ.get("FUZZ_MINUTES", "0"))
SMALL: Final = Limits(bytes=4096, depth=8, items=64)
KEYS = st.sampled_from(
    ["a", "clusters", "cluster", "server", "kind", "metadata", "items", "<<", "é\x1b"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)
MARKS = st.sampled_from(
    [
        b"[",
        b"{",
        b"]",
        b"}",
        b'"',
        b"\\",
        b":",
        b",",
        b"\xff",
        b"&a ",
        b"*a",
        b"- ",
        b"\n",
        b"<<: ",
        b"\0",
    ]
)


def encode(tree: object) -> bytes:
    """Return a drawn tree as JSON, with what JSON lacks (NaN) as Python writes it."""
    return json.dumps(tree).encode(errors="surrogatepass")


def damaged(body: bytes, place: int, mark: bytes, times: int) -> bytes:
    """Return a document with marks put in, so often."""
    at = place % (len(body) + 1)
    return body[:at] + mark * times + body[at:]


WELL = TREES.map(encode)
BODIES = (
    WELL
    | st.binary(max_size=300)
    | st.builds(damaged, WELL, st.integers(0, 400), MARKS, st.integers(1, 300))
)


def json_within_limits(body: bytes) -> None:
    """What is read is within the limits, and reads the same again."""
    found = read_json(body, SMALL)
    assert value_depth(found, 100) == json_depth(body) <= SMALL.depth
    assert read_json(encode_json(found), Limits(bytes=2**20)) == found


def yaml_within_limits(body: bytes) -> None:
    """What is read is within the limits."""
    for found in read_yaml_all(body, SMALL):
        assert value_depth(found, 100) <= SMALL.depth


def depth_by_two_ways(body: bytes) -> None:
    """Both ways to tell a depth agree, for what is a document."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return
    depth = json_depth(body)
    assert [is_deeper(body, each) for each in (depth - 1, depth) if each >= 0][-1] is False
    assert depth == 0 or is_deeper(body, depth - 1)


def members_as_decoded(body: bytes) -> None:
    """Taking apart and decoding the parts is decoding the whole."""
    whole = read_json(body, Limits(bytes=2**20))
    if isinstance(whole, dict):
        parts = split_members(body)
        assert {key: read_json(part, Limits(bytes=2**20)) for key, part in parts.items()} == whole
    elif isinstance(whole, list):
        assert [read_json(part, Limits(bytes=2**20)) for part in items_in(body)] == whole


def items_in(body: bytes) -> list[bytes]:
    return [*items_of(b'{"items":%b}' % body, "items")]


def shallow_ends(body: bytes) -> None:
    """What is no document is Malformed."""
    with suppress(IntakeError):
        items_in(body)
    split_members(body)


def inflated_within_limits(body: bytes) -> None:
    """In pieces as at once, and never more than the limit."""
    with suppress(IntakeError):
        assert len(inflate(body, SMALL)) <= SMALL.bytes
    packed = gzip.compress(body * 50)
    inflater = BoundedInflater(SMALL)
    total = sum(len(inflater.feed(packed[at : at + 7])) for at in range(0, len(packed), 7))
    assert total == len(body) * 50 <= SMALL.bytes


def kubeconfig(body: bytes) -> None:
    """A kubeconfig, or a ConfigError."""
    Kubeconfig.parse(body, "Secret a/b").context()


def records(body: bytes) -> None:
    """The records of annotations: each parsed, or None."""
    text = body.decode(errors="replace")
    for parse in (parse_row, parse_change, parse_assignment):
        parse(text)


def postgresql(body: bytes) -> None:
    """A row, iterations and lengths of a database."""
    assert demanded(body) >= 0
    whole = MessageLengths().fit(body)
    lengths = MessageLengths()
    pieces = all(lengths.fit(body[at : at + 3]) for at in range(0, len(body), 3))
    assert whole or not pieces
    with suppress(ValueError):
        assert len(values(body, (ColumnKind.TEXT, ColumnKind.BITS))) == 2


DECODERS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        json_within_limits,
        yaml_within_limits,
        depth_by_two_ways,
        members_as_decoded,
        shallow_ends,
        inflated_within_limits,
        kubeconfig,
        records,
        postgresql,
    )
}


def attempt(decode: Callable[[bytes], None], body: bytes) -> None:
    """Decode once. An error of any other kind, or one that shows much of the body, fails."""
    shown = ""
    try:
        decode(body)
    except (IntakeError, ConfigError, SourceError) as error:
        shown = str(error)
    assert len(shown) < 1_000


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_returns_or_names_a_limit(name: str) -> None:
    """One round of fixed examples; with `MINUTES` rounds of others until the time is over."""
    examples = 2_000 if MINUTES else 60
    quick = settings(
        max_examples=examples,
        database=None,
        derandomize=not MINUTES,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )

    tried: list[int] = []

    @quick
    @given(BODIES)
    def drawn(body: bytes) -> None:
        attempt(DECODERS[name], body)
        tried.append(len(body))

    ends = time.monotonic() + MINUTES * 60 / len(DECODERS)
    drawn()
    while time.monotonic() < ends:
        tried.clear()
        drawn()
    assert len(tried) >= examples
