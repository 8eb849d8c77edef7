"""What a node reports at /status. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from ctrlruntime.intake import describe_value
from internal.cosmos.comet.failures import Failure, NodeError

PATH: Final = "status"
GREATEST: Final = 2**63 - 1
"""The greatest height that a chain can have."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How far a node is."""

    height: int
    """Its last block; 0 before the first."""
    catching_up: bool
    """Whether it is behind the network, by its own report."""
    network: str = field(default="", compare=False)
    """Id of its chain; empty if it reports none."""
    node_id: str = field(default="", compare=False)
    """Id of its key; empty if it reports none."""
    block_at: datetime | None = field(default=None, compare=False)
    """When its last block was made; None if it does not report that."""

    def is_of(self, chain_id: str) -> bool:
        """Whether it is a node of that chain, as far as it reports one and one is expected."""
        return not (self.network and chain_id) or self.network == chain_id


class _NodeInfo(msgspec.Struct, gc=False):
    network: Any = None
    id: Any = None


class _SyncInfo(msgspec.Struct, gc=False):
    latest_block_height: str | int
    catching_up: bool
    latest_block_time: Any = None


class _Result(msgspec.Struct, gc=False):
    sync_info: _SyncInfo
    node_info: _NodeInfo | None = None


class _Envelope(msgspec.Struct, gc=False):
    """An answer of JSON-RPC; chains such as Sei answer with the result alone."""

    result: _Result | None = None
    error: Any = None
    sync_info: _SyncInfo | None = None
    node_info: _NodeInfo | None = None


_decoder = msgspec.json.Decoder(_Envelope)
_times: Final[msgspec.json.Decoder[datetime]] = msgspec.json.Decoder(
    Annotated[datetime, msgspec.Meta(tz=True)]
)


def parse_status(body: bytes) -> NodeStatus:
    """Return the status in the answer of a node, in an envelope or flat. Numbers come as strings there.

    Raises NodeError: what cannot be read is unknown, never in sync.
    """
    try:
        envelope = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(str(error)) from None
    if envelope.error is not None:
        raise NodeError(
            Failure.REFUSED, f"The node answered with an error: {_size(envelope.error)}"
        )
    found = _result(envelope)
    info, node = found.sync_info, found.node_info or _NodeInfo()
    height = _height(info.latest_block_height)
    return NodeStatus(
        height,
        info.catching_up,
        _text(node.network),
        _text(node.id).lower(),
        _time(info.latest_block_time),
    )


def _result(envelope: _Envelope) -> _Result:
    if envelope.sync_info is None:
        if envelope.result is None:
            raise _invalid("there is neither a result nor sync_info")
        return envelope.result
    if envelope.result is not None:
        raise _invalid("there are two, one in the result and one beside it")
    return _Result(envelope.sync_info, envelope.node_info)


def require_network(status: NodeStatus, chain_id: str) -> NodeStatus:
    """Return the status. Raises NodeError if it is of a node of another network."""
    if status.is_of(chain_id):
        return status
    why = f"A node of another network answers, whose name is {describe_value(status.network)}; chain.chainID is {chain_id[:48]!r}."
    raise NodeError(Failure.OTHER_NETWORK, why)


def _height(given: str | int) -> int:
    text = str(given)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise _invalid(f"latest_block_height is {describe_value(given)}, and no height")
    height = int(text)
    if height > GREATEST:
        raise _invalid("latest_block_height is larger than any height")
    return height


def _time(given: object) -> datetime | None:
    """Return a time of a block; None if it is none."""
    try:
        return _times.decode(b'"%s"' % str(given).encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _text(given: object) -> str:
    return "" if given is None else str(given)


def _size(error: object) -> str:
    """Describe an error, and its code if it has the number that JSON-RPC wants."""
    code = error.get("code") if isinstance(error, dict) else None
    return f"code {code}" if type(code) is int else describe_value(error)


def _invalid(why: str) -> NodeError:
    return NodeError(Failure.INVALID, f"The node's status cannot be read: {why}")
