"""Typed kinds of the group apps."""
