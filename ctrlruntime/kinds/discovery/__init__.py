"""Typed kinds of the group discovery."""
