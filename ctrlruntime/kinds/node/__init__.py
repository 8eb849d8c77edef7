"""Typed kinds of the group node."""
