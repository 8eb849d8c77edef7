"""Keys of nodes: what Comet reads, made once, and the id that peers know a node by."""

from __future__ import annotations

import base64
import hashlib

import orjson
import pytest

from internal.cosmos.fullnode.node_key import BadNodeKey, NodeKey
from internal.cosmos.fullnode.node_key_collector import build_node_keys, with_missing

from .samples import decoded, key, keys_of, node_set

SEED = bytes(range(32))
PUBLIC = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
TEXT = orjson.dumps(
    {
        "priv_key": {
            "type": "tendermint/PrivKeyEd25519",
            "value": base64.b64encode(SEED + PUBLIC).decode(),
        }
    }
).decode()


def test_the_id_is_the_beginning_of_the_hash_of_the_public_key() -> None:
    parsed = NodeKey.parse(TEXT)
    assert parsed.id == hashlib.sha256(PUBLIC).digest()[:20].hex()
    assert len(parsed.id) == 40


@pytest.mark.criterion("COSMOS-A2-13")
def test_a_file_is_kept_as_it_is() -> None:
    spaced = TEXT.replace(":", " : ")
    assert NodeKey.parse(spaced).text == spaced
    assert NodeKey.parse(spaced.encode()).text == spaced


def test_what_is_made_can_be_read() -> None:
    made = NodeKey.make()
    assert NodeKey.parse(made.text) == made
    assert NodeKey.make().id != made.id


def test_a_key_is_not_reported() -> None:
    assert TEXT not in repr(NodeKey.parse(TEXT))
    assert base64.b64encode(SEED + PUBLIC).decode()[:20] not in repr(NodeKey.parse(TEXT))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"priv_key": {"type": "tendermint/PrivKeyEd25519", "value": "?"}}',
        TEXT.replace("Ed25519", "Secp256k1"),
        TEXT.replace(base64.b64encode(SEED + PUBLIC).decode(), base64.b64encode(SEED).decode()),
        TEXT.replace(
            base64.b64encode(SEED + PUBLIC).decode(), base64.b64encode(PUBLIC + SEED).decode()
        ),
    ],
    ids=["empty", "list", "object", "base64", "type", "length", "halves"],
)
def test_what_is_no_key_is_reported_without_repeating_it(text: str) -> None:
    with pytest.raises(BadNodeKey) as caught:
        NodeKey.parse(text)
    assert "node_key.json" in str(caught.value)
    assert base64.b64encode(SEED).decode()[:12] not in str(caught.value)


def test_each_node_gets_a_key_once() -> None:
    nodes = node_set(replicas=3, ordinals={"start": 5})
    have = {"test-6": key(9)}
    keys = with_missing(nodes, have)
    assert list(keys) == ["test-5", "test-6", "test-7"]
    assert keys["test-6"] is have["test-6"]
    assert len({each.id for each in keys.values()}) == 3


@pytest.mark.criterion("COSMOS-A2-13")
def test_secrets_hold_the_file_and_are_never_written_again() -> None:
    nodes = node_set()
    secrets = build_node_keys(nodes, keys_of(nodes))
    assert [item.name for item in secrets] == ["test-0-node-key", "test-1-node-key"]
    assert [decoded(item.manifest, "node_key.json") for item in secrets] == [
        key(0).text,
        key(1).text,
    ]
    assert all(item.once for item in secrets)
    assert [item.instance for item in secrets] == [0, 1]
    with pytest.raises(KeyError):
        build_node_keys(nodes, {})
