"""Typed kinds of the group certificates."""
