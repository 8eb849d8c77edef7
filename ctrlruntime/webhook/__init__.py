"""Webhooks: defaulting, validating and conversion, declared on the model or served for any kind."""

from ctrlruntime.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Handler,
    UserInfo,
    allowed,
    denied,
    refused,
)
from ctrlruntime.webhook.application import Application
from ctrlruntime.webhook.authentication import Authentication
from ctrlruntime.webhook.chain import Chain
from ctrlruntime.webhook.conversion import Conversion, ConversionError, Spoke
from ctrlruntime.webhook.declaration import AdmissionOptions, defaults, validates
from ctrlruntime.webhook.defaulting import Defaulting
from ctrlruntime.webhook.findings import Finding, Findings
from ctrlruntime.webhook.jsonpatch import json_patch
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
    "Finding",
    "Findings",
    "Handler",
    "Review",
    "Spoke",
    "Step",
    "UserInfo",
    "Validating",
    "allowed",
    "defaults",
    "denied",
    "json_patch",
    "refused",
    "validates",
]
