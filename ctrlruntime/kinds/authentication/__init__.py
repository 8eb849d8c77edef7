"""Typed kinds of the group authentication."""
