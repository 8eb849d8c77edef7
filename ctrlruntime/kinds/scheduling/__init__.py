"""Typed kinds of the group scheduling."""
