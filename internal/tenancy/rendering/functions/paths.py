"""Functions on paths and URLs, as Go's path and net/url have them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.values import to_text

_PARTS = ("scheme", "userinfo", "host", "path", "opaque", "query", "fragment")
_PATH_SAFE = "$&+,/:;=@~!*'()"


def base(path: object) -> str:
    """Return the last element of a path."""
    text = to_text(path)
    if not text:
        return "."
    return posixpath.basename(text.rstrip("/")) or "/"


def clean(path: object) -> str:
    """Return the shortest path that means the same."""
    text = posixpath.normpath(to_text(path) or ".")
    return "/" + text.lstrip("/") if text.startswith("/") else text


def directory(path: object) -> str:
    """All but the last element, cleaned."""
    return clean(posixpath.split(to_text(path))[0])


def extension(path: object) -> str:
    """From the last dot of the last element on, or nothing."""
    name = to_text(path).rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:] if dot >= 0 else ""


def url_parse(url: object) -> dict[str, str]:
    """Return the parts of a URL: scheme, userinfo, host, hostname, path, opaque, query, fragment."""
    text = to_text(url)
    try:
        parts = urlsplit(text)
        hostname = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise TemplateError("urlParse: the value is not a URL") from None
    userinfo, at, host = parts.netloc.rpartition("@")
    opaque = parts.path if parts.scheme and not parts.netloc and parts.path[:1] != "/" else ""
    if hostname and hostname.lower() in host.lower():
        # urlsplit lowers the host's name, Go keeps it
        start = host.lower().index(hostname.lower())
        hostname = host[start : start + len(hostname)]
    return {
        "scheme": parts.scheme,
        "userinfo": userinfo if at else "",
        "host": host,
        "hostname": hostname,
        "path": "" if opaque else unquote(parts.path),
        "opaque": opaque,
        "query": parts.query,
        "fragment": unquote(parts.fragment),
    }


def url_join(parts: object) -> str:
    """Return the URL of the parts that `urlParse` gives; what is missing is left out."""
    if not isinstance(parts, Mapping):
        raise TemplateError("urlJoin: the value is not a mapping")
    given = {name: parts.get(name, "") for name in _PARTS}
    if any(not isinstance(part, str) for part in given.values()):
        raise TemplateError("urlJoin: the parts of a URL are text")
    text = f"{given['scheme']}:" if given["scheme"] else ""
    if given["opaque"]:
        text += given["opaque"]
    else:
        path = quote(given["path"], safe=_PATH_SAFE)
        if given["host"] or given["userinfo"]:
            user = f"{given['userinfo']}@" if given["userinfo"] else ""
            text += f"//{user}{given['host']}"
            path = path if path.startswith("/") or not path else f"/{path}"
        text += path
    text += f"?{given['query']}" if given["query"] else ""
    return text + (
        f"#{quote(given['fragment'], safe=_PATH_SAFE + '?')}" if given["fragment"] else ""
    )


def quote_meta(text: object) -> str:
    """Return the text with everything escaped that means something in a pattern."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", to_text(text))


PATHS: dict[str, Callable[..., Any]] = {
    "base": base,
    "dir": directory,
    "clean": clean,
    "ext": extension,
    "isAbs": lambda path: to_text(path).startswith("/"),
    "urlParse": url_parse,
    "urlJoin": url_join,
    "regexQuoteMeta": quote_meta,
}
