"""Names outside an Instance's own namespace: labels, inventories, workspaces, states, clusters. Pure."""

import hashlib
import re
from typing import Final

import orjson

__all__ = ["KEY_LENGTH", "SHORTEST_KEY", "instance_key"]

KEY_LENGTH: Final = 63
"""Characters of the longest key: a DNS label, and the value of a label."""
_DIGITS: Final = 20
"""Hexadecimal digits of the digest: 80 bits."""
SHORTEST_KEY: Final = _DIGITS + 2
"""The smallest `limit`: one letter, a dash and the digest."""
_OTHER: Final = re.compile(r"[^a-z0-9]+")


def instance_key(namespace: str, name: str, *, limit: int = KEY_LENGTH) -> str:
    """Return the name that stands for the Instance `name` of `namespace` wherever names are shared.

    The key is a DNS-1035 label of at most `limit` characters, so it is legal as the name of any
    Kubernetes object and as the value of a label. It reads `<namespace>-<name>-<digest>`. The digest
    is taken over the pair as a JSON list, so that two Instances never have one key, whatever dashes
    and dots their names have; it is never shortened, only the readable part is.

    Raises ValueError for a limit below SHORTEST_KEY.
    """
    if limit < SHORTEST_KEY:
        raise ValueError(f"a key has {SHORTEST_KEY} characters at least, and not {limit}")
    digest = hashlib.sha256(orjson.dumps([namespace, name])).hexdigest()[:_DIGITS]
    return f"{_readable(namespace, name, limit - _DIGITS - 1)}-{digest}"


def _readable(namespace: str, name: str, room: int) -> str:
    """Return what people recognise: both names, each cut to its share of the room."""
    space, own = _label(namespace), _label(name)
    if len(space) + 1 + len(own) > room:
        share = max(room - 1 - len(own), room // 2)
        space = space[:share]
        own = own[: max(room - 1 - len(space), 0)]
    text = "-".join(part for part in (space.strip("-"), own.strip("-")) if part)
    if not text[:1].isalpha():
        text = f"i{text}"
    return text[:room].rstrip("-")


def _label(text: str) -> str:
    return _OTHER.sub("-", text.lower()).strip("-")
