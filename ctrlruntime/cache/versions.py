"""Comparing resourceVersions. Servers promise that they are comparable integers within a kind."""

from ctrlruntime.cache.entry import Entry


def number(resource_version: str) -> int:
    """The version as an integer; 0 for one that cannot be compared (an aggregated API may do so)."""
    try:
        return int(resource_version)
    except ValueError:
        return 0


def version(entry: Entry | None) -> int:
    return 0 if entry is None else number(entry.resource_version)
