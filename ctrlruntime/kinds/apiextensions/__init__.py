"""Typed kinds of the group apiextensions."""
