"""What names, labels and keys may look like, with the messages of apimachinery's `util/validation`.

Each function returns what is wrong with a value, in words: an empty list where nothing is.
"""

from __future__ import annotations

import re
from typing import Final

_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN, re.ASCII)
_LABEL_RE: Final = re.compile(_LABEL, re.ASCII)
_LABEL_1035_RE: Final = re.compile(_LABEL_1035, re.ASCII)
_QUALIFIED_RE: Final = re.compile(_QUALIFIED, re.ASCII)
_VALUE_RE: Final = re.compile(_VALUE, re.ASCII)

SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
LABEL_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')"
)
_NAME_PART: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)


def subdomain(value: str) -> list[str]:
    """Check a DNS-1123 subdomain, as most names are."""
    texts = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    return texts if _SUBDOMAIN_RE.fullmatch(value) else [*texts, SUBDOMAIN_TEXT]


def label(value: str) -> list[str]:
    """Check a DNS-1123 label, as a Namespace's name is."""
    texts = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    if _LABEL_RE.fullmatch(value):
        return texts
    return [*texts, "must not contain dots" if _SUBDOMAIN_RE.fullmatch(value) else LABEL_TEXT]


def label_1035(value: str) -> list[str]:
    """Check a DNS-1035 label."""
    texts = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    return texts if _LABEL_1035_RE.fullmatch(value) else [*texts, LABEL_1035_TEXT]


def path_segment(value: str) -> list[str]:
    """Check a name that only has to stand in a path."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in value]


def qualified_name(value: str) -> list[str]:
    """Check a label key, annotation key or finalizer: `name` or `prefix/name`."""
    return [] if _QUALIFIED_RE.fullmatch(value) and len(value) <= 63 else _unqualified(value)


def _unqualified(value: str) -> list[str]:
    prefix, slash, name = value.partition("/")
    if not slash:
        prefix, name = "", value
    elif "/" in name:
        text = f"a valid label key {_NAME_PART} with an optional DNS subdomain prefix and '/' "
        return [text + "(e.g. 'example.com/MyName')"]
    texts: list[str] = []
    if slash and not prefix:
        texts.append("prefix part must be non-empty")
    elif slash:
        texts += [f"prefix part {text}" for text in subdomain(prefix)]
    if not name:
        texts.append("name part must be non-empty")
    elif len(name) > 63:
        texts.append("name part must be no more than 63 characters")
    if not _QUALIFIED_RE.fullmatch(name):
        texts.append(f"name part {_NAME_PART}")
    return texts


def label_value(value: str) -> list[str]:
    """Check the value of a label."""
    texts = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    return texts if _VALUE_RE.fullmatch(value) else [*texts, _VALUE_TEXT]
