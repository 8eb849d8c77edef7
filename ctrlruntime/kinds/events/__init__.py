"""Typed kinds of the group events."""
