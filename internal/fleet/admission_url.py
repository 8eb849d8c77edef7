"""The URL at which a data plane reaches the admission webhooks of its stack. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from yarl import URL

from apis.fleet.labels import ADMISSION_URL
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.generate.webhook import Webhook, webhook_configurations
from internal.fleet.labels import ACCOUNT, ADMISSION, MANAGED_BY, NAME

__all__ = [
    "BadAdmissionURL",
    "check_admission_url",
    "configuration",
    "host_of",
    "is_ours",
    "is_same",
]

SECONDS: Final = 3
"""How long a write of a data plane waits for an answer from the hub at most."""
EXAMPLE: Final = "https://admission.example.com:9443"


class BadAdmissionURL(ValueError):
    """The address cannot be used; the message names the annotation and the remedy."""


def check_admission_url(text: str) -> str:
    """Return the address without a slash at its end. Raises BadAdmissionURL."""
    try:
        url = URL(text)
        plain = not (url.user or url.query_string or url.fragment)
        usable = url.scheme == "https" and bool(url.host) and bool(url.port) and plain
    except ValueError:
        usable = False
    if not usable:
        raise BadAdmissionURL(
            f"annotation {ADMISSION_URL}: write https, a host, and a port and path if needed, such as {EXAMPLE}"
        )
    return text.rstrip("/")


def host_of(url: str) -> str:
    """Return the name or address that the certificate has to be for."""
    return URL(url).host or ""


def configuration(url: str, webhooks: Iterable[Webhook]) -> Manifest:
    """Return the ValidatingWebhookConfiguration of a data plane. It lets everything in while the hub does not answer."""
    named = [
        replace(
            hook,
            url=f"{url}{hook.path}",
            path=None,
            failure_policy="Ignore",
            timeout_seconds=SECONDS,
        )
        for hook in webhooks
    ]
    (made,) = webhook_configurations(named, validating_name=ADMISSION)
    made["metadata"]["labels"] = {NAME: ADMISSION, MANAGED_BY: ACCOUNT}
    return made


def is_ours(found: Manifest) -> bool:
    """Whether a stack made a configuration."""
    labels = found["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY) == ACCOUNT


def is_same(found: Manifest, wanted: Manifest) -> bool:
    """Whether a configuration has everything that is wanted, and no webhook more."""
    names = [hook["name"] for hook in found.get("webhooks") or ()]
    return names == [hook["name"] for hook in wanted["webhooks"]] and _has(found, wanted)


def _has(found: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            _has(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_has(*pair) for pair in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)
