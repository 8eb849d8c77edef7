"""Typed kinds of the group networking."""
