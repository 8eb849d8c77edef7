"""Names and labels that the API server takes, made of names and texts that users gave. Pure."""

import hashlib
import re
from typing import Final

LONGEST_NAME: Final = 253
LONGEST_LABEL: Final = 63
"""Values and keys of labels, names of Services, names of hosts."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]+")
_ENDS = "-._"


def trim_middle(text: str, longest: int) -> str:
    """Return the text without so much of its middle that `longest` characters are left.

    Beginnings tell sets apart and ends tell nodes apart, so both stay. In place of the middle stand six
    digits made of the whole text: two that differ only there would be one otherwise.
    """
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    kept = longest - len(digest) - 2
    tail = kept // 2
    return f"{text[: kept - tail].rstrip(_ENDS)}-{digest}-{text[-tail:].lstrip(_ENDS)}"


def to_name(text: str) -> str:
    """Return the text as the name of an object: letters, digits, `.` and `-`, at most 253."""
    return trim_middle(_NOT_IN_NAMES.sub("", text), LONGEST_NAME).strip(_ENDS)


def to_host(text: str) -> str:
    """Return the text as a name of a host or a Service (RFC 1035): lower case, no dots, at most 63."""
    host = _NOT_IN_NAMES.sub("", text).lower().replace(".", "-")
    if host[:1].isdigit():
        host = f"n{host}"
    return trim_middle(host, LONGEST_LABEL).strip(_ENDS)


def to_label_value(text: str) -> str:
    """Return the text as the value of a label: at most 63, letter or digit at both ends."""
    return trim_middle(_NOT_IN_LABELS.sub("-", text).strip(_ENDS), LONGEST_LABEL)


def to_label_key(text: str) -> str:
    """Return the text as the key of a label or annotation; the name after the slash has at most 63."""
    prefix, slash, name = text.rpartition("/")
    name = trim_middle(_NOT_IN_LABELS.sub("-", name).strip(_ENDS), LONGEST_LABEL)
    return f"{prefix}{slash}{name}"
