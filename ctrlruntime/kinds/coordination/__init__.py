"""Typed kinds of the group coordination."""
