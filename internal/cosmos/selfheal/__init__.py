"""Disks that grow, and nodes that are restarted when they fall behind."""
