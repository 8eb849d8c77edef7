"""Typed kinds of the group policy."""
