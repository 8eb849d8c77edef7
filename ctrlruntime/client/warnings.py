"""``Warning`` headers of an API server (RFC 7234, code 299)."""

import re
from collections.abc import Iterable

_WARNING = re.compile(r'\s*299\s+\S+\s+"((?:[^"\\]|\\.)*)"')


def warnings_of(headers: Iterable[str]) -> list[str]:
    """Return the texts of all warnings, in order; anything that is not a 299 is ignored."""
    texts = []
    for header in headers:
        position = 0
        while match := _WARNING.match(header, position):
            texts.append(re.sub(r"\\(.)", r"\1", match[1]))
            position = match.end()
            if header[position : position + 1] != ",":
                break
            position += 1
    return texts
