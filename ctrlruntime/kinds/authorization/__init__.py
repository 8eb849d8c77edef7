"""Typed kinds of the group authorization."""
