"""Typed kinds of the group rbac."""
