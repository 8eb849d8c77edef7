"""Functions that encode, decode and digest."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import orjson
import yaml

from ctrlruntime.json import Json
from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.values import checked_text, to_plain, to_text

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def b64enc(text: object) -> str:
    """Return standard base64 of the text's UTF-8."""
    return base64.b64encode(_octets(text)).decode()


def b64dec(text: object) -> str:
    """Return the UTF-8 text that base64 spells."""
    try:
        return base64.b64decode(to_text(text), validate=True).decode()
    except (binascii.Error, ValueError):
        raise TemplateError("b64dec: the value is not base64 of UTF-8 text") from None


def sha1sum(text: object) -> str:
    """SHA-1 of the text's UTF-8 in hex: for names, not for security."""
    return hashlib.sha1(_octets(text), usedforsecurity=False).hexdigest()


def sha256sum(text: object) -> str:
    """SHA-256 of the text's UTF-8 in hex."""
    return hashlib.sha256(_octets(text)).hexdigest()


def from_json(text: object) -> Json:
    """Return the value JSON spells. Invalid JSON is an error, never an empty mapping."""
    try:
        return orjson.loads(to_text(text))
    except orjson.JSONDecodeError:
        raise TemplateError("fromJson: the value is not valid JSON") from None


def to_json(value: object) -> str:
    """Return the value as JSON, without blanks, keys in order; `<`, `>` and `&` are escaped as Go does."""
    return _without_html(to_raw_json(value))


def to_raw_json(value: object) -> str:
    """Like `toJson`, with `<`, `>` and `&` as they are."""
    return orjson.dumps(to_plain(value), option=orjson.OPT_SORT_KEYS).decode()


def to_pretty_json(value: object) -> str:
    """Return the value as JSON, indented by two."""
    layout = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    return _without_html(orjson.dumps(to_plain(value), option=layout).decode())


def b32enc(text: object) -> str:
    """Return standard base32 of the text's UTF-8."""
    return base64.b32encode(_octets(text)).decode()


def b32dec(text: object) -> str:
    """Return the UTF-8 text that base32 spells."""
    try:
        return base64.b32decode(to_text(text)).decode()
    except (binascii.Error, ValueError):
        raise TemplateError("b32dec: the value is not base32 of UTF-8 text") from None


def sha512sum(text: object) -> str:
    """SHA-512 of the text's UTF-8 in hex."""
    return hashlib.sha512(_octets(text)).hexdigest()


def adler32sum(text: object) -> str:
    """Adler-32 of the text's UTF-8 as a decimal number."""
    return str(zlib.adler32(_octets(text)))


def _without_html(text: str) -> str:
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def to_yaml(value: object) -> str:
    """Return the value as YAML with sorted keys, without a final line break."""
    plain = to_plain(value)
    text: str = yaml.dump(plain, Dumper=_Dumper, default_flow_style=False, allow_unicode=True)
    return text.removesuffix("\n...\n").removesuffix("\n")


def _octets(value: object) -> bytes:
    return checked_text(to_text(value)).encode()


ENCODINGS: dict[str, Callable[..., Any]] = {
    "b64enc": b64enc,
    "b64dec": b64dec,
    "sha1sum": sha1sum,
    "sha256sum": sha256sum,
    "fromJson": from_json,
    "toJson": to_json,
    "toPrettyJson": to_pretty_json,
    "toRawJson": to_raw_json,
    "toYaml": to_yaml,
    "b32enc": b32enc,
    "b32dec": b32dec,
    "sha512sum": sha512sum,
    "adler32sum": adler32sum,
}
