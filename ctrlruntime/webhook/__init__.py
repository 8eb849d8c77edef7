"""Webhooks: defaulting, validating and conversion, declared on the model or served for any kind."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctrlruntime.json import json_patch
    from ctrlruntime.webhook.admission import (
        AdmissionRequest,
        AdmissionResponse,
        Chain,
        Handler,
        UserInfo,
        allowed,
        denied,
        refused,
    )
    from ctrlruntime.webhook.application import Application
    from ctrlruntime.webhook.authentication import Authentication
    from ctrlruntime.webhook.conversion import Conversion, ConversionError, Spoke
    from ctrlruntime.webhook.convert_fields import convert_fields
    from ctrlruntime.webhook.declaration import AdmissionOptions, defaults, validates
    from ctrlruntime.webhook.defaulting import Defaulting
    from ctrlruntime.webhook.findings import FieldError, FieldErrorList
    from ctrlruntime.webhook.review import Review, Step
    from ctrlruntime.webhook.validating import Validating

__all__ = [
    "AdmissionOptions",
    "AdmissionRequest",
    "AdmissionResponse",
    "Application",
    "Authentication",
    "Chain",
    "Conversion",
    "ConversionError",
    "Defaulting",
    "FieldError",
    "FieldErrorList",
    "Handler",
    "Review",
    "Spoke",
    "Step",
    "UserInfo",
    "Validating",
    "allowed",
    "convert_fields",
    "defaults",
    "denied",
    "json_patch",
    "refused",
    "validates",
]

_SOURCES = {
    "admission": "AdmissionRequest AdmissionResponse Chain Handler UserInfo allowed denied refused",
    "application": "Application",
    "authentication": "Authentication",
    "conversion": "Conversion ConversionError Spoke",
    "convert_fields": "convert_fields",
    "declaration": "AdmissionOptions defaults validates",
    "defaulting": "Defaulting",
    "findings": "FieldError FieldErrorList",
    ".json": "json_patch",
    "review": "Review Step",
    "validating": "Validating",
}
_SOURCE_OF = {name: source for source, names in _SOURCES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load an exported name from its module: a manager without webhooks needs none of them."""
    from importlib import import_module

    source = _SOURCE_OF.get(name)
    if source is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{source}", __name__), name)
    return value
