"""Hostile documents, the same for every door that reads one."""

from __future__ import annotations

import json


def nested(levels: int) -> bytes:
    """Return a document of mappings that deep."""
    return b'{"a":' * levels + b"1" + b"}" * levels


def aliases(key: str) -> bytes:
    """Return a YAML bomb: 200 aliases on each of four levels, as values of a key or as merge keys."""
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, 5):
        found = ", ".join([f"*a{level - 1}"] * 200)
        lines.append(f"a{level}: &a{level} {{{key}: [{found}]}}")
    return "\n".join(lines).encode()


JSON: dict[str, bytes] = {
    "depth 100": nested(100),
    "depth 1,000": nested(1_000),
    "depth 10,000": nested(10_000),
    "200,000 brackets": b"[" * 200_000,
    "1.5 MB": b'{"a":"' + b"u" * 1_500_000 + b'"}',
    "100,000 keys": json.dumps({f"k{number}": "v" for number in range(100_000)}).encode(),
    "a huge number": b'{"a":1' + b"0" * 100_000 + b"}",
    "no UTF-8": b'{"a":"\xff\xfe"}',
    "a lone surrogate": b'{"a":"\\ud800"}',
    "control characters": b'{"a\x1b]0;x\x07":"\x00\x9b"}',
    "no end": b'{"a":"',
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "other types": b'{"kind":[],"metadata":7,"spec":null,"items":{},"clusters":1,"request":[]}',
}
YAML: dict[str, bytes] = {
    **JSON,
    "aliases": aliases("x"),
    "merge keys": aliases("<<"),
    "a loop": b"a: &a [*a]",
    "100,000 documents": b"---\n" * 100_000,
    "a Python object": b"a: !!python/object:os.system x",
    "levels by indentation": b"\n".join(b" " * n + b"a:" for n in range(1_000)),
}
