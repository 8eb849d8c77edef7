"""Typed kinds of the group batch."""
