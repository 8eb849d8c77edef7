"""Typed kinds of the group storage."""
