"""Typed kinds of the group flowcontrol."""
