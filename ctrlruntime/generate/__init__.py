"""Manifests from code: CRDs, RBAC, webhook configurations."""

from .crd import SchemaOptions, crd_of, crds_of
from .document import to_yaml
from .errors import SchemaError, SchemaWarning
from .output import crd_files, drift, rbac_files, webhook_files, write
from .permissions import (
    Rule,
    declared,
    leads,
    limit_to_namespaces,
    normalised,
    rbac,
    reads_crds,
    roles,
    writes_events,
)
from .webhook import (
    Webhook,
    serves_webhooks,
    webhook_configurations,
    webhook_conversion,
    webhooks_of,
)

__all__ = [
    "Rule",
    "SchemaError",
    "SchemaOptions",
    "SchemaWarning",
    "Webhook",
    "crd_files",
    "crd_of",
    "crds_of",
    "declared",
    "drift",
    "leads",
    "limit_to_namespaces",
    "normalised",
    "rbac",
    "rbac_files",
    "reads_crds",
    "roles",
    "serves_webhooks",
    "to_yaml",
    "webhook_configurations",
    "webhook_conversion",
    "webhook_files",
    "webhooks_of",
    "write",
    "writes_events",
]
