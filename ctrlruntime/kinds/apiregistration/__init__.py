"""Typed kinds of the group apiregistration."""
