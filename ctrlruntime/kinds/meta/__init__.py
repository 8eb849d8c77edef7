"""Typed kinds of the group meta."""
