"""Flags, in the groups that commands have in common."""
