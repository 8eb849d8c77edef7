"""Manifests from code: CRDs, RBAC, webhook configurations."""
