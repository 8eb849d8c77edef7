"""Typed kinds of the group core."""
