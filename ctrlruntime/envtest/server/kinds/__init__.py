"""What the server holds of a kind; and the built-in kinds, a module each."""

from ctrlruntime.envtest.server.kinds.kind import (
    ALL_VERBS,
    CUSTOM_VERBS,
    DEFAULT_FIELDS,
    Catalog,
    Kind,
    ScalePaths,
)

__all__ = ["ALL_VERBS", "CUSTOM_VERBS", "DEFAULT_FIELDS", "Catalog", "Kind", "ScalePaths"]
